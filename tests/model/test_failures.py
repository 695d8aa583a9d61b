"""One taxonomy for what goes wrong at model providers."""

from __future__ import annotations

import pytest

from clawhive_core.model.failures import model_failure, status_code


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "invalid_request"),
        (401, "authentication_failed"),
        (404, "model_not_found"),
        (413, "request_too_large"),
        (418, "invalid_request"),
        (429, "rate_limited"),
        (500, "provider_error"),
        (502, "provider_error"),
        (529, "overloaded"),
        (304, "provider_error"),
    ],
)
def test_each_status_has_a_code(status, code):
    assert status_code(status) == code


def test_a_failure_says_whether_asking_again_may_help():
    assert model_failure("overloaded", "busy", status=529, retry_after=2).data == {
        "retryable": True,
        "status": 529,
        "retry_after": 2,
    }
    refused = model_failure("authentication_failed", "no", status=401)
    assert refused.data["retryable"] is False
    assert refused.fix
