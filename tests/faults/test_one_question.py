"""Equal calls of a run in front of one person at a terminal."""

import json

import pytest

pytestmark = pytest.mark.slow

SKILL = """\
id: one
exports:
  api_version: "1.0"
  tools:
    - {name: greet, risk: guarded, input_schema: {type: object}, output_schema: {}}
tasks:
  hello:
    steps:
      - {name: other, tool: one.greet, needs: [], input: {name: b}}
      - {name: first, tool: one.greet, needs: [], input: {name: a}}
      - {name: second, tool: one.greet, needs: [], input: {name: a}}
      - {name: third, tool: one.greet, needs: [], input: {name: a}}
"""


@pytest.fixture
def skill(processes):
    folder = processes.root / "skills" / "one"
    folder.mkdir(parents=True)
    folder.joinpath("handlers.py").write_text("async def greet(input, ctx):\n    return {}\n")
    page = folder / "clawhive.yaml"
    page.write_text(SKILL, "utf-8")
    return page


def resolved(processes):
    rows = processes("audit", "tail", "-n", "99", "--jsonl").out.splitlines()
    found = [row for row in map(json.loads, rows) if row["kind"] == "approval.resolved"]
    return sorted(row["status"] for row in found)


@pytest.mark.promise("P-116")
def test_one_answer_serves_the_equal_calls_and_only_them(processes, skill):
    terminal = processes.on_terminal("run", "--task", "one.hello")
    for _ in range(2):  # steps side by side ask in either order
        before = len(terminal.shown)
        terminal.until("n no > ")
        terminal.type("m\n" if "m these 3 calls" in terminal.shown[before:] else "y\n")
    assert "3 equal calls" in terminal.shown
    assert "m these 3 calls" in terminal.shown
    assert terminal.close() == 0, terminal.shown
    assert terminal.shown.count("Approve?") == 2
    assert resolved(processes) == ["approved"] * 4 + ["consumed"] * 4
    assert processes("runs", "replay", "last").code == 0


@pytest.mark.promise("P-116")
def test_no_is_no_to_the_equal_calls_and_unsafe_ones_are_approved_one_by_one(processes, skill):
    skill.write_text(SKILL.replace("guarded", "unsafe").replace("name: b", "name: a"), "utf-8")
    words = ("run", "--task", "one.hello", "--grant", "tool.call:one.greet")
    terminal = processes.on_terminal(*words)
    terminal.until("n no > ")
    assert "4 equal calls" in terminal.shown
    assert "m these" not in terminal.shown
    terminal.type("m\n")
    terminal.until("n no > ")
    terminal.type("n\n")
    assert terminal.close() == 1, terminal.shown
    assert terminal.shown.count("Approve?") == 1
    assert resolved(processes) == ["denied"] * 4


@pytest.mark.promise("P-115")
def test_who_is_asked_because_a_tool_changed_sees_how_it_did(processes, skill):
    assert processes("grants", "issue", "tool.call:one.greet", "--always").code == 0
    after = SKILL.replace("{type: object}", "{type: object, title: more}")
    skill.write_text(after.replace("name: b", "name: a"), "utf-8")
    terminal = processes.on_terminal("run", "--task", "one.hello")
    terminal.until("n no > ")
    assert "its tool changed" in terminal.shown
    assert '+    "title": "more"' in terminal.shown
    terminal.type("n\n")
    assert terminal.close() == 1, terminal.shown
