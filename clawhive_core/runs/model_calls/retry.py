"""Retries of failed model calls: by the provider's word first, else at random distances.

The distances follow "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015).
"""

from __future__ import annotations

from clawhive_core.errors import ClawHiveError, ModelError

FIRST_SECONDS = 1.0
MOST_SECONDS = 30.0
"""The longest distance, where the provider says nothing."""
PATIENCE_SECONDS = 120.0
"""The longest that a provider may ask to wait; beyond it the call fails at once and says so."""


def delay(error: ClawHiveError, attempt: int, retries: int, chance: float) -> float | None:
    """Return the seconds until the next attempt, None where there is to be none.

    Args:
        error: Why the last attempt failed; `data["retryable"]` and `data["retry_after"]` count.
        attempt: Which attempt that was, from 1.
        retries: How often a call may be made again.
        chance: A random number from 0 to 1.
    """
    if attempt > retries or error.data.get("retryable") is not True:
        return None
    asked = error.data.get("retry_after")
    if asked is not None:
        return None if asked > PATIENCE_SECONDS else max(0.0, float(asked))
    return chance * min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** (attempt - 1))


def late(limit: str, message: str) -> ModelError:
    """Return the error of a provider that was waited for as long as a setting lets it."""
    fix = f"raise `{limit}`, or choose another model"
    return ModelError(message, code="timeout", fix=fix)
