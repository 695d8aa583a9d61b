"""Secrets never reach the log: their known forms are replaced before anything is hashed."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from clawhive_core.events.token_forms import (
    absence,
    holding_no_token,
    may_hold_token,
    without_tokens,
)

MARK = "[redacted]"
"""The text that stands where a secret stood."""

SHORTEST = 4
"""Shorter values are not replaced: they would hit ordinary words."""

_SHORTEST_RUN = 3
_FEW = 64
"""Shorter texts are searched as they are: handing them over would cost more."""
_REMEMBERED = 64
"""The number of contents that are remembered as holding no secret."""
_URL_SAFE = str.maketrans("+/", "-_")


class Redactor:
    """Replaces every secret that was handed out, also JSON-escaped, URL-quoted or in base64.

    It costs nothing until a secret is added, and may be used from any thread.

    Args:
        by_form: Whether to replace what looks like a secret too, wherever it comes from:
            `token_forms` says what that is.
    """

    def __init__(self, *, by_form: bool = False) -> None:
        self.active = by_form
        """Whether there is anything to look for."""
        self._by_form = by_form
        self._lock = threading.Lock()
        self._secrets: set[str] = set()
        self._needles: tuple[str, ...] = ()
        self._clear: tuple[tuple[str, ...], set[str]] = ((), set())
        self._absence: tuple[tuple[str, ...], Callable[[str], bool]] | None = None
        self._text: re.Pattern[str] | None = None
        self._bytes: re.Pattern[bytes] | None = None

    def add(self, secret: str) -> None:
        """Replace `secret` from now on; values of less than four characters are ignored."""
        secrets = {each for each in (secret, secret.strip()) if len(each) >= SHORTEST}
        with self._lock:
            if secrets <= self._secrets:
                return
            self._secrets |= secrets
            # The longest first, so that a secret inside another one leaves no rest.
            longest_first = sorted(self._secrets, key=lambda each: (-len(each), each))
            pattern = "|".join(form for each in longest_first for form in _forms(each))
            needles = {needle for each in self._secrets for needle in _needles(each)}
            self._needles = tuple(sorted(needles))
            self._bytes = re.compile(pattern.encode("utf-8", "surrogatepass"))
            self._text = re.compile(pattern)
            self.active = True

    @property
    def clear(self) -> set[str]:
        """The digests of contents that hold none of the secrets known by now; add to it.

        Another set once a secret is added, or when it has grown.
        """
        needles, (known, clear) = self._needles, self._clear
        if known is not needles or len(clear) >= _REMEMBERED:
            self._clear = (needles, clear := set())
        return clear

    def may_be_in(self, data: bytes) -> bool:
        """Return whether a text in UTF-8, JSON or not, may hold a secret: a quick first look."""
        text = data.decode("utf-8", "replace")
        if self._needles and self._holds_known(text):
            return True
        return self._by_form and not holding_no_token()(text)

    def _holds_known(self, text: str) -> bool:
        """Return whether a text holds a part of a known secret that no form of it lacks."""
        needles, made = self._needles, self._absence
        if len(text) < _FEW or "" in needles:
            return any(needle in text for needle in needles)
        # Another thread may add a secret meanwhile: one made for fewer must not stay.
        if made is None or made[0] is not needles:
            made = self._absence = (needles, absence(["|".join(map(re.escape, needles))]))
        try:
            return not made[1](text)
        except UnicodeEncodeError:  # a lone surrogate, which is part of no needle
            return not made[1](text.encode("utf-8", "replace").decode("utf-8"))

    def text(self, value: str) -> str:
        """Return the text without secrets."""
        pattern = self._text
        if pattern is not None and self._holds_known(value):
            value = pattern.sub(MARK, value)
        return self._formless(value)

    def data(self, value: bytes) -> bytes:
        """Return the bytes without secrets in UTF-8."""
        pattern = self._bytes
        if not self.may_be_in(value):
            return value
        if pattern is not None:
            value = pattern.sub(MARK.encode(), value)
        # One character a byte, so that what is no text stays as it is.
        return self._formless(value.decode("latin-1")).encode("latin-1")

    def _formless(self, text: str) -> str:
        found = self._by_form and may_hold_token(text.encode("utf-8", "replace"))
        return without_tokens(text, MARK) if found else text

    def value(self, value: Any) -> Any:
        """Return a JSON value without secrets: in texts, in keys, and as whole numbers.

        Raises:
            RecursionError: The value is nested too deeply.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            items = cast("Mapping[Any, Any]", value).items()
            return {self.text(str(key)): self.value(item) for key, item in items}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in cast("Sequence[Any]", value)]
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        return MARK if str(value) in self._secrets else value


def _needles(secret: str) -> Iterator[str]:
    """Yield what a text must hold one of to hold the secret in any form.

    Letters and digits are never escaped or quoted. A secret with hardly any of them in a row
    yields the empty text, which is in every text.
    """
    runs = re.findall("[A-Za-z0-9]+", secret)
    longest = max(runs, key=len, default="")
    yield longest if len(longest) >= _SHORTEST_RUN else ""
    yield from (core for core, _ in _base64(secret))


def _forms(secret: str) -> Iterator[str]:
    """Yield patterns of a secret, the longer ones first."""
    base64_forms = {form for core, whole in _base64(secret) for form in (core, whole)}
    yield from map(re.escape, sorted(base64_forms, key=lambda form: (-len(form), form)))
    yield "".join(
        _backslashes(len(run)) if run.startswith("\\") else _character(run)
        for run in re.findall(r"\\+|[^\\]", secret, re.DOTALL)
    )


def _backslashes(count: int) -> str:
    """One pattern for a run: several in a row would try every way to share it."""
    return rf"(?:\\{{{count},{count * 8}}}|(?:%5[cC]){{{count}}})"


def _character(character: str) -> str:
    """Return a pattern of one character: as it is, JSON-escaped once or more, or URL-quoted."""
    escaped = json.dumps(character)[1:-1]
    literal = "[ +]" if character == " " else re.escape(character)
    raw = character.encode("utf-8", "surrogatepass")
    quoted = "".join(f"%{_any_case(f'{byte:02x}')}" for byte in raw)
    codes = re.findall("..?.?.?", character.encode("utf-16-be", "surrogatepass").hex())
    unicode = "".join(rf"\\{{1,8}}u{_any_case(code)}" for code in codes)
    forms = [literal, quoted, unicode]
    if escaped.startswith("\\") and not escaped.startswith("\\u"):
        forms.append(rf"\\{{1,8}}{re.escape(escaped[1:])}")
    if character == "/":
        forms.append(r"\\{1,8}/")
    return f"(?:{'|'.join(forms)})"


def _any_case(digits: str) -> str:
    return "".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in digits)


def _base64(secret: str) -> Iterator[tuple[str, str]]:
    """Yield, for each alignment, the characters that the secret alone decides; and more of them.

    Further characters are those at the end of a base64 text that is the secret and nothing else.
    """
    raw = secret.encode("utf-8", "surrogatepass")
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw).decode()
        core = encoded[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
        wholes = (core,) if shift else (encoded, encoded.rstrip("="))
        for whole in wholes:
            yield core, whole
            yield core.translate(_URL_SAFE), whole.translate(_URL_SAFE)
