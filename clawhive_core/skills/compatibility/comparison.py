"""Whether one schema may take another's place: compatible, breaking with a witness, or unknown."""

from __future__ import annotations

from typing import Any, Literal

from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import JsonSchema
from clawhive_core.skills.compatibility import literal
from clawhive_core.skills.compatibility.document import Document, Steps, Undecided
from clawhive_core.skills.compatibility.search import Search

Verdict = Literal["compatible", "breaking", "unknown"]
_ALLOWED = 40_000


@dataclass(frozen=True, slots=True)
class Compatibility:
    """The verdict on one schema in the place of another."""

    verdict: Verdict
    """`compatible` is proven; `breaking` has a witness; `unknown` is neither."""
    witness: Any = None
    """A JSON value of the break: the narrower schema accepts it and the wider refuses it."""
    where: str = ""
    """The place of the break, the JSON pointer of the keyword that refuses the witness."""
    reason: str = ""
    """The reason why it is refused, or why nothing is known."""


def compare_inputs(old: JsonSchema | bool, new: JsonSchema | bool) -> Compatibility:
    """Return whether `new` accepts every input that `old` accepted (inputs are contravariant)."""
    return contains(new, old)


def compare_outputs(old: JsonSchema | bool, new: JsonSchema | bool) -> Compatibility:
    """Return whether every output under `new` is one under `old` (outputs are covariant)."""
    return contains(old, new)


def contains(wider: JsonSchema | bool, narrower: JsonSchema | bool) -> Compatibility:
    """Return whether `wider` accepts every value that `narrower` accepts.

    JSON Schema 2020-12, 2019-09 and draft 7. A proof holds whether validators assert formats or
    not; a witness was checked by one that asserts them, else by one that does not. The answer
    depends on the two schemas only, and takes a bounded number of steps.
    """
    try:
        inside, outside = Document(narrower), Document(wider)
        inside.check()
        outside.check()
        has_formats = inside.has_formats or outside.has_formats
        found = _searched(inside, outside, formats=True, has_formats=has_formats)
        if found.verdict == "unknown" and has_formats:
            again = _searched(inside, outside, formats=False, has_formats=True)
            found = again if again.verdict != "unknown" else found
    except Undecided as error:
        return Compatibility("unknown", reason=str(error))
    except RecursionError:
        return Compatibility("unknown", reason="the schemas are nested too deeply to compare")
    except ValueError as error:  # a number of more digits than Python converts
        return Compatibility("unknown", reason=f"the schemas cannot be written as JSON: {error}")
    return found


def _searched(
    inside: Document, outside: Document, *, formats: bool, has_formats: bool
) -> Compatibility:
    search = Search(Steps(_ALLOWED), formats=formats, has_formats=has_formats)
    goal = [
        literal.Literal(inside.root, inside, ""),
        literal.Literal(outside.root, outside, "", wanted=False),
    ]
    outcome = search.solve(goal)
    if outcome.state == "empty":
        return Compatibility("compatible")
    if outcome.state == "unknown":
        return Compatibility("unknown", reason=outcome.why)
    where, reason = outside.refusal(outcome.value, formats=formats)
    return Compatibility("breaking", outcome.value, where, reason)
