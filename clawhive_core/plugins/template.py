"""`clawhive plugins new`: a folder with a plugin that works, is tested and can be installed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from clawhive_core.errors import UsageError
from clawhive_core.model.patterns import pattern
from clawhive_core.storage.folders import make_from_template

_NAME = pattern(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_MAX_NAME = 40
# Their packages or provider ids are ClawHive's own.
_TAKEN = frozenset({"builtin", "core", "local", "sandbox", "skill", "mcp", "stub"})


def new_plugin(name: str, folder: Path) -> list[Path]:
    """Write a new plugin to `folder / name` and return its files, sorted.

    Nothing is overwritten, and nothing half-written stays.

    Args:
        name: The plugin's id: lower-case words joined by `-` or `_`.
        folder: An existing directory.

    Raises:
        UsageError: `invalid_name`, with a name that would do; `already_exists`; or `io_error`.
    """
    _check_name(name)
    return make_from_template("plugin", folder / name, _words(name))


def _words(name: str) -> Mapping[str, str]:
    """Return what stands for each placeholder."""
    from clawhive_core.model.version import VERSION

    module = name.replace("-", "_")
    return {
        "id": name,
        "dashed": name.replace("_", "-"),
        "name": module,
        "package": f"clawhive_{module}",
        "version": VERSION,
    }


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None or len(name) > _MAX_NAME:
        raise UsageError(
            f"{name!r} is no name for a plugin",
            place="NAME",
            fix="use lower-case words joined by `-`, at most 40 characters; such as: "
            f"clawhive plugins new {_suggestion(name)}",
            code="invalid_name",
        )
    if name in _TAKEN or name.startswith(("mcp_", "skill_", "mcp-", "skill-")):
        raise UsageError(
            f"the name {name!r} is ClawHive's own",
            place="NAME",
            fix=f"choose another one: clawhive plugins new my-{name}",
            code="invalid_name",
        )


def _suggestion(name: str) -> str:
    """Return the nearest valid name."""
    words = re.findall(r"[a-z0-9]+", name.lower().removeprefix("clawhive"))
    joined = "-".join(words)[:_MAX_NAME].strip("-")
    valid = joined if not joined[:1].isdigit() else f"plugin-{joined}"[:_MAX_NAME]
    return valid if valid and valid not in _TAKEN else f"my-{valid or 'plugin'}"
