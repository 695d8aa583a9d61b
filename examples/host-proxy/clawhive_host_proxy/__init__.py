"""Mail that programs in a sandbox may read, and a calendar that they may add to.

A real plugin would talk to a mail provider here, with a token from `ctx.secret`; the program in the
sandbox would see neither the token nor the network.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clawhive_core import InvokeContext, ToolError, tool

MAIL = {
    "1": {"from": "ana@example.com", "subject": "Lunch on 2026-12-01?", "text": "At noon."},
    "2": {"from": "shop@example.net", "subject": "Your parcel", "text": "It is on its way."},
    "3": {"from": "bob@example.com", "subject": "Review on 2026-12-03", "text": "Bring notes."},
}
"""The local fake of a mailbox."""


@tool(name="gmail.read")
def gmail_read(message: str) -> dict[str, Any]:
    """Read one message of the mailbox.

    Args:
        message: Its number, or `all` for the numbers of all.
    """
    if message == "all":
        return {"messages": sorted(MAIL)}
    if message not in MAIL:
        raise ToolError(f"there is no message {message}", code="not_found", fix="read `all` first")
    return dict(MAIL[message])


@tool(name="calendar.add", risk="guarded", side_effects=True)
def calendar_add(day: str, title: str, ctx: InvokeContext) -> dict[str, Any]:
    """Add a day to the calendar, which is a file among the run's artifacts.

    Args:
        day: Such as 2026-12-01.
        title: What happens then.
        ctx: The call.
    """
    calendar = Path(ctx.artifacts, "calendar.json")
    days: list[dict[str, str]] = []
    if calendar.exists():
        days = json.loads(calendar.read_text("utf-8"))
    days.append({"day": day, "title": title})
    calendar.write_text(json.dumps(days, indent=2), "utf-8")
    return {"days": len(days)}
