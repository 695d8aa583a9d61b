"""The capability: a verb with the set of resources that it is a right to.

A concrete capability is a pattern that stands for one resource; so a grant, what a call needs and a
deny are one type, and matching is containment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from typing import Final

from clawhive_core.capabilities import paths, urls, words
from clawhive_core.capabilities.constraints import NONE, Constraints, read_constraints
from clawhive_core.capabilities.reading import Reading, shown
from clawhive_core.capabilities.segments import EVERYTHING, REST, Segments, covers, meet_segments
from clawhive_core.capabilities.verbs import HOST_FAMILY, VERBS, Verb, closest_verbs, verb_of
from clawhive_core.errors import CapabilityError
from clawhive_core.model.late import dataclass

_CACHED_LENGTH: Final = 1024
_FILES: Final = frozenset(
    name for name, verb in VERBS.items() if verb.kind == "path" and paths.is_absolute(name)
)
"""The verbs of nearly every call: shown without looking their kind up."""
_NO_VARIABLES: Final[Mapping[str, str]] = {}
_KNOWN: Final = 8192
_known: Final[dict[str, Capability]] = {}
"""Capabilities by their canonical text; no variable stands in one."""


@dataclass(frozen=True, slots=True)
class Capability:
    """One right, `verb:resource`, in canonical form; made by `parse` and its siblings.

    Two capabilities are equal if and only if they stand for the same resources, and if and only if
    their texts are equal.
    """

    verb: str
    parts: tuple[Segments, ...]
    """The dimensions of the resource: one for paths, words and names; scheme with port, host and
    path for URLs; for programs how they are found, and their words."""
    constraints: Constraints = NONE
    """The further conditions on a call; what a call needs has none."""
    text: str = field(init=False, compare=False, repr=False)
    """The canonical text, from which `parse` makes an equal capability."""

    def __post_init__(self) -> None:
        text = f"{self.verb}:{_show(self.verb, self.parts)}"
        if self.constraints:
            text = f"{text}?{self.constraints}"
        object.__setattr__(self, "text", text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    @property
    def is_concrete(self) -> bool:
        """Whether it stands for exactly one resource: literals spell their `*` as `%2A`."""
        return "*" not in self.text

    @property
    def unconstrained(self) -> Capability:
        """The same resources, whatever the call."""
        return Capability(self.verb, self.parts) if self.constraints else self


def parse(text: str, variables: Mapping[str, str] | None = None) -> Capability:
    """Read a capability or pattern, in any of its spellings.

    Args:
        text: `verb:resource`, as `docs/reference/capabilities.md` describes it.
        variables: The absolute paths of `workspace`, `run` and `home`, as far as they are known.

    Raises:
        CapabilityError: It cannot be read; the error has the place and what works instead.
    """
    if not isinstance(text, str):
        raise CapabilityError(
            f"A capability is text, not {type(text).__name__}.",
            place=shown(repr(text)),
            fix='Write it in quotes, such as "fs.read:/srv/reports/**".',
        )
    if (known := _known.get(text)) is not None:
        return known
    if "${" in text:
        name = text.partition("${")[2].partition("}")[0]
        value = (variables or _NO_VARIABLES).get(name)
    else:
        name = value = None
    if len(text) > _CACHED_LENGTH:
        return _parse(text, name, value)
    found = _parse_cached(text, name, value)
    if len(_known) >= _KNOWN:
        _known.clear()
    # Its canonical text has no variable; it is what is read again, of a grant for one.
    _known[found.text] = found
    return found


def normalise(text: str, variables: Mapping[str, str] | None = None) -> str:
    """Return the canonical text of a capability or pattern.

    Raises:
        CapabilityError: As `parse`.
    """
    return parse(text, variables).text


def matches(pattern: Capability, resource: Capability) -> bool:
    """Whether a pattern covers a resource, or all of another pattern."""
    return contains(pattern, resource)


def contains(p: Capability, q: Capability) -> bool:
    """Whether every resource of `q` is one of `p`, for every call that `q` is for."""
    if p.verb != q.verb or (p.constraints and not p.constraints.covers(q.constraints)):
        return False
    for mine, theirs in zip(p.parts, q.parts, strict=True):  # noqa: SIM110 - all() with a generator takes twice the time, and this is the hot path
        if not covers(mine, theirs):
            return False
    return True


def meet(p: Capability, q: Capability) -> Capability | None:
    """Return the capability of the resources that `p` and `q` share; None where there are none."""
    if p.verb != q.verb:
        return None
    parts: list[Segments] = []
    for mine, theirs in zip(p.parts, q.parts, strict=True):
        shared = meet_segments(mine, theirs)
        if shared is None:
            return None
        parts.append(shared)
    if not p.constraints and not q.constraints:
        return Capability(p.verb, tuple(parts))
    constraints = p.constraints.meet(q.constraints)
    return None if constraints is None else Capability(p.verb, tuple(parts), constraints)


def overlaps(p: Capability, q: Capability) -> bool:
    """Whether `p` and `q` share a resource.

    A deny stands against a call that needs a whole pattern wherever the two overlap, though it need
    not contain it.
    """
    return meet(p, q) is not None


def below(capability: Capability) -> Capability:
    """Return the pattern of a resource and everything below it: `/srv` becomes `/srv/**`.

    Raises:
        CapabilityError: Nothing lies below a host and port.
    """
    if capability.verb == "net.connect":
        raise CapabilityError(
            "Nothing lies below a host and port.",
            place=shown(capability.text),
            fix="Use `net.connect` as it is, or `net.http` for the paths of a host.",
        )
    *lead, last = capability.parts
    if last[-1:] == EVERYTHING:
        return capability
    return Capability(capability.verb, (*lead, (*last, REST)), capability.constraints)


def concrete(verb: str, value: str) -> Capability:
    """Return the capability of one real thing, named as programs name it.

    Nothing in `value` is a wildcard, a variable or an escape, except that a URL's percent-encoding
    is read and its query and fragment are dropped.

    Args:
        verb: A verb of the table or the family `host.<cap>`.
        value: A path, URL, tool name or words, by the verb's kind.

    Raises:
        CapabilityError: There is no such verb, or the value names nothing that can be normalised.
    """
    known = _verb(verb, f"{verb}:{value}")
    if not value:
        raise _refuse_bare(f"{verb}:", known)
    if known.kind == "url":
        value = urls.without_query(value)
    return _read(Reading(f"{verb}:{value}", known, value, literal=True), None)


def path_capability(verb: str, absolute_path: str | os.PathLike[str]) -> Capability:
    """Return the capability of one real file, whatever characters its name has.

    Args:
        verb: A verb whose kind is `path`.
        absolute_path: Absolute, with links resolved by the caller; relative to the sandbox
            directory for `sandbox.read` and `sandbox.write`. Bytes that are not UTF-8 as
            `os.fsdecode` gives them (PEP 383).

    Raises:
        CapabilityError: The verb has no paths, or the path is relative, has `..` or a NUL.
    """
    _expect_kind(verb, "path", "fs.read")
    path = os.fspath(absolute_path)
    if paths.is_absolute(verb) and paths.is_canonical(path):
        return Capability(verb, (tuple(path[1:].split("/")),))
    return concrete(verb, path)


def url_capability(verb: str, url: str) -> Capability:
    """Return the capability of a request to one URL; its query and fragment are dropped.

    Args:
        verb: `net.http`, or `net.connect` with `host:port`.
        url: As a client is given it; without a scheme it is https.

    Raises:
        CapabilityError: The verb has no URLs, or the URL is none or ambiguous.
    """
    _expect_kind(verb, "url", "net.http")
    return concrete(verb, url)


def _expect_kind(name: str, kind: str, example: str) -> None:
    verb = _verb(name, name)
    if verb.kind != kind:
        raise CapabilityError(
            f"The resources of `{name}` are of kind {verb.kind}, not {kind}.",
            place=shown(name),
            fix=f"Use a verb such as `{example}`, or `concrete({name!r}, ...)`.",
        )


def _show(verb: str, parts: tuple[Segments, ...]) -> str:
    if verb in _FILES:
        return f"/{'/'.join(parts[0])}"
    if verb == "sandbox.exec":
        return words.show_program(parts)
    kind = (verb_of(verb) or HOST_FAMILY).kind
    if kind == "url":
        return urls.show_url(verb, parts)
    if kind == "path":
        return paths.show_path(parts[0], absolute=paths.is_absolute(verb))
    return ("." if kind == "name" else "/").join(parts[0])


def _verb(name: str, text: str) -> Verb:
    found = verb_of(name)
    if found is not None:
        return found
    if "*" in name:
        family = [verb for verb in VERBS if verb.startswith(name.partition("*")[0])]
        lines = ", ".join(f"`{verb}:...`" for verb in family or VERBS)
        raise CapabilityError(
            "A verb is written out; it has no wildcards.",
            place=f"{shown(text)}, character {name.index('*') + 1}",
            fix=f"Write one line for each verb: {lines}.",
            data={"capability": shown(text)[1:-1], "column": name.index("*") + 1},
        )
    near = closest_verbs(name)
    meant = f"Did you mean {', '.join(f'`{verb}`' for verb in near)}? " if near else ""
    raise CapabilityError(
        f"There is no verb {shown(name)}.",
        place=f"{shown(text)}, character 1",
        fix=f"{meant}The verbs are {', '.join(VERBS)} and `host.<cap>`,"
        " as in `fs.read:/srv/reports/**`.",
        data={"capability": shown(text)[1:-1], "column": 1},
    )


def _refuse_bare(text: str, verb: Verb) -> CapabilityError:
    return CapabilityError(
        f"A capability names its resource after the verb; {shown(text)} names none.",
        place=f"{shown(text)}, character {len(text) + 1}",
        fix=f"Write `{verb.name}:{verb.example}`, or `{verb.name}:**` for everything.",
        data={"capability": shown(text)[1:-1], "column": len(text) + 1},
    )


def _open(text: str) -> Reading:
    """Split a text into its verb and resource; what follows a `?` is left to `_parse`."""
    name, colon, resource = text.partition("?")[0].partition(":")
    verb = _verb(name, text)
    if not resource:
        raise _refuse_bare(name + colon, verb)
    reading = Reading(text, verb, resource)
    if resource != resource.strip():
        raise reading.error(
            "The resource begins or ends with white space.",
            fix=f"Write {reading.line(resource.strip())}; a space that belongs to a name is"
            " spelled `%20`.",
        )
    return reading


def _parse(text: str, name: str | None, value: str | None) -> Capability:
    """Read a text that names no variable, or the one of that name, whose value is none or known."""
    reading = _open(text)
    given = _NO_VARIABLES if name is None or value is None else {name: value}
    base = None if name is None else paths.read_base(reading, given)
    _, mark, after = text.partition("?")
    found = _read(reading, base)
    if not mark:
        return found
    return Capability(found.verb, found.parts, read_constraints(reading, after))


_parse_cached = lru_cache(maxsize=1024)(_parse)


def _read(reading: Reading, base: Segments | None) -> Capability:
    verb = reading.verb
    if verb.name == "sandbox.exec":
        return Capability(verb.name, words.read_program(reading))
    if verb.kind == "url":
        return Capability(verb.name, urls.read_url(reading))
    if verb.kind == "path":
        segments = paths.read_path(reading, base)
    elif verb.kind == "name":
        segments = words.read_name(reading)
    else:
        segments = words.read_words(reading)
    return Capability(verb.name, (segments,))
