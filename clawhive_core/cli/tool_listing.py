"""`--tools FILE`: the tools that there are, as `clawhive tools list --json` printed them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

from clawhive_core.errors import UsageError
from clawhive_core.skills.checks.required import KnownTools

MAX_BYTES = 64 * 1024 * 1024


def read_tools(file: Path) -> KnownTools:
    """Return the names and aliases that a listing holds; nothing else is known to exist.

    Raises:
        UsageError: The file cannot be read, or is no such listing.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        _refuse(file, f"it cannot be read: {error.strerror}")
    if len(data) > MAX_BYTES:
        _refuse(file, f"it is larger than {MAX_BYTES} bytes")
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        _refuse(file, f"it is no JSON: {error}")
    tools = _mapping(value).get("tools")
    if not isinstance(tools, list):
        _refuse(file, "it is no object with a list `tools`")
    listed = cast("list[Any]", tools)
    names = frozenset(_names(file, listed))
    of_skills = {
        facts.get("name")
        for facts in map(_mapping, listed)
        if str(facts.get("provider_id")).startswith("skill_")
    }
    return KnownTools(names, of_skills=names & of_skills)


def _names(file: Path, tools: list[Any]) -> Iterator[str]:
    for number, tool in enumerate(tools):
        facts = _mapping(tool)
        aliases = facts.get("aliases", [])
        others = cast("list[Any]", aliases) if isinstance(aliases, list) else [None]
        for name in (facts.get("name"), *others):
            if not isinstance(name, str):
                _refuse(file, f"tools/{number} lacks a text `name`, or `aliases` that are texts")
            yield name


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _refuse(file: Path, why: str) -> NoReturn:
    raise UsageError(
        f"the list of tools cannot be used: {why}",
        place=f"--tools {file}",
        fix="make one: clawhive tools list --json > tools.json",
    )
