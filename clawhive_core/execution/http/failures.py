"""The failures of requests, as errors with a code, a place and a next step."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Literal

from clawhive_core.errors import ToolError
from clawhive_core.execution.http.target import Target

Phase = Literal["name", "connection", "answer", "body"]

_DOING: Final = {
    "name": "looking up the host's name",
    "connection": "connecting",
    "answer": "waiting for an answer",
    "body": "reading the body",
}


def too_large(target: Target, part: str, limit: int) -> ToolError:
    """Return the error for an answer that holds more than it may."""
    return ToolError(
        f"the {part} of the answer: more than {limit} bytes",
        place=target.shown,
        fix="ask for less of it, or raise `body` of the request's limits",
        code="response_too_large",
        data={"limit": limit},
    )


def unusable(target: Target, message: str) -> ToolError:
    """Return the error for an answer that is none."""
    return ToolError(
        message,
        place=target.shown,
        fix="ask another address, or tell whoever runs this server",
        code="provider_error",
    )


def unreachable(target: Target, message: str) -> ToolError:
    """Return the error for a server that cannot be spoken to."""
    return ToolError(
        message,
        place=target.shown,
        fix="check the address and the network, then try again",
        code="connection_failed",
    )


def late(target: Target, phase: Phase) -> ToolError:
    """Return the error for what took too long."""
    return ToolError(
        f"time was over while {_DOING[phase]}",
        place=target.shown,
        fix="try again later, or raise the request's limits",
        code="timeout",
        data={"phase": phase},
    )


@contextmanager
def failures(target: Target, phase: Phase) -> Generator[None]:
    """Turn what the network below raises into errors of tools."""
    import httpcore2

    try:
        yield
    except (httpcore2.ConnectTimeout, httpcore2.PoolTimeout) as error:
        raise late(target, "connection") from error
    except (TimeoutError, httpcore2.TimeoutException) as error:
        raise late(target, phase) from error
    except httpcore2.LocalProtocolError as error:
        raise ToolError(
            f"the request is no HTTP: {error}",
            place=target.shown,
            fix="correct its method and headers",
            code="invalid_input",
        ) from error
    except httpcore2.RemoteProtocolError as error:
        if "without sending" in str(error):
            raise unreachable(target, f"the connection broke: {error}") from error
        raise unusable(target, f"the answer is no HTTP: {error}") from error
    except (httpcore2.NetworkError, httpcore2.ProxyError, OSError) as error:
        why = str(error) or type(error).__name__
        raise unreachable(target, f"the connection failed: {why}") from error
