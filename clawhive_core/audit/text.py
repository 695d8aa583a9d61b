"""A text looked for in events: in their bodies as stored, and in what is kept outside them."""

from __future__ import annotations

from clawhive_core.model.canonical import canonical_text
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.references import references


class TextSearch:
    """Says whether a body, or a blob that it refers to, holds a text; upper and lower case match.

    Each blob is looked at once.
    """

    def __init__(self, log: EventLog, text: str) -> None:
        self._log = log
        self._plain = text.casefold()
        self._escaped = canonical_text(text)[1:-1].casefold()
        self._known: dict[str, bool] = {}

    def is_in(self, body: str) -> bool:
        """Return whether a stored body holds the text, directly or in a blob."""
        if self._escaped in body.casefold():
            return True
        return any(self._is_in_blob(sha256) for sha256 in references(body))

    def _is_in_blob(self, sha256: str) -> bool:
        found = self._known.get(sha256)
        if found is None:
            found = self._known[sha256] = self._look(sha256)
        return found

    def _look(self, sha256: str) -> bool:
        rows = self._log.read("SELECT type, data FROM blobs WHERE sha256 = ?", (sha256,))
        if not rows or not isinstance(rows[0]["data"], bytes):
            return False  # pruned, or somebody took it away: `audit verify` tells
        text = rows[0]["data"].decode("utf-8", "replace").casefold()
        return (self._escaped if rows[0]["type"] == "json" else self._plain) in text
