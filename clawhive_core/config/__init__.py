"""The configuration: files, environment and flags, where each value came from, and trust.

May import `diagnostics` and what lies below it. The names below are loaded when they are first
used: help needs to find the project's root and nothing else of this room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clawhive_core.config.config import Config, Value
    from clawhive_core.config.load import load_config
    from clawhive_core.config.root import find_root, user_dir
    from clawhive_core.config.setting import Setting
    from clawhive_core.config.settings import SETTINGS
    from clawhive_core.config.trust import (
        Trusted,
        TrustList,
        list_trust,
        refuse_inside_run,
        revoke_trust,
        trust_project,
    )

_HOME = {
    "Config": "config",
    "SETTINGS": "settings",
    "Setting": "setting",
    "TrustList": "trust",
    "Trusted": "trust",
    "Value": "config",
    "find_root": "root",
    "list_trust": "trust",
    "load_config": "load",
    "refuse_inside_run": "trust",
    "revoke_trust": "trust",
    "trust_project": "trust",
    "user_dir": "root",
}

__all__ = [
    "SETTINGS",
    "Config",
    "Setting",
    "TrustList",
    "Trusted",
    "Value",
    "find_root",
    "list_trust",
    "load_config",
    "refuse_inside_run",
    "revoke_trust",
    "trust_project",
    "user_dir",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'clawhive_core.config' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"clawhive_core.config.{home}"), name)
