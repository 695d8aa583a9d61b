"""Whether a tool that is gone was announced to go, long enough before."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.model.late import dataclass
from clawhive_core.skills.contracts.deprecation import WINDOW
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.place import Place

Dated = Callable[[Skill, str], "date | None"]
"""Says when the deprecation of a tool first stood in the contract, None where nothing does."""


def undated(_skill: Skill, _tool: str) -> date | None:
    """Know nothing of the day of a deprecation."""
    return None


@dataclass(frozen=True, slots=True)
class Notices:
    """What is known of announcements beside the contract."""

    today: date
    """The day of the new version."""
    dated: Dated = undated


def without_notice(old: Skill, tool: str, place: Place, notices: Notices) -> Finding | None:
    """Return what is wrong with the removal of a tool, None where its users were told in time.

    Args:
        old: The last version that has the tool.
        tool: The name.
        place: Where the finding belongs in the new version.
        notices: What is known of announcements beside the contract.
    """
    name = f"`{old.id}.{tool}`"
    entry = next((each for each in old.exports.deprecated if each.tool == tool), None)
    if entry is None:
        message = f"{name} is gone, and nothing announced that"
        fix = (
            f"export it still, with `deprecated: [{{tool: {tool}, announced: {notices.today},"
            f" removal_date: {notices.today + WINDOW}}}]`"
        )
        return place.finding("CH0705", "error", message, fix)
    fix = "export it until then"
    if notices.today < entry.removal_date:
        message = f"{name} is gone on {notices.today}, and {entry.removal_date} was announced"
        return place.finding("CH0705", "error", message, fix)
    announced = entry.announced or notices.dated(old, tool)
    if announced is None:
        message = (
            f"nothing says when the removal of {name} was announced, so nobody can tell whether"
            f" its users had {WINDOW.days} days"
        )
        return place.finding("CH0707", "note", message, "compare with git:REF, which dates it")
    if announced + WINDOW <= notices.today:
        return None
    message = (
        f"{name} is gone {(notices.today - announced).days} days after {announced}, when that was"
        f" announced: users have {WINDOW.days} at least"
    )
    return place.finding("CH0705", "error", message, f"export it until {announced + WINDOW}")
