"""The commands that plugins list, for help: found without parsing the manifests that list none."""

from __future__ import annotations

import os

from clawhive_core.plugins.entry_points import head, installed_packages, location

MANIFEST = "clawhive-plugin.toml"
_MARK = b"[[commands]]"


def commands_in(text: str) -> list[tuple[str, str]]:
    """Return name and help line of the commands that a manifest's text lists.

    Only the part from the first `[[commands]]` to the next other table is parsed; a text that is no
    TOML lists none, and `clawhive plugins` says why.
    """
    import re
    import tomllib

    part = text[text.index("[[commands]]") :]
    other = re.search(r"^\[(?!\[commands\]\])", part, re.MULTILINE)
    try:
        value = tomllib.loads(part if other is None else part[: other.start()])
    except (tomllib.TOMLDecodeError, RecursionError):
        return []
    return [
        (str(row["name"]), str(row.get("help", ""))) for row in value["commands"] if "name" in row
    ]


def plugins_with_commands() -> list[tuple[str, str]]:
    """Return id and manifest text of the plugins whose manifests list commands, by id.

    Help must stay quick with many plugins: nothing is parsed here, and whoever finds nothing need
    not even read the configuration.
    """
    found: list[tuple[str, str]] = []
    for plugin_id, package, info in installed_packages():
        data = _manifest(package, info)
        if _MARK in data:
            found.append((plugin_id, data.decode("utf-8", "replace")))
    return found


def _manifest(package: str, info: str) -> bytes:
    """Return a plugin's manifest, empty where it cannot be read.

    An installed package lies beside its metadata; only an editable one must be looked for.
    """
    data = head(f"{os.path.dirname(info)}/{package}/{MANIFEST}", -1)  # noqa: PTH120 - pathlib is half the cost of this scan
    if data is None and (folder := location(package)) is not None:
        data = head(f"{folder}/{MANIFEST}", -1)
    return data or b""
