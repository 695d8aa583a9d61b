"""Moments as people write them: a time, a day, or how long ago."""

from __future__ import annotations

from datetime import UTC, datetime

from clawhive_core.errors import UsageError


def moment(text: str, place: str, now: datetime) -> str:
    """Return a moment in the one form in which the log writes times, so that texts compare.

    Args:
        text: RFC 3339 (`2026-11-22T08:00:00Z`), a day, or a duration before now such as `2h`.
            Without an offset it is UTC, as the log prints times.
        place: The option, for the error.
        now: The present.

    Raises:
        UsageError: It is neither.
    """
    from clawhive_core.policy.grants import duration
    from clawhive_core.policy.terms import written

    try:
        found = datetime.fromisoformat(text)
        return written(found if found.tzinfo is not None else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        pass
    try:
        return written(now - duration(text))
    except UsageError:
        raise UsageError(
            f"{text!r} is neither a time nor a duration",
            place=place,
            fix="write 2026-11-22, 2026-11-22T08:00:00Z, or how long ago: 30m, 2h, 10d, 1w",
        ) from None
