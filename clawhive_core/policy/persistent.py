"""Grants that hold until they are revoked or expire: `grants.json` in the user's own directory."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from clawhive_core.capabilities import parse
from clawhive_core.config.private_file import PrivateFile
from clawhive_core.errors import ClawHiveError
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.identity import ToolIdentity
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import Principal
from clawhive_core.policy.boundary import delegate_of

FILE = "grants.json"
DEFAULT_LIFE = timedelta(days=90)
"""The life of a persistent grant where nothing else is said."""

_SCHEMA = "grants/1"


@dataclass(frozen=True, slots=True)
class PersistentGrant:
    """A persistent grant and when it was issued."""

    grant: CapabilityGrant
    issued_at: str
    """RFC 3339, UTC."""
    approval_id: str | None = None
    """The answer that it comes with and that is not written yet: until then it gives nothing."""


@dataclass(frozen=True, slots=True)
class PersistentGrants:
    """The grants of a user for good, and the reason that their file cannot be used."""

    entries: tuple[PersistentGrant, ...] = ()
    problem: str | None = None
    pending: tuple[PersistentGrant, ...] = ()
    """The grants that count once their approval is answered in the log."""


def read_persistent(user_dir: Path) -> PersistentGrants:
    """Return the persistent grants; a file that cannot be used counts as empty, with a problem."""
    file = _file(user_dir)
    try:
        data = file.read()
        return PersistentGrants() if data is None else _parse(data)
    except (ClawHiveError, ValueError, RecursionError) as error:
        return PersistentGrants(
            (), f"{os.fspath(file.path)} cannot be used, so nothing in it is granted: {error}"
        )


def keep(user_dir: Path, *entries: PersistentGrant) -> None:
    """Add persistent grants, all or none; those of an approval give nothing before `settle`.

    Raises:
        StorageError: The file cannot be written.
    """
    with _file(user_dir).locked():
        _write(user_dir, (*_kept(user_dir), *entries))


def settle(user_dir: Path, approval_id: str, grant_ids: Collection[str]) -> None:
    """Let these grants of an answered approval count; what else was kept for it goes.

    Raises:
        StorageError: The file cannot be written.
    """
    with _file(user_dir).locked():
        entries = list[PersistentGrant]()
        for entry in _kept(user_dir):
            if entry.approval_id != approval_id:
                entries.append(entry)
            elif entry.grant.grant_id in grant_ids:
                entries.append(PersistentGrant(entry.grant, entry.issued_at))
        _write(user_dir, entries)


def drop(user_dir: Path, *grant_ids: str) -> bool:
    """Remove persistent grants; whether any was there.

    Raises:
        StorageError: The file cannot be written.
    """
    found = read_persistent(user_dir)
    if not found.entries and not found.pending:
        return False
    with _file(user_dir).locked():
        before = _kept(user_dir)
        after = tuple(entry for entry in before if entry.grant.grant_id not in grant_ids)
        if len(after) == len(before):
            return False
        _write(user_dir, after)
    return True


def swap(user_dir: Path, grant_id: str, entry: PersistentGrant) -> bool:
    """Put a persistent grant in the place of another, at once; whether the other was there.

    Raises:
        StorageError: The file cannot be written.
    """
    with _file(user_dir).locked():
        before = _kept(user_dir)
        after = tuple(each for each in before if each.grant.grant_id != grant_id)
        if len(after) == len(before):
            return False
        _write(user_dir, (*after, entry))
    return True


def _kept(user_dir: Path) -> tuple[PersistentGrant, ...]:
    """Return the entries to keep; a file that cannot be used is moved aside, not overwritten."""
    found = read_persistent(user_dir)
    if found.problem is not None:
        _file(user_dir).keep_damaged()
    return (*found.entries, *found.pending)


def _write(user_dir: Path, entries: Sequence[PersistentGrant]) -> None:
    document: dict[str, Any] = {"schema": _SCHEMA, "grants": []}
    for entry in entries:
        row = {**entry.grant.to_dict(), "issued_at": entry.issued_at}
        if entry.approval_id is None:
            document["grants"].append(row)
        else:  # apart, where versions that know nothing of it do not count it
            document.setdefault("pending", []).append({**row, "approval_id": entry.approval_id})
    _file(user_dir).write(document)


def _file(user_dir: Path) -> PrivateFile:
    return PrivateFile(user_dir, FILE, "the list of persistent grants")


def _parse(data: bytes) -> PersistentGrants:
    import json

    loaded: Any = json.loads(data.decode("utf-8"))
    document = cast("dict[str, Any]", loaded if isinstance(loaded, dict) else {})
    if document.get("schema") != _SCHEMA:
        raise ValueError(f"it is not in the form {_SCHEMA}")
    entries, pending = _entries(document, "grants"), _entries(document, "pending")
    if any(each.approval_id is None for each in pending):
        raise ValueError("a pending grant names no approval")
    return PersistentGrants(
        tuple(replace(each, approval_id=None) for each in entries), pending=tuple(pending)
    )


def _entries(document: Mapping[str, Any], name: str) -> list[PersistentGrant]:
    rows = document.get(name, [])
    if not isinstance(rows, list):
        raise ValueError(f"its {name} are no list")  # noqa: TRY004 - a damaged file, not a caller's type
    return [_entry(row) for row in cast("list[Any]", rows)]


def _entry(row: Any) -> PersistentGrant:
    fields = ("grant_id", "capability", "subject", "expires_at", "issued_at")
    if not isinstance(row, Mapping) or not all(isinstance(row.get(key), str) for key in fields):  # pyright: ignore[reportUnknownMemberType] - JSON
        raise ValueError(f"an entry lacks one of: {', '.join(fields)}")
    known = cast("Mapping[str, str]", row)
    Principal.parse(known["subject"])
    grant = CapabilityGrant(
        known["grant_id"],
        parse(known["capability"]).text,
        known["subject"],
        "persistent",
        "",
        "user",
        "ask" if known.get("mode") == "ask" else "allow",
        expires_at=known["expires_at"],
        delegate=known.get("delegate"),
        tool=_tool(known),
    )
    delegate_of(grant)
    return PersistentGrant(grant, known["issued_at"], known.get("approval_id"))


def _tool(row: Mapping[str, Any]) -> str | None:
    text = row.get("tool")
    return None if text is None else ToolIdentity.parse(str(text)).text
