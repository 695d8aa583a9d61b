"""Signed notes of the log's tip, kept outside the database, so that a cut tail is noticed."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from clawhive_core.errors import StorageError
from clawhive_core.model.canonical import canonical

SCHEME = "hmac-sha256"
"""How lines are signed: HMAC-SHA256 (RFC 2104) over the line's canonical JSON without signature."""

_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One signed note: up to `seq` the log was there, and its last hash was `hash`."""

    database_id: str
    path: str | None
    """Where the database lay, so that another one in its place is noticed."""
    seq: int
    hash: str
    run_id: str | None
    ts: str
    """RFC 3339, UTC."""
    scheme: str
    key: str
    """The first 16 hexadecimal digits of the key's SHA-256."""
    signature: str
    """Hexadecimal."""


@dataclass(frozen=True, slots=True)
class DamagedLine:
    """A line of a checkpoint file that cannot be read; the last one after a crash."""

    line: int
    """From 1."""
    is_last: bool


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """What a checkpoint file holds."""

    checkpoints: tuple[Checkpoint, ...] = ()
    damaged: tuple[DamagedLine, ...] = ()


class Checkpoints:
    """The checkpoints of one database: an append-only file in the user's own directory.

    Args:
        user_dir: The user's own directory, outside the project.
        database_id: The database's own id, under which its checkpoints are filed.
        database: Where the database lies; it is noted in each checkpoint.
    """

    def __init__(
        self, user_dir: Path | str, database_id: str, database: Path | str | None = None
    ) -> None:
        self._user_dir = Path(user_dir)
        self._database_id = database_id
        self._database = None if database is None else str(Path(database).absolute())

    @property
    def database_id(self) -> str:
        """The id of the database that these checkpoints are for."""
        return self._database_id

    @property
    def path(self) -> Path:
        """The file, one JSON object a line."""
        return self._user_dir / "checkpoints" / f"{self._database_id}.jsonl"

    @property
    def key_path(self) -> Path:
        """The key that signs; whoever can read it can forge checkpoints."""
        return self._user_dir / "audit.key"

    def write(self, seq: int, hash: str, run_id: str | None = None) -> Checkpoint:
        """Append a signed note of the log's tip and wait until the disk has it.

        Raises:
            StorageError: The file or the key cannot be read or written.
        """
        try:
            key = self._key()
            fields = self._unsigned(seq, hash, run_id, key)
            checkpoint = Checkpoint(**fields, signature=_sign(fields, key))
            self._append(canonical(asdict(checkpoint)) + b"\n")
        except OSError as error:
            raise _unusable(error, self.path) from error
        return checkpoint

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

    def is_genuine(self, checkpoint: Checkpoint) -> bool:
        """Return whether this user's key signed the checkpoint, for this database.

        Raises:
            StorageError: The key cannot be read.
        """
        if checkpoint.scheme != SCHEME or checkpoint.database_id != self._database_id:
            return False
        try:
            key = self.key_path.read_bytes()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _unusable(error, self.key_path) from error
        fields = asdict(checkpoint)
        del fields["signature"]
        return hmac.compare_digest(_sign(fields, key), checkpoint.signature)

    def others_at(self, database: Path) -> tuple[Checkpoint, ...]:
        """Return the last genuine checkpoint of every other database that lay at that path.

        Raises:
            StorageError: A file is there and cannot be read.
        """
        path = str(database.absolute())
        found: list[Checkpoint] = []
        for file in sorted(self.path.parent.glob("*.jsonl")):
            other = Checkpoints(self._user_dir, file.stem)
            here = [c for c in other.read().checkpoints if c.path == path and other.is_genuine(c)]
            if here and file.stem != self._database_id:
                found.append(max(here, key=lambda checkpoint: checkpoint.seq))
        return tuple(found)

    def _unsigned(self, seq: int, tip: str, run_id: str | None, key: bytes) -> dict[str, Any]:
        return {
            "database_id": self._database_id,
            "path": self._database,
            "seq": seq,
            "hash": tip,
            "run_id": run_id,
            "ts": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "scheme": SCHEME,
            "key": hashlib.sha256(key).hexdigest()[:16],
        }

    def _append(self, line: bytes) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        file = os.open(self.path, flags, 0o600)
        try:
            # A line that a crash cut off must not swallow the next one.
            size = os.fstat(file).st_size
            torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
            _write_all(file, b"\n" + line if torn else line)
            os.fsync(file)
        finally:
            os.close(file)

    def _key(self) -> bytes:
        """Return the user's key, made at first use; two processes agree on one."""
        with suppress(FileNotFoundError):
            return self._checked(self.key_path.read_bytes())
        self._user_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".audit-", dir=self._user_dir)
        try:
            _write_all(descriptor, secrets.token_bytes(_KEY_BYTES))
            os.fsync(descriptor)
            with suppress(FileExistsError):
                # A link appears whole or not at all, and never replaces a key.
                os.link(name, self.key_path)
        finally:
            os.close(descriptor)
            Path(name).unlink()
        return self._checked(self.key_path.read_bytes())

    def _checked(self, key: bytes) -> bytes:
        if len(key) == _KEY_BYTES:
            return key
        raise StorageError(
            f"The key of the audit log has {len(key)} bytes instead of {_KEY_BYTES}.",
            place=str(self.key_path),
            fix="Restore it from a backup; older checkpoints cannot be checked without it.",
            data={"cause": "key"},
        )


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _sign(fields: Mapping[str, Any], key: bytes) -> str:
    return hmac.new(key, canonical(fields), hashlib.sha256).hexdigest()


def _parse(line: bytes) -> Checkpoint | None:
    try:
        value = json.loads(line)
        checkpoint = Checkpoint(**cast("dict[str, Any]", value))
    except (ValueError, TypeError, RecursionError):
        return None
    texts = (checkpoint.database_id, checkpoint.hash, checkpoint.ts, checkpoint.scheme)
    signed = isinstance(checkpoint.signature, str) and checkpoint.signature.isascii()
    whole = type(checkpoint.seq) is int and signed and isinstance(checkpoint.key, str)
    return checkpoint if whole and all(isinstance(text, str) for text in texts) else None


def _unusable(error: OSError, path: Path) -> StorageError:
    return StorageError(
        f"The checkpoints of the audit log cannot be used: {error}.",
        place=str(error.filename or path),
        fix="Make the file and its folder readable and writable for this user.",
        data={"cause": "checkpoints"},
    )
