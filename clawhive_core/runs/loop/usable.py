"""Whether a model's answer can be used, and what it is told where it cannot."""

from __future__ import annotations

from clawhive_core.errors import RunError
from clawhive_core.model.canonical import preview
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmMessage, LlmResponse, MediaBlock, TextBlock
from clawhive_core.model.tools import ToolCall

MAX_AGAIN = 2
"""How often a model is asked again, in one turn, for an answer that can be used."""

CUT_SHORT = frozenset({"refusal", "content_filter", "max_tokens"})
"""Reasons to stop that leave no answer, and calls that nobody should make."""
_NEXT = {
    "max_tokens": "raise `model.max_tokens`, or ask for less at once",
    "refusal": "the model declines; put it otherwise, or choose another model",
    "content_filter": "the provider's filter stopped it; put it otherwise, or choose another model",
}
_GOES_ON = CUT_SHORT | {"pause_turn"}


@dataclass(frozen=True, slots=True)
class Unusable:
    """The fault of an answer of which nothing can be used."""

    code: str
    message: str
    told: str
    """What the model reads, so that it answers again."""
    fix: str

    def error(self, response: LlmResponse) -> RunError:
        """Return the error of a run whose model answered like this to the end."""
        raw, said = response.raw_stop_reason, preview(response.text, 200)
        more = (f"; it stopped with {raw}" if raw else "") + (f" (after: {said})" if said else "")
        return RunError(f"{self.message}{more}", code=self.code, fix=self.fix)


_MALFORMED = Unusable(
    "model_malformed_call",
    "the model wrote a tool call that its provider could not read",
    "Your last answer is lost: the tool call in it could not be read. Call the tool again by its "
    "exact name, with arguments that are one JSON object of its schema; or answer in text.",
    "choose another model with `--model`, or ask for less at once: long or deeply nested "
    "arguments break most often",
)
_EMPTY = Unusable(
    "model_no_answer",
    "the model answered nothing: no text and no tool call",
    "Your last answer was empty. Go on: call a tool, or answer in text.",
    "look at what it was told with `clawhive runs show last`; put it otherwise, or choose another "
    "model",
)


def unusable(response: LlmResponse) -> Unusable | None:
    """Return what is wrong with an answer, None where it can be used or was cut short."""
    if response.stop_reason == "malformed_call":
        return _MALFORMED
    if response.stop_reason in _GOES_ON:
        return None
    for block in response.content:
        if isinstance(block, ToolCall | MediaBlock):
            return None
        if isinstance(block, TextBlock) and block.text.strip():
            return None
    return _EMPTY


def with_remark(last: LlmMessage, remark: str) -> list[LlmMessage]:
    """Return a conversation's last message with a remark to the model after it.

    What a user says is one message: some models take no two of one role after each other.
    """
    if last.role == "user":
        return [LlmMessage("user", (*last.content, TextBlock(remark)))]
    return [last, LlmMessage.text("user", remark)]


def cut_short(response: LlmResponse) -> RunError:
    """Return the error of an answer that was cut short."""
    reason = response.stop_reason
    said = preview(response.text, 200)
    return RunError(
        f"the model stopped without an answer: {reason}" + (f" (after: {said})" if said else ""),
        code=f"model_{reason}",
        fix=_NEXT[reason],
    )


def no_answer(response: LlmResponse) -> RunError | None:
    """Return why an answer is none, where its model is asked once only; None where it is one."""
    if response.stop_reason in CUT_SHORT:
        return cut_short(response)
    problem = unusable(response)
    return None if problem is None else problem.error(response)


def doubt(response: LlmResponse) -> dict[str, str] | None:
    """Return the warning about an answer that stopped for a reason nobody knows, else None."""
    if response.stop_reason != "other":
        return None
    reason = response.raw_stop_reason or "the provider does not say"
    return {
        "code": "unknown_stop_reason",
        "message": f"the model stopped for a reason that is not known: {reason}; its answer may "
        "not be whole",
    }
