"""The commands that plugins list, for help: read from the few manifests that list any."""

from __future__ import annotations

from collections.abc import Iterator

from clawhive_core.errors import PluginError
from clawhive_core.plugins.discovery import discover, package_folder
from clawhive_core.plugins.manager import PluginOptions
from clawhive_core.plugins.manifest import MANIFEST_NAME, ManifestCommand, parse_manifest

_MARK = b"[[commands]]"


def listed_commands(options: PluginOptions) -> Iterator[tuple[str, ManifestCommand]]:
    """Yield plugin id and command of every plugin that is switched on, by id.

    Help must stay quick with many plugins, so a manifest is parsed only where it lists commands;
    one that cannot be read lists none, and `clawhive plugins` says why.
    """
    for plugin in sorted(discover(), key=lambda each: each.id):
        folder = package_folder(plugin.package) if options.allows(plugin.id) else None
        if folder is None:
            continue
        path = folder / MANIFEST_NAME
        try:
            data = path.read_bytes()
            if _MARK in data:
                manifest = parse_manifest(data.decode("utf-8"), str(path))
                yield from ((plugin.id, command) for command in manifest.commands)
        except (OSError, UnicodeDecodeError, PluginError):
            continue
