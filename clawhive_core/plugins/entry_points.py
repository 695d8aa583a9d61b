"""Entry points of the group `clawhive.plugins`: read from every distribution on a path.

This is the part of `importlib.metadata` that plugins need (the PyPA specifications "Entry points"
and "Recording installed projects"), at a third of its cost and without importing it. Every start of
the command line passes here, so it also does without pathlib and dataclasses.

Help must stay quick with many plugins: it asks for the commands that manifests list, and no
manifest that lists none is parsed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence

GROUP = "clawhive.plugins"
_GROUP = GROUP.encode()

_INFO = (".dist-info", ".egg-info")
MANIFEST_NAME = "clawhive-plugin.toml"
_MARK = b"[[commands]]"


def installed_packages() -> list[tuple[str, str, str]]:
    """Return id, top-level package and metadata folder of every plugin, by id.

    Help needs no more: neither who made the plugin, nor whether its entry point can be used.
    """
    found = {
        (name, value.partition(":")[0].partition(".")[0].strip(), info)
        for info, data in entry_points(sys.path)
        for name, value in entries(data.decode("utf-8", "replace"))
    }
    return sorted(found)


def entry_points(path: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the metadata folder and entry points of each distribution that names our group."""
    for info in _metadata_folders(path):
        data = head(f"{info}/entry_points.txt", -1)
        if data is not None and _GROUP in data:
            yield info, data


def entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each line of our group."""
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == GROUP and line and line[0] not in "#;":
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()


def head(path: str, size: int) -> bytes | None:
    """Return the start of a file, None where it cannot be read."""
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - pathlib is half the cost of this scan
            return stream.read(size)
    except OSError:
        return None


def location(package: str) -> str | None:
    """Return the folder of an importable top-level package, without importing it.

    None where there is no such package, or where it is a single file.
    """
    from importlib.util import find_spec

    try:
        spec = find_spec(package)
    except (ImportError, ValueError):  # ValueError: loaded by something that left no spec
        return None
    locations = None if spec is None else spec.submodule_search_locations
    return next(iter(locations or ()), None)


def _metadata_folders(path: Sequence[str]) -> Iterator[str]:
    """Yield the metadata folder of each distribution, the first one where it is there twice."""
    seen: set[str] = set()
    for folder in dict.fromkeys(path):
        try:
            with os.scandir(folder or ".") as found:
                infos = sorted(entry.path for entry in found if entry.name.endswith(_INFO))
        except OSError:  # not a folder, gone, or not readable: it holds no plugins for us
            continue
        for info in infos:
            name = re.sub(r"[-_.]+", "-", info.rpartition(os.sep)[2].partition("-")[0]).lower()
            if name not in seen:
                seen.add(name)
                yield info


def commands_in(text: str) -> list[tuple[str, str]]:
    """Return name and help line of the commands that a manifest's text lists.

    Only the part from the first `[[commands]]` to the next other table is parsed; a text that is no
    TOML lists none, and `clawhive plugins` says why.
    """
    import re

    from clawhive_core.config.tomlfile import NotToml, load_toml

    part = text[text.index("[[commands]]") :]
    other = re.search(r"^\[(?!\[commands\]\])", part, re.MULTILINE)
    try:
        value = load_toml(part if other is None else part[: other.start()])
    except NotToml:
        return []
    rows = value["commands"]
    return [(str(row["name"]), str(row.get("help", ""))) for row in rows if "name" in row]


def plugins_with_commands() -> list[tuple[str, str, str | None]]:
    """Return id and manifest text of the plugins whose manifests list commands, by id.

    The third is the package where another one claims the id, too, and it must be known which
    counts.

    Nothing is parsed here, and whoever finds nothing need not even read the configuration.
    """
    found: list[tuple[str, str, str | None]] = []
    packages = installed_packages()
    ids = [plugin_id for plugin_id, _, _ in packages]
    for plugin_id, package, info in packages:
        data = _manifest(package, info)
        if _MARK in data:
            contested = package if ids.count(plugin_id) > 1 else None
            found.append((plugin_id, data.decode("utf-8", "replace"), contested))
    return found


def _manifest(package: str, info: str) -> bytes:
    """Return a plugin's manifest, empty where it cannot be read.

    An installed package lies beside its metadata; only an editable one must be looked for.
    """
    data = head(f"{os.path.dirname(info)}/{package}/{MANIFEST_NAME}", -1)  # noqa: PTH120 - pathlib is half the cost of this scan
    if data is None and (folder := location(package)) is not None:
        data = head(f"{folder}/{MANIFEST_NAME}", -1)
    return data or b""
