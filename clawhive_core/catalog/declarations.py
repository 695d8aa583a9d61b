"""What a person declares of tools that nobody else declares: risk, effects, sinks and records.

Servers of others list tools without saying what these may touch. A declaration of the user's own
configuration says it, for the definition that the person looked at: where the definition is another
now, the declaration loosens nothing any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal, cast

from clawhive_core.catalog.listing import admitted, problem_of_tool
from clawhive_core.config.config import Config
from clawhive_core.config.private_file import PrivateFile
from clawhive_core.config.setting import check
from clawhive_core.config.settings import Path as Key
from clawhive_core.config.settings import dotted, families_below, find
from clawhive_core.errors import ConfigError
from clawhive_core.model.canonical import digest
from clawhive_core.model.effects import level_of
from clawhive_core.model.late import dataclass
from clawhive_core.model.sinks import sink_problems
from clawhive_core.model.tools import Effects, Level, Risk, ToolMeta
from clawhive_core.plugins.effects import as_effects, effect_problems, unknown_verbs

State = Literal["undeclared", "declared", "changed", "author"]
"""Whether a person's declaration of a tool is there and counts, does not count as the tool changed,
or cannot be, as the tool's author declares it."""

SECTION: Key = ("tools", "declared")
"""The place of declarations in the configuration; each is a table of its own below it."""
_BESIDE_TOOLS: Key = ("catalog", "declared")
_OWN = frozenset({"core", "sandbox", "agents"})
_RISKS: tuple[Risk, ...] = ("safe", "guarded", "unknown", "unsafe")
_FILE = "declared.json"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a person declares of one tool, as the tool was defined then."""

    definition: str
    """The hash of the definition: see `definition_of`."""
    risk: Risk = "unknown"
    level: Level | None = None
    """None: what the effects amount to."""
    side_effects: bool = True
    effects: Effects = field(default_factory=dict[str, "str | tuple[str, ...]"])
    sinks: tuple[str, ...] = ()
    records: tuple[str, ...] = ()

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Declaration:
        """Return what a table of the configuration says."""
        given: Risk = table.get("risk") or "unknown"
        return cls(
            str(table.get("definition") or ""),
            given,
            table.get("level"),
            given != "safe" if table.get("side_effects") is None else table["side_effects"],
            as_effects(table.get("effects") or {}),
            tuple(table.get("sinks") or ()),
            tuple(table.get("records") or ()),
        )

    def to_table(self) -> dict[str, Any]:
        """Return it as a table of the configuration, without what goes without saying."""
        table: dict[str, Any] = {"definition": self.definition, "risk": self.risk}
        if self.level not in {None, level_of(self.effects)}:
            table["level"] = self.level
        if self.side_effects != (self.risk != "safe"):
            table["side_effects"] = self.side_effects
        if self.effects:
            table["effects"] = {
                argument: each if isinstance(each, str) else list(each)
                for argument, each in self.effects.items()
            }
        if self.sinks:
            table["sinks"] = list(self.sinks)
        if self.records:
            table["records"] = list(self.records)
        return table

    def problem(self, meta: ToolMeta) -> str | None:
        """Return why it cannot be one of a tool, with what to do, or None."""
        arguments = _arguments(meta)
        problems = (
            *effect_problems(self.effects, arguments),
            *unknown_verbs(self.effects),
            *sink_problems(self.sinks, arguments),
            *sink_problems(self.records, None, records=True),
        )
        return next((f"{what}; {fix}" for what, fix in problems), None)

    def of(self, meta: ToolMeta) -> ToolMeta:
        """Return a tool as it is declared."""
        return replace(
            meta,
            risk=self.risk,
            capability_level=self.level or level_of(self.effects),
            side_effects=self.side_effects,
            requires_confirm=False,
            effects=self.effects,
            sinks=self.sinks,
            records=self.records,
        )

    def tightening(self, meta: ToolMeta) -> ToolMeta:
        """Return a tool of another definition: each call asks, and what was denied stays denied.

        Beside the declared effects a call needs the tool by its name, so that no right to what it
        touches lets it through.
        """
        usable = self.problem(replace(meta, input_schema=_naming(self))) is None
        effects = dict(self.effects) if usable else {}
        named = effects.get("", ())
        before = (named,) if isinstance(named, str) else named
        return replace(
            meta,
            risk=_RISKS[max(map(_RISKS.index, (meta.risk, self.risk, "unknown")))],
            requires_confirm=True,
            side_effects=True,
            effects={**effects, "": (*before, f"tool.call:{meta.name}")},
            sinks=self.sinks if usable else (),
        )


class Declarations:
    """The declarations that the configuration holds.

    Args:
        tables: Each tool's name to what is declared of it.
    """

    def __init__(self, tables: Mapping[str, Declaration] | None = None) -> None:
        self._tables = dict(tables or {})
        self._listed: dict[tuple[str, str], ToolMeta] = {}
        """The tools that a declaration changed, as their providers list them."""

    @classmethod
    def of(cls, config: Config) -> Declarations:
        """Return what the user's configuration declares."""
        names = config.names(".".join(SECTION))
        if not names:
            return cls()
        tables = config.section(".".join(SECTION))
        return cls({name: Declaration.read(tables[name]) for name in names})

    def __iter__(self) -> Any:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def find(self, name: str) -> Declaration | None:
        """Return what is declared of a tool."""
        return self._tables.get(name)

    def admitted(self, meta: ToolMeta) -> ToolMeta:
        """Return a listed tool as it is admitted to the catalog, with what is declared of it."""
        if not self._tables or problem_of_tool(meta) is not None:
            return admitted(meta)
        found = self._tables.get(meta.name)
        if found is None or not is_declarable(meta):
            return admitted(meta)
        self._listed[meta.provider_id, meta.name] = meta
        problem = found.problem(meta)
        if found.definition == definition_of(meta) and problem is None:
            return admitted(found.of(meta))
        why = problem or "it is not what it was when you declared it"
        return replace(admitted(found.tightening(meta)), raised=why)

    def listed(self, meta: ToolMeta) -> ToolMeta:
        """Return a tool of the catalog as its provider lists it."""
        return self._listed.get((meta.provider_id, meta.name), meta)

    def state(self, meta: ToolMeta) -> State:
        """Return what holds of a tool of the catalog."""
        found, listed = self._tables.get(meta.name), self.listed(meta)
        if not is_declarable(listed):
            return "author"
        if found is None:
            return "undeclared"
        counts = found.definition == definition_of(listed) and found.problem(listed) is None
        return "declared" if counts else "changed"


def definition_of(meta: ToolMeta) -> str:
    """Return the SHA-256 of what a tool's author says of it: schemas, words, annotations."""
    return digest([meta.input_schema, meta.output_schema, meta.text_hash])


def is_declarable(meta: ToolMeta) -> bool:
    """Whether a tool's author left its declaration to the user.

    That is so for tools of unknown risk, and for those of servers, which declare nothing but
    annotations.
    """
    if meta.provider_id in _OWN or meta.provider_id.startswith("skill_"):
        return False
    return meta.risk == "unknown" or meta.text_counts


def key_of(name: str, *, beside_tools: bool) -> Key:
    """Return the place of a declaration in a file; TOML has another where `[[tools]]` stands."""
    return (*(_BESIDE_TOOLS if beside_tools else SECTION), name)


def toml_of(name: str, declaration: Declaration) -> str:
    """Return a declaration as the table that the configuration holds."""
    from clawhive_core.config.user_file import rendered

    return rendered((*SECTION, name), declaration.to_table())


def read_toml_of(text: str, meta: ToolMeta) -> Declaration:
    """Return the declaration of a tool that a person wrote as `toml_of` does.

    Raises:
        ConfigError: It is no such table, or cannot be one of this tool.
    """
    import tomllib

    table: Any = None
    try:
        table = tomllib.loads(text)
        for name in (*SECTION, meta.name):
            table = table[name]
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"this is no TOML: {error}", fix="mend that line") from error
    except (KeyError, TypeError):
        table = None
    if not isinstance(table, dict):
        raise ConfigError(f"there is no table of `{meta.name}`", fix="keep its first line")
    given: dict[str, Any] = {"definition": definition_of(meta)}
    for key, value in cast("dict[str, Any]", table).items():
        setting = find((*SECTION, meta.name, key))
        if setting is None:
            keys = ", ".join(each.path[-1] for each in families_below((*SECTION, meta.name)))
            raise ConfigError(f"a declaration has no key `{key}`", fix=f"use: {keys}")
        given = {key: check(setting, value, dotted((*SECTION, meta.name, key))), **given}
    found = Declaration.read(given)
    if (problem := found.problem(meta)) is not None:
        raise ConfigError(problem, place=meta.name, fix="write it another way")
    return found


class Definitions:
    """The definitions that a person accepted, kept so that a change can be shown.

    Args:
        user_dir: The user's own directory.
    """

    def __init__(self, user_dir: Path) -> None:
        self._file = PrivateFile(user_dir, _FILE, "the list of accepted definitions")

    def keep(self, tools: Iterable[ToolMeta]) -> None:
        """Keep tools as they are defined now.

        Raises:
            StorageError: The list cannot be written.
        """
        with self._file.locked():
            kept = {**self._read(), **{meta.name: _definition(meta) for meta in tools}}
            self._file.write({"schema": "declared/1", "definitions": kept})

    def diff(self, meta: ToolMeta) -> Sequence[str]:
        """Return the lines of a unified diff: a tool as it was accepted, and as it is now."""
        from difflib import unified_diff

        before = self._read().get(meta.name)
        if before is None:
            return ()
        names = (f"{meta.name} (as it was)", f"{meta.name} (as it is)")
        lines = unified_diff(_lines(before), _lines(_definition(meta)), *names, lineterm="")
        return list(lines)

    def _read(self) -> dict[str, Any]:
        try:
            data = self._file.read()
            found: Any = {} if data is None else json.loads(data).get("definitions")
        except (ValueError, AttributeError, RecursionError):
            return {}  # it only shows what changed; that something did the hash says
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _definition(meta: ToolMeta) -> dict[str, Any]:
    return {
        "input_schema": meta.input_schema,
        "output_schema": meta.output_schema,
        "description": meta.description,
        "annotations": meta.annotations,
    }


def _lines(definition: Any) -> list[str]:
    return json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=False).splitlines()


def _arguments(meta: ToolMeta) -> tuple[str, ...]:
    given: Any = meta.input_schema.get("properties")
    return tuple(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else ()


def _naming(declaration: Declaration) -> dict[str, Any]:
    """Return a schema of every argument that a declaration names: its form alone counts then."""
    sinks = (str(each).partition(":")[0].partition("/")[0] for each in declaration.sinks)
    return {"properties": dict.fromkeys((*declaration.effects, *sinks), True)}
