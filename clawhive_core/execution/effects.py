"""Effects: the capabilities that a call needs, and the destinations that it names.

Names are resolved here and nowhere later, so that a decision sees what will really be touched.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, cast

from clawhive_core.capabilities import (
    Capability,
    below,
    concrete,
    contains,
    parse,
    path_capability,
    url_capability,
    verb_of,
)
from clawhive_core.errors import CapabilityError, InvalidInput
from clawhive_core.execution.files.aliases import Aliases, is_linked
from clawhive_core.execution.files.nofollow import real_path
from clawhive_core.execution.pending import PendingCall
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.policy.grounding import Destination, destinations, weigh_sinks
from clawhive_core.protocols.check import CheckResult

_PLACEHOLDER = pattern(r"(?<!\$)\{(0?)\}")
_BELOW = "/**"
_RUN = "${run}/"
_CHANGING = frozenset(("fs.write", "fs.delete"))


@dataclass(frozen=True, slots=True)
class _Template:
    """One effect as declared: `verb`, or `verb:` and a text around a placeholder."""

    verb: str
    kind: Literal["file", "url", "other"]
    """The kind of resource that is named."""
    prefix: str
    suffix: str
    first: bool
    """Whether only the first item of a list counts: `{0}`."""
    deep: bool
    """Whether everything below what is named is asked for, too: `/**` at the end."""
    own: bool = False
    """Whether it changes files of the run alone, so that the tool may be safe."""


def requested_capabilities(
    meta: ToolMeta, input: Mapping[str, Any], variables: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the canonical capabilities that a call needs, without duplicates, in a stable order.

    Args:
        meta: The tool; its `effects` say which argument needs what.
        input: The validated input.
        variables: The absolute paths of `workspace`, from which relative paths start, and `run`.

    Raises:
        InvalidInput: An argument names nothing that can be normalised; `place` is the argument.
        CapabilityError: The tool declares an effect that cannot be used.
    """
    found: dict[str, None] = {}
    for argument, effect in meta.effects.items():
        for text in (effect,) if isinstance(effect, str) else effect:
            for capability in _capabilities(meta, argument, text, input, variables):
                found[capability.text] = None
    return tuple(found) or (f"tool.call:{meta.name}",)


def is_denied_always(
    meta: ToolMeta, denies: Sequence[Capability], variables: Mapping[str, str]
) -> bool:
    """Whether denies cover whatever a call of a tool could need, so that none could be allowed.

    Args:
        meta: The tool.
        denies: The denies.
        variables: The absolute paths that effects may name.

    Raises:
        CapabilityError: The tool declares an effect that cannot be used.
    """
    always: list[bool] = []
    named: list[bool] = []
    for argument, effect in meta.effects.items():
        for text in (effect,) if isinstance(effect, str) else effect:
            template = None if argument == "" else _read(text)
            widest = text if template is None else f"{template.verb}:**"
            is_denied = any(contains(deny, parse(widest, variables)) for deny in denies)
            (named if argument else always).append(is_denied)
    if not meta.effects:
        always.append(any(contains(deny, parse(f"tool.call:{meta.name}")) for deny in denies))
    return any(always) or (bool(named) and all(named) and not always)


def _capabilities(
    meta: ToolMeta, argument: str, text: str, input: Mapping[str, Any], variables: Mapping[str, str]
) -> list[Capability]:
    if argument == "":
        return [parse(text, variables)]
    value = _value(meta, argument, input)
    if value is None:
        return []
    template = _read(text)
    if template is None:
        return [parse(text, variables)]
    names = [value] if isinstance(value, str) else _names(value, argument, first=template.first)
    try:
        if template.kind == "file":
            return _files(template, names, variables)
        return [_resource(template, name) for name in names]
    except (CapabilityError, ValueError) as error:
        fix = getattr(error, "fix", None) or "name it another way"
        raise InvalidInput(str(error), place=f"/{argument}", fix=fix) from error


@lru_cache(maxsize=1024)
def _read(text: str) -> _Template | None:
    """Return the template of an effect, None where it names a fixed resource.

    Raises:
        CapabilityError: It cannot be used.
    """
    verb, colon, pattern = text.partition(":")
    if verb_of(verb) is None:
        parse(f"{verb}:**")
    if not colon:
        return _Template(verb, _kind(verb), "", "", first=False, deep=False)
    holes = list(_PLACEHOLDER.finditer(pattern))
    if not holes:
        return None
    prefix, suffix = pattern[: holes[0].start()], pattern[holes[0].end() :]
    if len(holes) > 1 or "*" in prefix or "*" in suffix.removesuffix(_BELOW):
        raise CapabilityError(
            f"the effect `{text}` cannot be used",
            fix="write one `{}`, and wildcards only as `/**` at the end",
        )
    deep = suffix.endswith(_BELOW)
    suffix = suffix.removesuffix(_BELOW)
    own = verb in _CHANGING and prefix.startswith(_RUN)
    return _Template(verb, _kind(verb), prefix, suffix, first=bool(holes[0][1]), deep=deep, own=own)


def _kind(verb: str) -> Literal["file", "url", "other"]:
    known = verb_of(verb)
    if known is not None and known.kind == "path" and verb.startswith("fs."):
        return "file"
    return "url" if known is not None and known.kind == "url" else "other"


def _value(meta: ToolMeta, argument: str, input: Mapping[str, Any]) -> Any:
    """Return what an argument is given, else its default."""
    value = input.get(argument)
    if value is not None:
        return value
    schema: Any = meta.input_schema.get("properties")
    for key in (argument, "default"):
        if not isinstance(schema, Mapping):
            return None
        schema = cast("Mapping[str, Any]", schema).get(key)
    return schema


def _names(value: Any, argument: str, *, first: bool) -> list[str]:
    """Return what the argument names: itself, the items of a list, the keys of an object."""
    items: list[Any] = [value]
    if isinstance(value, list | tuple):
        items = list(cast("list[Any]", value))[: 1 if first else None]
    elif isinstance(value, Mapping):
        items = list(cast("Mapping[Any, Any]", value))
    for item in items:
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            raise InvalidInput(
                f"{type(item).__name__} values name no resource",
                place=f"/{argument}",
                fix="give text, or a list of texts",
            )
    return [str(item) for item in items]


def _files(
    template: _Template, names: Sequence[str], variables: Mapping[str, str]
) -> list[Capability]:
    """Return the capabilities of files, and those of their other names."""
    found: list[Capability] = []
    aliases: Aliases | None = None
    for name in names:
        capability, path = _file(template, name, variables)
        found.append(below(capability) if template.deep else capability)
        if template.verb == "fs.read" and not is_linked(path):
            continue
        aliases = aliases or Aliases(variables["workspace"])
        others = aliases.of(template.verb, path, deep=template.deep)
        found += [path_capability(template.verb, other) for other in others]
    return found


def _file(template: _Template, value: str, variables: Mapping[str, str]) -> tuple[Capability, str]:
    """Return the capability of one file, and its real path."""
    path = _real_path(template.prefix, value + template.suffix, variables)
    if template.own and not f"{path}/".startswith(_folder(variables["run"])):
        raise CapabilityError(
            f"`{value}` leads out of the run's folder, which the tool keeps to",
            fix="give a relative path without `..`, such as `report.md`",
        )
    return path_capability(template.verb, path), path


def _resource(template: _Template, value: str) -> Capability:
    """Return the capability of one literal value that is no file."""
    read = url_capability if template.kind == "url" else concrete
    capability = read(template.verb, template.prefix + value + template.suffix)
    return below(capability) if template.deep else capability


def _folder(path: str) -> str:
    return f"{real_path(path)}/"


def _real_path(prefix: str, value: str, variables: Mapping[str, str]) -> str:
    if "\0" in value:
        raise ValueError("a path cannot hold a NUL character")
    if "$" in prefix:
        for name, path in variables.items():
            prefix = prefix.replace(f"${{{name}}}", path)
    # Joined as programs join: an absolute value leaves the folder before it.
    named = os.path.join(prefix, value) if prefix.endswith("/") else prefix + value  # noqa: PTH118 - every call passes here, and pathlib costs as much as the resolution
    return real_path(named if named.startswith("/") else f"{variables['workspace']}/{named}")


MAX_SHOWN = 100
"""Values of a call that a person is told the origin of."""


def check_sinks(pending: PendingCall) -> tuple[CheckResult, ...]:
    """Return what the destinations of a call say of it."""
    meta = pending.meta
    if meta is None or not meta.sinks:
        return ()
    return weigh_sinks(_destinations(meta, pending), meta.risk)


def provenance(pending: PendingCall) -> list[dict[str, Any]]:
    """Return where each destination of a call comes from; what nothing grounds comes first."""
    meta = pending.meta
    if meta is None or not meta.sinks:
        return []
    found = sorted(_destinations(meta, pending), key=lambda each: each.source is not None)
    return [each.to_dict() for each in found[:MAX_SHOWN]]


def learn_from(pending: PendingCall, result: ToolResult) -> ToolResult:
    """Return a call's result, taken as what later calls may name."""
    if (meta := pending.meta) is not None and pending.scope.midway is None:
        scope = pending.scope
        asked = pending.call.input
        scope.run.grounds.learn(meta, asked, result, scope.grounds, scope.step_id)
    return result


def _destinations(meta: ToolMeta, pending: PendingCall) -> Iterator[Destination]:
    given, grounds = pending.call.input, pending.scope.run.grounds
    inside = _stays_inside(pending)
    return destinations(meta, given, grounds, inside=inside, skill=_skill(pending))


def _skill(pending: PendingCall) -> str:
    """Return the skill whose own call it is, where its contract grounds what it reads."""
    return "" if pending.scope.grounds is None else pending.scope.grounds.skill_id


def _stays_inside(pending: PendingCall) -> bool:
    """Whether each file that a call touches is the project's or the run's, or a person named it."""
    scope = pending.scope
    folders = [os.path.realpath(folder) for folder in (scope.run.root, scope.run.artifacts)]
    touched = [each for each in map(parse, pending.capabilities) if each.verb.startswith("fs.")]
    suspended = () if pending.meta is None else scope.rules.suspended(pending.meta)
    for each in touched:
        path = "/" + "/".join(each.parts[0])
        within = any(path == folder or path.startswith(f"{folder}/") for folder in folders)
        if not within and not scope.rules.authority(each, None, suspended).by_person:
            return False
    return bool(touched)
