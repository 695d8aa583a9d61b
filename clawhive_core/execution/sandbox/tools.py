"""The contracts of the core tools `sandbox.*`."""

from __future__ import annotations

from typing import Any

from clawhive_core.model.tools import ToolMeta

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
            "stdin": {"type": "string", "description": "What the program reads as its input."},
            "timeout_ms": {
                "type": "integer",
                "description": "Milliseconds it may run; never more than the configured limit.",
                "minimum": 1,
            },
        },
        ["command"],
    ),
    output_schema=_object(
        {
            "exit_code": {"type": ["integer", "null"]},
            "stdout": _TEXT,
            "stderr": _TEXT,
            "killed_by": {"enum": [*_LIMITS, "cancel", None]},
            "truncated": {"type": "array", "items": {"enum": _LIMITS}},
            "engine": _TEXT,
            "engine_version": _TEXT,
            "duration_ms": _COUNT,
        }
    ),
    provider_id=PROVIDER_ID,
    capability_level="L2",
    risk="safe",
    effects={"command": "sandbox.exec:{0}"},
    category="sandbox",
    keywords=("run", "code", "python", "javascript", "node", "snippet", "execute"),
    aliases=("sandbox_exec",),
    examples=({"command": ["python", "-c", "print(sum(range(10)))"]},),
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
