"""A project's tables beside its events, and its log opened with them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

from clawhive_core.config.database_keys import DatabaseKeys
from clawhive_core.events.redaction import Redactor
from clawhive_core.storage.sqlite import (
    approvals,
    grants,
    quotas,
    runs,
    stored_values,
    subscriptions,
)
from clawhive_core.storage.sqlite.inspection import DatabaseInspection, inspect
from clawhive_core.storage.sqlite.log import EventLog, Tables
from clawhive_core.storage.sqlite.schema import SCHEMA

_NAMES: Mapping[ModuleType, tuple[str, ...]] = {
    runs: ("runs",),
    grants: ("grants", "grant_sets"),
    approvals: ("approvals",),
    stored_values: ("stored_values",),
    quotas: ("quotas",),
    subscriptions: ("subscriptions",),
}
"""The tables of each module, which its projections write, and nothing else does."""


def tables_of(*modules: ModuleType, fingerprint: str = "") -> Tables:
    """Return the tables of some modules of this room.

    Args:
        modules: The modules.
        fingerprint: Of the objects that they make; without it, each opening makes them anew.
    """
    projections: dict[str, Any] = {}
    for module in modules:
        for kind, applied in module.PROJECTIONS.items():
            projections[kind] = (*projections.get(kind, ()), *applied)
    has_approvals = any(module is approvals for module in modules)
    return Tables(
        tuple(module.SCHEMA for module in modules),
        projections,
        tuple(name for module in modules for name in _NAMES[module]),
        {"approvals": approvals.require_given} if has_approvals else {},
        tuple(each for module in modules for each in getattr(module, "RIGHTS", ())),
        fingerprint,
    )


PROJECT = tables_of(*_NAMES, fingerprint="a8bc778600e89c3331d7fe115ea5bdd7")
"""The tables of a project."""


class SqliteLedgers:
    """Opens logs in SQLite files (`protocols.ledger.LedgerOpener`).

    `sqlite:` is `.clawhive/hive.db` of the project; `sqlite:PATH` another file, relative to it.

    Args:
        keys: The user's keys, which tell whose rows count (`EventLog.open`).
    """

    scheme = "sqlite"

    def __init__(self, keys: DatabaseKeys | None = None) -> None:
        self.keys = keys

    def open(self, url: str, *, root: str, redactor: Redactor, lease_seconds: float) -> EventLog:
        """Open a project's log, making or migrating it where needed.

        Raises:
            DatabaseTooNew: The file was written by a newer version of ClawHive.
            StorageError: The file cannot be opened.
        """
        path = self.path(url, root)
        return EventLog.open(
            path, PROJECT, redactor=redactor, lease_seconds=lease_seconds, keys=self.keys
        )

    def inspect(self, url: str, *, root: str) -> AbstractContextManager[DatabaseInspection]:
        """Look at a project's log without changing it.

        Raises:
            StorageError: It cannot be read.
        """
        return inspect(self.path(url, root), (SCHEMA, *PROJECT.schemas))

    def is_made(self, url: str, *, root: str) -> bool:
        """Return whether there is such a file."""
        return self.path(url, root).exists()

    def path(self, url: str, root: str) -> Path:
        """Return the file of an address."""
        return Path(root, url.partition(":")[2] or ".clawhive/hive.db").absolute()
