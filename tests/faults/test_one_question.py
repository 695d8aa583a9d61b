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
    input_schema: {type: object, properties: {n: {type: array}}}
    steps: [{name: greet, tool: one.greet, for_each: "${input.n}", input: {name: "${item}"}}]
"""


@pytest.mark.promise("P-111")
def test_one_answer_serves_the_equal_calls_and_only_them(processes):
    folder = processes.root / "skills" / "one"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.yaml").write_text(SKILL, "utf-8")
    folder.joinpath("handlers.py").write_text("async def greet(input, ctx):\n    return {}\n")
    words = ("run", "--task", "one.hello", "--input", 'n=["b", "a", "a", "a"]')
    terminal = processes.on_terminal(*words)
    terminal.until('name = "b"')
    terminal.until("n no > ")
    terminal.type("y\n")
    terminal.until("3 equal calls")
    terminal.until("m these 3 calls")
    terminal.until("n no > ")
    terminal.type("m\n")
    assert terminal.close() == 0, terminal.shown
    assert terminal.shown.count("Approve?") == 2
    rows = processes("audit", "tail", "-n", "99", "--jsonl").out.splitlines()
    found = [row for row in map(json.loads, rows) if row["kind"] == "approval.resolved"]
    assert sorted(row["status"] for row in found) == ["approved"] * 4 + ["consumed"] * 4
    assert processes("runs", "replay", "last").code == 0
