"""Exceptions of the SDK and errors of servers, in the taxonomy of model failures."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from clawhive_core import ModelError, model_failure, retry_after, status_code, without_key
from clawhive_core import body_failure as body_failure_of
from clawhive_openai.values import mapping, text

if TYPE_CHECKING:
    from openai import APIStatusError

_MAX_MESSAGE = 2_000
_HTTP_ERROR = 400
_CODES = {
    "insufficient_quota": "quota_exhausted",
    "billing_hard_limit_reached": "quota_exhausted",
    "billing_not_active": "quota_exhausted",
    "insufficient_balance": "quota_exhausted",
    "exceeded_current_quota_error": "quota_exhausted",
    "context_length_exceeded": "request_too_large",
    "exceed_context_size_error": "request_too_large",
    "request_too_large": "request_too_large",
    "model_not_found": "model_not_found",
    "DeploymentNotFound": "model_not_found",
    "invalid_api_key": "authentication_failed",
    "rate_limit_exceeded": "rate_limited",
    "rate_limit_error": "rate_limited",
    "slow_down": "overloaded",
    "server_is_overloaded": "overloaded",
    "overloaded_error": "overloaded",
    "server_error": "provider_error",
    "internal_error": "provider_error",
    "vector_store_timeout": "timeout",
    **dict.fromkeys(
        (
            "data_residency_mismatch",
            "empty_image_file",
            "failed_to_download_image",
            "image_file_not_found",
            "image_file_too_large",
            "image_parse_error",
            "image_too_large",
            "image_too_small",
            "invalid_base64_image",
            "invalid_image",
            "invalid_image_format",
            "invalid_image_mode",
            "invalid_image_url",
            "invalid_prompt",
            "unsupported_image_media_type",
        ),
        "invalid_request",
    ),
    "invalid_request_error": "invalid_request",
}
"""Codes and types of errors that say more than the HTTP status."""
_SILENT = "the server failed without saying why"
_TRANSPORTS = frozenset({"httpx", "httpx2"})
"""The packages that carry the SDK; its second major lets their errors through in a stream."""
_MISREAD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors of reading an answer that is no JSON, no UTF-8, or not of the API's form."""
_DECISIVE = frozenset({"quota_exhausted", "request_too_large", "model_not_found"})
"""The codes that count even where the status says otherwise."""
_TOO_LONG = re.compile(
    r"(maximum )?context (length|window|size)|too many tokens|prompt is too long"
    r"|reduce the length|^request too large|too large for model",
    re.IGNORECASE,
)


@contextmanager
def translated(key: str) -> Generator[None]:
    """Turn what the SDK raises into ModelErrors in which the key does not occur.

    Raises:
        ModelError: For each failure of the server, the connection, or the reading of an answer.
    """
    from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError

    try:
        yield
    except ModelError as error:
        _cleaned(error, key)
        raise
    except APITimeoutError as error:
        raise model_failure("timeout", "the server did not answer in time") from error
    except APIConnectionError as error:
        if (refused := body_failure_of(error)) is not None:
            raise refused from None
        cause = error.__cause__ or error
        what = f"{type(cause).__name__}: {cause}".removesuffix(": ")
        where = f"`{error.request.url.host}` cannot be reached, or broke off: {what}"
        raise model_failure("connection_failed", _clean(where, key)) from error
    except APIStatusError as error:
        raise _by_status(error, key) from error
    except APIError as error:
        raise _cleaned(body_failure(error.body, error.message), key) from error
    except _MISREAD as error:
        what = f"the answer cannot be read: {error}"
        raise model_failure("invalid_response", _clean(what, key)) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _TRANSPORTS:
            raise
        code = "timeout" if "Timeout" in type(error).__name__ else "connection_failed"
        what = f"the connection broke off: {type(error).__name__}: {error}"
        raise model_failure(code, _clean(what, key)) from error


def body_failure(body: Any, message: str = "") -> ModelError:
    """Return the error for what a server writes into an answer or a stream that began well."""
    fields = mapping(body)
    said = text(fields.get("message")) or text(body) or message or _SILENT
    status = _status(fields.get("code") or fields.get("status"))
    if status is not None:
        return model_failure(_refined(status_code(status), fields, said), said)
    return model_failure(_refined("provider_error", fields, said, trust=True), said)


def _status(code: Any) -> int | None:
    """Return an HTTP status that stands in a body, also as a text."""
    if isinstance(code, str) and code.isascii() and code.isdecimal():
        code = int(code[:9])
    if not isinstance(code, int) or isinstance(code, bool) or code < _HTTP_ERROR:
        return None
    return code


def _by_status(error: APIStatusError, key: str) -> ModelError:
    body = mapping(error.body)
    said = text(body.get("message")) or text(body.get("detail")) or error.message
    status = error.status_code
    return model_failure(
        _refined(status_code(status), body, said),
        _clean(said, key),
        status=status,
        retry_after=retry_after(error.response.headers),
    )


def _refined(code: str, body: Mapping[str, Any], said: str, *, trust: bool = False) -> str:
    """Return the code that an error's own words give, where they say more than the status."""
    for word in (text(body.get("code")), text(body.get("type"))):
        known = _CODES.get(word)
        if known is not None and (trust or known in _DECISIVE):
            return known
    too_long = code in {"invalid_request", "provider_error", "rate_limited"}
    return "request_too_large" if too_long and _TOO_LONG.search(said) else code


def _cleaned(error: ModelError, key: str) -> ModelError:
    error.message = _clean(error.message, key)
    error.args = (error.message,)
    return error


def _clean(message: str, key: str) -> str:
    """Return a message without the key, which some servers repeat, and not longer than a page."""
    return without_key(message, key)[:_MAX_MESSAGE]
