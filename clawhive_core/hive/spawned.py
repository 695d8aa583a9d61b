"""Sub-agents that a program starts: at work beside it, each with a handle."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import field
from typing import TYPE_CHECKING, Any

import anyio

from clawhive_core.errors import NeedHumanApproval, RunError
from clawhive_core.execution.outcomes import error_of
from clawhive_core.model.late import dataclass
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.runs import ENDED
from clawhive_core.model.tools import ToolResult
from clawhive_core.protocols.ledger import Ledger, RunsWhere
from clawhive_core.runs.agents import agent_of
from clawhive_core.runs.record.lineage import child_of_step
from clawhive_core.runs.record.ownership import cancel, recover
from clawhive_core.runs.record.view import run_json

_AT_WORK = frozenset({"pending", "running"})
_POLL_SECONDS = 0.5

if TYPE_CHECKING:
    from asyncio import Task

    from clawhive_core.hive.running import Running
    from clawhive_core.runs.requests import RunOptions
    from clawhive_core.runs.session import Session


class SubAgent:
    """A sub-agent at work; its end is the end of what it was started in.

    Example:
        ::

            child = await hive.spawn("Summarise README.md", agent="researcher")
            print(await child.merge())
    """

    def __init__(self, log: Ledger, work: Coroutine[Any, Any, dict[str, Any]]) -> None:
        import asyncio

        self._log = log
        self._seen: dict[str, Any] | None = None
        self._task: Task[dict[str, Any]] = asyncio.ensure_future(work)
        self._task.add_done_callback(_noticed)

    @property
    def done(self) -> bool:
        """Whether it has ended, or waited for a person; `result` says how it stands by now."""
        return self._task.done()

    async def result(self) -> dict[str, Any]:
        """Return its run as the JSON object of `run/1`, once it has ended or waits for a person.

        It is read anew until it has ended: whoever goes on with it, by `hive.resume` or elsewhere,
        is waited for. An agent of one call that a session started has no run of its own: there are
        `run_id` (the session's), `status`, `output` and `error`.

        Raises:
            RunError: It was refused, with the code of the refusal, or `cancelled` before it began.
            ClawHiveError: It could not be started.
            StorageError: It waits, and the hive was closed.
        """
        import asyncio

        try:
            run = await asyncio.shield(self._task)
        except asyncio.CancelledError:
            if not self._task.cancelled():
                raise
            raise RunError("it was cancelled before it began", code="cancelled") from None
        while (now := self._now(run))["status"] in _AT_WORK:
            await anyio.sleep(_POLL_SECONDS)
            recover(self._log)
        return now

    def _now(self, run: dict[str, Any]) -> dict[str, Any]:
        """Return a run as it is by now; one that had ended stays as it was."""
        if self._seen is None or self._seen["status"] not in ENDED:
            ended = run["status"] in ENDED
            self._seen = run if ended else run_json(self._log, run["run_id"])
        return self._seen

    async def cancel(self) -> None:
        """End it, with all that it started, and return once that is recorded."""
        import asyncio

        if not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self._task.cancelled() or self._task.exception() is not None:
            return
        run = self._now(self._task.result())
        if run["status"] not in ENDED:
            cancel(self._log, run["run_id"])

    async def merge(self) -> Any:
        """Return its output, once it has ended well; its files and usage are its parent's by then.

        Raises:
            RunError: It failed, with its code.
            NeedHumanApproval: It waits for a person.
        """
        run = await self.result()
        if run["status"] == "waiting_approval":
            raise NeedHumanApproval(
                "the sub-agent waits for a person",
                place=run["run_id"],
                fix=f"clawhive approvals list, then: clawhive runs resume {run['run_id']}",
            )
        error = run["error"]
        if error is not None:
            raise RunError(
                error["message"], code=error["code"], place=run["run_id"], fix=error.get("fix")
            )
        return run["output"]


def _noticed(task: Task[Any]) -> None:
    """Take notice of a failure that perhaps nobody asks for."""
    if not task.cancelled():
        task.exception()


@dataclass(slots=True)
class Spawner:
    """Starts sub-agents for programs, and ends those that are left."""

    running: Running
    _left: dict[SubAgent, Session | None] = field(
        default_factory=dict["SubAgent", "Session | None"]
    )

    def top(self, task: str, options: RunOptions) -> SubAgent:
        """Start an agent that no run is the parent of.

        Raises:
            UsageError: There is no such agent, or no such planner.
            UnknownModel: No model is named, or none that an adapter serves.
        """
        request = self.running.requests().prompt(task, options)
        self.running.check(request)
        options.on_start(request)

        async def work() -> dict[str, Any]:
            import asyncio

            run_id = request.scope.run_id
            try:
                await self.running.run(request)
            except asyncio.CancelledError:
                if not self._has(run_id):
                    raise
            return run_json(self.running.live.log, run_id)

        return self._kept(work(), None)

    def of_session(self, task: str, agent: str, session: Session) -> SubAgent:
        """Start an agent by a call of a session.

        Raises:
            UsageError: There is no such agent.
        """
        name = agent_of(self.running.requests().config, agent).name

        async def work() -> dict[str, Any]:
            import asyncio

            step = session.next_step
            try:
                outcome = await session.invoke(f"agent.{name}", {"task": task})
            except asyncio.CancelledError:
                if self._child(session, step) is None:
                    raise
                outcome = None
            if isinstance(outcome, Refusal):
                raise RunError(
                    outcome.message,
                    code=outcome.error,
                    fix=_fix(outcome),
                    data=outcome.to_dict(),
                )
            child = self._child(session, step)
            if child is not None:
                return run_json(self.running.live.log, child)
            return _of_one_call(outcome, session)

        return self._kept(work(), session)

    async def stop(self, session: Session | None = None) -> None:
        """End what a session started and left, or without one everything."""
        left = [each for each, of in self._left.items() if session is None or of is session]
        async with anyio.create_task_group() as group:
            for each in left:
                self._left.pop(each, None)
                if not each.done:
                    group.start_soon(each.cancel)

    def _kept(self, work: Coroutine[Any, Any, dict[str, Any]], session: Session | None) -> SubAgent:
        for ended in [each for each in self._left if each.done]:
            del self._left[ended]
        agent = SubAgent(self.running.live.log, work)
        self._left[agent] = session
        return agent

    def _has(self, run_id: str) -> bool:
        return len(self.running.live.log.find(RunsWhere(run_id=run_id))) > 0

    def _child(self, session: Session, step: str) -> str | None:
        return child_of_step(self.running.live.log, session.run_id, step)


def _fix(refusal: Refusal) -> str | None:
    """Return what a program does about a refusal: the command line of `next` is a person's."""
    step = refusal.next
    if step["action"] == "grant":
        return f"open the session with RunOptions(grants={step['capabilities']})"
    return step.get("hint") or step.get("command")


def _of_one_call(outcome: ToolResult | None, session: Session) -> dict[str, Any]:
    """Return what an agent of one model call came to: it is a part of its parent's run."""
    error = None if outcome is None else error_of(outcome)
    return {
        "run_id": session.run_id,
        "status": "succeeded" if error is None else "failed",
        "output": None if outcome is None else outcome.value,
        "error": error,
    }
