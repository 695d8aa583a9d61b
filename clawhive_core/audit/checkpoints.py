"""Signed notes of the log's tip, kept outside the database, so that a cut tail is noticed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from clawhive_core.audit.keys import Keys, Scheme, append_line
from clawhive_core.config.private_file import FileVersion, version_of
from clawhive_core.errors import StorageError
from clawhive_core.model.canonical import canonical
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern

SIGN_ROWS = 1000
SIGN_SECONDS = 60.0
"""A log that grows is signed after so many rows, or so long, whichever comes first."""

_PLAIN = pattern(r"\w{0,100}")
_LAST_LINE = 4096
"""The bytes at the end of a file in which its last line is looked for; one is about 500 long."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One signed note: up to `seq` the log was there, and its last hash was `hash`."""

    database_id: str
    path: str | None
    """The path of the database, so that another one in its place is noticed."""
    seq: int
    hash: str
    run_id: str | None
    ts: str
    """RFC 3339, UTC."""
    scheme: str
    key: str
    """The first 16 hexadecimal digits of the SHA-256 of the key (of the public one for Ed25519)."""
    signature: str
    """Hexadecimal."""

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Checkpoint:
        """Return the note that a line of the file is.

        Raises:
            ValueError: It has other fields.
        """
        if row.keys() != cls.__dataclass_fields__.keys():
            raise ValueError(f"no checkpoint has the fields {', '.join(row)}")
        return cls(
            row["database_id"],
            row["path"],
            row["seq"],
            row["hash"],
            row["run_id"],
            row["ts"],
            row["scheme"],
            row["key"],
            row["signature"],
        )


@dataclass(frozen=True, slots=True)
class DamagedLine:
    """A line of a checkpoint file that cannot be read; the last one after a crash."""

    line: int
    """From 1."""
    is_last: bool


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """The content of a checkpoint file."""

    checkpoints: tuple[Checkpoint, ...] = ()
    damaged: tuple[DamagedLine, ...] = ()


class Checkpoints:
    """The checkpoints of one database: an append-only file in the user's own directory.

    Args:
        user_dir: The user's own directory, outside the project.
        database_id: The database's own id, under which its checkpoints are filed.
        database: Where the database lies; it is noted in each checkpoint.
        scheme: How to sign; what the user's keys say otherwise.
    """

    def __init__(
        self,
        user_dir: Path | str,
        database_id: str,
        database: Path | str | None = None,
        scheme: Scheme | None = None,
    ) -> None:
        self._user_dir = Path(user_dir)
        self.keys = Keys(self._user_dir, scheme)
        self._key: FileVersion | None = None
        # A database says its own id, and somebody else may have made it.
        name = database_id if _PLAIN.fullmatch(database_id) else _digest(database_id)
        self._path = self._user_dir / "checkpoints" / f"{name}.jsonl"
        self._database_id = database_id
        self._database = None if database is None else str(Path(database).absolute())

    @property
    def database_id(self) -> str:
        """The id of the database that these checkpoints are for."""
        return self._database_id

    @property
    def path(self) -> Path:
        """The file, one JSON object a line."""
        return self._path

    @property
    def key_path(self) -> Path:
        """The key that signs; whoever can read it can forge checkpoints."""
        return self.keys.path

    def write(self, seq: int, hash: str, run_id: str | None = None) -> Checkpoint:
        """Append a signed note of the log's tip and wait until the disk has it.

        Raises:
            StorageError: The file or the key cannot be read or written.
        """
        try:
            self._look_for_another_key()
            fields = self._unsigned(seq, hash, run_id)
            fields["signature"] = self.keys.sign(canonical(fields))
            append_line(self.path, canonical(fields))
        except OSError as error:
            raise _unusable(error, self.path) from error
        return Checkpoint.from_dict(fields)

    def read(self) -> CheckpointFile:
        """Return all checkpoints in order; a line that a crash cut off is reported, not fatal.

        Raises:
            StorageError: The file is there and cannot be read.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return CheckpointFile()
        except OSError as error:
            raise _unusable(error, self.path) from error
        lines = data.split(b"\n")
        parsed = [(n, _parse(line)) for n, line in enumerate(lines, 1) if line.strip()]
        last = parsed[-1][0] if parsed else 0
        return CheckpointFile(
            tuple(checkpoint for _, checkpoint in parsed if checkpoint is not None),
            tuple(DamagedLine(n, n == last) for n, checkpoint in parsed if checkpoint is None),
        )

    def last(self) -> Checkpoint | None:
        """Return the last checkpoint of the file, whoever wrote it; None where none can be read.

        Raises:
            StorageError: The file is there and cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_LINE))
                lines = file.read().split(b"\n")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unusable(error, self.path) from error
        found = [each for each in map(_parse, lines) if each is not None]
        return found[-1] if found else None

    def newest(self) -> Checkpoint | None:
        """Return the last checkpoint of the database where it lies now, else of any place.

        Raises:
            StorageError: The file is there and cannot be read.
        """
        last = self.last()
        if last is None or last.path == self._database:
            return last
        here = [each for each in self.read().checkpoints if each.path == self._database]
        return here[-1] if here else last

    def is_genuine(self, checkpoint: Checkpoint) -> bool:
        """Return whether a key of this user signed the checkpoint, for this database.

        Raises:
            StorageError: A key cannot be read, or Ed25519 cannot be checked here.
        """
        if checkpoint.database_id != self._database_id:
            return False
        fields = asdict(checkpoint)
        signature = fields.pop("signature")
        try:
            return self.keys.has_signed(
                checkpoint.scheme, checkpoint.key, canonical(fields), signature
            )
        except OSError as error:
            raise _unusable(error, self.key_path) from error

    def public_key(self) -> str | None:
        """Return the public key in hexadecimal, None with HMAC or before the first checkpoint.

        Raises:
            StorageError: The key cannot be read.
        """
        try:
            return self.keys.public()
        except OSError as error:
            raise _unusable(error, self.key_path) from error

    def others_at(self, database: Path) -> tuple[Checkpoint, ...]:
        """Return the last genuine checkpoint of every other database that lay at that path.

        Raises:
            StorageError: A file is there and cannot be read.
        """
        path = str(database.absolute())
        found: list[Checkpoint] = []
        for file in sorted(self.path.parent.glob("*.jsonl")):
            other = Checkpoints(self._user_dir, file.stem)
            other.keys = self.keys
            here = [c for c in other.read().checkpoints if c.path == path and other.is_genuine(c)]
            if here and file.stem != self._database_id:
                found.append(max(here, key=lambda checkpoint: checkpoint.seq))
        return tuple(found)

    def _look_for_another_key(self) -> None:
        """Let the key be read where its file is not the one that was read: it may be rotated."""
        version = version_of(self.keys.path)
        if version is None or version != self._key:
            # What is read from now on is at least as new as what was looked at.
            self.keys, self._key = Keys(self._user_dir, self.keys.scheme), version

    def _unsigned(self, seq: int, tip: str, run_id: str | None) -> dict[str, Any]:
        return {
            "database_id": self._database_id,
            "path": self._database,
            "seq": seq,
            "hash": tip,
            "run_id": run_id,
            "ts": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "scheme": self.keys.scheme,
            "key": self.keys.key_id(),
        }


class Signer:
    """Signs a log's tip as it grows: one a process, and one for all processes of a log.

    What another process signed a moment ago is not signed again.

    Args:
        checkpoints: Where it is noted.
        tip: The number and hash of the log's last row; None where it has none.
    """

    def __init__(self, checkpoints: Checkpoints, tip: Callable[[], tuple[int, str] | None]) -> None:
        self._checkpoints = checkpoints
        self._tip = tip
        self._seq = 0
        self._at: float | None = None
        """The last signature or attempt, on the monotonic clock; None before the first."""

    def sign_if_due(self, run_id: str | None = None) -> None:
        """Sign the tip where many rows are newer than the last checkpoint, or it is long ago.

        The first time it is due at once, so that a key that cannot be used is known early.

        Raises:
            StorageError: The log, the file or the key cannot be used.
        """
        recent = self._at is not None and monotonic() - self._at < SIGN_SECONDS
        tip = self._tip()
        if tip is None or tip[0] <= self._seq or (recent and tip[0] - self._seq < SIGN_ROWS):
            return
        if not self._is_signed_elsewhere(tip[0]):
            self._sign(tip, run_id)

    def sign(self) -> None:
        """Sign the tip where anything is newer than what this process knows to be signed.

        Raises:
            StorageError: The log, the file or the key cannot be used.
        """
        tip = self._tip()
        if tip is not None and self._at is not None and tip[0] > self._seq:
            self._sign(tip, None)

    def _is_signed_elsewhere(self, seq: int) -> bool:
        """Whether another process signed a moment ago what is about to be signed here."""
        last = None if self._at is None else self._checkpoints.last()
        if last is None or last.seq <= self._seq or not self._checkpoints.is_genuine(last):
            return False
        age = (datetime.now(UTC) - datetime.fromisoformat(last.ts)).total_seconds()
        if seq - last.seq >= SIGN_ROWS or age >= SIGN_SECONDS:
            return False
        self._seq, self._at = last.seq, monotonic()
        return True

    def _sign(self, tip: tuple[int, str], run_id: str | None) -> None:
        self._at = monotonic()  # one that fails is not tried again at once
        self._checkpoints.write(*tip, run_id)
        self._seq = tip[0]


def _parse(line: bytes) -> Checkpoint | None:
    try:
        checkpoint = Checkpoint.from_dict(json.loads(line))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    texts = (checkpoint.database_id, checkpoint.hash, checkpoint.ts, checkpoint.scheme)
    signed = isinstance(checkpoint.signature, str) and checkpoint.signature.isascii()
    whole = type(checkpoint.seq) is int and signed and isinstance(checkpoint.key, str)
    return checkpoint if whole and all(isinstance(text, str) for text in texts) else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _unusable(error: OSError, path: Path) -> StorageError:
    return StorageError(
        f"The checkpoints of the audit log cannot be used: {error}.",
        place=str(error.filename or path),
        fix="Make the file and its folder readable and writable for this user.",
        data={"cause": "checkpoints"},
    )
