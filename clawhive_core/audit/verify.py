"""Checking that the log is what was written: chain, bodies, and signed checkpoints."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clawhive_core.audit.checkpoints import Checkpoint, Checkpoints
from clawhive_core.events.chain import COLUMNS, genesis, row_hash
from clawhive_core.events.kinds import BODIES_PRUNED
from clawhive_core.events.rows import references
from clawhive_core.model.late import dataclass
from clawhive_core.protocols.ledger import Inspection

MOST_PROBLEMS = 100
"""After this many problems the check stops: the log is broken, and the first ones say where."""

_TS, _KIND = COLUMNS.index("ts"), COLUMNS.index("kind")
_BODY, _PREV, _HASH = COLUMNS.index("body"), COLUMNS.index("prev"), COLUMNS.index("hash")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it was written."""

    code: str
    """Such as `altered`, `missing_rows`, `cut_tail`; `docs/reference/log.md` lists all."""
    seq: int | None
    """The first row concerned, None where no row is."""
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as JSON."""
        return {"code": self.code, "seq": self.seq, "message": self.message}


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The findings of a check of the log."""

    database_id: str
    rows: int
    problems: tuple[Problem, ...]
    checkpoint_seq: int | None
    """The last row that a genuine checkpoint protects."""
    last_seq: int
    pruned: int
    """Bodies of which only the digest is left, by `audit prune`."""
    notes: tuple[str, ...] = ()
    """Notes: worth knowing and no problem."""
    public_key: str | None = None
    """The public key, in hexadecimal, that checkpoints are signed with now; None with HMAC."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems

    @property
    def window_rows(self) -> int:
        """The number of rows newer than the last checkpoint: a cut among them goes unnoticed."""
        return max(0, self.last_seq - (self.checkpoint_seq or 0))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as the JSON object of `audit verify --json`."""
        return {
            "schema": "audit-verify/1",
            "ok": self.ok,
            "database_id": self.database_id,
            "rows": self.rows,
            "last_seq": self.last_seq,
            "checkpoint_seq": self.checkpoint_seq,
            "window_rows": self.window_rows,
            "pruned": self.pruned,
            "public_key": self.public_key,
            "problems": [problem.to_dict() for problem in self.problems],
            "notes": list(self.notes),
        }

    def lines(self) -> list[str]:
        """Return the report as text."""
        found = len(self.problems)
        verdict = f"{found} {'problem' if found == 1 else 'problems'}" if found else "ok"
        head = f"{self.rows} {'row' if self.rows == 1 else 'rows'}, {verdict}"
        said = [f"{problem.code}: {problem.message}" for problem in self.problems]
        return [head, *said, *self._window(), *self._pruned(), *self._signed(), *self.notes]

    def _signed(self) -> list[str]:
        if self.public_key is None or self.checkpoint_seq is None:
            return []
        return [f"checkpoints up to row {self.checkpoint_seq}, public key {self.public_key}"]

    def _pruned(self) -> list[str]:
        if not self.pruned:
            return []
        bodies = "body was" if self.pruned == 1 else "bodies were"
        return [f"{self.pruned} {bodies} pruned: only the digests are left"]

    def _window(self) -> list[str]:
        if not self.window_rows:
            return []
        first = (self.checkpoint_seq or 0) + 1
        rows = f"row {first} is" if first == self.last_seq else f"rows {first}..{self.last_seq} are"
        return [f"{rows} newer than the last checkpoint: if they were cut off, nothing would show"]


def verify(log: Inspection, checkpoints: Path | str | Checkpoints) -> VerifyReport:
    """Check the whole log: every hash, link, body and checkpoint.

    Args:
        log: What is looked at.
        checkpoints: The user's directory, where checkpoints are filed under the log's own id; or
            the Checkpoints that this log must have.

    Raises:
        StorageError: The log or the checkpoints cannot be read.
    """
    if not isinstance(checkpoints, Checkpoints):
        checkpoints = Checkpoints(checkpoints, log.id)
    return _Check(log, checkpoints).report()


class _Check:
    """One pass over the log."""

    def __init__(self, log: Inspection, checkpoints: Checkpoints) -> None:
        self._log = log
        self._checkpoints = checkpoints
        self._problems: list[Problem] = []
        self._notes: list[str] = []
        self._genuine: dict[int, Checkpoint] = {}
        self._rows = 0
        self._last_seq = 0
        self._blobs: set[str] = set()
        self._tombstones: set[str] = set()
        self._youngest: tuple[str, int] = ("", 0)
        """The time of the youngest row that refers to a tombstone, and that row's number."""
        self._pruned_before = ""

    def report(self) -> VerifyReport:
        self._read_checkpoints()
        self._scan()
        self._check_tail()
        self._check_tombstones()
        for each in self._log.problems():
            self._found("altered_schema", None, each)
        self._notes += self._log.notes()
        return VerifyReport(
            database_id=self._log.id,
            rows=self._rows,
            problems=tuple(self._problems),
            checkpoint_seq=max(self._genuine, default=None),
            last_seq=self._last_seq,
            pruned=len(self._tombstones),
            notes=tuple(self._notes),
            public_key=self._checkpoints.public_key(),
        )

    def _found(self, code: str, seq: int | None, message: str) -> None:
        self._problems.append(Problem(code, seq, message))

    def _read_checkpoints(self) -> None:
        file = self._checkpoints.read()
        forged: list[Checkpoint] = []
        for checkpoint in file.checkpoints:
            if not self._checkpoints.is_genuine(checkpoint):
                forged.append(checkpoint)
            elif self._genuine.setdefault(checkpoint.seq, checkpoint).hash != checkpoint.hash:
                self._found(
                    "contradicting_checkpoints",
                    checkpoint.seq,
                    f"two signed checkpoints give row {checkpoint.seq} different hashes",
                )
        if forged:
            self._found(
                "forged_checkpoint",
                forged[0].seq,
                f"{len(forged)} of {len(file.checkpoints)} checkpoints are not signed by this "
                f"user's key, the first for row {forged[0].seq}",
            )
        for line in file.damaged:
            self._notes.append(
                f"checkpoint line {line.line} cannot be read, as after a crash while writing it"
            )
        self._check_identity()

    def _check_identity(self) -> None:
        if self._checkpoints.database_id != self._log.id:
            self._found(
                "swapped",
                None,
                f"this is the database {self._log.id}, the checkpoints are for "
                f"{self._checkpoints.database_id}",
            )
        for other in self._checkpoints.others_at(Path(self._log.place)):
            message = (
                f"another log with at least {other.seq} rows lay here before "
                f"({other.database_id}, {other.ts})"
            )
            # Whoever starts anew on purpose gets checkpoints of the new log with the next run.
            if self._genuine:
                self._notes.append(message)
            else:
                self._found("swapped", None, message)

    def _scan(self) -> None:
        tip = genesis(self._log.id)
        for row in self._log.raw():
            if len(self._problems) >= MOST_PROBLEMS:
                self._notes.append(f"stopped at row {row[0]}, after {MOST_PROBLEMS} problems")
                return
            self._check_row(row, tip)
            tip = row[_HASH]
            self._rows += 1
            self._last_seq = row[0]

    def _check_row(self, row: Sequence[Any], tip: str) -> None:
        seq, body = row[0], row[_BODY]
        if seq != self._last_seq + 1:
            self._found(
                "missing_rows", self._last_seq + 1, f"rows {self._last_seq + 1}..{seq - 1} are gone"
            )
        elif row[_PREV] != tip:
            self._found("broken_link", seq, f"row {seq} does not follow the row before it")
        if row_hash(row) != row[_HASH]:
            self._found("altered", seq, f"row {seq} is not as it was written")
        elif isinstance(body, str):
            for sha256 in references(body):
                self._check_blob(seq, row[_TS], sha256)
            if row[_KIND] == BODIES_PRUNED:
                self._pruned_before = max(self._pruned_before, json.loads(body)["before"])
        checkpoint = self._genuine.get(seq)
        if checkpoint is not None and checkpoint.hash != row[_HASH]:
            self._found(
                "checkpoint_mismatch",
                seq,
                f"row {seq} is not the one that was signed at {checkpoint.ts}",
            )

    def _check_blob(self, seq: int, ts: str, sha256: str) -> None:
        if sha256 in self._tombstones:
            self._youngest = max(self._youngest, (ts, seq))
        if sha256 in self._blobs:
            return
        self._blobs.add(sha256)
        body = self._log.blob(sha256)
        if body is None:
            self._found("missing_body", seq, f"a body of row {seq} ({sha256[:12]}) is gone")
        elif body.data is None:
            self._tombstones.add(sha256)
            self._youngest = max(self._youngest, (ts, seq))
        elif not isinstance(body.data, bytes) or hashlib.sha256(body.data).hexdigest() != sha256:
            self._found(
                "altered_body", seq, f"a body of row {seq} ({sha256[:12]}) is not as it was written"
            )

    def _check_tombstones(self) -> None:
        """A body may be gone only where the log says that so old ones were pruned."""
        ts, seq = self._youngest
        whole = len(self._problems) < MOST_PROBLEMS
        if whole and self._tombstones and ts >= self._pruned_before:
            self._found(
                "missing_body", seq, f"a body of row {seq} is gone, and no prune took one so young"
            )

    def _check_tail(self) -> None:
        signed = max(self._genuine, default=0)
        if signed > self._last_seq and len(self._problems) < MOST_PROBLEMS:
            self._found(
                "cut_tail",
                self._last_seq + 1,
                f"rows {self._last_seq + 1}..{signed} are gone: row {signed} was signed at "
                f"{self._genuine[signed].ts}",
            )
