"""The bounds of a project's calls, sandboxes and models, as its configuration says."""

from __future__ import annotations

from clawhive_core.config.config import Config
from clawhive_core.execution.wiring import ExecutorLimits
from clawhive_core.protocols.sandbox import SandboxLimits
from clawhive_core.runs.model_calls.models import MODEL_SECONDS, Patience
from clawhive_core.runs.model_calls.response_limits import ResponseLimits


def executor_limits(config: Config) -> ExecutorLimits:
    """Return the bounds of every call."""
    return ExecutorLimits(call_depth=config.get("limits.call_depth"))


def sandbox_limits(config: Config) -> SandboxLimits:
    """Return the most that one program in a sandbox may use."""
    return SandboxLimits(
        **{name: config.get(f"sandbox.{name}") for name in SandboxLimits.__dataclass_fields__}
    )


def patience(config: Config, provider: str) -> Patience:
    """Return how long a model provider is waited for, how often, and for how much."""
    seconds = config.get(f"models.{provider}.timeout_sec")
    limits = ResponseLimits(
        config.get("limits.response_bytes"),
        config.get("limits.response_events"),
        config.get("limits.response_sec"),
    )
    retries = config.get(f"models.{provider}.max_retries")
    return Patience(seconds or MODEL_SECONDS, retries, limits)
