"""The tool-use loop: a model's turns and the calls it asks for, until it answers in text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from functools import partial
from typing import Any, Protocol

from clawhive_core.errors import ModelError, NeedHumanApproval, RunError
from clawhive_core.events.kinds import TOOLS_CHANGED, TOOLS_ENABLED
from clawhive_core.execution.outcomes import Invoker, Outcome
from clawhive_core.execution.sandbox.program import as_program
from clawhive_core.execution.scope import CallScope, RunScope, Signal, ignore_signal
from clawhive_core.model.canonical import canonical, canonical_text, preview
from clawhive_core.model.events import Blob
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import ContentBlock, LlmMessage, LlmRequest, LlmResponse, Usage
from clawhive_core.model.principal import Principal
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.runs import Action
from clawhive_core.model.tools import Artifact, ToolCall, ToolDef, ToolResult
from clawhive_core.runs.concurrency import run_concurrently
from clawhive_core.runs.models import Models
from clawhive_core.runs.record.journal import Journal, end_step, run_event
from clawhive_core.runs.responses import (
    CUT_SHORT,
    MAX_REASKS,
    Unusable,
    cut_short,
    stop_reason_warning,
    unusable,
    with_remark,
)
from clawhive_core.runs.run import RunLimits
from clawhive_core.runs.toolsets import NO_TOOLS, Offer, OfferedTools, RunToolSource

PARALLEL_CALLS = 8
MAX_REFUSED_TURNS = 3
"""Turns in a row of which every call was refused; a model that goes on is stuck, or misled."""

SYSTEM = (
    "You act for the user through tools. A call may be refused: read `next` in the refusal, do "
    "that, or say what the user can do. Answer in text when you are done."
)


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The settings of a loop."""

    model: str
    offer: Offer
    limits: RunLimits = field(default_factory=RunLimits)
    before: tuple[LlmMessage, ...] = ()
    """The messages of the conversation before this prompt."""
    persona: str = ""
    """The beginning of the system prompt."""
    system: str = SYSTEM
    in_code: bool = False
    """Whether the model calls its tools from programs, and is shown them as functions."""

    @property
    def whole_system(self) -> str:
        """The system prompt as it is sent."""
        parts = (self.persona, self.system, self.offer.instructions)
        return "\n\n".join(part for part in parts if part)


@dataclass(slots=True)
class Loop:
    """One agent's loop over one prompt."""

    invoker: Invoker
    models: Models
    journal: Journal
    run: RunScope
    principal: Principal
    settings: LoopSettings
    compaction: Compaction | None = None
    source: RunToolSource = NO_TOOLS
    """The source of tools that the model is offered later."""
    artifacts: list[Artifact] = field(default_factory=list[Artifact])
    warnings: list[Mapping[str, Any]] = field(default_factory=list["Mapping[str, Any]"])
    """Notes for a reader of the answer, each with `code` and `message`."""
    _offered: OfferedTools = field(init=False)
    _revision: str = field(init=False)
    _polling: set[str] = field(init=False)
    _system: str = field(init=False)
    _cache_hints: Mapping[str, Any] = field(init=False)
    _open_turn: int | None = None
    """The turn that has ended in no action yet."""
    _as_program: tuple[tuple[ToolDef, ...], tuple[ToolDef, ...]] | None = None
    """The tools that were offered last, and how the model is shown them in code mode."""
    _refused_turns: int = 0
    """The turns in a row, up to now, of which every call was refused."""

    def __post_init__(self) -> None:
        self._offered = OfferedTools.of(self.settings.offer)
        self._revision = self.settings.offer.revision
        self._polling = set(self.settings.offer.polling)
        self._system = self.settings.whole_system
        self._cache_hints = {"key": self.run.conversation_id}

    async def answer(self, prompt: str) -> str:
        """Return the model's final text; each turn ends in one recorded action.

        Its calls are a step each; without calls it responds, or finishes: without words, or with
        what went wrong. An answer of which nothing can be used is asked for again.

        Raises:
            ModelError: The model failed, or the budget is spent.
            RunError: `max_tool_rounds`, `repeated_call`, `too_many_refusals`, or the model stopped
                without an answer, or with none that can be used.
            NeedHumanApproval: A call waits for a person; the other calls of its turn have ended.
        """
        try:
            return await self._rounds(prompt)
        except (ModelError, RunError) as error:
            if self._open_turn is not None:
                problem = {"code": error.code, "message": error.message}
                self._end(self._open_turn, "finish", error=problem)
            raise

    async def _rounds(self, prompt: str) -> str:
        messages = [*self.settings.before, LlmMessage.text("user", prompt)]
        repetition = Repetition(self._polling)
        for turn in range(self.settings.limits.max_tool_rounds + 1):
            self._open_turn = turn
            self._update_offer(turn)
            response = await self._turn(messages, turn)
            if (problem := unusable(response)) is not None:
                response = await self._asked_again(messages, turn, response, problem)
            calls = response.tool_calls
            if response.stop_reason in CUT_SHORT:
                raise cut_short(response)
            if not calls and response.stop_reason != "pause_turn":
                return self._respond(response, turn)
            if turn == self.settings.limits.max_tool_rounds:
                break
            messages.append(LlmMessage("assistant", response.content))
            if calls:
                repetition.ask(calls)
                self._open_turn = None
                results = await self._calls(calls, turn)
                if self._refused_turns == MAX_REFUSED_TURNS:
                    raise _stuck()
                repetition.answer(calls, results)
                messages.append(LlmMessage("user", tuple(results)))
            messages = await self._compacted(messages, response, turn)
        raise RunError(
            f"the model still asked for tools after {self.settings.limits.max_tool_rounds} rounds",
            code="max_tool_rounds",
            fix="ask for less at once, or raise --max-tool-rounds",
        )

    async def _asked_again(
        self, messages: list[LlmMessage], turn: int, response: LlmResponse, problem: Unusable
    ) -> LlmResponse:
        """Return a turn's answer after one of which nothing can be used, and which is dropped.

        Raises:
            RunError: `model_malformed_call`, `model_no_answer`: it is not better when asked again.
        """
        step = self._step(turn)
        for _ in range(MAX_REASKS):
            messages[-1:] = with_remark(messages[-1], problem.told)
            self.run.signal(Signal("again", step, self.settings.model, text=problem.message))
            response = await self._turn(messages, turn)
            still = unusable(response)
            if still is None:
                return response
            problem = still
        raise problem.error(response)

    async def _compacted(
        self, messages: list[LlmMessage], response: LlmResponse, turn: int
    ) -> list[LlmMessage]:
        if self.compaction is None:
            return messages
        complete = partial(self._complete_shortening, turn)
        shorter = await self.compaction.compact(messages, response.usage, complete)
        return messages if shorter is messages else list(shorter)

    async def _complete_shortening(self, turn: int, request: LlmRequest) -> LlmResponse:
        scope = CallScope(self.run, self.principal, f"{self._step(turn)}.compact")
        return await self.models.complete(request, scope)

    def _tell(self, step_id: str, turn: int, text: str) -> None:
        if self.run.signal is not ignore_signal:
            self.run.signal(Signal("step", step_id, "", done=turn, text=text))

    def _turn(self, messages: list[LlmMessage], turn: int) -> Awaitable[LlmResponse]:
        step = self._step(turn)
        self._tell(step, turn, self.settings.model)
        request = LlmRequest(
            self.settings.model,
            tuple(messages),
            system=self._system,
            tools=self._shown_tools(),
            max_tokens=self.settings.limits.max_tokens,
            cache_hints=self._cache_hints,
        )
        return self.models.complete(request, self._scope(step, 0))

    def _shown_tools(self) -> tuple[ToolDef, ...]:
        """Return the tools as the model is shown them, the same object while they are the same."""
        tools = self._offered.tools
        if not self.settings.in_code:
            return tools
        if self._as_program is None or self._as_program[0] is not tools:
            self._as_program = (tools, as_program(tools))
        return self._as_program[1]

    def _taken(self, result: ToolResult) -> ToolResult:
        if result.artifacts:
            self.artifacts.extend(result.artifacts)
        return result

    def _update_offer(self, turn: int) -> None:
        """Offer what the catalog has by now, without what was enabled up to here only."""
        self._offered.expire(turn)
        found = self.source.updated_offer(self._revision, self._step(turn))
        if found is None:
            return
        self._revision = found.revision
        self._polling.clear()
        self._polling.update(found.polling)
        if self._offered.update(found):
            self._note(TOOLS_CHANGED, found.to_dict(), self._step(turn))

    def _enabled(self, result: ToolResult, turn: int, index: int) -> ToolResult:
        """Take a result; one that enables tools tells what is offered with it from now on."""
        enables, step_id = result.enables, f"{self._step(turn)}.{index}"
        if enables is None:
            return result
        toolset = self._offered.enabled_by(
            enables, lambda names: self.source.tools_named(names, step_id)
        )
        if toolset is None:
            return result
        self._offered.enable(toolset, enables)
        value, names = toolset.to_dict(), [each.name for each in toolset.tools]
        body = {"skill": enables.skill, **value, "tools": names}
        if enables.names:
            body["defs"] = Blob(value["tools"])
        if enables.expires_at_turn is not None:
            body["expires_at_turn"] = enables.expires_at_turn
        self._note(TOOLS_ENABLED, body, step_id)
        return replace(result, output=f"{result.output}\n{toolset.note}")

    def _note(self, kind: str, body: Mapping[str, Any], step_id: str) -> None:
        event = run_event(self.run, self.principal, kind, body, "succeeded", step_id)
        self.journal.post(event, expects=self.run.owned)

    async def _calls(self, calls: tuple[ToolCall, ...], turn: int) -> list[ToolResult]:
        """Run a turn's calls side by side; the results come back in the order of the calls."""
        if len(calls) == 1:
            outcomes = [await self._outcome(calls[0], turn, 0)]
        else:
            outcomes = await self._outcomes(calls, turn)
        refused = all(isinstance(outcome, Refusal) for outcome in outcomes)
        self._refused_turns = self._refused_turns + 1 if refused else 0
        results: list[ToolResult] = []
        for index, (call, outcome) in enumerate(zip(calls, outcomes, strict=True)):
            result = self._taken(as_result(call.id, outcome))
            results.append(self._enabled(result, turn, index))
        return results

    async def _outcomes(self, calls: tuple[ToolCall, ...], turn: int) -> list[Outcome]:
        outcomes: list[Outcome | None] = [None] * len(calls)
        waiting: list[NeedHumanApproval] = []

        async def one(index: int, call: ToolCall) -> None:
            try:
                outcomes[index] = await self._outcome(call, turn, index)
            except NeedHumanApproval as asked:
                waiting.append(asked)

        works = [partial(one, index, call) for index, call in enumerate(calls)]
        await run_concurrently(works, PARALLEL_CALLS)
        ended = [outcome for outcome in outcomes if outcome is not None]
        if waiting:
            for outcome in ended:
                if not isinstance(outcome, Refusal):
                    self._taken(outcome)
            raise waiting[0]
        return ended

    async def _outcome(self, call: ToolCall, turn: int, index: int) -> Outcome:
        step = self._step(turn)
        self._tell(step, turn, call.name)
        scope = replace(self._scope(f"{step}.{index}", index), turn=turn)
        given = (call.input, self._revision, call.malformed, call.native)
        offered = ToolCall(call.id, call.name, *given)
        outcome = await self.invoker.invoke(offered, scope)
        end_step(self.journal, self.run, self.principal, scope.step)
        return outcome

    def _respond(self, response: LlmResponse, turn: int) -> str:
        """End the turn of the answer; one of images only is an answer too, without words."""
        if (warning := stop_reason_warning(response)) is not None:
            self.warnings.append(warning)
        self._end(turn, "respond" if response.text else "finish", response.text)
        return response.text

    def _end(
        self, turn: int, action: Action, text: str = "", error: Mapping[str, Any] | None = None
    ) -> None:
        body: Mapping[str, Any] = {
            "name": action,
            "label": "answer" if action == "respond" else "",
            "ordinal": turn,
            "action": action,
            "output_preview": preview(text),
            "error": error,
        }
        status = "succeeded" if error is None else "failed"
        event = run_event(self.run, self.principal, "step.end", body, status, self._step(turn))
        self.journal.post(event, expects=self.run.owned)

    def _step(self, turn: int) -> str:
        return f"{self.run.run_id}/r{turn}"

    def _scope(self, step_id: str, ordinal: int) -> CallScope:
        enabled = self._offered.enabled
        return CallScope(self.run, self.principal, step_id, ordinal=ordinal, enabled=enabled)


def _stuck() -> RunError:
    return RunError(
        f"every call of {MAX_REFUSED_TURNS} turns in a row was refused",
        code="too_many_refusals",
        fix="look at the refusals with `clawhive runs show last`, and grant what the task needs",
    )


def as_result(call_id: str, outcome: Outcome) -> ToolResult:
    """Return an outcome as the result that a model reads."""
    if isinstance(outcome, Refusal):
        value = outcome.to_dict()
        return ToolResult(call_id, canonical_text(value), is_error=True, structured=value)
    if outcome.edited:
        return replace(outcome, output=f"{outcome.edited}\n{outcome.output}", edited="")
    return outcome


MAX_EQUAL_CALLS = 3


@dataclass(slots=True)
class Repetition:
    """Counts consecutive calls with equal name and arguments.

    Tools of `polling` may well be asked the same again; of them the answers must be equal too.
    """

    polling: AbstractSet[str]
    _call: ToolCall | None = None
    _calls: int = 0
    _answer: Any = None
    _answers: int = 0

    def ask(self, calls: Sequence[ToolCall]) -> None:
        """Take a turn's calls, before any of them is made.

        Raises:
            RunError: `repeated_call`: one of them is the third in a row.
        """
        for call in calls:
            is_equal = self._call is not None and _are_equal(call, self._call)
            self._calls = self._calls + 1 if is_equal else 1
            self._call = call
            if self._calls >= MAX_EQUAL_CALLS and call.name not in self.polling:
                raise _repeated(call, "")

    def answer(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> None:
        """Take what a turn's calls came to.

        Raises:
            RunError: `repeated_call`: a polling tool answered the same for the third time.
        """
        for call, result in zip(calls, results, strict=True):
            if call.name not in self.polling:
                self._answer, self._answers = None, 0
                continue
            key = (_key(call), result.is_error, result.output)
            self._answers = self._answers + 1 if key == self._answer else 1
            self._answer = key
            if self._answers >= MAX_EQUAL_CALLS:
                raise _repeated(call, " and got the same answer")


def _are_equal(call: ToolCall, before: ToolCall) -> bool:
    """Whether two calls have one name and equal arguments, as JSON counts."""
    if call.name != before.name:
        return False
    try:
        if call.input != before.input:
            return False
    except RecursionError:
        return False  # the executor refuses both, with the reason
    # Only those that look alike are encoded: 1, 1.0 and true are equal to Python, not as JSON.
    return _key(call) == _key(before)


def _key(call: ToolCall) -> tuple[str, Any]:
    if call.malformed is not None:
        return call.name, call.malformed
    try:
        return call.name, canonical(call.input)
    except (TypeError, ValueError, RecursionError):
        return call.name, repr(call.input)  # the executor refuses it, with the reason


def _repeated(call: ToolCall, more: str) -> RunError:
    return RunError(
        f"the model called `{call.name}` {MAX_EQUAL_CALLS} times in a row with equal "
        f"arguments{more}",
        code="repeated_call",
        fix="look at what it got with `clawhive runs show last`; a tool that is meant to be asked "
        "again says `polling` in its manifest",
    )


Complete = Callable[[LlmRequest], Awaitable[LlmResponse]]


class Compaction(Protocol):
    """Shortens a conversation; asked before each turn but the first."""

    async def compact(
        self, messages: Sequence[LlmMessage], usage: Usage, complete: Complete
    ) -> Sequence[LlmMessage]:
        """Return the messages to go on with: the same object where nothing is to be done.

        What it does must follow from its arguments and from the answers of `complete`, which are
        recorded, so that a replay finds the same.

        Args:
            messages: The conversation so far; results follow the calls that they answer.
            usage: What the last turn used; `input_tokens` is how long the conversation was.
            complete: Asks a model, under the run's budget, rights and log.
        """
        ...


@dataclass(frozen=True, slots=True)
class ClearOldResults:
    """Replaces long results of tools by a note once a conversation is long, oldest first.

    What a model read early it has used or can ask for again; the log keeps all of it.
    """

    at_tokens: int
    """The length of the conversation up to which nothing is cleared, in tokens."""
    kept: int = 6
    """The last messages, which stay as they are."""
    long: int = 400
    """Characters of a result that is worth clearing."""

    async def compact(
        self, messages: Sequence[LlmMessage], usage: Usage, complete: Complete
    ) -> Sequence[LlmMessage]:
        """Return the messages with old results cleared, the same object below the bound."""
        del complete
        if (usage.input_tokens or 0) <= self.at_tokens or len(messages) <= self.kept:
            return messages
        old = [
            replace(message, content=tuple(map(self._cleared, message.content)))
            for message in messages[: -self.kept]
        ]
        if all(new == before for new, before in zip(old, messages, strict=False)):
            return messages
        return [*old, *messages[-self.kept :]]

    def _cleared(self, block: ContentBlock) -> ContentBlock:
        if not isinstance(block, ToolResult) or len(block.output) <= self.long:
            return block
        note = f"[cleared: {len(block.output)} characters, to keep the conversation short]"
        return replace(block, output=note, structured=None)
