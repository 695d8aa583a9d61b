"""All tables of a project beside its events: how they are made, filled and compared with these."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from clawhive_core.storage.sqlite import (
    approvals,
    grants,
    quotas,
    runs,
    stored_values,
    subscriptions,
)
from clawhive_core.storage.sqlite.log import Tables

_NAMES: Mapping[ModuleType, tuple[str, ...]] = {
    runs: ("runs",),
    grants: ("grants", "grant_sets"),
    approvals: ("approvals",),
    stored_values: ("stored_values",),
    quotas: ("quotas",),
    subscriptions: ("subscriptions",),
}
"""The tables of each module, which its projections write, and nothing else does."""


def tables_of(*modules: ModuleType) -> Tables:
    """Return the tables of some modules of this room."""
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
        tuple(each for module in modules for each in getattr(module, "STANDING", ())),
    )


PROJECT = tables_of(*_NAMES)
"""The tables of a project."""
