"""A session: one caller's calls, outside of any plan or loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clawhive_core.errors import ClawHiveError, NeedHumanApproval
from clawhive_core.events.grants import issued
from clawhive_core.events.kinds import TOOLS_ENABLED
from clawhive_core.execution.outcomes import Outcome, error_of
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.canonical import digest
from clawhive_core.model.events import Blob
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import Artifact, ToolCall
from clawhive_core.protocols.ledger import EventsWhere, Unmet, Window
from clawhive_core.runs.record.journal import run_event
from clawhive_core.runs.record.ownership import taken_over
from clawhive_core.runs.run import RunRequest, RunResult
from clawhive_core.runs.session_tools import SessionTools

if TYPE_CHECKING:
    from clawhive_core.catalog.search import Found
    from clawhive_core.runs.orchestrator import LiveServices
    from clawhive_core.runs.session_tools import Enabling


MoreRights = Callable[[RunRequest], Sequence[CapabilityGrant]]
"""Returns what a person granted the principal of a run since this was last asked."""


class Session:
    """Calls tools through the executor, each a step of the session's run."""

    def __init__(self, live: LiveServices, request: RunRequest, more_rights: MoreRights) -> None:
        self._live = live
        self._request = request
        self._more_rights = more_rights
        self.tools = SessionTools(live.catalog, request.scope)
        """The tools that its caller may use, and those of them that are enabled."""
        self._calls = 0
        self._waiting: dict[str, int] = {}
        """The numbers of calls that wait for a person, by what they are."""
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
    def folder(self) -> str:
        """The absolute path of the folder of its calls' artifacts; it need not exist."""
        return self._request.scope.artifacts

    @property
    def next_step(self) -> str:
        """The id of the step that the next call will be."""
        return f"{self.run_id}/c{self._calls}"

    def step_of(self, name: str, input: Mapping[str, Any]) -> str:
        """Return the id of the step that this call will be: its own, where it waited before."""
        number = self._waiting.get(_identity(name, input)) if self._waiting else None
        return self.next_step if number is None else f"{self.run_id}/c{number}"

    async def search_tools(self, query: str, top_k: int = 5) -> Found:
        """Return the tools that fit a need in words, the best first."""
        return self.tools.search(query, top_k)

    async def enable(self, names: Sequence[str], ttl_turns: int | None = None) -> Enabling:
        """Enable tools by name, where not all are enabled; say what was rejected, and why.

        Args:
            names: Their canonical names or aliases.
            ttl_turns: The searches after which they lapse, after half an hour at the earliest.
        """
        done = self.tools.enable(names, ttl_turns)
        if done.tools:
            body = {
                "skill": "",
                "tools": [each.name for each in done.tools],
                "defs": Blob(
                    [[each.name, each.description, each.input_schema] for each in done.tools]
                ),
                "left_out": [[each["name"], each["reason"]] for each in done.rejected],
            }
            scope, who = self._request.scope, self._request.principal
            event = run_event(scope, who, TOOLS_ENABLED, body, "succeeded")
            await self._live.log.append(event, expects=scope.owned)
        return done

    async def call(self, name: str, input: Mapping[str, Any]) -> Any:
        """Call a tool; return its structured value, else its text, or the refusal as a dict."""
        outcome = await self.invoke(name, input)
        return outcome.to_dict() if isinstance(outcome, Refusal) else outcome.value

    async def invoke(
        self, name: str, input: Mapping[str, Any], revision: str | None = None
    ) -> Outcome:
        """Call a tool and return the whole result or refusal, once it is on record.

        Args:
            name: The tool.
            input: Its arguments.
            revision: The catalog revision under which the caller was shown the tool: where its
                contract is another one now, the call is refused (`tool_changed`).
        """
        if self._request.principal.kind == "user":
            self._request.scope.grounds.say(input)
        before = self._waiting.pop(_identity(name, input), None) if self._waiting else None
        index = self._calls if before is None else before
        self._calls += before is None
        call = ToolCall(f"call_{index}", name, dict(input), revision)
        await self._renew_rights()
        try:
            outcome = await self._outcome(call, self._scope(index), is_repeated=before is not None)
        except NeedHumanApproval as asked:
            self._waiting[_identity(name, input)] = index
            outcome = _waits(name, asked)
        self._last = outcome
        if not isinstance(outcome, Refusal):
            self._artifacts.extend(outcome.artifacts)
        return outcome

    async def _renew_rights(self) -> None:
        """Take over what a person granted the caller since it last called; sessions are long."""
        scope, who = self._request.scope, self._request.principal
        if given := self._more_rights(self._request):
            event = issued(
                given,
                scope.artifacts,
                trace_id=scope.trace_id,
                run_id=scope.run_id,
                task_id=scope.task_id,
                conversation_id=scope.conversation_id,
                principal=str(who),
            )
            await self._live.log.append(event, expects=scope.owned)
            scope.rules.extend(given)

    def _scope(self, index: int) -> CallScope:
        return CallScope(
            self._request.scope,
            self._request.principal,
            f"{self.run_id}/c{index}",
            ordinal=index,
            enabled=self.tools.bounds(),
        )

    async def _outcome(self, call: ToolCall, scope: CallScope, *, is_repeated: bool) -> Outcome:
        """Make a call, or bring one that waited for a person to its end, and have it on record."""
        invoker, log, owned = self._live.invoker, self._live.log, scope.run.owned
        try:
            if is_repeated:
                outcome = await self._repeat(call, scope)
            else:
                outcome = await invoker.invoke(call, scope)
            await log.append(expects=owned)
        except Unmet as error:
            if error.expectation not in owned:
                raise
            raise taken_over(self.run_id) from None
        return outcome

    async def _repeat(self, call: ToolCall, scope: CallScope) -> Outcome:
        """Go on with a call that waited: a tool that made calls before repeats none of them."""
        from clawhive_core.execution.approvals import Approvals
        from clawhive_core.execution.nested import Repeater
        from clawhive_core.execution.recorded import CALL_KINDS, RecordedCall

        live = self._live
        await live.log.flush()
        where = EventsWhere(run_id=self.run_id, step_id=scope.step_id)
        found = [
            each
            for each in live.log.find(where, Window(reverse=True))
            if each.event.kind in CALL_KINDS
        ]
        recorded = RecordedCall(found[0])
        for each in found:
            recorded.take(each)
        repeater = Repeater(live.log, live.catalog, Approvals(live.book), live.invoker)
        return await repeater.repeat(recorded, call, scope)

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


def _identity(name: str, input: Mapping[str, Any]) -> str:
    """Return what makes two calls identical; a call with what is no JSON is like no other."""
    try:
        return digest([name, input])
    except (ClawHiveError, TypeError, ValueError):
        return ""


def _waits(name: str, asked: NeedHumanApproval) -> Refusal:
    """Return the answer to a call that is on record as a question to a person."""
    approval_id = str(asked.data.get("approval_id") or asked.place)
    command = f"clawhive approvals approve {approval_id}"
    message = (
        f"`{name}` was not done: a person must approve it first, with `{command}` in a terminal; "
        "then make exactly the same call again"
    )
    return Refusal(
        "approval_required",
        message,
        {"action": "ask_user", "command": command, "then": "repeat_call"},
        {"approval_id": approval_id},
    )
