"""The bounds of a project's calls and sandboxes, as its configuration says."""

from __future__ import annotations

from clawhive_core.config.config import Config
from clawhive_core.execution.wiring import ExecutorLimits
from clawhive_core.protocols.sandbox import SandboxLimits


def executor_limits(config: Config) -> ExecutorLimits:
    """Return the bounds of every call."""
    return ExecutorLimits(call_depth=config.get("limits.call_depth"))


def sandbox_limits(config: Config) -> SandboxLimits:
    """Return the most that one program in a sandbox may use."""
    return SandboxLimits(
        **{name: config.get(f"sandbox.{name}") for name in SandboxLimits.__dataclass_fields__}
    )
