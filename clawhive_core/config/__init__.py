"""The configuration: files, environment and flags, where each value came from, and trust.

May import `diagnostics` and what lies below it. The names below are loaded when they are first
used: help needs to find the project's root and nothing else of this room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clawhive_core.config.config import Config as Config
    from clawhive_core.config.config import Value as Value
    from clawhive_core.config.load import load_config as load_config
    from clawhive_core.config.root import find_root as find_root
    from clawhive_core.config.root import user_dir as user_dir
    from clawhive_core.config.setting import Setting as Setting
    from clawhive_core.config.settings import SETTINGS as SETTINGS
    from clawhive_core.config.trust import Trusted as Trusted
    from clawhive_core.config.trust import TrustList as TrustList
    from clawhive_core.config.trust import list_trust as list_trust
    from clawhive_core.config.trust import refuse_inside_run as refuse_inside_run
    from clawhive_core.config.trust import revoke_trust as revoke_trust
    from clawhive_core.config.trust import trust_project as trust_project
else:
    from clawhive_core.model.lazy import lazy_names

    __getattr__ = lazy_names(__name__)
