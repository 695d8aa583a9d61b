"""Commands of plugins: listed from manifests, imported when they run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import click

from clawhive_core.cli.settings import Settings
from clawhive_core.errors import ClawHiveError, PluginError

Listing = Sequence[tuple[str, str, str | None]]
Contributed = Mapping[str, tuple[str, Callable[[], click.Command]]]


def contributed_commands(settings: Settings) -> Contributed:
    """Return name to (help line, loader) of every command that a usable plugin lists.

    Where the configuration or a manifest cannot be read there are none: the command that reports
    it must run.
    """
    if settings.no_plugins == "*":
        return {}
    from clawhive_core.plugins.entry_points import plugins_with_commands

    listing = plugins_with_commands()
    if not listing:
        return {}
    return _commands(settings, listing)


def _commands(settings: Settings, listing: Listing) -> Contributed:
    from clawhive_core.plugins.entry_points import commands_in

    is_on = _switch(settings)
    found: dict[str, tuple[str, Callable[[], click.Command]]] = {}
    for plugin_id, text, contested in listing:
        if not is_on(plugin_id) or not (contested is None or _counts(settings, contested)):
            continue
        for name, line in commands_in(text):
            found.setdefault(name, (line, partial(_load, settings, plugin_id, name)))
    return found


def _counts(settings: Settings, package: str) -> bool:
    """Whether a package is what the user chose, or ClawHive's own, for an id that others claim."""
    try:
        records = settings.plugins().records()
    except ClawHiveError:
        return False
    modules = [each.module for each in records if each.status == "ok"]
    return any(module.replace(":", ".").partition(".")[0] == package for module in modules)


def _switch(settings: Settings) -> Callable[[str], bool]:
    """Return what tells whether a plugin is on; the configuration is read only where it matters."""
    if not _mentions_plugins(settings):
        return lambda _: True
    from clawhive_core.plugins.manager import plugin_options

    try:
        return plugin_options(settings.config(), os.environ).allows
    except ClawHiveError:
        return lambda _: False


def _mentions_plugins(settings: Settings) -> bool:
    """Whether options, environment or a configuration file say anything about plugins."""
    from clawhive_core.config.root import PROJECT_FILE, nearest_root, user_folder

    named = settings.no_plugins or settings.root
    if named or any(name.startswith("CLAWHIVE_PLUGINS") for name in os.environ):
        return True
    try:
        root = nearest_root(os.getcwd())  # noqa: PTH109 - pathlib costs a tenth of all of help
        user = f"{user_folder(os.environ)}/config.toml"
        files = (f"{root}/{PROJECT_FILE}", f"{root}/pyproject.toml", user)
        return any(b"plugins" in _content(path) for path in files)
    except (OSError, ClawHiveError):
        return True


def _content(path: str) -> bytes:
    """Return a file's content, nothing where there is no file."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs a tenth of all of help
            return file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return b""


def _load(settings: Settings, plugin_id: str, name: str) -> click.Command:
    manager = settings.plugins()
    for contribution in manager.contributions("clawhive_commands"):
        if contribution.plugin_id == plugin_id and contribution.value.name == name:
            return contribution.value
    record = next(each for each in manager.records() if each.id == plugin_id)
    if record.error is not None:
        raise PluginError(record.error.message, place=record.error.place, fix=record.error.fix)
    raise PluginError(
        f"plugin `{plugin_id}` lists the command `{name}` and does not contribute it",
        fix="clawhive plugins sync",
    )
