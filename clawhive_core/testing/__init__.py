"""For tests of plugins and of programs on ClawHive: a scripted model, a hive, conformance suites.

The names below are the public ones; each is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clawhive_core.testing.adapter import check_adapter
    from clawhive_core.testing.memory import memory_hive
    from clawhive_core.testing.policy import check_policy
    from clawhive_core.testing.provider import check_provider
    from clawhive_core.testing.recordings import Exchange, Recording, read_recordings
    from clawhive_core.testing.scripted import ScriptedModel, calling
    from clawhive_core.testing.wire_check import Wire, WireReport, check_wire
    from clawhive_core.testing.wire_faults import check_faults
    from clawhive_core.testing.wire_kinds import wire_kinds, wire_misfits, wire_samples
    from clawhive_core.testing.wire_server import WireAnswer, WireRequest, WireServer

_HOMES = {
    "Exchange": "recordings",
    "Recording": "recordings",
    "ScriptedModel": "scripted",
    "Wire": "wire_check",
    "WireAnswer": "wire_server",
    "WireReport": "wire_check",
    "WireRequest": "wire_server",
    "WireServer": "wire_server",
    "calling": "scripted",
    "check_adapter": "adapter",
    "check_faults": "wire_faults",
    "check_policy": "policy",
    "check_provider": "provider",
    "check_wire": "wire_check",
    "memory_hive": "memory",
    "read_recordings": "recordings",
    "wire_kinds": "wire_kinds",
    "wire_misfits": "wire_kinds",
    "wire_samples": "wire_kinds",
}

__all__ = [
    "Exchange",
    "Recording",
    "ScriptedModel",
    "Wire",
    "WireAnswer",
    "WireReport",
    "WireRequest",
    "WireServer",
    "calling",
    "check_adapter",
    "check_faults",
    "check_policy",
    "check_provider",
    "check_wire",
    "memory_hive",
    "read_recordings",
    "wire_kinds",
    "wire_misfits",
    "wire_samples",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'clawhive_core.testing' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"clawhive_core.testing.{home}"), name)
    globals()[name] = value
    return value
