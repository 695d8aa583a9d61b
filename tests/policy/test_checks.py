import asyncio

import anyio
import pytest

from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.policy.checks import run_checks
from clawhive_core.protocols.check import CheckResult, PolicyRequest
from tests.harness import tool_meta

REQUEST = PolicyRequest(tool_meta(), {}, DEFAULT_AGENT, ("tool.call:demo.echo",), "t", "s", "c")


class Check:
    def __init__(self, answer, name="c"):
        self.answer = answer
        self.name = name

    async def check(self, request):
        return await self.answer() if callable(self.answer) else self.answer


async def results(*checks, seconds=1):
    return await run_checks(checks, REQUEST, seconds)


async def test_asks_and_denies_come_in_order_and_abstentions_are_left_out():
    checks = [Check(CheckResult("ask", "a")), Check(None), Check(CheckResult("deny", "d"), "x")]
    assert await results(*checks) == (
        CheckResult("ask", "check:c:a"),
        CheckResult("deny", "check:x:d"),
    )


class Lookalike:
    verdict = "ask"
    rule = "r"


@pytest.mark.parametrize(
    "answer",
    [
        CheckResult("allow", "trust me"),
        CheckResult(["ask"], "r"),
        CheckResult(None, "r"),
        Lookalike(),
        "allow",
        True,
        False,
        0,
        {"verdict": "allow"},
    ],
    ids=map(repr, range(9)),
)
async def test_any_other_answer_denies(answer):
    assert await results(Check(answer)) == (CheckResult("deny", "check:c:invalid-answer"),)


def raising(error):
    async def fail():
        raise error

    return fail


async def stubborn():
    try:
        await anyio.sleep_forever()
    except asyncio.CancelledError:
        await asyncio.sleep(3600)


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), SystemExit(0), asyncio.CancelledError(), TimeoutError(), GeneratorExit()],
    ids=lambda each: type(each).__name__,
)
async def test_a_check_that_raises_denies(error):
    (result,) = await results(Check(raising(error)))
    assert result.verdict == "deny"
    assert result.rule.startswith("check:c:")


@pytest.mark.parametrize("answer", [anyio.sleep_forever, stubborn], ids=["hangs", "stubborn"])
async def test_a_check_that_takes_too_long_denies(answer):
    found = await results(Check(answer), seconds=0.01)
    assert found == (CheckResult("deny", "check:c:timeout"),)


async def test_a_check_that_is_no_check_denies():
    class Nameless:
        async def check(self, request):
            return None

    class Sync:
        name = "sync"

        def check(self, request):
            return CheckResult("ask", "r")

    class Exits:
        name = "exits"

        def check(self, request):
            raise SystemExit

    assert [result.verdict for result in await results(Nameless(), Sync(), Exits(), object())] == [
        "deny"
    ] * 4


async def test_a_failing_check_does_not_keep_the_others_from_being_asked():
    found = await results(Check(raising(ValueError())), Check(CheckResult("ask", "r"), "second"))
    assert found[1] == CheckResult("ask", "check:second:r")
