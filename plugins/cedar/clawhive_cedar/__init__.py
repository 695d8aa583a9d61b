"""Policies in Cedar that tighten what ClawHive's policy decides."""

from __future__ import annotations

from clawhive_cedar.check import CedarCheck
from clawhive_cedar.settings import policy_file
from clawhive_core import HookContext, PolicyCheck, hookimpl

__all__ = ["CedarCheck", "clawhive_policy_checks"]


@hookimpl
def clawhive_policy_checks(ctx: HookContext) -> list[PolicyCheck]:
    """Return the check, where the settings name a file of policies."""
    path = policy_file(ctx.settings, ctx.root, ctx.env)
    return [] if path is None else [CedarCheck(path)]
