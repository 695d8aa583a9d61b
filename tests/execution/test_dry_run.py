"""A dry run decides about a call as the executor does, without making it."""

import pytest

from clawhive_core.errors import InvalidInput, ToolError, UnknownId
from clawhive_core.execution.dry_run import explain
from clawhive_core.model.tools import ToolCall
from clawhive_core.protocols.check import CheckResult
from tests.harness import echo

SCHEMA = {
    "type": "object",
    "required": ["path"],
    "properties": {"path": {"type": "string"}, "n": {"type": "integer"}},
}


@pytest.fixture
async def house(house):
    house.offer("demo.read", echo, input_schema=SCHEMA, effects={"path": "fs.read"})
    house.offer("demo.keep", echo, risk="guarded", effects={"path": "fs.write"})
    house.offer("demo.odd", echo, effects={"path": "fs.fly"})
    await house.ready()
    return house


async def explained(house, name="demo.read", input=None):
    call = ToolCall("c", name, {"path": "a.txt"} if input is None else input)
    return await explain(call, house.scope(), house.executor)


async def test_what_is_allowed_needs_no_next_step(house):
    told = await explained(house)
    assert (told["tool"], told["provider_id"], told["verdict"]) == ("demo.read", "demo", "allow")
    assert (told["message"], told["next"]) == ("the call would be made", None)
    assert house.provider.calls == []
    assert await house.events() == []


async def test_what_asks_and_what_is_denied_say_what_their_refusals_would(house):
    for name, given, verdict, error in (
        ("demo.keep", {"path": "a.txt"}, "ask", "approval_required"),
        ("demo.read", {"path": "/etc/hosts"}, "deny", "denied"),
    ):
        told = await explained(house, name, given)
        refused = await house.call(name, given)
        assert (told["verdict"], refused.error) == (verdict, error)
        assert (told["message"], told["next"]) == (refused.message, refused.next)


async def test_an_unknown_tool_is_told_with_what_lists_them(house):
    with pytest.raises(UnknownId, match=r"no tool `demo\.none`") as caught:
        await explained(house, "demo.none")
    assert (caught.value.place, caught.value.fix) == ("demo.none", "clawhive tools list")


@pytest.mark.parametrize(
    ("given", "place"),
    [({}, "the input"), ({"path": "a", "n": "one"}, "/n"), ({"path": 5}, "/path")],
)
async def test_an_input_that_fails_the_schema_is_told_with_its_place(house, given, place):
    with pytest.raises(InvalidInput, match="`demo") as caught:
        await explained(house, input=given)
    assert (caught.value.place, caught.value.fix) == (place, "clawhive tools show demo.read")


async def test_an_effect_that_cannot_be_used_is_its_providers_fault(house):
    with pytest.raises(ToolError, match="what it touches") as caught:
        await explained(house, "demo.odd")
    assert caught.value.code == "denied"
    assert "`demo`" in caught.value.fix


async def test_checks_that_cannot_be_loaded_deny_here_too(house):
    def unavailable():
        raise ImportError("gone")

    house.wiring.checks = unavailable
    told = await explained(house)
    assert (told["verdict"], told["final"]) == ("deny", True)
    assert told["checks"] == [{"verdict": "deny", "rule": "check:unavailable:ImportError"}]


async def test_a_check_is_asked_and_its_answer_told(house):
    class Curfew:
        name = "curfew"

        async def check(self, request):
            return CheckResult("ask", "late")

    house.checks = [Curfew()]
    told = await explained(house)
    assert (told["verdict"], told["each_time"]) == ("ask", True)
    assert told["next"] == {"action": "ask_user"}
