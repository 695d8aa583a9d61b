"""References in plans: `${input.query}`, `${steps.search.output.items}`, `${item.url}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from clawhive_core.errors import RunError
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.patterns import pattern

_REFERENCE = pattern(r"\$\{([^{}]*)\}")
_ROOTS = ("input", "steps", "item")


def references(template: Any) -> set[str]:
    """Return every reference in a template, without `${` and `}`."""
    if isinstance(template, str):
        return {match.strip() for match in _REFERENCE.findall(template)}
    if isinstance(template, Mapping):
        values = cast("Mapping[str, Any]", template).values()
        return set[str]().union(*(references(value) for value in values))
    if isinstance(template, Sequence):
        return set[str]().union(*(references(item) for item in cast("Sequence[Any]", template)))
    return set()


def steps_named_in(template: Any) -> set[str]:
    """Return the names of the steps that a template refers to."""
    parts = (reference.split(".") for reference in references(template))
    return {part[1] for part in parts if part[0] == "steps" and len(part) > 1}


def resolve(template: Any, values: Mapping[str, Any]) -> Any:
    """Return the template with its references replaced by values.

    A string that is one reference becomes the value itself; inside a longer string a value becomes
    text. An entry of an object whose reference names nothing is left out where it is one reference
    to an absent optional input; elsewhere it is an error.

    Raises:
        RunError: `unresolved_reference`, with the reference.
    """
    if isinstance(template, str):
        whole = _REFERENCE.fullmatch(template)
        if whole is not None:
            return look_up(whole.group(1).strip(), values)
        return _REFERENCE.sub(
            lambda match: _text(look_up(match.group(1).strip(), values)), template
        )
    if isinstance(template, Mapping):
        return {
            key: resolve(value, values)
            for key, value in cast("Mapping[str, Any]", template).items()
            if not _absent_input(value, values)
        }
    if isinstance(template, Sequence) and not isinstance(template, bytes):
        return [resolve(item, values) for item in cast("Sequence[Any]", template)]
    return template


def look_up(reference: str, values: Mapping[str, Any]) -> Any:
    """Return what a dotted reference names.

    Raises:
        RunError: It names nothing.
    """
    current: Any = values
    for part in reference.split("."):
        try:
            if isinstance(current, list):
                current = cast("list[Any]", current)[int(part)]
            else:
                current = current[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise RunError(
                f"the reference `${{{reference}}}` names nothing",
                code="unresolved_reference",
                place=reference,
                fix="write input.NAME, steps.NAME.output, or item inside for_each",
            ) from None
    return current


def _absent_input(template: Any, values: Mapping[str, Any]) -> bool:
    """Whether this is one reference to an input that the caller did not give."""
    if not isinstance(template, str):
        return False
    whole = _REFERENCE.fullmatch(template)
    if whole is None:
        return False
    parts = whole.group(1).strip().split(".")
    given = values.get("input", {})
    return len(parts) == 2 and parts[0] == "input" and parts[1] not in given  # noqa: PLR2004 - input.NAME


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_text(value)
