"""`clawhive-plugin.toml`: what a plugin contains, readable without importing it.

`clawhive plugins sync` writes it beside the package's `__init__.py`; the format is described in
`docs/reference/plugin-manifest.md`. JSON Schemas and examples stand in it as JSON text in
multi-line literal strings, since TOML has no null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NoReturn, cast, get_args

from clawhive_core.config.tomlfile import NotToml, load_toml
from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.suggestions import did_you_mean
from clawhive_core.errors import ManifestError
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.tools import TIMEOUT_MS, Level, OutputTrust, Risk, ToolMeta
from clawhive_core.plugins.effects import effect_problems
from clawhive_core.plugins.entry_points import MANIFEST_NAME
from clawhive_core.plugins.hookspecs import PROTOCOLS, SUPPORTED_HOOK_APIS

SYNC = "clawhive plugins sync"

_ID = pattern(r"[A-Za-z0-9_-]{1,64}")
_TOOL = pattern(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+){1,3}")
_MAX_BYTES = 2 * 1024 * 1024

Kind = Literal["text", "flag", "count", "texts", "object", "list", "effects"]

_PLUGIN_KEYS: Mapping[str, Kind | Literal["any"]] = {
    "id": "text",
    "hook_api": "count",
    "hooks": "texts",
    "after": "texts",
    "before": "texts",
    "tools": "text",
    "dynamic_settings": "texts",
    "env": "texts",
}
_COMMAND_KEYS: Mapping[str, Kind] = {"name": "text", "help": "text"}
TOOL_KEYS: Mapping[str, Kind] = {
    "name": "text",
    "provider": "text",
    "description": "text",
    "capability_level": "text",
    "risk": "text",
    "effects": "effects",
    "sinks": "texts",
    "records": "texts",
    "requires_confirm": "flag",
    "confirms": "text",
    "side_effects": "flag",
    "idempotent": "flag",
    "polling": "flag",
    "timeout_ms": "count",
    "preconditions": "texts",
    "output_trust": "text",
    "always_load": "flag",
    "category": "text",
    "keywords": "texts",
    "aliases": "texts",
    "input_schema": "object",
    "output_schema": "object",
    "examples": "list",
    "annotations": "object",
}
"""The keys of `[[tools]]`, in the order in which they are written."""
_REQUIRED = ("name", "description", "capability_level", "risk", "input_schema")
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "capability_level": get_args(Level),
    "risk": get_args(Risk),
    "output_trust": get_args(OutputTrust),
}


@dataclass(frozen=True, slots=True)
class ManifestCommand:
    """A command that the plugin adds: `clawhive NAME`, and its line in `--help`."""

    name: str
    help: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description that a plugin gives of itself."""

    id: str
    hook_api: int
    hooks: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """Plugins that come before this one."""
    before: tuple[str, ...] = ()
    dynamic: bool = False
    """Whether the tools of its providers are only known at run time."""
    dynamic_settings: tuple[str, ...] = ()
    """Settings of which each may add providers that are only known at run time."""
    env: tuple[str, ...] = ()
    """Environment variables that hold its secrets: redacted whether it is loaded or not."""
    commands: tuple[ManifestCommand, ...] = ()
    tools: tuple[ToolMeta, ...] = ()


def is_plugin_id(text: str) -> bool:
    """Tell whether a text can be a plugin's id: one segment of a tool's name."""
    return _ID.fullmatch(text) is not None


def read_manifest(path: Path) -> Manifest:
    """Read a manifest file.

    Raises:
        ManifestError: `manifest_missing`, `invalid_manifest` or `incompatible_hook_api`; `place` is
            file:line.
    """
    shown = shown_path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ManifestError(
            "the plugin has no manifest", place=shown, fix=f"run: {SYNC}", code="manifest_missing"
        ) from error
    except OSError as error:
        raise ManifestError(
            f"the manifest cannot be read: {error.strerror or error}",
            place=shown,
            fix="make it a readable file",
        ) from error
    if len(data) > _MAX_BYTES:
        raise ManifestError("the manifest is larger than 2 MiB", place=shown, fix=f"run: {SYNC}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ManifestError(
            "the manifest is not UTF-8", place=f"{shown}:{line}", fix="save it as UTF-8"
        ) from error
    return _parsed(text, shown)


def parse_manifest(text: str, file: str = MANIFEST_NAME) -> Manifest:
    """Return the manifest that a TOML text holds.

    Raises:
        ManifestError: As `read_manifest`.
    """
    try:
        value = load_toml(text)
    except NotToml as error:
        raise ManifestError(
            f"the manifest is not TOML: {error}",
            place=f"{file}:{error.line}:{error.column}" if error.line else file,
            fix=f"correct the line, or delete the file and run: {SYNC}",
        ) from error
    return _Reader(text, file).manifest(value)


_parsed = lru_cache(maxsize=64)(parse_manifest)
"""The same of a text that was read before: a project may be opened many times in a process."""


class _Reader:
    """Reads the tables of one manifest, knowing where they stand."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file

    def manifest(self, value: Mapping[str, Any]) -> Manifest:
        table = value.get("plugin")
        if not isinstance(table, dict):
            self._fail(
                "the table [plugin] is missing",
                ("plugin",),
                f"add [plugin] with id and hook_api, or run: {SYNC}",
            )
        plugin = cast("dict[str, Any]", table)
        self._check_hook_api(plugin)
        self._check_keys(value, dict.fromkeys(("plugin", "commands", "tools")), ())
        self._check_table(plugin, _PLUGIN_KEYS, ("plugin",))
        if not is_plugin_id(plugin.get("id", "")):
            self._fail(
                f"id is {plugin.get('id')!r}",
                ("plugin", "id"),
                "use the entry point's name: letters, digits, `_` and `-`",
            )
        if plugin.get("tools", "dynamic") != "dynamic":
            self._fail(
                f"tools is {plugin['tools']!r}",
                ("plugin", "tools"),
                'write tools = "dynamic", or leave it out',
            )
        return Manifest(
            id=plugin["id"],
            hook_api=plugin["hook_api"],
            hooks=self._hooks(plugin.get("hooks", [])),
            after=tuple(plugin.get("after", ())),
            before=tuple(plugin.get("before", ())),
            dynamic="tools" in plugin,
            dynamic_settings=tuple(plugin.get("dynamic_settings", ())),
            env=tuple(plugin.get("env", ())),
            commands=self._commands(value.get("commands", [])),
            tools=self._tools(value.get("tools", []), plugin["id"]),
        )

    def _check_hook_api(self, plugin: Mapping[str, Any]) -> None:
        """Look at this key first: a newer manifest may hold keys that this version cannot know."""
        api = plugin.get("hook_api")
        if isinstance(api, bool) or not isinstance(api, int):
            self._fail(
                f"hook_api is {api!r}",
                ("plugin", "hook_api"),
                f"write hook_api = {SUPPORTED_HOOK_APIS[-1]}",
            )
        if api not in SUPPORTED_HOOK_APIS:
            known = ", ".join(str(version) for version in SUPPORTED_HOOK_APIS)
            newer = api > max(SUPPORTED_HOOK_APIS)
            self._fail(
                f"the plugin is written for hook API {api}; this ClawHive supports {known}",
                ("plugin", "hook_api"),
                "upgrade ClawHive: pip install -U clawhive" if newer else "upgrade the plugin",
                code="incompatible_hook_api",
            )

    def _hooks(self, names: list[str]) -> tuple[str, ...]:
        for name in names:
            if name not in PROTOCOLS:
                self._fail(
                    f"there is no hook {name!r}", ("plugin", "hooks"), _meant(name, PROTOCOLS)
                )
        return tuple(names)

    def _commands(self, value: Any) -> tuple[ManifestCommand, ...]:
        tables = self._tables(value, "commands")
        for index, table in enumerate(tables):
            self._check_table(table, _COMMAND_KEYS, ("commands", index))
            self._check_required(table, ("name",), ("commands", index))
        return tuple(ManifestCommand(table["name"], table.get("help", "")) for table in tables)

    def _tools(self, value: Any, plugin_id: str) -> tuple[ToolMeta, ...]:
        found: dict[tuple[str, str], ToolMeta] = {}
        for index, table in enumerate(self._tables(value, "tools")):
            meta = self._tool(table, plugin_id, ("tools", index))
            if (meta.provider_id, meta.name) in found:
                self._fail(
                    f"the tool {meta.name} stands here twice",
                    ("tools", index, "name"),
                    f"rename one of the functions and run: {SYNC}",
                )
            found[meta.provider_id, meta.name] = meta
        return tuple(found.values())

    def _tool(
        self, table: Mapping[str, Any], plugin_id: str, where: tuple[str | int, ...]
    ) -> ToolMeta:
        self._check_table(table, TOOL_KEYS, where)
        self._check_required(table, _REQUIRED, where)
        for key, choices in _CHOICES.items():
            if key in table and table[key] not in choices:
                self._fail(
                    f"{key} is {table[key]!r}", (*where, key), f"use one of: {', '.join(choices)}"
                )
        if _TOOL.fullmatch(table["name"]) is None:
            self._fail(
                f"{table['name']!r} is no tool's name",
                (*where, "name"),
                "use 2 to 4 segments of letters, digits, `_` and `-`, joined by dots",
            )
        values = {key: self._value(key, item, (*where, key)) for key, item in table.items()}
        properties = values["input_schema"].get("properties")
        parameters = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
        for problem, fix in effect_problems(values.get("effects", {}), parameters):
            self._fail(problem, (*where, "effects"), fix)
        return _tool_of(values, plugin_id)

    def _value(self, key: str, value: Any, where: tuple[str | int, ...]) -> Any:
        kind = TOOL_KEYS[key]
        if kind == "texts":
            return tuple(value)
        if kind == "effects":
            effects = cast("dict[str, Any]", value).items()
            return {key: item if isinstance(item, str) else tuple(item) for key, item in effects}
        if kind not in {"object", "list"}:
            return value
        try:
            parsed: Any = json.loads(value, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            self._fail(f"{key} is not JSON: {error}", where, f"run: {SYNC}")
        if not isinstance(parsed, dict if kind == "object" else list):
            self._fail(f"{key} holds no JSON {kind}", where, f"run: {SYNC}")
        return tuple(cast("list[Any]", parsed)) if kind == "list" else cast("Any", parsed)

    def _tables(self, value: Any, key: str) -> list[dict[str, Any]]:
        if not isinstance(value, list) or not all(
            isinstance(item, dict) for item in cast("list[Any]", value)
        ):
            self._fail(f"{key} is no list of tables", (key,), f"write [[{key}]] above each")
        return cast("list[dict[str, Any]]", value)

    def _check_table(
        self, table: Mapping[str, Any], kinds: Mapping[str, Any], where: tuple[str | int, ...]
    ) -> None:
        self._check_keys(table, kinds, where)
        for key, value in table.items():
            wanted = _wanted(kinds[key], value)
            if wanted:
                self._fail(f"{key} is {_shown(value)}", (*where, key), f"write {wanted}")

    def _check_keys(
        self, table: Mapping[str, Any], known: Mapping[str, Any], where: tuple[str | int, ...]
    ) -> None:
        for key in table:
            if key not in known:
                self._fail(f"the key {key!r} is unknown", (*where, key), _meant(key, known))

    def _check_required(
        self, table: Mapping[str, Any], keys: tuple[str, ...], where: tuple[str | int, ...]
    ) -> None:
        for key in keys:
            if key not in table:
                self._fail(f"{key} is missing in [[{where[0]}]]", where, f"run: {SYNC}")

    def _fail(
        self,
        message: str,
        where: tuple[str | int, ...],
        fix: str,
        code: str | None = None,
    ) -> NoReturn:
        from clawhive_core.config.places import find_places, nearest_place

        span = nearest_place(find_places(self._text), where)
        place = self._file if span is None else f"{self._file}:{span.line}"
        raise ManifestError(message, place=place, fix=fix, code=code)


def _tool_of(values: Mapping[str, Any], plugin_id: str) -> ToolMeta:
    """Return the tool of checked keys of `[[tools]]`."""
    return ToolMeta(
        name=values["name"],
        description=values["description"],
        input_schema=values["input_schema"],
        provider_id=values.get("provider", plugin_id),
        output_schema=values.get("output_schema"),
        capability_level=values["capability_level"],
        risk=values["risk"],
        effects=values.get("effects", {}),
        sinks=values.get("sinks", ()),
        records=values.get("records", ()),
        requires_confirm=values.get("requires_confirm", False),
        confirms=values.get("confirms"),
        side_effects=values.get("side_effects", False),
        idempotent=values.get("idempotent", False),
        polling=values.get("polling", False),
        timeout_ms=values.get("timeout_ms", TIMEOUT_MS),
        preconditions=values.get("preconditions", ()),
        output_trust=values.get("output_trust", "untrusted"),
        always_load=values.get("always_load", False),
        category=values.get("category", ""),
        keywords=values.get("keywords", ()),
        aliases=values.get("aliases", ()),
        examples=values.get("examples", ()),
        annotations=values.get("annotations", {}),
    )


def _wanted(kind: Kind, value: Any) -> str | None:
    """Return what a value should be, None where it is that."""
    if kind == "flag":
        return None if isinstance(value, bool) else "true or false"
    if kind == "count":
        fits = isinstance(value, int) and not isinstance(value, bool) and value > 0
        return None if fits else "a positive integer"
    if kind == "texts":
        return None if _is_texts(value) else 'a list of texts: ["..."]'
    if kind == "effects":
        fits = isinstance(value, dict) and all(
            isinstance(item, str) or _is_texts(item)
            for item in cast("dict[str, Any]", value).values()
        )
        return None if fits else 'a table of texts: {argument = "fs.read"}'
    return None if isinstance(value, str) else "a text in quotes"


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, str) for item in cast("list[Any]", value)
    )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - a line of a terminal


def _meant(word: str, known: Mapping[str, Any]) -> str:
    return did_you_mean(word, known) or f"use one of: {', '.join(known)}"
