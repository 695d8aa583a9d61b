"""The conformance suite for policy checks."""

# ruff: noqa: S101 - what the suite finds wrong is an AssertionError, as in the tests that call it

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import anyio

from clawhive_core.model.principal import DEFAULT_AGENT, LOCAL_USER, Principal
from clawhive_core.model.tools import Effects, Level, Risk, ToolMeta
from clawhive_core.policy.checks import CHECK_SECONDS
from clawhive_core.protocols.check import CheckResult, PolicyCheck, PolicyRequest

_OBJECT = {"type": "object"}


async def check_policy(check: PolicyCheck) -> None:
    """Check a policy check against its protocol, on calls of many kinds.

    It must have a name, answer None or a CheckResult that tightens, in time and without raising,
    the same for equal requests whatever it was asked before, and leave the request as it is.

    Raises:
        AssertionError: With the call and what was wrong.
    """
    name: Any = getattr(check, "name", None)
    assert isinstance(name, str), f"`name` must be a text, not {name!r}"
    assert name.strip(), "`name` must not be empty"
    requests = list(_requests())
    answers = [await _answer(check, request) for request in requests]
    for request, before in reversed(list(zip(requests, answers, strict=True))):
        again = await _answer(check, request)
        assert again == before, f"{_named(request)}: asked again it says {again}, not {before}"


async def _answer(check: PolicyCheck, request: PolicyRequest) -> CheckResult | None:
    untouched = deepcopy(request.input)
    try:
        with anyio.fail_after(CHECK_SECONDS):
            result: Any = await check.check(request)
    except TimeoutError:
        raise AssertionError(f"{_named(request)}: no answer within {CHECK_SECONDS:g} s") from None
    except Exception as error:
        raise AssertionError(
            f"{_named(request)}: it raised {type(error).__name__}: {error}; a check that fails "
            "denies the call"
        ) from error
    assert request.input == untouched, f"{_named(request)}: it changed the request's input"
    if result is None:
        return None
    assert isinstance(result, CheckResult), (
        f"{_named(request)}: it answered {type(result).__name__}, not CheckResult or None"
    )
    assert result.verdict in {"ask", "deny"}, (
        f"{_named(request)}: the verdict is {result.verdict!r}; a check says ask, deny or nothing"
    )
    rule: Any = result.rule
    assert isinstance(rule, str), f"{_named(request)}: `rule` must be a text, not {rule!r}"
    assert rule, f"{_named(request)}: `rule` must say which rule it was"
    return result


def _named(request: PolicyRequest) -> str:
    return f"{request.tool.name} with {', '.join(request.capabilities)} for {request.principal}"


def _requests() -> Iterator[PolicyRequest]:
    """Yield calls of every level and risk, with usual, odd, empty and large inputs."""
    kinds: tuple[tuple[str, Level, Risk, Effects, str], ...] = (
        ("file.read", "L0", "safe", {"path": "fs.read"}, "fs.read:/project/README.md"),
        ("file.write", "L1", "guarded", {"path": "fs.write"}, "fs.write:/project/a b/é.txt"),
        ("web.fetch", "L0", "safe", {"url": "net.http"}, "net.http:https://example.com/**"),
        ("shell.exec", "L2", "unsafe", {"": "fs.exec:/bin/sh"}, "fs.exec:/bin/sh"),
        ("mcp.any.thing", "L0", "unknown", {}, "tool.call:mcp.any.thing"),
    )
    principals = (DEFAULT_AGENT, LOCAL_USER, Principal("skill", "any"), Principal("client", "x/y"))
    inputs: tuple[Mapping[str, Any], ...] = (
        {},
        {"path": "README.md", "url": "https://example.com/"},
        {"path": "\0\u202e\ud7ff", "nested": [{"deep": [None, 1.5, True]}]},
        {"text": "x" * 100_000},
    )
    for tool_name, level, risk, effects, capability in kinds:
        meta = ToolMeta(tool_name, "A tool.", _OBJECT, "any", None, level, risk, effects)
        for principal in principals:
            for value in inputs:
                yield PolicyRequest(
                    meta, value, principal, (capability,), "task_1", "run_1/r0", "conv_1"
                )
    yield replace(_first(), capabilities=())


def _first() -> PolicyRequest:
    meta = ToolMeta("core.none", "A tool that needs nothing.", _OBJECT, "any")
    return PolicyRequest(meta, {}, DEFAULT_AGENT, ("tool.call:core.none",), "t", "s", "c")
