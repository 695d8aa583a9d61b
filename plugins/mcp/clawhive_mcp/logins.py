"""The logins of servers over HTTP, kept in the user's own directory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clawhive_core import replace_file


class LoginFile:
    """The tokens of one server over HTTP, readable by their owner only.

    Another address is another server, whatever its name: it is never sent these tokens.

    Args:
        name: The server's name.
        url: Its address.
        user_dir: The user's own directory.
    """

    def __init__(self, name: str, url: str, user_dir: str) -> None:
        digest = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self.path = Path(user_dir, "mcp-logins", f"{name}-{digest}.json")
        self._is_kept = bool(user_dir)

    def read(self) -> dict[str, Any] | None:
        """Return what is kept, None where nothing usable is."""
        if not self._is_kept:
            return None
        try:
            value = json.loads(self.path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType] - JSON

    def write(self, value: Mapping[str, Any]) -> None:
        """Replace what is kept.

        Raises:
            OSError: The disk refuses.
        """
        replace_file(self.path, json.dumps(value))

    def remove(self) -> bool:
        """Forget it; whether there was something."""
        was_there = self.path.exists()
        self.path.unlink(missing_ok=True)
        return was_there
