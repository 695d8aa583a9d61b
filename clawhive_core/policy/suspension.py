"""Suspension: what a person gave for a tool does not count while that tool is another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from clawhive_core.capabilities import parse
from clawhive_core.errors import RunError, UsageError
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.identity import ToolIdentity
from clawhive_core.model.ids import new_id
from clawhive_core.model.tools import ToolMeta

FindTool = Callable[[str], ToolMeta | None]
"""Returns a tool of the catalog by its name, None where it is gone."""


def named_tool(capability: str) -> str:
    """Return the tool that a canonical capability names exactly, empty where it names none."""
    found = parse(capability).unconstrained
    if found.verb != "tool.call" or not found.is_concrete:
        return ""
    return found.text.partition(":")[2]


def bound(grant: CapabilityGrant, find: FindTool) -> CapabilityGrant:
    """Return a grant with what the tool that it names is now, where it names one that is there."""
    tool = find(named_tool(grant.capability))
    return grant if tool is None else replace(grant, tool=ToolIdentity.of(tool).text)


def suspension(tool: str | None, find: FindTool) -> str:
    """Return how the tool of a grant or approval changed since, as a diff; empty where not.

    Args:
        tool: What it was then, as `ToolIdentity.text`.
        find: Finds what it is now.
    """
    if tool is None:
        return ""
    identity = ToolIdentity.read(tool)
    if identity is None:
        return "what the tool was cannot be read any more"
    meta = find(identity.name)
    return "" if meta is None or identity.is_still(meta) else identity.diff(meta)


def taken_over(tool: str | None) -> str | None:
    """Return what a task's grant keeps of the tool that its parent was given for."""
    identity = None if tool is None else ToolIdentity.read(tool)
    return tool if identity is None else identity.brief


def renewed(grant: CapabilityGrant, find: FindTool) -> CapabilityGrant:
    """Return what replaces a suspended grant: the same for its tool as it is now.

    Args:
        grant: It, with the uses that are left.
        find: Finds its tool.

    Raises:
        UsageError: Nothing suspends it, every use was made, or its tool is gone.
    """
    if grant.tool is None:
        raise UsageError(
            "the grant names no tool, so nothing suspends it",
            place=grant.grant_id,
            fix="clawhive grants list",
        )
    before = ToolIdentity.read(grant.tool)
    if before is None:
        raise UsageError(
            "what its tool was cannot be read any more",
            place=grant.grant_id,
            fix="clawhive grants revoke ID, then clawhive grants issue CAP",
        )
    tool = find(before.name)
    if tool is None:
        raise UsageError(
            f"there is no tool `{before.name}` now", place=before.name, fix="clawhive tools list"
        )
    if grant.uses == 0:
        raise UsageError(
            "every use of the grant was made",
            place=grant.grant_id,
            fix="clawhive grants issue CAP --uses N",
        )
    if before.is_still(tool):
        raise UsageError(
            f"`{before.name}` is what it was: nothing suspends the grant",
            place=grant.grant_id,
            fix="clawhive grants list",
        )
    return replace(grant, grant_id=new_id("grant"), tool=ToolIdentity.of(tool).text)


def changed(grant_id: str) -> RunError:
    """Return the error of a renewal whose grant ended, or was used, since it was read."""
    return RunError(
        "the grant was used, revoked or given anew meanwhile",
        code="already_resolved",
        place=grant_id,
        fix="clawhive grants list",
    )
