"""Several equal calls of one run are one question, and each is answered in a row of its own."""

import pytest

from tests.cli.test_json import check, one_object

SKILL = """\
id: one
exports:
  api_version: "1.0"
  tools:
    - {name: greet, risk: guarded, input_schema: {type: object}, output_schema: {}}
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


@pytest.mark.promise("P-116")
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


@pytest.mark.promise("P-116")
def test_one_denial_answers_the_equal_calls(parked):
    done = parked("approvals", "deny", "last", "--all", "--reason", "no", "--json")
    rows = check(parked, one_object(done), "approvals")["approvals"]
    assert [(row["state"], row["reason"]) for row in rows] == [("denied", "no")] * 3
    assert sorted(state for _, state in states(parked)) == ["denied"] * 3 + ["pending"]
    (waiting,) = parked("approvals", "list", "--json").json["approvals"]
    done = parked("approvals", "deny", waiting["approval_id"], "--all")
    assert done.out.startswith("denied: 1 x one.greet")


@pytest.mark.promise("P-116")
def test_equal_calls_of_an_unsafe_tool_are_approved_one_by_one(clawhive):
    folder = clawhive.root / "skills" / "one"
    folder.mkdir(parents=True)
    folder.joinpath("handlers.py").write_text(HANDLERS)
    folder.joinpath("clawhive.yaml").write_text(SKILL.replace("guarded", "unsafe"))
    words = ("run", "--task", "one.hello", "--grant", "tool.call:one.greet")
    assert clawhive(*words, "--input", 'n=["a", "a"]').code == 3
    refused = clawhive("approvals", "approve", "last", "--all")
    assert (refused.code, [state for _, state in states(clawhive)]) == (2, ["pending"] * 2)
    assert "unsafe" in refused.err
    assert clawhive("approvals", "approve", "last").code == 0
    assert clawhive("approvals", "approve", "last", "--all").code == 0
    assert [state for _, state in states(clawhive)] == ["approved"] * 2
