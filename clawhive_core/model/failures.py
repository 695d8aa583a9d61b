"""Failures of model providers, in one taxonomy for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawhive_core.errors import ModelError

TRANSIENT = frozenset(
    {"rate_limited", "overloaded", "provider_error", "connection_failed", "timeout"}
)
"""Codes after which asking again may help."""

_BY_STATUS = {
    400: "invalid_request",
    401: "authentication_failed",
    402: "quota_exhausted",
    403: "authentication_failed",
    404: "model_not_found",
    408: "timeout",
    409: "provider_error",
    413: "request_too_large",
    422: "invalid_request",
    425: "overloaded",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
_FIXES = {
    "authentication_failed": "check the key: the provider does not take it",
    "quota_exhausted": "the provider's credit or quota is used up: raise it there",
    "model_not_found": "check the model's name; the provider does not know it, or not for this key",
    "request_too_large": "start a new session, or send less: the conversation is too long",
    "rate_limited": "wait and try again, or ask the provider for a higher limit",
}


_SHORTEST_KEY = 8


def without_key(message: str, key: str) -> str:
    """Return what a provider says without the key, which some of them repeat.

    A key of fewer than eight characters is no secret but a word such as `none`, which servers that
    need no key take; it stays.
    """
    return message.replace(key, "[key]") if len(key) >= _SHORTEST_KEY else message


def status_code(status: int) -> str:
    """Return the code of an HTTP status of a model's API; unknown ones are by their hundred."""
    known = _BY_STATUS.get(status)
    if known is None:
        known = "provider_error" if status >= 500 or status < 400 else "invalid_request"  # noqa: PLR2004 - HTTP's classes
    return known


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer's headers ask to wait, None where they ask for nothing.

    `retry-after-ms`, which the providers' own SDKs read first; else `retry-after`, in seconds or as
    a date (RFC 9110, section 10.2.3).
    """
    asked = headers.get("retry-after")
    for text, per_second in ((headers.get("retry-after-ms"), 1000), (asked, 1)):
        try:
            seconds = float(text or "") / per_second
        except ValueError:
            continue
        return seconds if 0 <= seconds < float("inf") else None
    return _until(asked or "")


def _until(date: str) -> float | None:
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        when = parsedate_to_datetime(date)
    except ValueError:
        return None
    moment = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def model_failure(
    code: str,
    message: str,
    *,
    status: int | None = None,
    retry_after: float | None = None,
    fix: str | None = None,
) -> ModelError:
    """Return the error for a provider's failure, as `LlmAdapter.chat` raises it.

    Args:
        code: One of `rate_limited quota_exhausted overloaded provider_error connection_failed
            timeout authentication_failed model_not_found invalid_request request_too_large
            response_too_large invalid_response missing_key`; see `status_code`.
        message: What the provider said.
        status: The HTTP status, where there was one.
        retry_after: Seconds that the provider asks to wait.
        fix: Overrides what the code suggests.
    """
    facts: dict[str, Any] = {"retryable": code in TRANSIENT}
    if status is not None:
        facts["status"] = status
    if retry_after is not None:
        facts["retry_after"] = retry_after
    return ModelError(message, code=code, fix=fix or _FIXES.get(code), data=facts)
