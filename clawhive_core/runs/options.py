"""What a caller says about a run, beside its task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clawhive_core.execution.scope import ApproveMode, Ask, Signal, unheard
from clawhive_core.model.late import dataclass

if TYPE_CHECKING:
    from clawhive_core.runs.orchestrator import RunRequest


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run is started with, beside its task."""

    model: str | None = None
    grants: Sequence[str] = ()
    """Capabilities that the user gives this task, as `--grant` does."""
    session: str | None = None
    planner: str | None = None
    """What decides on the steps of a prompt: `react`, `llm` or a plugin's."""
    out: Path | None = None
    """The artifacts folder; `clawhive-out/RUN_ID` below the project root otherwise."""
    max_tool_rounds: int | None = None
    command: str = "clawhive run"
    """The command line that refusals extend by `--grant`."""
    title: str = ""
    """What a session is called in listings."""
    on_start: Callable[[RunRequest], None] = lambda _: None
    on_signal: Callable[[Signal], None] = unheard
    stream: bool = False
    """Whether `on_signal` gets a model's answer piece by piece."""
    approve: ApproveMode = "park"
    """What happens with a call that a person must answer."""
    skills: Sequence[str] = ()
    """Skills whose text a prompt's model is told from the start."""
    agent: str | None = None
    """The agent of `[agents.NAME]` that acts; the default one otherwise."""
    words: Sequence[str] | None = None
    """What the user said, where the prompt or the task's input is somebody else's: for a sub-agent,
    or for a session of an agent. Destinations that occur in it are not asked about."""
    ask: Ask | None = None
    """Who asks the person, where `approve` is `ask`; without it the run parks."""
