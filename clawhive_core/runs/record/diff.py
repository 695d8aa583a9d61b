"""The comparison of two runs: what was asked, what it came to, how they ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal

from clawhive_core.execution.recorded import resolve_blobs
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.late import dataclass
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.runs.record.view import run_json

_STEP = ("status", "provider_id", "capability_level", "input", "output", "error", "decisions")
_RUN = ("title", "task_type", "model", "status", "output", "error", "usage", "files")


@dataclass(frozen=True, slots=True)
class Changed:
    """One fact that differs."""

    field: str
    a: Any
    b: Any

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"field": self.field, "a": self.a, "b": self.b}


@dataclass(frozen=True, slots=True)
class StepChange:
    """A step that only one run has, or that differs in both."""

    change: Literal["added", "removed", "changed"]
    name: str
    a: str | None
    """The step's id in the first run."""
    b: str | None
    fields: tuple[Changed, ...] = ()
    input: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "change": self.change,
            "name": self.name,
            "a": self.a,
            "b": self.b,
            "input": self.input,
            "fields": [each.to_dict() for each in self.fields],
        }


@dataclass(frozen=True, slots=True)
class RunDiff:
    """The differences between two runs; times and ids never count."""

    a: str
    b: str
    fields: tuple[Changed, ...]
    steps: tuple[StepChange, ...]

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.fields and not self.steps

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as JSON (schema `run-diff/1`)."""
        return {
            "schema": "run-diff/1",
            "a": self.a,
            "b": self.b,
            "equal": self.equal,
            "fields": [each.to_dict() for each in self.fields],
            "steps": [each.to_dict() for each in self.steps],
        }


def diff_runs(log: Ledger, a: str, b: str) -> RunDiff:
    """Compare two runs by their ids; steps are paired by name and input, as `diff` pairs lines."""
    one, other = _facts(log, a), _facts(log, b)
    steps = tuple(_steps(one["steps"], other["steps"]))
    return RunDiff(a, b, tuple(_changed(_RUN, one, other)), steps)


def _facts(log: Ledger, run_id: str) -> dict[str, Any]:
    """Return a run with whole inputs and outputs, and without its own id in any of them."""
    run, values = run_json(log, run_id), _values(log, run_id)
    steps = [_step(step, values.get(step["step_id"], {})) for step in run["steps"]]
    facts = {
        **run,
        "model": values["model"],
        "steps": steps,
        "files": {each["path"]: each["sha256"] for each in run["artifacts"]},
    }
    return _without_id(facts, run_id)


def _values(log: Ledger, run_id: str) -> dict[Any, Any]:
    """Return each step's input and output in full, by step id, and the model."""
    found: dict[Any, Any] = {"model": None}
    for stored in log.events(run_id=run_id):
        event = stored.event
        if event.kind == "run.start":
            found["model"] = event.body["model"]
        elif event.kind in {"approval.requested", "invocation.start", "invocation.refused"}:
            step = found.setdefault(event.step_id, {})
            step["input"] = resolve_blobs(log, event.body["tool_call"]["input"])
        elif event.kind == "invocation.end" and "output" in event.body:
            found.setdefault(event.step_id, {})["output"] = resolve_blobs(log, event.body["output"])
    return found


def _step(step: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "step_id": step["step_id"],
        "name": step["label"] or step["name"],
        "status": step["status"],
        "provider_id": step["provider_id"],
        "capability_level": step["capability_level"],
        "input": values.get("input", step["input_preview"]),
        "output": values.get("output", step["output_preview"]),
        "error": None if step["error"] is None else step["error"]["code"],
        "decisions": [each["decision"] for each in step["invocations"]],
    }


def _without_id(value: Any, run_id: str) -> Any:
    import json

    return json.loads(json.dumps(value).replace(run_id, "RUN"))


def _steps(
    one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]
) -> Iterator[StepChange]:
    def keys(steps: Sequence[Mapping[str, Any]]) -> list[str]:
        return [canonical_text([step["name"], step["input"]]) for step in steps]

    matcher = SequenceMatcher(None, keys(one), keys(other), autojunk=False)
    for tag, a1, a2, b1, b2 in matcher.get_opcodes():
        if tag == "equal":
            for before, now in zip(one[a1:a2], other[b1:b2], strict=True):
                yield from _pair(before, now)
            continue
        for step in one[a1:a2]:
            yield StepChange("removed", step["name"], step["step_id"], None, input=step["input"])
        for step in other[b1:b2]:
            yield StepChange("added", step["name"], None, step["step_id"], input=step["input"])


def _pair(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[StepChange]:
    fields = tuple(_changed(_STEP, before, now))
    if fields:
        ids = (before["step_id"], now["step_id"])
        yield StepChange("changed", before["name"], *ids, fields, before["input"])


def _changed(names: Sequence[str], a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Changed]:
    for name in names:
        if a[name] != b[name]:
            yield Changed(name, a[name], b[name])


def lines_of(found: RunDiff) -> Iterator[str]:
    """Yield the difference for a person, in the signs of `diff`."""
    for each in found.fields:
        yield f"  {each.field}: {_shown(each.a)} -> {_shown(each.b)}"
    signs = {"added": "+", "removed": "-", "changed": "~"}
    for step in found.steps:
        yield f"{signs[step.change]} {step.name}  {_shown(step.input)}"
        for each in step.fields:
            yield f"    {each.field}: {_shown(each.a)} -> {_shown(each.b)}"


def _shown(value: Any) -> str:
    return preview(value if isinstance(value, str) else canonical_text(value), 160)
