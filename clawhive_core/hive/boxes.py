"""The runners of foreign code of a project: its sandbox broker, and those of handlers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clawhive_core.config.config import Config
from clawhive_core.execution.handlers.boxes import HandlerBoxes
from clawhive_core.execution.sandbox.broker import SandboxBroker
from clawhive_core.hive.limits import sandbox_limits
from clawhive_core.protocols.sandbox import SandboxEngine

Engines = Callable[[], Sequence[SandboxEngine]]


def sandbox_broker(config: Config, engines: Engines) -> SandboxBroker:
    """Return what chooses an engine for each program."""
    folder = config.root / config.get("sandbox.workspace")
    return SandboxBroker(engines, config.get("sandbox.commands"), sandbox_limits(config), folder)


def handler_boxes(config: Config, engines: Engines) -> HandlerBoxes:
    """Return what chooses a box for each handler."""
    return HandlerBoxes(engines, sandbox_limits(config), (config.user_dir,))
