"""The log, or a part of it, in a form that other systems read: a line at a time."""

from __future__ import annotations

import base64
import errno
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TextIO, cast

from clawhive_core.audit.ocsf import api_activity
from clawhive_core.audit.query import oldest_first
from clawhive_core.audit.spans import Load, Span, SpanFold, traces
from clawhive_core.errors import ClawHiveError, UsageError
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.events import StoredEvent
from clawhive_core.protocols.ledger import EventsWhere, Ledger, Window

Format = Literal["jsonl", "otel", "ocsf"]

_SPANS = 200
"""Spans a line, so that a long run does not become one."""
_NO_UNNAMED = {errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL}
"""The error numbers of file systems that have no files without a name."""


def lines(log: Ledger, form: Format, wanted: EventsWhere, *, bodies: bool = False) -> Iterator[str]:
    """Yield an export line by line; what is held in memory does not grow with the log.

    `jsonl` and `ocsf` give one line an event; `otel` gives the spans of the runs that began in
    the wanted time, each run whole.

    Args:
        log: The log; what is appended meanwhile is left out.
        form: The form.
        wanted: Of which run or trace, since when, until when.
        bodies: Whether to put the values in place of references to bodies.

    Raises:
        StorageError: The log cannot be read.
        ClawHiveError: `damaged_body`, with `bodies`.
    """
    load = _loader(log) if bodies else None
    return (canonical_text(value) for value in _FORMS[form](log, wanted, load))


def write_file(path: Path, content: Iterable[str]) -> int:
    """Write lines to a file for this user alone; it appears whole, or not at all.

    Until then it has no name, so that not even a killed process leaves a part of it.

    Returns:
        How many lines.

    Raises:
        UsageError: The file cannot be written; what was there before stays.
    """
    is_device = os.path.abspath(path).startswith(("/dev/", "/proc/"))  # noqa: PTH100 - links must stay
    path = Path(os.path.realpath(path))
    if is_device or (os.path.exists(path) and not path.is_file()):  # noqa: PTH110 - never raises
        raise UsageError(
            "the export goes into a regular file only",
            place=str(path),
            fix="name one with --output F, or leave --output out: it goes to stdout then",
        )
    try:
        with _AtomicFile(path) as file:
            return sum(1 for line in content if file.write(f"{line}\n"))
    except OSError as error:
        raise UsageError(
            f"the export cannot be written: {error.strerror or error}",
            place=str(path),
            fix="name a file in a folder that is there and writable: --output F",
        ) from error


class _AtomicFile:
    """A text file for this user alone (0600) that takes its name at the end, if nothing failed.

    Where the file system has no files without a name it has a hidden one, which is removed after a
    failure.

    Raises:
        OSError: (on entering, writing or leaving) it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        self._file: TextIO | None = None
        self._has_name = False

    def __enter__(self) -> TextIO:
        """Open the file."""
        self._file = os.fdopen(self._opened(), "w", encoding="utf-8")
        return self._file

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Name the file, or drop it."""
        file = self._file
        if file is None:
            return
        try:
            if kind is None:
                file.flush()
                os.fsync(file.fileno())
                self._name(file.fileno())
        finally:
            with suppress(OSError):
                file.close()
            with suppress(FileNotFoundError):
                self._hidden.unlink()

    def _opened(self) -> int:
        try:
            return os.open(self._path.parent, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except (AttributeError, OSError) as problem:
            if isinstance(problem, OSError) and problem.errno not in _NO_UNNAMED:
                raise
        self._has_name = True
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return os.open(self._hidden, flags, 0o600)

    def _name(self, descriptor: int) -> None:
        if not self._has_name:
            # Only `linkat` follows the link that /proc makes of a descriptor; a folder asks for it.
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
            try:
                proc = f"/proc/self/fd/{descriptor}"
                os.link(proc, self._hidden, src_dir_fd=folder, follow_symlinks=True)
            finally:
                os.close(folder)
        self._hidden.replace(self._path)


def _rows(log: Ledger, wanted: EventsWhere, load: Load | None) -> Iterator[dict[str, Any]]:
    for event in oldest_first(log, wanted):
        row = {"schema": "event/1", **event.to_dict()}
        yield row if load is None else {**row, "body": _full(event.event.body, load)}


def _activities(log: Ledger, wanted: EventsWhere, load: Load | None) -> Iterator[dict[str, Any]]:
    del load  # OCSF has no place for bodies

    @lru_cache(maxsize=1024)
    def parent(run_id: str | None) -> str | None:
        return _parent(log, run_id)

    for event in oldest_first(log, wanted):
        yield api_activity(event, _intent(log, event), parent(event.event.run_id))


def _parent(log: Ledger, run_id: str | None) -> str | None:
    """Return the run that started a run, which each of its events is exported with."""
    if run_id is None:
        return None
    starts = log.events(run_id=run_id, kinds=("run.start",))
    return next((each.event.body.get("parent_run_id") for each in starts), None)


def _intent(log: Ledger, event: StoredEvent) -> StoredEvent | None:
    """Return the start of the call that an event ends."""
    if event.event.kind != "invocation.end":
        return None
    start = EventsWhere(
        run_id=event.event.run_id,
        invocation_id=event.event.invocation_id,
        kind="invocation.start",
    )
    return next(iter(log.find(start, Window(1))), None)


def _traces(log: Ledger, wanted: EventsWhere, load: Load | None) -> Iterator[dict[str, Any]]:
    begun = replace(wanted, kind="run.start")
    for start in oldest_first(log, begun):
        waiting: list[Span] = []
        fold = SpanFold(load)
        for event in log.events(run_id=start.event.run_id):
            waiting += fold.take(event)
            if len(waiting) >= _SPANS:
                yield traces(waiting)
                waiting = []
        waiting += fold.finish()
        if waiting:
            yield traces(waiting)


_FORMS: Mapping[Format, Callable[[Ledger, EventsWhere, Load | None], Iterator[dict[str, Any]]]] = {
    "jsonl": _rows,
    "ocsf": _activities,
    "otel": _traces,
}


def _loader(log: Ledger) -> Load:
    def load(ref: Any) -> Any:
        try:
            value = log.load(ref)
        except ClawHiveError as error:
            if error.code != "pruned":
                raise
            return {**ref, "pruned": True}
        return {"$bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else value

    return load


def _full(value: Any, load: Load) -> Any:
    """Return a body with its references resolved; a pruned one is said to be."""
    if isinstance(value, list):
        return [_full(item, load) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if fields.keys() & {"$blob", "$value"}:
        return load(fields)
    return {name: _full(item, load) for name, item in fields.items()}
