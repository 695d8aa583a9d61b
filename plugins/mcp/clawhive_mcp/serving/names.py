"""The names under which clients know tools: a stored table, never parsed."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from clawhive_core import replace_file
from clawhive_mcp.errors import log

LONGEST = 40
"""Characters: clients put up to 14 in front, and 64 is the limit behind them."""
STABLE = ("tool_search", "tool_enable", "tool_read", "tool_call", "tool_more")
"""The tools that are always served, under these names."""
_MOST = 20_000
_OTHER = re.compile(r"[^a-z0-9]")
_USABLE = re.compile(r"[A-Za-z0-9_-]{1,40}")


class WireNames:
    """The names of a project's tools for clients, and the way back.

    A name never comes to mean another tool, also not later: rows stay when tools go. Clients fold
    what they are given, so no two names differ only in case or in characters such as `_` and `-`.

    Args:
        path: The file of the table; None where it is not kept.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._wire: dict[str, str] = {} if path is None else _read(path)
        self._canonical = {wire: name for name, wire in self._wire.items()}
        self._folded = set(map(folded, (*STABLE, *self._canonical)))

    def of(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return by tool the name of each; those that are new to the table get one."""
        wanted = [*names]
        if new := sorted({each for each in wanted if each not in self._wire}):
            self._add(new)
        return {each: self._wire[each] for each in wanted}

    def tool(self, wire: str) -> str | None:
        """Return the tool of a name, None where it never had one."""
        return self._canonical.get(wire)

    def _add(self, new: list[str]) -> None:
        plain = {name: _plain(name) for name in new}
        times = Counter(map(folded, plain.values()))
        for name, wire in plain.items():
            chosen, fold = wire, folded(wire)
            # Of two that would have one name neither gets it: nobody takes the other's place.
            if times[fold] > 1 or fold in self._folded or len(wire) > LONGEST:
                chosen = self._hashed(name, wire)
            self._wire[name] = chosen
            self._canonical[chosen] = name
            self._folded.add(folded(chosen))
        self._keep()

    def _hashed(self, name: str, wire: str) -> str:
        digest = hashlib.sha256(name.encode()).hexdigest()
        for length in range(8, 32):
            chosen = f"{wire[: LONGEST - length - 1]}_{digest[:length]}"
            if folded(chosen) not in self._folded:
                return chosen
        raise ValueError(f"no free name for {name!r}")  # 31 equal digits of a SHA-256

    def _keep(self) -> None:
        """Write the table; without it the same names come out, but for tools that clashed."""
        if self._path is None:
            return
        while len(self._wire) > _MOST:
            del self._wire[next(iter(self._wire))]
        try:
            # Another process may have named other tools meanwhile.
            kept = {**_read(self._path), **self._wire}
            table = json.dumps({"schema": "mcp_names/1", "names": kept})
            replace_file(self._path, table, durable=False)
        except OSError as error:
            log.warning("mcp.names.unwritten file=%s: %s", self._path, error)


def table_path(user_dir: str, root: str) -> Path:
    """Return the file of a project's table."""
    digest = hashlib.sha256(str(Path(root).resolve()).encode()).hexdigest()[:20]
    return Path(user_dir, "serve", f"names-{digest}.json")


def folded(wire: str) -> str:
    """Return what a client that keeps the least makes of a name."""
    return _OTHER.sub("_", wire.lower())


def _plain(name: str) -> str:
    """Return the name of a tool where nothing is in its way; those of servers go without `mcp`."""
    return name.removeprefix("mcp.").replace(".", "__")


def _read(path: Path) -> dict[str, str]:
    """Return a kept table, as far as it can be used."""
    try:
        value = json.loads(path.read_text("utf-8"))
        rows = cast("dict[object, object]", value["names"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    kept: dict[str, str] = {}
    taken = set(map(folded, STABLE))
    for name, wire in rows.items():
        if not (isinstance(name, str) and isinstance(wire, str) and _USABLE.fullmatch(wire)):
            continue
        if folded(wire) not in taken:
            kept[name] = wire
            taken.add(folded(wire))
    return kept
