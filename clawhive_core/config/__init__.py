"""The configuration: files, environment and flags, where each value came from, and trust."""

from __future__ import annotations

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
