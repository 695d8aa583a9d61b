"""Finding plugins: the entry points of every distribution on `sys.path`, read and never imported.

This is the part of `importlib.metadata` that plugins need (the PyPA specifications "Entry points"
and "Recording installed projects"), at a third of its cost and without importing it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

GROUP = "clawhive.plugins"
_GROUP = GROUP.encode()

_VALUE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?::[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)?")
_FOLDER = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info")
_INFO = (".dist-info", ".egg-info")
_HEAD_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class DiscoveredPlugin:
    """One entry point of the group `clawhive.plugins`."""

    id: str
    """The entry point's name."""
    value: str
    """What it names: `module` or `module:object`."""
    distribution: str
    version: str
    source: str
    """The folder that holds the distribution's metadata."""
    problem: str | None = None
    """Why the entry point cannot be used, where it cannot."""

    @property
    def module(self) -> str:
        """The module that holds the plugin."""
        return self.value.partition(":")[0]

    @property
    def attribute(self) -> str:
        """The dotted path of the object in the module, empty for the module itself."""
        return self.value.partition(":")[2]

    @property
    def package(self) -> str:
        """The top-level package, whose folder holds the manifest."""
        return self.module.partition(".")[0]


def discover(path: Sequence[str] | None = None) -> list[DiscoveredPlugin]:
    """Return the plugins of every distribution on a path, `sys.path` unless given.

    Of two copies of one distribution the earlier on the path counts. The same name with the same
    value counts once; different values under one name are all returned.
    """
    found: dict[tuple[str, str], DiscoveredPlugin] = {}
    for info, data in _entry_points(sys.path if path is None else path):
        for plugin in _plugins(info, data):
            found.setdefault((plugin.id, plugin.value), plugin)
    return list(found.values())


def installed_packages() -> list[tuple[str, str, str]]:
    """Return id, top-level package and metadata folder of every plugin, by id.

    What help needs, without reading who made the plugin and whether its entry point can be used.
    """
    found = {
        (name, value.partition(":")[0].partition(".")[0].strip(), info)
        for info, data in _entry_points(sys.path)
        for name, value in _entries(data.decode("utf-8", "replace"))
    }
    return sorted(found)


def _entry_points(path: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the metadata folder and entry points of each distribution that names our group."""
    for info in _metadata_folders(path):
        data = _head(f"{info}/entry_points.txt", -1)
        if data is not None and _GROUP in data:
            yield info, data


def package_folder(package: str) -> Path | None:
    """Return the folder of an importable top-level package, without importing it.

    None where there is no such package, or where it is a single file.
    """
    from importlib.util import find_spec

    try:
        spec = find_spec(package)
    except (ImportError, ValueError):  # ValueError: loaded by something that left no spec
        return None
    locations = None if spec is None else spec.submodule_search_locations
    first = next(iter(locations or ()), None)
    return None if first is None else Path(first)


def _metadata_folders(path: Sequence[str]) -> Iterator[str]:
    """Yield the metadata folder of each distribution, the first one where it is there twice."""
    seen: set[str] = set()
    for folder in dict.fromkeys(path):
        try:
            with os.scandir(folder or ".") as entries:
                infos = sorted(entry.path for entry in entries if entry.name.endswith(_INFO))
        except OSError:  # not a folder, gone, or not readable: it holds no plugins for us
            continue
        for info in infos:
            name = re.sub(r"[-_.]+", "-", info.rpartition(os.sep)[2].partition("-")[0]).lower()
            if name not in seen:
                seen.add(name)
                yield info


def _plugins(info: str, data: bytes) -> Iterator[DiscoveredPlugin]:
    distribution, version = _name_and_version(info)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        problem = "entry_points.txt is not UTF-8"
        yield DiscoveredPlugin(distribution, "", distribution, version, info, problem)
        return
    for name, value in _entries(text):
        plain = value.partition("[")[0].strip()
        problem = None
        if _VALUE.fullmatch(plain) is None:
            problem = f"its entry point is {value!r}, which is no `module` or `module:object`"
        yield DiscoveredPlugin(name, plain, distribution, version, info, problem)


def _head(path: str, size: int) -> bytes | None:
    """Return the start of a file, None where it cannot be read.

    Every distribution of the environment passes here at each start: pathlib would double the cost.
    """
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - see above
            return stream.read(size)
    except OSError:
        return None


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each line of our group."""
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == GROUP and line and line[0] not in "#;":
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()


def _name_and_version(info: str) -> tuple[str, str]:
    """Return what the metadata file says, else what the folder's name says."""
    found: dict[str, str] = {}
    for file in ("METADATA", "PKG-INFO"):
        data = _head(f"{info}/{file}", _HEAD_BYTES)
        if data is None:
            continue
        for line in data.decode("utf-8", "replace").partition("\n\n")[0].splitlines():
            key, _, value = line.partition(":")
            found.setdefault(key.strip().lower(), value.strip())
            if "name" in found and "version" in found:
                break
        break
    match = _FOLDER.fullmatch(Path(info).name)
    guessed = match.groupdict() if match else {"name": Path(info).stem, "version": ""}
    return found.get("name") or guessed["name"], found.get("version") or guessed["version"]
