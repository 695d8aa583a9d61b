"""The tool `file.search`: lines of the project's files that hold a text or match a pattern."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from clawhive_builtin.files import between, closed_object, is_searchable, readable
from clawhive_core import InvokeContext, ToolError, ToolResult, Workspace, tool

SKIPPED_FOLDERS = frozenset({".git", ".hg", ".venv", "__pycache__", "node_modules"})
"""Folders that are not searched unless the search starts in them."""
MAX_MATCHES = 1_000
MAX_SEARCHED = 256 * 1024 * 1024
"""Bytes that one search reads at most."""
MAX_TEXT = 2 * 1024 * 1024
"""Bytes of a file beyond which it is passed over as data."""
MAX_PATTERN = 1_000
MAX_LINE = 2_000
"""Characters of a line that are looked at."""
SHOWN_LINE = 300
SECONDS = 10.0

_LOADER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""Variables of the environment that an interpreter may need to start."""
_BATCH = 4 * 1024 * 1024
_WORKER = """
import json, re, sys
asked = json.load(sys.stdin)
try:
    pattern = re.compile(asked["pattern"], asked["flags"])
except (re.error, OverflowError, RecursionError) as error:
    json.dump({"error": str(error)}, sys.stdout)
    sys.exit()
found = [
    [at for at, line in enumerate(text.splitlines()) if pattern.search(line[: asked["width"]])]
    for text in asked["texts"]
]
json.dump({"found": found}, sys.stdout)
"""

_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}


@dataclass(frozen=True, slots=True)
class _Query:
    pattern: str
    regex: bool
    ignore_case: bool
    glob: str
    limit: int
    deadline: float

    @property
    def left(self) -> float:
        return self.deadline - time.monotonic()


@dataclass(slots=True)
class _Report:
    """The matches so far, and the files that were not searched."""

    matches: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    searched: int = 0
    passed_over: int = 0
    cut: str | None = None
    """The reason that the search ended early."""


@tool(
    name="file.search",
    level="L0",
    risk="safe",
    effects={"path": "fs.read:{}/**"},
    aliases=("file_search",),
    idempotent=True,
    category="files",
    keywords=("grep", "find", "text", "regex", "lines", "code"),
    examples=(
        {"pattern": "TODO"},
        {"pattern": r"def test_\w+", "regex": True, "path": "tests", "glob": "*.py"},
    ),
    output_schema=closed_object(
        {
            "matches": {
                "type": "array",
                "items": closed_object({"path": _TEXT, "line": _COUNT, "text": _TEXT}),
            },
            "files_searched": _COUNT,
            "files_passed_over": _COUNT,
            "truncated": {"type": "boolean"},
            "reason": {"type": ["string", "null"]},
        }
    ),
)
def file_search(
    pattern: str,
    ctx: InvokeContext,
    path: str = ".",
    *,
    regex: bool = False,
    ignore_case: bool = False,
    glob: str = "*",
    limit: int = 200,
) -> ToolResult:
    """Find lines in the project's text files that hold a text or match a regular expression.

    Args:
        pattern: What to look for, within one line.
        ctx: The call.
        path: The file or folder to search, relative to the project's folder.
        regex: Whether the pattern is a regular expression of Python's `re`.
        ignore_case: Whether upper and lower case are the same.
        glob: Which files to search by name or path, such as `*.py` or `src/*.ts`.
        limit: How many matches to answer at most.
    """
    seconds = min(SECONDS, max(0.1, ctx.remaining() - 1.0))
    query = _Query(
        pattern,
        regex,
        ignore_case,
        glob,
        between("limit", limit, 1, MAX_MATCHES),
        time.monotonic() + seconds,
    )
    _check(query)
    report = _Report()
    for batch in _batches(ctx.workspace, path, query, report):
        _search(batch, query, report)
        ctx.progress(report.searched, text=f"{report.searched} files")
        if report.cut:
            break
    return _answer(ctx.tool_call_id, report)


def _check(query: _Query) -> None:
    if not query.pattern or len(query.pattern) > MAX_PATTERN or "\n" in query.pattern:
        raise ToolError(
            "the pattern is empty, longer than a line may be, or holds a line break",
            code="invalid_input",
            place="/pattern",
            fix=f"give 1 to {MAX_PATTERN} characters that stand in one line",
        )
    if query.regex:
        _by_pattern({}, query)


def _batches(
    workspace: Workspace, path: str, query: _Query, report: _Report
) -> Iterator[dict[str, str]]:
    """Yield the texts to search by path, some megabytes at a time."""
    batch: dict[str, str] = {}
    size = total = 0
    for name in _names(workspace, path, query):
        text = _text(workspace, name)
        if text is None:
            report.passed_over += 1
        else:
            batch[name] = text
            size += len(text)
        if query.left <= 0 or total + size > MAX_SEARCHED:
            report.cut = _too_slow() if query.left <= 0 else f"{MAX_SEARCHED} bytes were searched"
            break
        if size >= _BATCH:
            yield batch
            batch, total, size = {}, total + size, 0
    if batch and query.left > 0:
        yield batch


def _names(workspace: Workspace, path: str, query: _Query) -> Iterator[str]:
    """Yield the files to search, sorted by folder; a path that is a file is itself."""
    try:
        entries = workspace.list(path)
    except ToolError as error:
        if error.code != "not_a_directory":
            raise
        yield path
        return
    for entry in entries:
        name = entry.path.rpartition("/")[2]
        if entry.kind == "directory" and name not in SKIPPED_FOLDERS:
            yield from _inside(workspace, entry.path, query)
        elif is_searchable(entry) and _fits(entry.path, name, query.glob):
            yield entry.path
        if query.left <= 0:
            return


def _inside(workspace: Workspace, path: str, query: _Query) -> Iterator[str]:
    try:
        yield from _names(workspace, path, query)
    except ToolError:
        return  # a folder that vanished or may not be read holds nothing to find
    except RecursionError:
        return


def _fits(path: str, name: str, glob: str) -> bool:
    return fnmatchcase(name, glob) or fnmatchcase(path, glob)


def _text(workspace: Workspace, path: str) -> str | None:
    try:
        text = workspace.read_text(path, limit=MAX_TEXT)
    except ToolError as error:
        if error.code == "denied":
            raise
        return None
    return None if "\0" in text else text


def _search(batch: Mapping[str, str], query: _Query, report: _Report) -> None:
    found = _by_pattern(batch, query) if query.regex else _by_text(batch, query)
    if found is None:
        report.cut = f"{_too_slow()}; the pattern may be slow on long lines"
        return
    report.searched += len(batch)
    for (path, text), numbers in zip(batch.items(), found, strict=True):
        lines = text.splitlines() if numbers else []
        for number in numbers:
            if len(report.matches) == query.limit:
                report.cut = f"there are more than {query.limit} matches"
                return
            shown = lines[number][:SHOWN_LINE]
            report.matches.append({"path": readable(path), "line": number + 1, "text": shown})


def _by_text(batch: Mapping[str, str], query: _Query) -> list[list[int]]:
    fold = str.casefold if query.ignore_case else str
    wanted = fold(query.pattern)
    return [
        [number for number, line in enumerate(text.splitlines()) if wanted in fold(line[:MAX_LINE])]
        if wanted in fold(text)
        else []
        for text in batch.values()
    ]


def _by_pattern(batch: Mapping[str, str], query: _Query) -> list[list[int]] | None:
    """Match in a process of its own, the only way to stop a pattern that explodes.

    Returns:
        Line numbers from 0 for each text, None where the time was over first.
    """
    import subprocess

    asked = {
        "pattern": query.pattern,
        "flags": int(re.IGNORECASE) if query.ignore_case else 0,
        "width": MAX_LINE,
        "texts": list(batch.values()),
    }
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _WORKER],
            input=json.dumps(asked),
            capture_output=True,
            encoding="ascii",
            timeout=max(0.05, query.left),
            check=True,
            env={name: os.environ[name] for name in _LOADER if name in os.environ},
        )
    except subprocess.TimeoutExpired:
        return None
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolError(
            f"the pattern could not be matched: {error}",
            code="io_error",
            place="/pattern",
            fix="try a simpler pattern, or leave `regex` out to look for the text itself",
        ) from error
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise ToolError(
            f"the pattern is no regular expression: {answer['error']}",
            code="invalid_input",
            place="/pattern",
            fix="correct it, or leave `regex` out to look for the text itself",
        )
    return answer["found"]


def _too_slow() -> str:
    return f"the search took longer than {SECONDS:g} seconds"


def _answer(call_id: str, report: _Report) -> ToolResult:
    lines = [f"{one['path']}:{one['line']}: {one['text']}" for one in report.matches]
    if not lines:
        lines = [f"no match in {report.searched} files"]
    if report.cut:
        lines.append(f"[cut: {report.cut}; name a narrower path, glob or pattern]")
    structured = {
        "matches": report.matches,
        "files_searched": report.searched,
        "files_passed_over": report.passed_over,
        "truncated": report.cut is not None,
        "reason": report.cut,
    }
    return ToolResult(call_id, "\n".join(lines), structured=structured)
