"""What a refusal tells of the way out."""

import pytest

from clawhive_core.execution.refusals import suspended, unapproved


@pytest.mark.parametrize(
    ("grants", "way"),
    [
        ((), "and a new approval lets it be called again"),
        (("grant_1",), "and `clawhive grants resume grant_1` lets it be called again"),
        (
            ("grant_1", "grant_2"),
            (
                "and `clawhive grants resume grant_1` and `clawhive grants resume grant_2` lets it"
                " be called again"
            ),
        ),
    ],
)
def test_a_suspended_tool_is_called_again_by_what_suspended_it(grants, way):
    refusal = suspended("mcp.git.push", grants).refusal
    assert refusal.message.endswith(way)
    assert refusal.next.get("renew", []) == [f"clawhive grants resume {each}" for each in grants]


@pytest.mark.parametrize(
    ("state", "reason", "says", "action"),
    [
        ("denied", "too dear", "a person denied it: too dear", "ask_user"),
        ("denied", None, "a person denied it", "ask_user"),
        ("expired", "nobody answered in time", "nobody answered in time", "propose_again"),
        ("consumed", None, "its approval was used already", "propose_again"),
        ("pending", "no", "its approval is pending", "propose_again"),
    ],
)
def test_only_a_denial_tells_a_persons_reason(state, reason, says, action):
    refusal = unapproved("demo.echo", state, reason).refusal
    assert refusal.message == f"`demo.echo` was not done: {says}"
    assert refusal.next == {"action": action, "state": state}
