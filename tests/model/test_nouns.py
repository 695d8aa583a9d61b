import re
from typing import get_args

import pytest

from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.ids import new_id
from clawhive_core.model.principal import Principal
from clawhive_core.model.refusal import CODES, Reason, Refusal
from clawhive_core.model.runs import Plan, PlannedStep, Task
from tests.harness import grant


def test_ids_have_their_kind_and_64_random_bits():
    ids = {new_id("run") for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch(r"run_[0-9a-f]{16}", each) for each in ids)


@pytest.mark.parametrize("text", ["user:local", "agent:default", "skill:zodiac", "client:mcp/x:1"])
def test_a_principal_survives_its_text(text):
    assert str(Principal.parse(text)) == text


@pytest.mark.parametrize("text", ["", "user", "user:", "robot:x", ":x", "User:x"])
def test_what_names_no_principal_is_an_error_with_the_forms(text):
    with pytest.raises(ValueError, match="write user:NAME"):
        Principal.parse(text)


def test_a_refusal_has_error_message_reason_and_next():
    refusal = Refusal("rate_limited", "slow down", {"action": "wait"}, {"retry_after": 5})
    assert refusal.to_dict() == {
        "error": "rate_limited",
        "message": "slow down",
        "reason": "quota",
        "next": {"action": "wait"},
        "retry_after": 5,
    }
    assert Refusal("tool_failed", "m", {}).to_dict()["reason"] is None


def test_refusal_codes_are_snake_case_and_their_reasons_known():
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", code) for code in CODES)
    assert {reason for reason in CODES.values() if reason} == set(get_args(Reason))


@pytest.mark.parametrize(
    ("issuer", "by_person"),
    [("user", True), ("config", True), ("approval", True), ("starter", False), ("skill", False)],
)
def test_a_grant_knows_whether_a_person_gave_it(issuer, by_person):
    assert grant("fs.read:/a", issuer).by_person is by_person


def test_nouns_tell_all_their_fields_as_json():
    step = PlannedStep("s", "a.b", needs=("t",))
    values = (grant("fs.read:/a"), Task("t"), Plan("p", (step,)), step)
    for value in values:
        assert set(value.to_dict()) == set(type(value).__dataclass_fields__)
    stored = StoredEvent(1, "ts", Event("run.start", {}), "p", "h").to_dict()
    fields = (set(Event.__dataclass_fields__) | set(StoredEvent.__dataclass_fields__)) - {"event"}
    fields.remove("prechecked")  # what its maker tells the log, no fact of the event
    assert set(stored) == fields
