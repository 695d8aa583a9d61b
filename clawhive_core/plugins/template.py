"""`clawhive plugins new`: a folder with a plugin that works, is tested and can be installed."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from clawhive_core.errors import UsageError
from clawhive_core.plugins.place import shown_path

_TEMPLATE = Path(__file__).parent.parent / "data" / "templates" / "plugin"
_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
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
    target = folder / name
    if target.exists() or target.is_symlink():
        raise UsageError(
            f"{shown_path(target)} is already there",
            place=shown_path(target),
            fix="choose another name, or remove it yourself",
            code="already_exists",
        )
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}.") as work:
            made = Path(work, name)
            made.mkdir()
            _fill(made, _words(name))
            made.rename(target)
    except OSError as error:
        raise UsageError(
            f"the plugin cannot be written: {error.strerror or error}",
            place=shown_path(target),
            fix="name a folder that you may write to",
            code="io_error",
        ) from error
    return sorted(path for path in target.rglob("*") if path.is_file())


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


def _fill(target: Path, words: Mapping[str, str]) -> None:
    for source in sorted(_TEMPLATE.rglob("*")):
        if source.is_dir() or "__pycache__" in source.parts:
            continue
        inside = source.relative_to(_TEMPLATE).as_posix().replace("__name__", words["name"])
        file = target / inside
        file.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(f"{{{{{word}}}}}", value)
        file.write_text(text, encoding="utf-8", newline="\n")
        shutil.copymode(source, file)


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
