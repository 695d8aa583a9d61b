"""Several equal calls of one run are one question, and each is answered in a row of its own."""

import pytest

from tests.cli.test_json import check, one_object

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
HANDLERS = "async def greet(input, ctx):\n    return {'text': 'Hello'}\n"


@pytest.fixture
def parked(clawhive):
    folder = clawhive.root / "skills" / "one"
    folder.mkdir(parents=True)
    folder.joinpath("handlers.py").write_text(HANDLERS)
    folder.joinpath("clawhive.yaml").write_text(SKILL)
    done = clawhive("run", "--task", "one.hello", "--input", 'n=["a", "b", "a", "a"]')
    assert done.code == 3, done.err
    return clawhive


def states(clawhive):
    rows = clawhive("approvals", "list", "--all", "--json").json["approvals"]
    return [(row["preview"], row["state"]) for row in rows]


@pytest.mark.promise("P-111")
def test_equal_calls_are_approved_together_and_others_wait(parked):
    assert [state for _, state in states(parked)] == ["pending"] * 4
    assert "3 equal calls wait" in parked("approvals", "show", "last").out
    done = parked("approvals", "approve", "last", "--all", "--json")
    rows = check(parked, one_object(done), "approvals")["approvals"]
    assert [row["state"] for row in rows] == ["approved"] * 3
    assert len({row["approval_id"] for row in rows}) == 3
    assert sorted(state for _, state in states(parked)) == ["approved"] * 3 + ["pending"]
    assert parked("runs", "resume", "last").code == 3
    assert sorted(state for _, state in states(parked)) == ["consumed"] * 3 + ["pending"]
    (waiting,) = parked("approvals", "list", "--json").json["approvals"]
    assert parked("approvals", "approve", waiting["approval_id"], "--all").out.startswith(
        "approved: 1 x one.greet"
    )
    assert parked("runs", "resume", "last").code == 0


def test_answered_ones_are_not_answered_again_and_all_is_for_calls_as_they_are(parked):
    assert parked("approvals", "approve", "last", "--all").code == 0
    again = parked("approvals", "approve", "last", "--all", "--json")
    assert (again.code, one_object(again)["error"]) == (1, "already_resolved")
    for more in (("--scope", "task"), ("--edit",), ("--expires", "2h"), ("--edit-json", "-")):
        assert parked("approvals", "approve", "last", "--all", *more).code == 2
