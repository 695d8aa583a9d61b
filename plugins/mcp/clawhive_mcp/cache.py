"""The listings of servers when they were last reached, kept in the user's cache directory.

It makes tools known before their server has started. Nothing is believed for it: before the first
call is sent, the server's own list is compared with what was kept.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, cast

from clawhive_core import cache_dir, replace_file
from clawhive_mcp.connection import Listing
from clawhive_mcp.servers import Server

DEAD_SECONDS = 60.0
"""For so long nobody waits for a server that could not be reached."""
FRESH_SECONDS = 24 * 3600
"""For so long a server is not started only to see whether its tools are still the same."""
_SCHEMA = 2
_LARGEST = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Kept:
    """The listing of a server from earlier, or its failure."""

    listing: Listing | None
    """Its tools when it was last reached; None where it never was."""
    at: float
    """The time of that, in seconds since 1970."""
    failure: str = ""
    """The reason why it could not be reached the last time; empty where it was."""
    tried: float = 0.0
    """The time when it was last tried to be reached."""

    @property
    def is_known_dead(self) -> bool:
        """Whether it was never reached, and was tried so lately that nobody waits for it again."""
        return self.listing is None and 0 <= time.time() - self.tried < DEAD_SECONDS

    @property
    def is_fresh(self) -> bool:
        """Whether the listing is young enough to wait with the next one for a call."""
        return self.listing is not None and not self.failure and 0 <= self.age < FRESH_SECONDS

    @property
    def age(self) -> float:
        """The seconds since the listing."""
        return time.time() - self.at


class ListingCache:
    """The kept listing of one server.

    Another command, address, variable or trust makes it another server.

    Args:
        server: The server.
        env: Where the cache directory is read from.
    """

    def __init__(self, server: Server, env: Mapping[str, str]) -> None:
        facts = [server.command, server.url, server.cwd, sorted(server.env.items())]
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:20]
        self.path = cache_dir(env) / "mcp" / f"{server.name}-{digest}.json"

    def read(self) -> Kept | None:
        """Return what is kept, None where nothing usable is."""
        try:
            file = self.path.stat()
            if file.st_size > _LARGEST:
                return None
            value = json.loads(self.path.read_bytes())
            return _kept(value, file.st_mtime) if value["schema"] == _SCHEMA else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def write(self, listing: Listing | None, failure: str = "") -> None:
        """Keep a listing, or that there was none; an earlier one stays beside a failure.

        Where nothing can be written, nothing is kept.
        """
        at = time.time()
        if listing is None and (before := self.read()) is not None:
            listing, at = before.listing, before.at
        value = {
            "schema": _SCHEMA,
            "listing": None if listing is None else asdict(listing),
            "at": at,
            "failure": failure,
        }
        with suppress(OSError, ValueError):
            replace_file(self.path, json.dumps(value), durable=False)

    def forget(self) -> None:
        """Remove what is kept."""
        self.path.unlink(missing_ok=True)


def _kept(value: Mapping[str, Any], tried: float) -> Kept:
    """Return what was read.

    Raises:
        TypeError, KeyError: It is something else.
    """
    listing: Listing | None = None
    if (given := value["listing"]) is not None:
        table = cast("dict[str, Any]", given)
        tools = table["tools"]
        aside = [tuple(dict(each) for each in table[name]) for name in ("prompts", "resources")]
        if not all(_is_definition(each) for each in tools):
            raise TypeError("a tool of it is none")
        listing = Listing(
            tuple(tools),
            dict(table["dropped"]),
            str(table["instructions"]),
            aside[0],
            aside[1],
            str(table["server"]),
            "legacy" if table["era"] == "legacy" else "2026-07-28",
            table["discovery"],
        )
    return Kept(listing, float(value["at"]), str(value["failure"]), tried)


def _is_definition(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    table = cast("dict[str, Any]", value)
    return isinstance(table.get("name"), str) and isinstance(table.get("inputSchema"), dict)
