"""The core tools `sandbox.*` and `shell.exec`: their contracts, and how a program's end is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clawhive_core.model.canonical import canonical
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.protocols.sandbox import (
    ISOLATIONS,
    SandboxEngine,
    SandboxLimits,
    SandboxOutcome,
)

PROVIDER_ID = "sandbox"

_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_LIMITS = ["wall", "memory", "stdout", "stderr", "files", "processes", "tool_calls"]


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    names = list(properties) if required is None else required
    return {
        "type": "object",
        "properties": properties,
        **({"required": names} if names else {}),
        "additionalProperties": False,
    }


_NAMES: dict[str, Any] = {"type": "array", "items": _TEXT, "maxItems": 64}
_GIVEN: dict[str, Any] = {
    "tools": {
        **_NAMES,
        "description": "Tools that the program may call: call_tool(NAME, {...}). Each call is"
        " decided by itself.",
    },
    "hosts": {
        **_NAMES,
        "description": "Hosts that it may send requests to, HOST or http://HOST:"
        ' call_tool("http.request", {"url": ..., "method": "GET", "headers": {}, "body": ""}).'
        " It has no other network.",
    },
    "secrets": {
        **_NAMES,
        "description": "Secrets that its requests may carry, as ${secret:NAME} in a header. The"
        " program never sees them.",
    },
    "env": {**_NAMES, "description": "Environment variables that it may read."},
    "reads": {
        **_NAMES,
        "description": "Files and folders of the project that it sees, read-only, as"
        " /workspace/PATH; of a folder all that this call may read.",
    },
}
"""The rights that a program is given from outside: they are fixed before it starts."""
_GIVES: dict[str, str | tuple[str, ...]] = {
    "hosts": "net.http:{}/**",
    "secrets": "secret.use:{}",
    "env": "env.read:{}",
    "reads": "fs.read:{}/**",
}
_WRITES: dict[str, Any] = {
    **_NAMES,
    "description": "Folders of the project that it sees as /workspace/PATH and may change. When it"
    " has ended, changed and new files are written into the project as `file.write` would.",
}
_CHANGES = ("fs.read:{}/**", "fs.write:{}/**")
_VIEWS: dict[str, Any] = {
    "mounted": {
        "type": "array",
        "items": _object(
            {
                "path": _TEXT,
                "target": _TEXT,
                "writable": {"type": "boolean"},
                "files": _COUNT,
                "bytes": _COUNT,
            }
        ),
    },
    "written": {"type": "array", "items": _TEXT},
    "left_out": {"type": "array", "items": _object({"path": _TEXT, "reason": _TEXT})},
}
"""The files of the project that a program was given, and how it changed them."""
_SENDS = ("hosts:url",)

_CODE: dict[str, Any] = {
    "code": {"type": "string", "description": "The program.", "maxLength": 1_000_000},
}
_RUNNING: dict[str, Any] = {
    "stdin": {"type": "string", "description": "What the program reads as its input."},
    "timeout_ms": {
        "type": "integer",
        "description": "Milliseconds it may run; never more than the configured limit.",
        "minimum": 1,
    },
}

WRITE_FILES = ToolMeta(
    name="sandbox.write_files",
    description=(
        "Write text files into this session's sandbox directory, where `sandbox.exec` runs. All of"
        " them are written or none; files already there stay."
    ),
    input_schema=_object(
        {
            "files": {
                "type": "object",
                "description": "Texts by path, relative to the sandbox directory.",
                "additionalProperties": _TEXT,
            }
        }
    ),
    output_schema=_object({"files": {"type": "array", "items": _TEXT}, "bytes": _COUNT}),
    provider_id=PROVIDER_ID,
    capability_level="L1",
    risk="safe",
    effects={"files": "sandbox.write"},
    idempotent=True,
    category="sandbox",
    keywords=("file", "input", "code", "snippet"),
    aliases=("sandbox_write_files",),
    examples=({"files": {"data/input.csv": "a,b\n1,2\n"}},),
)

_TOLD = [
    *("exit_code", "stdout", "stderr", "killed_by", "truncated", "engine", "engine_version"),
    *("isolation", "passed_over", "duration_ms"),
]
EXEC = ToolMeta(
    name="sandbox.exec",
    description=(
        "Run a short program in a sandbox without network: `python -c CODE` or `node -e CODE`. It"
        " starts in the session's sandbox directory and can read and write files only there."
        " Answers its exit code, stdout and stderr, also when it fails or meets a limit."
    ),
    input_schema=_object(
        {
            "command": {
                "type": "array",
                "description": 'The program, its flag and the code: ["python", "-c", "print(1)"].',
                "items": _TEXT,
                "minItems": 1,
                "maxItems": 64,
            },
            "script": {
                "type": "string",
                "description": "What to call the code in error messages.",
                "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$",
                "default": "main.py",
            },
            **_RUNNING,
            **_GIVEN,
        },
        ["command"],
    ),
    output_schema=(
        _ENDED := _object(
            {
                "exit_code": {"type": ["integer", "null"]},
                "stdout": _TEXT,
                "stderr": _TEXT,
                "killed_by": {"enum": [*_LIMITS, "cancel", None]},
                "truncated": {"type": "array", "items": {"enum": _LIMITS}},
                "engine": _TEXT,
                "engine_version": _TEXT,
                "isolation": {"enum": list(ISOLATIONS)},
                "passed_over": {
                    "type": "array",
                    "items": _object({"engine": _TEXT, "reason": _TEXT}),
                },
                "duration_ms": _COUNT,
                **_VIEWS,
            },
            _TOLD,
        )
    ),
    provider_id=PROVIDER_ID,
    capability_level="L2",
    risk="safe",
    effects={"command": "sandbox.exec:{0}", **_GIVES},
    sinks=_SENDS,
    category="sandbox",
    keywords=("run", "code", "python", "javascript", "node", "snippet", "execute"),
    aliases=("sandbox_exec",),
    examples=({"command": ["python", "-c", "print(sum(range(10)))"]},),
)


def _language(name: str, program: str, words: tuple[str, ...]) -> ToolMeta:
    return ToolMeta(
        name=f"sandbox.run_{name.lower()}",
        description=(
            f"Run a {name} program in a sandbox without network. It starts in the session's sandbox"
            " directory and can read and write files only there. Answers its exit code, stdout and"
            " stderr, also when it fails or meets a limit."
        ),
        input_schema=_object({**_CODE, **_RUNNING, **_GIVEN}, ["code"]),
        output_schema=_ENDED,
        provider_id=PROVIDER_ID,
        capability_level="L2",
        risk="safe",
        effects={"": f"sandbox.exec:{program}", **_GIVES},
        sinks=_SENDS,
        category="sandbox",
        keywords=("run", "code", "snippet", "execute", *words),
        aliases=(f"sandbox_run_{name.lower()}",),
    )


RUN_PYTHON = _language("Python", "python", ("calculate", "script"))
RUN_JAVASCRIPT = _language("JavaScript", "node", ("js", "script"))
SHELL = ToolMeta(
    name="shell.exec",
    description=(
        "Run a command of the shell in a jail of the operating system, without network, with the"
        " machine's programs. It starts in the session's sandbox directory and can read and write"
        " files only there. A person is asked each time. Answers its exit code, stdout and stderr,"
        " also when it fails or meets a limit."
    ),
    input_schema=_object(
        {
            "command": {
                "type": "string",
                "description": "What `sh -c` is given.",
                "minLength": 1,
                "maxLength": 100_000,
            },
            **_RUNNING,
            "env": _GIVEN["env"],
            "reads": _GIVEN["reads"],
            "writes": _WRITES,
        },
        ["command"],
    ),
    output_schema=_ENDED,
    provider_id=PROVIDER_ID,
    capability_level="L2",
    risk="unsafe",
    effects={
        "": "sandbox.exec:sh",
        "env": _GIVES["env"],
        "reads": _GIVES["reads"],
        "writes": _CHANGES,
    },
    category="sandbox",
    keywords=("command", "terminal", "sh", "bash", "run"),
    aliases=("shell_exec",),
    examples=({"command": "sort -u names.txt | head"},),
)
_SANDBOX = {"type": "string", "description": "As `sandbox.open` answered it."}
OPEN = ToolMeta(
    name="sandbox.open",
    description=(
        "Start an interpreter that keeps its variables between `sandbox.eval` calls of this task,"
        " for work with data in several steps."
    ),
    input_schema=_object({"language": {"enum": ["python", "javascript"]}, **_GIVEN}, ["language"]),
    output_schema=_object(
        {
            "sandbox": _TEXT,
            "engine": _TEXT,
            "engine_version": _TEXT,
            "isolation": {"enum": list(ISOLATIONS)},
            "mounted": _VIEWS["mounted"],
        },
        ["sandbox", "engine", "engine_version", "isolation"],
    ),
    provider_id=PROVIDER_ID,
    capability_level="L2",
    risk="safe",
    effects={"language": "sandbox.exec:{}", **_GIVES},
    sinks=_SENDS,
    category="sandbox",
    keywords=("interpreter", "repl", "notebook", "variables", "data"),
    aliases=("sandbox_open",),
)
EVAL = ToolMeta(
    name="sandbox.eval",
    description=(
        "Run code in an interpreter that `sandbox.open` started; it prints the value of a last"
        " expression. One that meets a limit ends the interpreter."
    ),
    input_schema=_object(
        {"sandbox": _SANDBOX, **_CODE, "timeout_ms": _RUNNING["timeout_ms"]}, ["sandbox", "code"]
    ),
    output_schema=_ENDED,
    provider_id=PROVIDER_ID,
    capability_level="L2",
    risk="safe",
    effects={"": "sandbox.exec:eval"},
    category="sandbox",
    keywords=("interpreter", "repl", "notebook"),
    aliases=("sandbox_eval",),
)
CLOSE = ToolMeta(
    name="sandbox.close",
    description="End an interpreter that `sandbox.open` started; the end of the task does so too.",
    input_schema=_object({"sandbox": _SANDBOX}),
    output_schema=_object({"closed": {"type": "boolean"}}),
    provider_id=PROVIDER_ID,
    capability_level="L0",
    risk="safe",
    effects={"": "sandbox.exec:eval"},
    idempotent=True,
    category="sandbox",
    keywords=("interpreter", "end"),
    aliases=("sandbox_close",),
)

COLLECT_OUTPUTS = ToolMeta(
    name="sandbox.collect_outputs",
    description=(
        "Keep what the last program in the sandbox left: stdout, stderr and every file made or"
        " changed since files were last written, as artifacts of this run."
    ),
    input_schema=_object({}),
    output_schema=_object(
        {
            "stdout": _TEXT,
            "stderr": _TEXT,
            "files": {
                "type": "array",
                "items": _object(
                    {"path": _TEXT, "media_type": _TEXT, "bytes": _COUNT, "sha256": _TEXT}
                ),
            },
            "skipped": {"type": "array", "items": _object({"path": _TEXT, "reason": _TEXT})},
        }
    ),
    provider_id=PROVIDER_ID,
    capability_level="L0",
    risk="safe",
    effects={"": "sandbox.read:**"},
    idempotent=True,
    category="sandbox",
    keywords=("artifact", "file", "output", "result"),
    aliases=("sandbox_collect_outputs",),
    examples=({},),
)

TOOLS = (WRITE_FILES, EXEC, RUN_PYTHON, RUN_JAVASCRIPT, SHELL, OPEN, EVAL, CLOSE, COLLECT_OUTPUTS)


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
"""The message of each limit, to be filled with the limits."""


def result_of(
    call_id: str,
    engine: SandboxEngine,
    outcome: SandboxOutcome,
    limits: SandboxLimits,
    passed_over: Sequence[Mapping[str, str]] = (),
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
        "isolation": engine.isolation,
        "passed_over": list(passed_over),
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
