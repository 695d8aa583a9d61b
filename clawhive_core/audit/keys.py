"""The user's keys that sign checkpoints: Ed25519 where `cryptography` is installed, else HMAC."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from clawhive_core.errors import StorageError, UsageError
from clawhive_core.model.canonical import canonical
from clawhive_core.model.late import dataclass

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Scheme = Literal["hmac-sha256", "ed25519"]
HMAC: Scheme = "hmac-sha256"
"""HMAC-SHA256 (RFC 2104): whoever can check a signature can also make one."""
ED25519: Scheme = "ed25519"
"""Ed25519 (RFC 8032): the public key checks and cannot sign."""

_FILES = {HMAC: "audit.key", ED25519: "audit-ed25519.key"}
_RETIRED = "audit-retired.jsonl"
_KEY_BYTES = 32
_ID_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Retired:
    """A key that signs no more, and its own word for the key that took its place."""

    key: str
    public: str
    """Hexadecimal, 32 bytes."""
    until: str
    """RFC 3339, UTC."""
    next: str
    """The id of the key that took its place."""
    signature: str
    """By this key, over the canonical JSON of the other fields."""

    @property
    def signed(self) -> bytes:
        """The bytes that the signature is over."""
        facts = {"key": self.key, "public": self.public, "until": self.until, "next": self.next}
        return canonical(facts)


class Keys:
    """One user's keys.

    Args:
        user_dir: The user's own directory.
        scheme: How to sign; by default Ed25519 where `cryptography` is installed.
    """

    def __init__(self, user_dir: Path, scheme: Scheme | None = None) -> None:
        self._user_dir = user_dir
        self.scheme: Scheme = scheme or (ED25519 if _has_cryptography() else HMAC)

    @cached_property
    def path(self) -> Path:
        """The file of the key that signs; whoever can read it can forge checkpoints."""
        return self._user_dir / _FILES[self.scheme]

    def key_id(self) -> str:
        """Return the id of the key that signs, made at first use.

        Raises:
            StorageError: The key cannot be used.
            OSError: It cannot be read or written.
        """
        return _key_id(self._made if self.scheme == HMAC else _public(self._signing))

    def sign(self, data: bytes) -> str:
        """Return the signature in hexadecimal, with the key made at first use.

        Raises:
            StorageError: The key cannot be used.
            OSError: It cannot be read or written.
        """
        if self.scheme == HMAC:
            return hmac.new(self._made, data, hashlib.sha256).hexdigest()
        return self._signing.sign(data).hex()

    def has_signed(self, scheme: str, key: str, data: bytes, signature: str) -> bool:
        """Return whether one of the user's keys, retired ones included, made a signature.

        Raises:
            StorageError: A key cannot be used, or Ed25519 cannot be checked here.
            OSError: A file cannot be read.
        """
        if scheme == HMAC:
            own = self._read(HMAC)
            if own is None:
                return False
            return hmac.compare_digest(hmac.new(own, data, hashlib.sha256).hexdigest(), signature)
        public = self._trusted.get(key) if scheme == ED25519 else None
        return public is not None and _verifies(public, data, signature)

    def public(self) -> str | None:
        """Return the public key in hexadecimal, None for HMAC or where no key was made yet.

        Raises:
            StorageError: The key cannot be used.
            OSError: It cannot be read.
        """
        own = self._read(ED25519) if self.scheme == ED25519 else None
        return None if own is None else _public(self._private(own)).hex()

    def retired(self) -> list[Retired]:
        """Return the retired keys that handed over, one to the next, to the one that signs now.

        Raises:
            StorageError: A key cannot be used.
            OSError: A file cannot be read.
        """
        return [each for each in self._lines() if each.key in self._trusted]

    def rotate(self) -> Retired:
        """Replace the key: the old one signs the id of the new one and is then gone.

        Raises:
            UsageError: There are no Ed25519 keys here.
            StorageError: The key cannot be used.
            OSError: It cannot be written; the old one signs on.
        """
        if self.scheme == HMAC:
            raise UsageError(
                "an HMAC key has no successor: what it signed could not be checked without it",
                fix="pip install 'clawhive[audit]' signs with Ed25519 from then on",
            )
        old, new = self._signing, secrets.token_bytes(_KEY_BYTES)
        public = _public(old)
        until = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        next_id = _key_id(_public(self._private(new)))
        retired = Retired(_key_id(public), public.hex(), until, next_id, "")
        retired = replace(retired, signature=old.sign(retired.signed).hex())
        # The new key's file comes last: broken off before, the old key signs on.
        name = self._written(new)
        try:
            append_line(self._user_dir / _RETIRED, canonical(asdict(retired)))
            Path(name).replace(self.path)
        finally:
            Path(name).unlink(missing_ok=True)
        for cached in ("_made", "_signing", "_trusted"):
            self.__dict__.pop(cached, None)
        return retired

    @cached_property
    def _made(self) -> bytes:
        """The key that signs; two processes agree on one."""
        found = self._read(self.scheme)
        if found is not None:
            return found
        self._user_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = self._written(secrets.token_bytes(_KEY_BYTES))
        try:
            # A link appears whole or not at all, and never replaces a key.
            with suppress(FileExistsError):
                os.link(name, self.path)
        finally:
            Path(name).unlink()
        return self._checked(self.path.read_bytes(), self.path)

    @cached_property
    def _signing(self) -> Ed25519PrivateKey:
        """The key that signs with Ed25519, read."""
        return self._private(self._made)

    @cached_property
    def _trusted(self) -> dict[str, bytes]:
        """The public keys by id: the one that signs, and those that handed over to it."""
        own = self._read(ED25519)
        if own is None:
            return {}
        current = _public(self._private(own))
        found = {_key_id(current): current}
        for each in reversed(self._lines()):
            public = _bytes(each.public)
            if public is None or _key_id(public) != each.key or each.next not in found:
                continue
            if _verifies(public, each.signed, each.signature):
                found[each.key] = public
        return found

    def _lines(self) -> list[Retired]:
        try:
            lines = (self._user_dir / _RETIRED).read_bytes().splitlines()
        except FileNotFoundError:
            return []
        return [each for line in lines if (each := _parsed(line)) is not None]

    def _read(self, scheme: Scheme) -> bytes | None:
        path = self._user_dir / _FILES[scheme]
        try:
            return self._checked(path.read_bytes(), path)
        except FileNotFoundError:
            return None

    def _written(self, key: bytes) -> str:
        """Write a key to a file of its own (0600) and return its name."""
        import tempfile

        descriptor, name = tempfile.mkstemp(prefix=".audit-", dir=self._user_dir)
        try:
            write_all(descriptor, key)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return name

    def _checked(self, key: bytes, path: Path) -> bytes:
        if len(key) == _KEY_BYTES:
            return key
        raise StorageError(
            f"The key of the audit log has {len(key)} bytes instead of {_KEY_BYTES}.",
            place=str(path),
            fix="Restore it from a backup; older checkpoints cannot be checked without it.",
            data={"cause": "key"},
        )

    def _private(self, key: bytes) -> Ed25519PrivateKey:
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ImportError:
            raise StorageError(
                "Checkpoints of this user are signed with Ed25519, and `cryptography` is missing.",
                place=str(self._user_dir / _FILES[ED25519]),
                fix="pip install 'clawhive[audit]'",
                data={"cause": "cryptography"},
            ) from None
        return _opened(Ed25519PrivateKey, key)


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file for this user alone, and wait until the disk has it.

    A line that a crash cut off does not swallow the new one.

    Raises:
        OSError: It cannot be written.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        file = os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, flags, 0o600)
    try:
        size = os.fstat(file).st_size
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        write_all(file, (b"\n" if torn else b"") + line + b"\n")
        os.fsync(file)
    finally:
        os.close(file)


def write_all(descriptor: int, data: bytes) -> None:
    """Write bytes to a descriptor, however many calls it takes.

    Raises:
        OSError: They cannot be written.
    """
    while data:
        data = data[os.write(descriptor, data) :]


def _has_cryptography() -> bool:
    from importlib.util import find_spec

    return find_spec("cryptography") is not None


@lru_cache(maxsize=4)
def _opened(kind: type[Ed25519PrivateKey], key: bytes) -> Ed25519PrivateKey:
    """Return the key of these bytes: a process signs with one, at the end of each of its runs."""
    return kind.from_private_bytes(key)


@lru_cache(maxsize=4)
def _public(private: Ed25519PrivateKey) -> bytes:
    return private.public_key().public_bytes_raw()


def _key_id(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:_ID_DIGITS]


def _verifies(public: bytes, data: bytes, signature: str) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = _bytes(signature)
    if raw is None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(raw, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _bytes(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def _parsed(line: bytes) -> Retired | None:
    try:
        row = json.loads(line)
        if row.keys() != Retired.__dataclass_fields__.keys():
            return None
        retired = Retired(row["key"], row["public"], row["until"], row["next"], row["signature"])
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return retired if all(isinstance(each, str) for each in asdict(retired).values()) else None
