"""The installed plugins, as the configuration switches and orders them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawhive_core.config.config import Config
from clawhive_core.plugins.discovery import discover
from clawhive_core.plugins.manager import PluginManager, PluginOptions


def open_plugins(config: Config, env: Mapping[str, str], *, none: bool = False) -> PluginManager:
    """Return the manager of the installed plugins; nothing of them is imported.

    Args and errors are those of `plugin_options`.
    """
    return PluginManager(discover(), plugin_options(config, env, none=none))


def plugin_options(config: Config, env: Mapping[str, str], *, none: bool = False) -> PluginOptions:
    """Return what the configuration says about plugins.

    Args:
        config: Says which are off, in which order they stand, and each one's settings.
        env: The environment that hooks get.
        none: Switch every plugin off (`--no-plugins`).
    """
    enabled = config.get("plugins.enabled")
    only = frozenset[str]() if none else None if enabled is None else frozenset(enabled)
    return PluginOptions(
        disabled=frozenset(config.get("plugins.disabled")),
        enabled_only=only,
        order=tuple(config.get("plugins.order")),
        strict=config.get("plugins.strict"),
        settings=_tables(config.section("plugins")),
        root=str(config.root),
        env=env,
    )


def _tables(section: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the tables `[plugins.ID]`; the section's other keys are no plugins."""
    return {name: table for name, table in section.items() if isinstance(table, Mapping)}
