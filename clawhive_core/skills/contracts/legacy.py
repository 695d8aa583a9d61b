"""Old ways to use another skill: `external_tools`, `requires_skill_data`, `data_paths`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.skills.documents.fields import Fields, text
from clawhive_core.skills.documents.place import InvalidSkill, KeyPath, Named

PUBLIC = "public_state"
"""The only part of a skill's data that others may ever name."""


def read_external_tools(contract: Fields) -> tuple[Named, ...]:
    """Return `external_tools`: TOOL or SKILL.TOOL of other skills.

    Raises:
        InvalidSkill: It is no list of texts.
    """
    document = contract.document
    return tuple(
        Named(text(document, path, value), document.place(path))
        for path, value in contract.items("external_tools")
    )


def read_skill_data(contract: Fields) -> tuple[Named, ...]:
    """Return the skills that `requires_skill_data` names, in any of the forms it was written in.

    Raises:
        InvalidSkill: An entry names no skill.
    """
    value = contract.values.get("requires_skill_data", [])
    path = contract.at("requires_skill_data")
    if isinstance(value, dict):
        keys = contract.below("requires_skill_data").values
        return tuple(Named(key, contract.document.place((*path, key), key=True)) for key in keys)
    entries = [(path, value)] if isinstance(value, str) else contract.items("requires_skill_data")
    return tuple(_of_skill(contract, *entry) for entry in entries)


def _of_skill(contract: Fields, path: KeyPath, value: Any) -> Named:
    """Return the skill of one entry: `zodiac`, `zodiac.birth`, `skills.zodiac.birth`, a mapping."""
    if isinstance(value, dict):
        body = Fields.of(contract.document, path, cast("Any", value))
        key = next((key for key in ("skill", "from", "skill_id", "id") if key in body), "skill")
        path, value = body.at(key), body.values.get(key)
    name = text(contract.document, path, value).removeprefix("skills.")
    return Named(name.partition(".")[0], contract.document.place(path))


def check_data_paths(contract: Fields) -> Iterator[Finding]:
    """Yield what is wrong with `data_paths`: of the contract, its exports, each import."""
    holders = [contract]
    for key in ("exports", "imports"):
        value = cast("Any", contract.values.get(key))
        parts = cast("list[Any]", value) if isinstance(value, list) else [value]
        for index, part in enumerate(parts):
            path = contract.at(key, index) if isinstance(value, list) else contract.at(key)
            if isinstance(part, dict):
                holders.append(Fields(contract.document, path, cast("dict[str, Any]", part)))
    for holder in holders:
        if "data_paths" in holder:
            yield from _data_paths(holder)


def _data_paths(holder: Fields) -> Iterator[Finding]:
    place = holder.document.place(holder.at("data_paths"), key=True)
    message = "`data_paths` is an old way to share data, and ties others to how it is kept"
    fix = "export a tool that answers it, and let others import that"
    yield place.finding("CH0314", "warning", message, fix)
    value = holder.values["data_paths"]
    entries = [(holder.at("data_paths"), value)]
    try:
        entries = entries if isinstance(value, str) else holder.items("data_paths")
        for path, each in entries:
            name = text(holder.document, path, each)
            if not _is_public(name):
                message = f"`{name}` is not `{PUBLIC}`, the only data that a path may name"
                yield holder.document.finding("CH0316", path, message, fix)
    except InvalidSkill as error:
        yield error.finding


def _is_public(name: str) -> bool:
    parts = name.replace("/", ".").split(".")
    return PUBLIC in (parts[2:3] if parts[0] == "skills" else parts[:1])
