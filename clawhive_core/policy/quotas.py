"""Quotas: how often a user may call a tool, counted in the log for all processes together.

A window is one second, minute, hour or day of UTC, from its start to its end; a call counts in the
window in which its intent is written. The count is exact: it is taken and checked in the
transaction of the intent, where nobody else can write.
"""

from __future__ import annotations

import math
from typing import Any, Unpack

from clawhive_core.errors import RunError
from clawhive_core.events.kinds import QUOTA_RESERVED, QUOTA_RETURNED
from clawhive_core.model.events import Event, EventColumns
from clawhive_core.model.late import dataclass
from clawhive_core.model.records import goes_on
from clawhive_core.protocols.ledger import Ledger, QuotaLeft, QuotasWhere

USED_UP = "rate_limited"


@dataclass(frozen=True, slots=True)
class Quota:
    """One call's claim: one of so many calls in a window."""

    user_id: str
    tool: str
    limit: int
    seconds: int
    """The length of the window."""
    now: float
    """The time of the claim, in Unix seconds."""

    @property
    def since(self) -> int:
        """The start of the window, in Unix seconds."""
        return int(self.now // self.seconds * self.seconds)

    def reserved(self, **ids: Unpack[EventColumns]) -> Event:
        """Return the event that counts the call."""
        return Event(QUOTA_RESERVED, self._body(), **ids)

    def returned(self, **ids: Unpack[EventColumns]) -> Event:
        """Return the event that gives it back, as the call never started."""
        return Event(QUOTA_RETURNED, self._body(), **ids)

    @property
    def left(self) -> QuotaLeft:
        """The expectation of its intent: that a call is left."""
        return QuotaLeft(self.user_id, self.tool, self.limit, self.seconds, self.since)

    def require_left(self, log: Ledger) -> None:
        """Raise where no call is left now; nothing is counted.

        Raises:
            RunError: As `used_up`.
        """
        for found in log.find(QuotasWhere(self.user_id, self.tool, self.seconds)):
            if found.used >= self.limit and goes_on(found.since, self.since, self.seconds):
                raise self.used_up(found.since)

    def used_up(self, since: int) -> RunError:
        """Return the error `rate_limited`; `data` has `retry_after`, in seconds.

        Args:
            since: When the window that is full began.
        """
        seconds = max(1, math.ceil(since + self.seconds - self.now))
        return RunError(
            f"all {self.limit} calls of `{self.tool}` in this time were made",
            place=self.tool,
            fix=f"wait {seconds} seconds",
            code=USED_UP,
            data={"retry_after": seconds},
        )

    def _body(self) -> dict[str, Any]:
        return {
            "user_id": self.user_id,
            "tool": self.tool,
            "limit": self.limit,
            "seconds": self.seconds,
            "since": self.since,
        }
