"""Reading `exports.access`: who may call what a skill exports, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from clawhive_core.diagnostics.nearest import did_you_mean, nearest
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.contracts.skill import ALL_TOOLS, SECONDS, Access, Rate
from clawhive_core.skills.documents.fields import Fields
from clawhive_core.skills.documents.place import InvalidSkill, KeyPath

KEYS = ("requires_subscription", "free_tools", "rate_limit")

_UNLIMITED = "unlimited"
_RATE = pattern(r"([1-9]\d{0,8})\s*/\s*([a-z]+)")
_LOOSE = pattern(r"([1-9]\d{0,8})\s*(?:/|per|a|an)\s*([a-z]+)")
_FIX = f"write N/{', N/'.join(SECONDS)} or {_UNLIMITED}, such as 50/day"


def read_access(fields: Fields) -> Access:
    """Return the `access` of a contract's exports; `rate_limit` may stand beside it too.

    Args:
        fields: The `exports`.

    Raises:
        InvalidSkill: A part is not what it must be, or names a tool that is not exported.
    """
    body = fields.below("access")
    body.closed(KEYS, "`access`")
    free, names = body.texts("free_tools"), set(_names(fields))
    for index, name in enumerate(free):
        _require_exported(body, body.at("free_tools", index), name, (names, {*free}))
    return Access(_flag(body), free, _rates(fields, body, names))


def _flag(body: Fields) -> bool:
    value = body.values.get("requires_subscription", False)
    if not isinstance(value, bool):
        raise body.fail("requires_subscription", "must be true or false", "write it without quotes")
    return value


def _rates(fields: Fields, body: Fields, names: set[str]) -> dict[str, Rate | None]:
    if "rate_limit" in fields and "rate_limit" in body:
        fix = "keep the one in `access`"
        raise fields.fail("rate_limit", "the rate limit is given in two places", fix)
    holder = fields if "rate_limit" in fields else body
    if "rate_limit" not in holder:
        return {}
    value = holder.values["rate_limit"]
    if not isinstance(value, Mapping):
        return {ALL_TOOLS: _rate(holder, holder.at("rate_limit"), value)}
    limits = holder.below("rate_limit")
    for name in limits.values:
        _require_exported(limits, limits.at(name), name, (names, {*limits.values}))
    return {name: _rate(limits, limits.at(name), each) for name, each in limits.values.items()}


def _rate(fields: Fields, path: KeyPath, value: Any) -> Rate | None:
    if value == _UNLIMITED:
        return None
    found = _RATE.fullmatch(value) if isinstance(value, str) else None
    if found is not None:
        for unit in SECONDS:
            if found[2] == unit:
                return Rate(int(found[1]), unit)
    message = f"`{value}` is no rate"
    raise InvalidSkill(fields.document.finding("CH0507", path, message, _meant(value) or _FIX))


def _meant(value: Any) -> str | None:
    """Return what to write for a rate that is written in another way, None where nobody knows."""
    found = _LOOSE.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if found is None:
        return None
    short = {"s": "second", "h": "hour", "hr": "hour", "d": "day", "sec": "second", "min": "minute"}
    unit = short.get(found[2].removesuffix("s") or "s") or nearest(found[2], SECONDS)
    return None if unit is None else f"write `{found[1]}/{unit}`"


def _names(fields: Fields) -> Iterator[str]:
    """Yield the names of the exported tools, in whichever form they stand."""
    for _, value in fields.items("tools"):
        name: Any = value
        if isinstance(value, Mapping):
            name = cast("Mapping[str, Any]", value).get("name")
        if isinstance(name, str):
            yield name


def _require_exported(
    fields: Fields, path: KeyPath, name: str, known: tuple[set[str], set[str]]
) -> None:
    """Refuse a name that is not exported.

    Args:
        fields: The mapping around it.
        path: Where it stands.
        name: What is named there.
        known: The exported names, and those that are named beside it.
    """
    names, beside = known
    if name in names:
        return
    listed = ", ".join(sorted(names)) or "nothing"
    fix = did_you_mean(name, sorted(names - beside)) or f"the skill exports: {listed}"
    message = f"`{name}` is not among the exported tools"
    is_key = path[-1] == name
    raise InvalidSkill(fields.document.finding("CH0506", path, message, fix, key=is_key))
