"""A call as Cedar sees it: principal, action, resource, context and the entities behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from clawhive_core import PolicyRequest

_LARGEST = 2**63 - 1
_RESERVED = frozenset(("__entity", "__extn", "__expr"))
"""Keys with which JSON says that a value is no record; an argument may not say so."""


def cedar_request(request: PolicyRequest) -> dict[str, Any]:
    """Return `principal`, `action`, `resource` and `context` of a call."""
    return {
        "principal": _uid("Principal", str(request.principal)),
        "action": _uid("Action", "call"),
        "resource": _uid("Tool", request.tool.name),
        "context": {
            "input": value_of(request.input),
            "capabilities": list(request.capabilities),
            "verbs": sorted({each.partition(":")[0] for each in request.capabilities}),
            "task": request.task_id,
            "session": request.conversation_id,
        },
    }


def cedar_entities(request: PolicyRequest) -> list[dict[str, Any]]:
    """Return the principal and the tool with their attributes, and what they are in."""
    who, tool = request.principal, request.tool
    kind, provider = _uid("PrincipalKind", who.kind), _uid("Provider", tool.provider_id)
    facts = {
        "name": tool.name,
        "provider": tool.provider_id,
        "risk": tool.risk,
        "level": tool.capability_level,
        "category": tool.category,
        "side_effects": tool.side_effects,
        "idempotent": tool.idempotent,
        "sinks": list(tool.sinks),
    }
    return [
        _entity(_uid("Principal", str(who)), {"kind": who.kind, "name": who.name}, [kind]),
        _entity(_uid("Tool", tool.name), facts, [provider]),
        _entity(kind, {}, []),
        _entity(provider, {}, []),
    ]


def value_of(value: Any) -> Any:
    """Return JSON as Cedar has it.

    A null is left out, as Cedar knows none; numbers that are no 64-bit integers become text; a key
    that would make something else of its record gets an underscore in front.
    """
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return {_key(key): value_of(each) for key, each in pairs if each is not None}
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return [value_of(each) for each in items if each is not None]
    if isinstance(value, str | bool):
        return value
    if isinstance(value, int) and -_LARGEST <= value <= _LARGEST:
        return value
    return str(value)


def _key(key: str) -> str:
    return f"_{key}" if key in _RESERVED else key


def _uid(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "id": name}


def _entity(
    uid: dict[str, str], attributes: dict[str, Any], parents: list[dict[str, str]]
) -> dict[str, Any]:
    return {"uid": uid, "attrs": attributes, "parents": parents}
