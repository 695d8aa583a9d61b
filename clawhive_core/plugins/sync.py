"""`clawhive plugins sync`: the manifest is written from the code."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from clawhive_core.config.tomlfile import load_toml
from clawhive_core.diagnostics.files import replace_file, shown_path
from clawhive_core.errors import ManifestError, PluginError
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolMeta
from clawhive_core.plugins.comparison import ToolDifference, tool_differences
from clawhive_core.plugins.contribution import HookCaller
from clawhive_core.plugins.discovery import DiscoveredPlugin, package_folder
from clawhive_core.plugins.hookspecs import HOOK_API, PROTOCOLS, HookContext
from clawhive_core.plugins.loading import import_contributor
from clawhive_core.plugins.manifest import (
    MANIFEST_NAME,
    Manifest,
    ManifestCommand,
    parse_manifest,
    read_manifest,
)
from clawhive_core.plugins.manifest_text import manifest_text
from clawhive_core.plugins.source import find_plugins, importing_from
from clawhive_core.plugins.tool import declared_tools
from clawhive_core.protocols.provider import ToolProvider

T = TypeVar("T")

_PROVIDERS = "clawhive_tool_providers"
_COMMANDS = "clawhive_commands"


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The effect of a sync on one manifest."""

    plugin_id: str
    path: Path
    created: bool
    changed: bool
    """Whether the file has other bytes than before."""
    differences: tuple[ToolDifference, ...]
    """The differences between the tools of the code and those that the manifest listed."""
    tools: tuple[str, ...]
    hooks: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "plugin_id": self.plugin_id,
            "path": str(self.path),
            "created": self.created,
            "changed": self.changed,
            "differences": [str(item) for item in self.differences],
            "tools": list(self.tools),
            "hooks": list(self.hooks),
        }


def sync(target: str) -> list[SyncReport]:
    """Import a plugin's code and write its manifest beside the package's `__init__.py`.

    What only the author knows is kept from the manifest that is there: `after`, `before`,
    `tools = "dynamic"`, `dynamic_settings` and `env`. Synchronising twice changes nothing.

    Args:
        target: As `find_plugins`.

    Raises:
        UnknownId: Nothing is called so.
        PluginError: The code cannot be imported or described, or the file cannot be written.
    """
    plugins, folder = find_plugins(target)
    return [_sync_one(plugin, folder) for plugin in plugins]


def _sync_one(plugin: DiscoveredPlugin, folder: Path | None) -> SyncReport:
    with importing_from(folder, plugin.package):
        path = manifest_path(plugin)
        old = _old_manifest(path)
        new = manifest_from_code(plugin, old)
    text = manifest_text(new)
    parse_manifest(text, shown_path(path))
    created = not path.exists()
    return SyncReport(
        plugin_id=plugin.id,
        path=path,
        created=created,
        changed=_write(path, text),
        differences=tuple(tool_differences(() if old is None else old.tools, new.tools)),
        tools=tuple(meta.name for meta in new.tools),
        hooks=new.hooks,
    )


def manifest_path(plugin: DiscoveredPlugin) -> Path:
    """Return where a plugin's manifest belongs.

    Raises:
        PluginError: There is no such package, or it is a single file.
    """
    folder = package_folder(plugin.package)
    if folder is None:
        raise PluginError(
            f"there is no package {plugin.package}",
            place=plugin.source,
            fix=f"make {plugin.package} a folder with __init__.py, and install the plugin: "
            "pip install -e .",
            code="module_missing",
        )
    return folder / MANIFEST_NAME


def manifest_from_code(plugin: DiscoveredPlugin, old: Manifest | None) -> Manifest:
    """Import a plugin and return the manifest that describes its code.

    Raises:
        PluginError: The code cannot be imported or described, or two tools have one name.
    """
    contributor = import_contributor(plugin)
    hooks = HookCaller(contributor, plugin.id)
    kept = old or Manifest(plugin.id, HOOK_API)
    tools = [item.meta(plugin.id) for item in declared_tools(contributor, plugin.package)]
    if not kept.dynamic:
        tools += _provider_tools(hooks, plugin)
    _refuse_twins(tools)
    return replace(
        kept,
        id=plugin.id,
        hook_api=HOOK_API,
        hooks=tuple(hook for hook in PROTOCOLS if hook in hooks.hooks),
        commands=tuple(_commands(hooks, plugin)),
        tools=tuple(sorted(tools, key=lambda meta: (meta.provider_id, meta.name))),
    )


def _context(plugin: DiscoveredPlugin) -> HookContext:
    """Return what hooks get here: no settings, so that a manifest depends on the code alone."""
    return HookContext(plugin.id, {}, str(Path.cwd()), dict(os.environ))


def _commands(hooks: HookCaller, plugin: DiscoveredPlugin) -> list[ManifestCommand]:
    import click

    commands = cast("list[click.Command]", hooks.call(_COMMANDS, _context(plugin)))
    found = [
        ManifestCommand(command.name or "", command.get_short_help_str(limit=80))
        for command in commands
    ]
    return sorted(found, key=lambda command: command.name)


def _provider_tools(hooks: HookCaller, plugin: DiscoveredPlugin) -> list[ToolMeta]:
    providers = cast("list[ToolProvider]", hooks.call(_PROVIDERS, _context(plugin)))
    return [meta for provider in providers for meta in _listed(provider, plugin)]


def _listed(provider: ToolProvider, plugin: DiscoveredPlugin) -> list[ToolMeta]:
    async def tools() -> list[ToolMeta]:
        try:
            return await provider.list_tools()
        finally:
            await provider.close()

    try:
        provider_id = provider.provider_id
        metas = _wait(tools)
    except Exception as error:  # the isolation boundary: a plugin's provider
        raise PluginError(
            f"a provider of {plugin.id} cannot list its tools: {type(error).__name__}: {error}",
            fix="correct it; or, where its tools are only known at run time, write "
            f'tools = "dynamic" under [plugin] in {MANIFEST_NAME}',
            code="hook_failed",
        ) from error
    for meta in metas:
        _check_provider_id(meta, provider_id, plugin)
    return metas


def _check_provider_id(meta: ToolMeta, provider_id: str, plugin: DiscoveredPlugin) -> None:
    if meta.provider_id != provider_id or provider_id == plugin.id:
        raise PluginError(
            f"the tool {meta.name} has the provider_id {meta.provider_id!r}; its provider is "
            f"{provider_id!r}, and {plugin.id!r} is kept for the plugin's `@tool` functions",
            fix="give provider and tools one provider_id that is not the plugin's id",
            code="hook_failed",
        )


def _wait(work: Callable[[], Awaitable[T]]) -> T:
    """Await something from code without an event loop, or from inside someone else's."""
    from concurrent.futures import ThreadPoolExecutor

    import anyio

    with ThreadPoolExecutor(max_workers=1) as executor:
        return executor.submit(anyio.run, work).result()


def _refuse_twins(tools: list[ToolMeta]) -> None:
    seen: set[tuple[str, str]] = set()
    for meta in tools:
        if (meta.provider_id, meta.name) in seen:
            raise PluginError(
                f"two functions make the tool {meta.name}",
                fix="give one of them another name: @tool(name=...)",
                code="invalid_tool",
            )
        seen.add((meta.provider_id, meta.name))


def _old_manifest(path: Path) -> Manifest | None:
    """Return the manifest that is there, without its tools where those cannot be read.

    A file that is not TOML, or was written for other hooks, is an error: nothing of it is lost.
    """
    try:
        return read_manifest(path)
    except ManifestError as error:
        if error.code == "manifest_missing":
            return None
        kept = None if error.code != "invalid_manifest" else _kept_part(path)
        if kept is None:
            raise
        return kept


def _kept_part(path: Path) -> Manifest | None:
    try:
        table: Any = load_toml(path.read_text("utf-8")).get("plugin", {})
        plugin = cast("dict[str, Any]", table) if isinstance(table, dict) else {}
        kept = Manifest(
            "kept",
            HOOK_API,
            after=tuple(plugin.get("after", ())),
            before=tuple(plugin.get("before", ())),
            dynamic=plugin.get("tools") == "dynamic",
            dynamic_settings=tuple(plugin.get("dynamic_settings", ())),
            env=tuple(plugin.get("env", ())),
        )
        return parse_manifest(manifest_text(kept))
    except (OSError, ValueError, TypeError, ManifestError):
        return None


def _write(path: Path, text: str) -> bool:
    """Replace the file whole, if its bytes change."""
    data = text.encode("utf-8")
    try:
        if path.exists() and path.read_bytes() == data:
            return False
        replace_file(path, data)
    except OSError as error:
        raise PluginError(
            f"the manifest cannot be written: {error.strerror or error}",
            place=shown_path(path),
            fix="make the folder writable, or sync in the plugin's own checkout",
            code="manifest_unwritable",
        ) from error
    return True
