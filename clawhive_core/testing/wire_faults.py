"""Broken answers of a model's API: what an adapter must make of them."""

# ruff: noqa: S101 - what the suite finds wrong is an AssertionError, as in the tests that call it

from __future__ import annotations

from clawhive_core.protocols.adapter import MAX_BODY
from clawhive_core.testing.adapter import Wire, failure
from clawhive_core.testing.wire_server import EVENT_STREAM, JSON, WireAnswer

_ERROR = b'{"error": {"type": "error", "message": "broken"}}'
_SMALL = 100_000
"""Bytes that a body may have while broken answers are played."""
_CUT = frozenset({"connection_failed", "invalid_response"})
_STATUSES = {
    400: "invalid_request",
    401: "authentication_failed",
    404: "model_not_found",
    413: "request_too_large",
    500: "provider_error",
    503: "overloaded",
    529: "overloaded",
}


async def check_faults(wire: Wire, chat: bytes, stream: bytes) -> None:
    """Check an adapter against broken answers, whole and streamed.

    Args:
        wire: The adapter; `recordings` are not used.
        chat: A right answer of the API as JSON.
        stream: A right event stream of it.

    Raises:
        AssertionError: It answered, raised something else than a ModelError, or another code.
    """
    bound = MAX_BODY.set(_SMALL)
    try:
        await _check_faults(wire, chat, stream)
    finally:
        MAX_BODY.reset(bound)


async def _check_faults(wire: Wire, chat: bytes, stream: bytes) -> None:
    for streamed, body, kind in ((False, chat, JSON), (True, stream, EVENT_STREAM)):
        for what, (answer, codes) in broken_answers(body, kind).items():
            where = f"{'stream' if streamed else 'chat'}, {what}"
            error = await failure(wire, answer, stream=streamed, where=where)
            assert error.code in codes, f"{where}: {error.code}, not one of {sorted(codes)}"
            asked = answer.headers.get("retry-after")
            assert asked is None or error.data.get("retry_after") == float(asked), (
                f"{where}: `retry_after` is not read: {error.data!r}"
            )


def broken_answers(body: bytes, media_type: str) -> dict[str, tuple[WireAnswer, frozenset[str]]]:
    """Return answers that go wrong, each with the codes that an adapter may raise for it.

    Args:
        body: A right answer of the API.
        media_type: Its media type.
    """
    half = len(body) // 2
    page = b"<html>no</html>"
    statuses = {
        str(status): (WireAnswer(_ERROR, status), frozenset({code}))
        for status, code in _STATUSES.items()
    }
    return statuses | {
        "429 with retry-after": (
            WireAnswer(_ERROR, 429, headers={"retry-after": "7"}),
            frozenset({"rate_limited"}),
        ),
        "502 in HTML": (WireAnswer(page, 502, "text/html"), frozenset({"provider_error"})),
        "a connection that breaks at once": (WireAnswer(body, 200, media_type, stop_after=0), _CUT),
        "a connection that breaks in the middle": (
            WireAnswer(body, 200, media_type, stop_after=half),
            _CUT,
        ),
        "a body that is too large": (
            WireAnswer(b": " + b" " * 2 * _SMALL + body, 200, media_type, piece=_SMALL // 2),
            frozenset({"response_too_large"}),
        ),
        "an error that is too large": (
            WireAnswer(b" " * 2 * _SMALL + _ERROR, 500),
            frozenset({"response_too_large", "provider_error"}),
        ),
        "half an answer": (WireAnswer(body[:half], 200, media_type), _CUT),
        "nothing": (WireAnswer(b"", 200, media_type), _CUT),
        "a page instead of an answer": (WireAnswer(page, 200, "text/html"), _CUT),
    }
