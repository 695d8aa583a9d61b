"""Equal calls of a run in front of one person at a terminal."""

import json

import pytest

pytestmark = pytest.mark.slow

SKILL = """\
id: one
exports:
  api_version: "1.0"
  tools:
    - {name: greet, risk: guarded, input_schema: {type: object}}
tasks:
  hello:
    steps:
      - {name: other, tool: one.greet, needs: [], input: {name: b}}
      - {name: first, tool: one.greet, needs: [], input: {name: a}}
      - {name: second, tool: one.greet, needs: [], input: {name: a}}
      - {name: third, tool: one.greet, needs: [], input: {name: a}}
"""


@pytest.mark.promise("P-111")
def test_one_answer_serves_the_equal_calls_and_only_them(processes):
    folder = processes.root / "skills" / "one"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.yaml").write_text(SKILL, "utf-8")
    folder.joinpath("handlers.py").write_text("async def greet(input, ctx):\n    return {}\n")
    terminal = processes.on_terminal("run", "--task", "one.hello")
    terminal.until("n no > ")
    terminal.type("y\n")
    terminal.until("n no > ")
    assert "3 equal calls" in terminal.shown
    assert "m these 3 calls" in terminal.shown
    terminal.type("m\n")
    assert terminal.close() == 0, terminal.shown
    assert terminal.shown.count("Approve?") == 2
    rows = processes("audit", "tail", "-n", "99", "--jsonl").out.splitlines()
    found = [row for row in map(json.loads, rows) if row["kind"] == "approval.resolved"]
    assert sorted(row["status"] for row in found) == ["approved"] * 4 + ["consumed"] * 4
    assert processes("runs", "replay", "last").code == 0
