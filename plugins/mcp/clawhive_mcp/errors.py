"""The errors of calls to MCP servers, with the codes that MCP's users know, and the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import cast

from clawhive_core import ClawHiveError, ToolError

log = logging.getLogger("clawhive.mcp")
"""Takes the lines `mcp.spawn.failed`, `mcp.list_tools.failed` and others, each with its server."""

_SHOWN = 2_000


class MCPTimeoutError(ToolError):
    """The server did not answer in time; the call was cancelled."""

    code = "Timeout"


class MCPConnectionError(ToolError):
    """The server cannot be reached, or its connection ended during the call."""

    code = "ConnectionError"


class MCPToolNotFoundError(ToolError):
    """The server does not know the tool."""

    code = "ToolNotFound"


class MCPProviderClosedError(ToolError):
    """The provider was closed before the call."""

    code = "ProviderClosed"


class WrongUsage(ClawHiveError):
    """A command's words or the file that they name cannot be used; nothing was done."""

    exit_code = 2


class Unlisted(Exception):
    """A server that answers, and whose tools cannot be listed; the text says why."""


def printable(text: str, limit: int = _SHOWN) -> str:
    """Return a server's text for a log or terminal: on one line, without control characters."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text[:limit]).split())
    return line if len(text) <= limit else f"{line}…"


def reason_of(error: BaseException) -> str:
    """Return why something failed, of a group the errors inside it."""
    return "; ".join(dict.fromkeys(_texts(error)))


def _texts(error: BaseException) -> Iterator[str]:
    if isinstance(error, BaseExceptionGroup):
        for each in cast("tuple[BaseException, ...]", error.exceptions):  # pyright: ignore[reportUnknownMemberType] - of anything
            yield from _texts(each)
    else:
        name = type(error).__name__
        yield printable(str(error)) or name
