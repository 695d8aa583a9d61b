"""The marks of hooks, and the context that each is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import pluggy

from clawhive_core.model.late import dataclass

hookspec = pluggy.HookspecMarker("clawhive")
hookimpl = pluggy.HookimplMarker("clawhive")


@dataclass(frozen=True, slots=True)
class HookContext:
    """The context of a hook."""

    plugin_id: str
    """The entry point's name."""
    settings: Mapping[str, Any]
    """The plugin's own table of the configuration, `[plugins.ID]`."""
    root: str
    """The absolute path of the project root."""
    env: Mapping[str, str]
    """The environment; read keys from here at the first call, not in the hook. What is read from a
    variable named like a secret is redacted from then on."""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The table `[ID]` of the configuration with its defaults, where ClawHive itself has one of the
    plugin's name, such as `[mcp]`; else empty."""
    user_dir: str = ""
    """The absolute path of the user's own directory; it need not exist."""
