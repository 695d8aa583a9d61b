"""Failures of the API as ModelErrors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from clawhive_core import ModelError, model_failure, retry_after, status_code, without_key

_MAX_MESSAGE = 600
_TOO_LONG = "exceeds the maximum number of tokens"
_TIMEOUTS = frozenset({"TimeoutException", "TimeoutError"})
_CONNECTIONS = frozenset({"RequestError", "ClientError", "StreamError", "OSError"})


def exception_failure(error: Exception, key: str) -> ModelError:
    """Return the ModelError for what the SDK raised.

    Args:
        error: An `APIError` of the SDK, or what its HTTP client raised.
        key: The key, which is taken out of the message.
    """
    details: Any = getattr(error, "details", None)
    if details is not None:
        status = getattr(error, "code", None)
        headers = getattr(getattr(error, "response", None), "headers", {})
        return api_failure(details, status if isinstance(status, int) else None, headers, key)
    return model_failure(_code(error), _clean(f"{type(error).__name__}: {error}", key))


def api_failure(
    body: Any, status: int | None, headers: Mapping[str, str], key: str = ""
) -> ModelError:
    """Return the ModelError for an error that the API answered.

    Args:
        body: The JSON value: `{"error": {"code", "message", "status", "details"}}`.
        status: The HTTP status; None where the error came within a stream.
        headers: Those of the answer.
        key: The key, which is taken out of the message.
    """
    error = _error(body)
    if status is None and isinstance(error.get("code"), int):
        status = error["code"]
    message = str(error.get("message") or error.get("status") or "the provider failed")
    return model_failure(
        _api_code(error, status),
        _clean(message, key),
        status=status,
        retry_after=_retry_after(error, headers),
    )


def _error(body: Any) -> Mapping[str, Any]:
    if isinstance(body, list) and body:
        body = cast("list[Any]", body)[0]
    if not isinstance(body, dict):
        return {}
    whole = cast("dict[str, Any]", body)
    inner = whole.get("error")
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else whole


def _api_code(error: Mapping[str, Any], status: int | None) -> str:
    details = list(_details(error))
    if any(each.get("reason") == "API_KEY_INVALID" for each in details):
        return "authentication_failed"
    if any("PerDay" in str(each.get("violations", "")) for each in details):
        return "quota_exhausted"
    code = "provider_error" if status is None else status_code(status)
    too_long = code == "invalid_request" and _TOO_LONG in str(error.get("message"))
    return "request_too_large" if too_long else code


def _details(error: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    details = error.get("details")
    if isinstance(details, list):
        for each in cast("list[Any]", details):
            if isinstance(each, dict):
                yield cast("dict[str, Any]", each)


def _retry_after(error: Mapping[str, Any], headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the headers ask for, else those of a `RetryInfo` (`"7.5s"`)."""
    delays = [str(each.get("retryDelay", "")).removesuffix("s") for each in _details(error)]
    given = (headers, *({"retry-after": each} for each in delays))
    return next((each for each in map(retry_after, given) if each is not None), None)


def _code(error: Exception) -> str:
    """Return the code by the names of the error's classes: the SDK has three HTTP clients."""
    names = {each.__name__ for each in type(error).__mro__}
    if names & _TIMEOUTS:
        return "timeout"
    if names & _CONNECTIONS:
        return "connection_failed"
    return "invalid_response" if isinstance(error, ValueError) else "provider_error"


def _clean(message: str, key: str) -> str:
    text = without_key(message, key)
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}…"
