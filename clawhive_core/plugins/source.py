"""The source of a plugin's code for `sync` and `check`: what is installed, or a folder."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from clawhive_core.config.tomlfile import load_toml
from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.suggestions import did_you_mean
from clawhive_core.errors import PluginError, UnknownId
from clawhive_core.plugins.discovery import DiscoveredPlugin, discover, package_folder
from clawhive_core.plugins.entry_points import GROUP


def find_plugins(target: str) -> tuple[list[DiscoveredPlugin], Path | None]:
    """Return the plugins that a target names, and the folder to import them from.

    Args:
        target: A plugin's id, the name of its module, or a folder with a pyproject.toml that
            declares entry points of the group `clawhive.plugins`. The folder is None for what is
            installed.

    Raises:
        UnknownId: Nothing has that name.
        PluginError: The folder's pyproject.toml declares no plugin or cannot be read.
    """
    folder = Path(target)
    if (folder / "pyproject.toml").is_file():
        return _plugins_of_folder(folder)
    installed = discover()
    found = [item for item in installed if target in {item.id, item.module, item.package}]
    if found:
        return found, None
    if folder.is_dir():
        raise PluginError(
            "the folder has no pyproject.toml",
            place=shown_path(folder),
            fix="name the plugin's id, or the folder that holds its pyproject.toml",
            code="no_plugin",
        )
    raise _unknown(target, [item.id for item in installed])


def _unknown(target: str, ids: list[str]) -> UnknownId:
    hint = did_you_mean(target, ids) or f"installed: {', '.join(sorted(ids)) or '-'}"
    return UnknownId(
        f"no installed plugin and no folder is called {target!r}",
        fix=f"{hint} (a plugin that is not installed: name its folder)",
    )


def _plugins_of_folder(folder: Path) -> tuple[list[DiscoveredPlugin], Path | None]:
    file = folder / "pyproject.toml"
    project = _project(file)
    group = _table(_table(project.get("entry-points")).get(GROUP))
    if not group:
        raise PluginError(
            "pyproject.toml declares no plugin",
            place=shown_path(file),
            fix=f'add [project.entry-points."{GROUP}"] with: NAME = "MODULE"',
            code="no_plugin",
        )
    name = str(project.get("name", folder.resolve().name))
    version = str(project.get("version", ""))
    plugins = [
        DiscoveredPlugin(str(key), str(value), name, version, str(folder))
        for key, value in sorted(group.items())
    ]
    return plugins, _import_folder(folder, plugins)


def _project(file: Path) -> Mapping[str, Any]:
    try:
        return _table(load_toml(file.read_text("utf-8")).get("project"))
    except (OSError, ValueError) as error:
        raise PluginError(
            f"pyproject.toml cannot be read: {error}",
            place=shown_path(file),
            fix="correct the file",
            code="no_plugin",
        ) from error


def _table(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _import_folder(folder: Path, plugins: list[DiscoveredPlugin]) -> Path | None:
    """Return the folder itself or its `src`; None where an editable install points inside it."""
    for place in (folder, folder / "src"):
        if all((place / plugin.package).is_dir() for plugin in plugins):
            return place.resolve()
    for plugin in plugins:
        installed = package_folder(plugin.package)
        if installed is None or not installed.resolve().is_relative_to(folder.resolve()):
            raise PluginError(
                f"the package {plugin.package} is not in this folder",
                place=shown_path(folder),
                fix=f"make it a folder with __init__.py beside pyproject.toml or under src/, or "
                f"install it from here: pip install -e {folder}",
                code="module_missing",
            )
    return None


@contextmanager
def importing_from(folder: Path | None, package: str) -> Generator[None]:
    """Import a package from a folder for a while, whatever else has its name.

    Afterwards `sys.path` and the package's modules are what they were.
    """
    if folder is None:
        yield
        return
    from importlib import invalidate_caches

    before = _take_modules(package)
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(folder))
    invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = bytecode
        _take_modules(package)
        sys.modules.update(before)


def _take_modules(package: str) -> dict[str, Any]:
    """Remove a package's modules from `sys.modules` and return them."""
    names = [name for name in sys.modules if name.partition(".")[0] == package]
    return {name: sys.modules.pop(name) for name in names}
