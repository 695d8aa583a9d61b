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
    from clawhive_core.testing.scripted import ScriptedModel, calling

_HOMES = {
    "ScriptedModel": "scripted",
    "calling": "scripted",
    "check_adapter": "adapter",
    "check_policy": "policy",
    "check_provider": "provider",
    "memory_hive": "memory",
}

__all__ = [
    "ScriptedModel",
    "calling",
    "check_adapter",
    "check_policy",
    "check_provider",
    "memory_hive",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'clawhive_core.testing' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"clawhive_core.testing.{home}"), name)
    globals()[name] = value
    return value
