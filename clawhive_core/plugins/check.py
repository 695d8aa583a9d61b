"""`clawhive plugins check`: import everything, compare it with the manifest, say what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from clawhive_core.diagnostics.finding import Finding, Fix, Severity, sorted_findings
from clawhive_core.errors import PluginError
from clawhive_core.model.effects import beyond_own_state
from clawhive_core.model.patterns import pattern
from clawhive_core.model.tools import ToolMeta
from clawhive_core.plugins.choices import claimed_by_others
from clawhive_core.plugins.comparison import tool_differences
from clawhive_core.plugins.contribution import HookCaller
from clawhive_core.plugins.discovery import DiscoveredPlugin, discover, package_folder
from clawhive_core.plugins.hookspecs import HookContext
from clawhive_core.plugins.loading import import_contributor, manifest_of
from clawhive_core.plugins.manifest import SYNC, Manifest
from clawhive_core.plugins.manifest_text import manifest_text
from clawhive_core.plugins.source import find_plugins, importing_from
from clawhive_core.plugins.sync import manifest_from_code, manifest_path

CODES: dict[str, str] = {
    "CH0101": "An option or setting names a plugin that is not installed.",
    "CH0102": "The plugin's code cannot be imported.",
    "CH0103": "The plugin has no manifest.",
    "CH0104": "The plugin's manifest cannot be read.",
    "CH0105": "The plugin is written for another version of the hooks.",
    "CH0106": "The code of a tool differs from its manifest in what it may do or takes.",
    "CH0107": "The text of a tool differs from its manifest.",
    "CH0108": "The manifest is not what sync would write: its hooks, commands or layout differ.",
    "CH0109": "A hook cannot be registered or called.",
    "CH0110": "Two distributions claim one plugin id.",
    "CH0111": "A function cannot be a tool.",
    "CH0112": "A tool has no description.",
    "CH0113": "A plugin contributes nothing.",
    "CH0114": "A plugin says its tools are dynamic and has no hook that provides them.",
    "CH0115": "The entry point cannot be used.",
    "CH0116": "A tool declares itself safe and is admitted as guarded.",
}
"""The codes of findings about plugins, and what each means."""

_CODE_OF_ERROR = {
    "import_failed": "CH0102",
    "module_missing": "CH0102",
    "manifest_missing": "CH0103",
    "invalid_manifest": "CH0104",
    "incompatible_hook_api": "CH0105",
    "invalid_hook": "CH0109",
    "hook_failed": "CH0109",
    "invalid_tool": "CH0111",
    "invalid_entry_point": "CH0115",
}
_PLACE = pattern(r"(?P<file>.+?)(?::(?P<line>\d+))?(?::(?P<column>\d+))?")


def check(target: str) -> list[Finding]:
    """Return what is wrong with a plugin, having imported all of it and called all its hooks.

    Args:
        target: A plugin's id, its module's name, or a folder with its pyproject.toml.

    Raises:
        UnknownId: Nothing is called so.
        PluginError: The folder declares no plugin.
    """
    plugins, folder = find_plugins(target)
    found: list[Finding] = []
    for plugin in plugins:
        with importing_from(folder, plugin.package):
            found += _findings(plugin)
        if folder is None:
            found += _twins(plugin)
    return sorted_findings(found)


def _findings(plugin: DiscoveredPlugin) -> Iterator[Finding]:
    try:
        manifest: Manifest | None = manifest_of(plugin, package_folder(plugin.package))
    except PluginError as error:
        manifest = None
        yield _of_error(error)
        if error.code in {"invalid_entry_point", "module_missing"}:
            return
    try:
        code = manifest_from_code(plugin, manifest)
        yield from _of_hooks(plugin)
    except PluginError as error:
        yield _of_error(error)
        return
    yield from _of_tools(code)
    if manifest is not None:
        yield from _compare(manifest, code, str(manifest_path(plugin)))


def _of_hooks(plugin: DiscoveredPlugin) -> Iterator[Finding]:
    caller = HookCaller(import_contributor(plugin), plugin.id)
    context = HookContext(plugin.id, {}, str(Path.cwd()), {})
    for hook in sorted(caller.hooks):
        try:
            caller.call(hook, context)
        except PluginError as error:
            yield _of_error(error)


def _of_tools(code: Manifest) -> Iterator[Finding]:
    for meta in code.tools:
        yield from _of_tool(meta)
    if not code.tools and not code.hooks:
        yield Finding(
            "CH0113",
            "warning",
            f"the plugin {code.id} has no tools and no hooks",
            fix=Fix("import its tools and hooks in the module that the entry point names"),
        )
    if code.dynamic and "clawhive_tool_providers" not in code.hooks:
        yield Finding(
            "CH0114",
            "error",
            f'the plugin {code.id} says tools = "dynamic" without the hook clawhive_tool_providers',
            fix=Fix('remove tools = "dynamic", or implement the hook'),
        )


def _of_tool(meta: ToolMeta) -> Iterator[Finding]:
    if not meta.description:
        yield Finding(
            "CH0112",
            "warning",
            f"the tool {meta.name} has no description, and a model cannot choose it",
            fix=Fix("write a docstring: one sentence that says what it does"),
        )
    why = beyond_own_state(meta.effects, meta.capability_level, side_effects=meta.side_effects)
    if meta.risk == "safe" and why is not None:
        yield Finding(
            "CH0116",
            "warning",
            f"the tool {meta.name} declares itself safe, and it {why}: it is decided as guarded",
            fix=Fix('write risk="guarded", or name only what it touches; see `explain CH0116`'),
        )


def _compare(manifest: Manifest, code: Manifest, file: str) -> Iterator[Finding]:
    fix = Fix(f"run: {SYNC}")
    differences = list(tool_differences(manifest.tools, code.tools))
    for item in differences:
        severity: Severity = "error" if item.breaks_contract else "note"
        number = "CH0106" if item.breaks_contract else "CH0107"
        yield Finding(number, severity, str(item), file=file, fix=fix)
    if set(manifest.hooks) != set(code.hooks):
        changed = sorted(set(manifest.hooks) ^ set(code.hooks))
        message = f"hooks differ between manifest and code: {', '.join(changed)}"
        yield Finding("CH0108", "error", message, file=file, fix=fix)
    elif not differences and manifest_text(manifest) != manifest_text(code):
        yield Finding("CH0108", "warning", "the manifest is out of date", file=file, fix=fix)


def _twins(plugin: DiscoveredPlugin) -> Iterator[Finding]:
    claims = [item for item in discover() if item.id == plugin.id]
    if len({item.distribution for item in claims}) > 1:
        error = claimed_by_others(claims, None)
        message = error.message.removesuffix("; none of them is loaded")
        yield Finding("CH0110", "error", message, fix=Fix(error.fix or ""))


def _of_error(error: PluginError) -> Finding:
    place = _PLACE.fullmatch(error.place or "")
    line, column = (place["line"], place["column"]) if place else (None, None)
    return Finding(
        _CODE_OF_ERROR.get(error.code, "CH0102"),
        "error",
        error.message,
        file=place["file"] if place else None,
        line=None if line is None else int(line),
        column=None if column is None else int(column),
        fix=None if error.fix is None else Fix(error.fix),
    )
