"""A session: one caller's calls, outside of any plan or loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawhive_core.execution.outcomes import Invoker, Outcome, error_of
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import Artifact, ToolCall
from clawhive_core.protocols.ledger import Unmet
from clawhive_core.runs.record.journal import Journal
from clawhive_core.runs.record.ownership import taken_over
from clawhive_core.runs.run import RunRequest, RunResult


class Session:
    """Calls tools through the executor, each a step of the session's run."""

    def __init__(self, invoker: Invoker, journal: Journal, request: RunRequest) -> None:
        self._invoker = invoker
        self._journal = journal
        self._request = request
        self._calls = 0
        self._last: Outcome | None = None
        self._artifacts: list[Artifact] = []

    @property
    def run_id(self) -> str:
        """The run that records the session's calls."""
        return self._request.scope.run_id

    @property
    def conversation_id(self) -> str:
        """The session's id."""
        return self._request.scope.conversation_id

    @property
    def next_step(self) -> str:
        """The id of the step that the next call will be."""
        return f"{self.run_id}/c{self._calls}"

    async def call(self, name: str, input: Mapping[str, Any]) -> Any:
        """Call a tool; return its structured value, else its text, or the refusal as a dict."""
        outcome = await self.invoke(name, input)
        return outcome.to_dict() if isinstance(outcome, Refusal) else outcome.value

    async def invoke(self, name: str, input: Mapping[str, Any]) -> Outcome:
        """Call a tool and return the whole result or refusal, once it is on record."""
        index, self._calls = self._calls, self._calls + 1
        if self._request.principal.kind == "user":
            self._request.scope.grounds.say(input)
        scope = CallScope(
            self._request.scope,
            self._request.principal,
            f"{self.run_id}/c{index}",
            ordinal=index,
        )
        try:
            outcome = await self._invoker.invoke(
                ToolCall(f"call_{index}", name, dict(input)), scope
            )
            await self._journal.append(expects=scope.run.owned)
        except Unmet as error:
            if error.expectation not in scope.run.owned:
                raise
            raise taken_over(self.run_id) from None
        self._last = outcome
        if not isinstance(outcome, Refusal):
            self._artifacts.extend(outcome.artifacts)
        return outcome

    def result(self) -> RunResult:
        """Return how the session's run ends: as its last call did."""
        last = self._last
        if last is None:
            return RunResult("succeeded")
        if isinstance(last, Refusal):
            return RunResult("failed", error={"code": last.error, "message": last.message})
        error = error_of(last)
        status = "succeeded" if error is None else "failed"
        return RunResult(status, last.value, error, self._artifacts)
