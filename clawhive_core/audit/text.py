"""A text looked for in events: in their bodies as stored, and in what is kept outside them."""

from __future__ import annotations

from clawhive_core.events.rows import references
from clawhive_core.model.canonical import canonical_text
from clawhive_core.protocols.ledger import Ledger


class TextSearch:
    """Says whether a body, or a blob that it refers to, holds a text; upper and lower case match.

    Each blob is looked at once.
    """

    def __init__(self, log: Ledger, text: str) -> None:
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
        body = self._log.blob(sha256)
        if body is None or not isinstance(body.data, bytes):
            return False  # pruned, or somebody took it away: `audit verify` tells
        text = body.data.decode("utf-8", "replace").casefold()
        return (self._escaped if body.type == "json" else self._plain) in text
