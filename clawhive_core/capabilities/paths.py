"""Paths: the resources of `fs.*` (absolute) and of `sandbox.read` and `sandbox.write` (relative).

Reading is lexical and does no I/O: links are resolved by whoever builds the capability of a real
file. Names are bytes, as in POSIX; nothing is folded by case or by Unicode normalisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from clawhive_core.capabilities.escapes import escape, unescape
from clawhive_core.capabilities.reading import Reading, shown
from clawhive_core.capabilities.segments import ANY, EVERYTHING, REST, Segments
from clawhive_core.capabilities.verbs import VERBS
from clawhive_core.errors import CapabilityError
from clawhive_core.model.patterns import pattern

VARIABLES: Final = ("workspace", "run", "home")
"""The variables that a path pattern may begin with, as `${workspace}`."""

_variable = pattern(r"\$\{([^}/]*)\}(?=/|\Z)")
_ordinary = pattern(r"/[A-Za-z0-9._@:+=,~/-]{1,1023}")
_LONG: Final = 1024
"""A path that is shorter has too few characters for too many segments, one more included."""


def read_path(reading: Reading, base: Segments | None = None) -> Segments:
    """Return the segments of a path.

    Args:
        reading: What is read.
        base: The segments of the variable that it begins with, None where it begins with none.

    Raises:
        CapabilityError: The path is relative where it must be absolute or the reverse, contains
            `..`, or a segment cannot be read.
    """
    if reading.resource == REST and not reading.literal:
        return EVERYTHING
    if base is None and is_absolute(reading.verb.name):
        path, rest = reading.resource, ()
        if path.endswith("/**") and not reading.literal:
            path, rest = path[:-3], EVERYTHING
        if is_canonical(path) and len(path) < _LONG:
            return (*path[1:].split("/"), *rest)
    if base is not None and reading.resource.partition("}")[2] == "/**":
        return reading.check_size((*base, REST))  # all below a variable: what a run begins with
    lead, rest = _split_lead(reading, base is not None)
    items = [item for item in rest.split("/") if item not in {"", "."}]
    reading.check_wildcards(items, "/", lead)
    read = (_read_segment(reading, item) for item in items)
    return reading.check_size((*(base or ()), *(item for item in read if item != ".")))


def show_path(segments: Segments, *, absolute: bool) -> str:
    """Return the canonical text of a path."""
    text = "/".join(segments)
    return f"/{text}" if absolute else text or "."


def is_absolute(verb: str) -> bool:
    """Whether the paths of a verb are absolute, and may begin with a variable."""
    return not verb.startswith("sandbox.")


def is_canonical(path: str) -> bool:
    """Whether a literal absolute path is surely its own canonical text: nearly every one is.

    It has no character to escape, no segment that is empty or begins with a dot, and too few
    characters for too many segments.
    """
    return (
        _ordinary.fullmatch(path) is not None
        and "//" not in path
        and "/." not in path
        and path[-1] != "/"
    )


def read_base(reading: Reading, variables: Mapping[str, str]) -> Segments | None:
    """Return the segments of the variable that a path begins with, None where it has none.

    Raises:
        CapabilityError: A variable is unknown, has no value or an unusable one, or stands
            elsewhere than at the beginning of an absolute path.
    """
    resource = reading.resource
    if "${" not in resource:
        return None
    found = _variable.match(resource)
    if found is None or not is_absolute(reading.verb.name) or reading.verb.kind != "path":
        raise _refuse_place(reading)
    if "${" in resource[found.end() :]:
        raise _refuse_place(reading)
    name = found[1]
    if name not in VARIABLES:
        raise reading.error(
            f"There is no variable {shown(found[0])}.",
            at=found[0],
            fix="Use one of " + ", ".join(f"`${{{known}}}`" for known in VARIABLES) + ".",
        )
    if name not in variables:
        raise reading.error(
            f"`${{{name}}}` has no value here.",
            at=found[0],
            fix=f"Write the absolute path itself, such as {reading.line('/srv/reports/**')}.",
        )
    return _read_value(reading, name, variables[name])


def _refuse_place(reading: Reading) -> CapabilityError:
    at = reading.resource[max(reading.resource.rfind("${"), 0) :]
    return reading.error(
        "A variable stands only at the beginning of an absolute path, before a `/`.",
        at=at,
        fix="Write `fs.read:${workspace}/**`, or `%24{` for a name that contains `${`.",
    )


def _read_value(reading: Reading, name: str, value: str) -> Segments:
    try:
        return _read_absolute(value)
    except CapabilityError as error:
        raise reading.error(
            f"The value of `${{{name}}}` is unusable: {error.message}",
            at=f"${{{name}}}",
            fix=f"Give it an absolute path without `..`, not {shown(value)}.",
        ) from error


@lru_cache(maxsize=64)
def _read_absolute(path: str) -> Segments:
    return read_path(Reading(path, VERBS["fs.read"], path, literal=True))


def _split_lead(reading: Reading, has_base: bool) -> tuple[str, str]:
    """Return what the path begins with, and the rest."""
    resource = reading.resource
    if has_base:
        lead, _, rest = resource.partition("}")
        return lead + "}/", rest
    absolute = is_absolute(reading.verb.name)
    if absolute == resource.startswith("/"):
        return ("/" if absolute else ""), resource
    if absolute:
        fix = (
            f"Write {reading.line('${workspace}/' + resource)} for a path in the project,"
            f" or {reading.line('/' + resource)}."
        )
        raise reading.error(f"{shown(resource)} is no absolute path.", fix=fix)
    raise reading.error(
        f"A path of `{reading.verb.name}` is relative to the session's sandbox directory.",
        fix=f"Write {reading.line(resource.lstrip('/') or REST)}.",
    )


def _read_segment(reading: Reading, item: str) -> str:
    if item in {ANY, REST} and not reading.literal:
        return item
    raw = unescape(reading, item)
    if raw == b"..":
        raise reading.error(
            "`..` is not resolved in a path, because a link could lead it elsewhere.",
            at=item,
            fix="Write the path that it leads to.",
        )
    return escape(raw)
