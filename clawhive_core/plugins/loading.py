"""Importing the object that an entry point names, with every way to fail made a PluginError."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.errors import PluginError
from clawhive_core.model.canonical import preview
from clawhive_core.plugins.discovery import DiscoveredPlugin, package_folder
from clawhive_core.plugins.hookspecs import PROTOCOLS
from clawhive_core.plugins.manifest import (
    MANIFEST_NAME,
    SYNC,
    Manifest,
    is_plugin_id,
    read_manifest,
)

_MAX_SOURCE = 1024 * 1024


def manifest_of(plugin: DiscoveredPlugin, folder: Path | None) -> Manifest:
    """Return the manifest of a discovered plugin in its package's folder, without importing it.

    Raises:
        PluginError: `invalid_entry_point`, `module_missing`, or a ManifestError.
    """
    if plugin.problem is not None or not is_plugin_id(plugin.id):
        raise PluginError(
            plugin.problem or f"{plugin.id!r} can be no plugin's id",
            place=str(Path(plugin.source, "entry_points.txt")),
            fix=f"correct [project.entry-points] of {plugin.distribution} and reinstall it; an id "
            "is made of letters, digits, `_` and `-`",
            code="invalid_entry_point",
        )
    if folder is None:
        raise _no_folder(plugin)
    manifest = read_manifest(folder / MANIFEST_NAME)
    if manifest.id != plugin.id:
        raise PluginError(
            f"the manifest belongs to {manifest.id!r}, the entry point is named {plugin.id!r}",
            place=shown_path(folder / MANIFEST_NAME),
            fix=f"give both one name, then run: {SYNC}",
            code="invalid_manifest",
        )
    return manifest


def _no_folder(plugin: DiscoveredPlugin) -> PluginError:
    from importlib.util import find_spec

    try:
        is_file = find_spec(plugin.package) is not None
    except (ImportError, ValueError):
        is_file = False
    if is_file:
        return PluginError(
            f"{plugin.package} is a single file, and a manifest lies in a package's folder",
            fix=f"make it {plugin.package}/__init__.py, then run: {SYNC}",
            code="manifest_missing",
        )
    return PluginError(
        f"the package {plugin.package} of {plugin.distribution} is not there",
        place=str(Path(plugin.source, "entry_points.txt")),
        fix=_reinstall(plugin),
        code="module_missing",
    )


def suspected_hooks(plugin: DiscoveredPlugin) -> frozenset[str]:
    """Return hooks that a plugin without a readable manifest seems to implement.

    The names are looked for in the text of the manifest and of the package's own modules. Whoever
    must fail closed when a policy check cannot be loaded needs to know that there was one.
    """
    folder = package_folder(plugin.package) if plugin.value else None
    if folder is None:
        return frozenset()
    try:
        files = [folder / MANIFEST_NAME, *sorted(folder.glob("*.py"))]
    except OSError:
        files = []
    texts = b"\n".join(_head(file) for file in files)
    return frozenset(hook for hook in PROTOCOLS if hook.encode() in texts)


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(_MAX_SOURCE)
    except OSError:
        return b""


def import_contributor(plugin: DiscoveredPlugin) -> object:
    """Import a plugin's module and return the object that its entry point names.

    Raises:
        PluginError: `module_missing` or `import_failed`; `place` is the line that raised.
    """
    try:
        found: object = import_module(plugin.module)
        for name in filter(None, plugin.attribute.split(".")):
            found = getattr(found, name)
    except ModuleNotFoundError as error:
        raise _missing_module(plugin, error) from error
    except PluginError:  # `@tool` refused a function, and says where
        raise
    except (Exception, SystemExit) as error:
        raise _import_failed(plugin, error) from error
    return found


def _missing_module(plugin: DiscoveredPlugin, error: ModuleNotFoundError) -> PluginError:
    missing = error.name or "a module"
    if plugin.module == missing or plugin.module.startswith(f"{missing}."):
        return PluginError(
            f"the module {plugin.module} of {plugin.distribution} is not there",
            place=str(Path(plugin.source, "entry_points.txt")),
            fix=_reinstall(plugin),
            code="module_missing",
        )
    return PluginError(
        f"importing {plugin.module} failed: it needs the module {missing}, which is not installed",
        place=_place(error),
        fix=f"pip install --upgrade {plugin.distribution}, which brings what it declares; "
        f"or switch it off: clawhive --no-plugins={plugin.id}",
        code="import_failed",
    )


def _import_failed(plugin: DiscoveredPlugin, error: BaseException) -> PluginError:
    what = f"{type(error).__name__}: {preview(str(error), 300)}".removesuffix(": ")
    return PluginError(
        f"importing {plugin.value} failed: {what}",
        place=_place(error),
        fix=f"switch it off: clawhive --no-plugins={plugin.id}; or pip uninstall "
        f"{plugin.distribution}",
        code="import_failed",
    )


def _place(error: BaseException) -> str | None:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown_path(error.filename)}:{error.lineno}"
    import traceback

    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    return f"{shown_path(frames[-1].filename)}:{frames[-1].lineno}" if frames else None


def _reinstall(plugin: DiscoveredPlugin) -> str:
    return (
        f"pip install --force-reinstall {plugin.distribution}, or pip uninstall "
        f"{plugin.distribution}"
    )
