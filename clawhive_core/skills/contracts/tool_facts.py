"""Reading what an exported tool says of its calls: level, risk, effects, sinks, bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from clawhive_core.diagnostics.nearest import did_you_mean
from clawhive_core.model.sinks import Place, place_of
from clawhive_core.model.tools import Level, Risk
from clawhive_core.skills.contracts.skill import ToolFacts
from clawhive_core.skills.documents.fields import Fields, text
from clawhive_core.skills.documents.place import InvalidSkill, KeyPath, dotted

KEYS = (
    *("capability_level", "risk", "effects", "sinks", "records"),
    *("requires_confirm", "side_effects", "idempotent", "timeout_ms"),
)
"""The keys of an exported tool that are read here."""

_LONGEST_MS = 3_600_000


def read_tool_facts(fields: Fields) -> ToolFacts:
    """Return the facts of one exported tool.

    Raises:
        InvalidSkill: A value is not what it must be.
    """
    return ToolFacts(
        level=fields.one_of("capability_level", get_args(Level)),
        risk=fields.one_of("risk", get_args(Risk)),
        effects=dict(_effects(fields.below("effects"), _arguments(fields))),
        sinks=tuple(_sinks(fields, _arguments(fields))),
        records=tuple(_records(fields)),
        requires_confirm=fields.flag("requires_confirm"),
        side_effects=fields.flag("side_effects"),
        idempotent=fields.flag("idempotent"),
        timeout_ms=_timeout(fields),
    )


def _timeout(fields: Fields) -> int:
    value = fields.values.get("timeout_ms", ToolFacts().timeout_ms)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _LONGEST_MS:
        fix = f"write a whole number of milliseconds, at most {_LONGEST_MS} (an hour)"
        raise fields.fail("timeout_ms", f"`{value}` is no time", fix)
    return value


def _arguments(fields: Fields) -> tuple[str, ...]:
    """Return the arguments that the input schema names."""
    schema: Any = fields.values.get("input_schema")
    properties: Any = schema.get("properties") if isinstance(schema, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - YAML
    return tuple(map(str, properties)) if isinstance(properties, dict) else ()  # pyright: ignore[reportUnknownArgumentType] - YAML


def _sinks(fields: Fields, arguments: tuple[str, ...]) -> Iterator[str]:
    for path, value in fields.items("sinks"):
        sink = text(fields.document, path, value)
        _check_argument(fields, path, _place(fields, path, sink).argument, arguments)
        yield sink


def _records(fields: Fields) -> Iterator[str]:
    for path, value in fields.items("records"):
        record = text(fields.document, path, value)
        if _place(fields, path, record).strict:
            raise fields.document.fail(path, "only a sink may end in `!`", "leave it out")
        yield record


def _place(fields: Fields, path: KeyPath, declared: str) -> Place:
    try:
        return place_of(declared)
    except ValueError as error:
        fix = "write PLACE:KIND or PLACE:KIND.TYPE"
        raise fields.document.fail(path, str(error), fix) from error


def _effects(
    effects: Fields, arguments: tuple[str, ...]
) -> Iterator[tuple[str, str | tuple[str, ...]]]:
    for argument, value in effects.values.items():
        path = effects.at(argument)
        if argument:
            _check_argument(effects, path, argument, arguments, key=True)
        if isinstance(value, list):
            listed = effects.items(argument)
            yield argument, tuple(_effect(effects, each, item, argument) for each, item in listed)
        else:
            yield argument, _effect(effects, path, value, argument)


def _effect(effects: Fields, path: KeyPath, value: Any, argument: str) -> str:
    """Return one effect: a verb of the table, for every call (`""`) with its resource."""
    from clawhive_core.capabilities.verbs import closest_verbs, verb_of

    effect = text(effects.document, path, value)
    verb, _, resource = effect.partition(":")
    if verb_of(verb) is None:
        close = closest_verbs(verb)
        fix = f"did you mean `{close[0]}`?" if close else "see docs/reference/capabilities.md"
        raise effects.document.fail(path, f"`{verb}` is no verb of a capability", fix)
    if not argument and not resource:
        fix = f'add it, such as "{verb}:**"'
        raise effects.document.fail(path, "the effect of every call names no resource", fix)
    return effect


def _check_argument(
    fields: Fields, path: KeyPath, name: str, arguments: tuple[str, ...], *, key: bool = False
) -> None:
    """Refuse the name of an argument that is none, at the value of a path or at its key."""
    if name in arguments:
        return
    free = [each for each in arguments if not key or each not in fields]
    fix = did_you_mean(name, free) or f"there are: {', '.join(arguments) or 'none'}"
    message = f"{dotted(path)}: the input schema has no property `{name}`"
    raise InvalidSkill(fields.document.finding("CH0305", path, message, fix, key=key))
