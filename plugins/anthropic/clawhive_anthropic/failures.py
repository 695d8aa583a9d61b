"""The SDK's exceptions, and error events of a stream, as the errors of `LlmAdapter`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from clawhive_core import (
    ModelError,
    body_failure,
    model_failure,
    retry_after,
    status_code,
    without_key,
)

if TYPE_CHECKING:
    from anthropic import APIStatusError

_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "memory_path_conflict_error": 409,
    "memory_precondition_failed_error": 412,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""https://platform.claude.com/docs/en/api/errors: an error event comes with the HTTP status 200."""

_OF_MESSAGE = {
    "credit balance is too low": "quota_exhausted",
    "prompt is too long": "request_too_large",
    "exceed context limit": "request_too_large",
}
"""Words of messages: the API tells these failures apart by nothing else."""

_MAX_MESSAGE = 1000
_MISREAD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors of reading an answer that is no JSON, no UTF-8, or not of the API's form."""
_HTTP_OK = range(200, 300)


@contextmanager
def as_model_errors(secret: str) -> Generator[None]:
    """Turn what the SDK raises inside into ModelErrors in which the secret does not stand."""
    try:
        yield
    except Exception as error:
        failure = _failure(error)
        if failure is None:
            raise
        failure.message = without_key(failure.message, secret)
        failure.args = (failure.message,)
        # The SDK's error holds the request and its headers.
        raise failure from None


def unreadable(what: str) -> ModelError:
    """Return the error for an answer that is not of the API's form."""
    return model_failure("invalid_response", f"Anthropic's answer cannot be read: {what}")


def _failure(error: Exception) -> ModelError | None:
    """Return what an error is for our callers; None for one that is a bug."""
    import anthropic
    import httpx2

    match error:
        case ModelError():
            found = error
        case anthropic.APIStatusError():
            found = _of_status(error)
        case anthropic.APITimeoutError() | httpx2.TimeoutException():
            found = model_failure("timeout", "Anthropic's API did not answer in time")
        case anthropic.APIConnectionError() | httpx2.HTTPError() | httpx2.StreamError():
            found = _of_connection(error)
        case anthropic.APIResponseValidationError():
            found = unreadable(f"{type(error).__name__}: {str(error)[:_MAX_MESSAGE]}")
        case _ if isinstance(error, _MISREAD):
            found = unreadable(f"{type(error).__name__}: {str(error)[:_MAX_MESSAGE]}")
        case anthropic.AnthropicError():
            found = model_failure("provider_error", str(error)[:_MAX_MESSAGE])
        case _:
            found = None
    return found


def _of_connection(error: Exception) -> ModelError:
    if (refused := body_failure(error)) is not None:
        return refused
    cause = error.__cause__ or error
    said = str(cause) or type(cause).__name__
    return model_failure("connection_failed", f"the connection to Anthropic's API failed: {said}")


def _of_status(error: APIStatusError) -> ModelError:
    kind, said = _said(error.body)
    status = error.status_code
    if status in _HTTP_OK:
        status = _STATUS_OF_TYPE.get(kind, 500)
    code = status_code(status)
    if status == _STATUS_OF_TYPE["invalid_request_error"]:
        code = next((code for part, code in _OF_MESSAGE.items() if part in said.lower()), code)
    message = said[:_MAX_MESSAGE] or f"Anthropic's API answered with HTTP status {status}"
    if error.request_id:
        message = f"{message} (request {error.request_id})"
    after = retry_after(error.response.headers)
    return model_failure(code, message, status=status, retry_after=after)


def _said(body: object) -> tuple[str, str]:
    """Return an error body's type and message; compatible servers leave out one or both."""
    if not isinstance(body, dict):
        return "", ""
    value = cast("dict[str, Any]", body)
    inner = value.get("error", value)
    if isinstance(inner, dict):
        fields = cast("dict[str, Any]", inner)
        return str(fields.get("type", "")), str(fields.get("message", ""))
    return "", str(inner)
