"""Finding plugins: who made each entry point of our group, and whether it can be used."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.plugins.entry_points import entries, entry_points, head, location

_VALUE = pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?::[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)?")
_FOLDER = pattern(r"(?P<name>.+?)-(?P<version>[^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info")
_HEAD_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class DiscoveredPlugin:
    """One entry point of the group `clawhive.plugins`."""

    id: str
    """The entry point's name."""
    value: str
    """The thing that it names: `module` or `module:object`."""
    distribution: str
    version: str
    source: str
    """The folder that holds the distribution's metadata."""
    problem: str | None = None
    """The reason why the entry point cannot be used, where it cannot."""

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
    for info, data in entry_points(sys.path if path is None else path):
        for plugin in _plugins(info, data):
            found.setdefault((plugin.id, plugin.value), plugin)
    return list(found.values())


def package_folder(package: str) -> Path | None:
    """Return the folder of an importable top-level package, without importing it.

    None where there is no such package, or where it is a single file.
    """
    folder = location(package)
    return None if folder is None else Path(folder)


def _plugins(info: str, data: bytes) -> Iterator[DiscoveredPlugin]:
    distribution, version = _name_and_version(info)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        problem = "entry_points.txt is not UTF-8"
        yield DiscoveredPlugin(distribution, "", distribution, version, info, problem)
        return
    for name, value in entries(text):
        target = value.partition("[")[0].strip()
        problem = None
        if _VALUE.fullmatch(target) is None:
            problem = f"its entry point is {value!r}, which is no `module` or `module:object`"
        yield DiscoveredPlugin(name, target, distribution, version, info, problem)


def _name_and_version(info: str) -> tuple[str, str]:
    """Return what the metadata file says, else what the folder's name says."""
    found: dict[str, str] = {}
    for file in ("METADATA", "PKG-INFO"):
        data = head(f"{info}/{file}", _HEAD_BYTES)
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
