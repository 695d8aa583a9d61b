"""Reports of a program's end: to a model in words, to programs as JSON."""

from __future__ import annotations

from typing import Any

from clawhive_core.model.canonical import canonical
from clawhive_core.model.tools import ToolResult
from clawhive_core.protocols.sandbox import SandboxEngine, SandboxLimits, SandboxOutcome

_SHOWN = 3 * 1024 * 1024
"""Bytes of JSON that one stream may take in a result; the whole is in the artifacts."""
_TAIL = 4_000
_ESCAPED = 6
"""Bytes of JSON that the worst character takes."""

LIMIT_TEXT = {
    "wall": "it ran longer than {0.wall_ms} ms",
    "memory": "it used more than {0.memory_bytes} bytes of memory",
    "stdout": "it printed more than {0.stdout_bytes} bytes",
    "stderr": "it printed more than {0.stderr_bytes} bytes of errors",
    "files": "it wrote more than {0.files} files or {0.file_bytes} bytes of files",
    "processes": "it started more than {0.processes} processes",
    "tool_calls": "it called tools more than {0.tool_calls} times",
    "cancel": "it was cancelled",
}
"""What a limit says, to be filled with the limits."""


def result_of(
    call_id: str, engine: SandboxEngine, outcome: SandboxOutcome, limits: SandboxLimits
) -> ToolResult:
    """Return an execution's result, an error where the program failed or was stopped.

    An error carries `structured["error"]` with the code `program_failed` or `limit_reached`.
    """
    stdout, out_cut = shown_stream(outcome.stdout)
    stderr, err_cut = shown_stream(outcome.stderr)
    cut = {"stdout": out_cut, "stderr": err_cut}
    truncated = {*outcome.truncated, *(name for name, was_cut in cut.items() if was_cut)}
    structured: dict[str, Any] = {
        "exit_code": outcome.exit_code,
        "stdout": stdout,
        "stderr": stderr,
        "killed_by": outcome.killed_by,
        "truncated": sorted(truncated),
        "engine": engine.name,
        "engine_version": engine.version,
        "duration_ms": outcome.duration_ms,
    }
    error = _error(outcome, stderr, limits)
    if error is not None:
        structured["error"] = error
    return ToolResult(
        call_id, _text(stdout, stderr, error), is_error=error is not None, structured=structured
    )


def shown_stream(data: bytes) -> tuple[str, bool]:
    """Return output as text, UTF-8 with replacements, and whether it was cut to fit a result."""
    text = data.decode("utf-8", "replace")
    if len(data) * _ESCAPED <= _SHOWN or len(canonical(text)) <= _SHOWN:
        return text, False
    return text[: _SHOWN // _ESCAPED], True


def _error(outcome: SandboxOutcome, stderr: str, limits: SandboxLimits) -> dict[str, Any] | None:
    if outcome.killed_by is not None:
        why = LIMIT_TEXT[outcome.killed_by].format(limits)
        return {
            "code": "limit_reached",
            "message": f"the program was stopped: {why}",
            "limit": outcome.killed_by,
        }
    if outcome.exit_code != 0:
        said = stderr.strip().splitlines()
        reason = f": {said[-1][:500]}" if said else ""
        return {
            "code": "program_failed",
            "message": f"the program ended with exit code {outcome.exit_code}{reason}",
            "exit_code": outcome.exit_code,
        }
    return None


def _text(stdout: str, stderr: str, error: dict[str, Any] | None) -> str:
    parts = [stdout]
    if stderr:
        tail = stderr if len(stderr) <= _TAIL else f"…{stderr[-_TAIL:]}"
        parts.append(f"[stderr]\n{tail}")
    if error is not None:
        parts.append(f"[{error['message']}]")
    return "\n".join(part.rstrip("\n") for part in parts if part)
