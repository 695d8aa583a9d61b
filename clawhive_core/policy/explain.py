"""Explanations of decisions and of the rules in force: for people, never for a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from clawhive_core.capabilities import parse
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.principal import Principal
from clawhive_core.policy.boundary import delegate_of
from clawhive_core.policy.protected import as_rules
from clawhive_core.policy.rules import Decision, Rules
from clawhive_core.policy.suspension import FindTool, suspension
from clawhive_core.protocols.check import CheckResult, PolicyRequest


def why(
    request: PolicyRequest, rules: Rules, checks: Sequence[CheckResult], decision: Decision
) -> dict[str, Any]:
    """Return each part of a decision: what every capability, the tool's risk and checks say."""
    return {
        "verdict": decision.verdict,
        "principal": str(request.principal),
        "risk": request.tool.risk,
        "raised": request.tool.raised or None,
        "capabilities": [_part(text, request, rules) for text in request.capabilities],
        "suspended": list(decision.suspended),
        "floor": "ask" if decision.floor else "allow",
        "each_time": decision.each_time,
        "checks": [{"verdict": each.verdict, "rule": each.rule} for each in checks],
        "missing": list(decision.needed),
        "final": decision.final,
    }


def _part(text: str, request: PolicyRequest, rules: Rules) -> dict[str, Any]:
    capability, given = parse(text), request.input
    found = rules.authority(capability, given, rules.suspended(request.tool))
    grant = found.grant
    return {
        "capability": text,
        "verdict": found.verdict,
        "rule": found.rule,
        "pattern": None if grant is None else grant.capability,
        "issuer": None if grant is None else grant.issuer,
        "grants": sorted({each.capability for each in rules.covering(capability, given)}),
        "unmet": [
            {"pattern": each.capability, "constraints": list(lacking)}
            for each, lacking in rules.unmet(capability, given)
        ],
    }


def in_force(
    principal: Principal, rules: Rules, find: FindTool, of_steps: Sequence[CapabilityGrant] = ()
) -> dict[str, Any]:
    """Return every rule with its pattern, what it says and who gave it; and protected names.

    The protected names are those that no grant opens to a tool, or only one of exactly that name.

    Args:
        principal: Who acts.
        rules: What counts for the whole run.
        find: Returns today's tool of a name.
        of_steps: What its steps get when they start.
    """
    return {
        "principal": str(principal),
        "rules": [*_granted(rules.grants, find), *_granted(of_steps, find), *_stored(rules)],
        "protected": list(as_rules()),
    }


def _granted(grants: Sequence[CapabilityGrant], find: FindTool) -> Iterator[dict[str, Any]]:
    for grant in grants:
        yield {
            "pattern": grant.capability,
            "mode": grant.mode,
            "issuer": grant.issuer,
            "expires_at": grant.expires_at,
            "grant_id": grant.parent_grant,
            "uses": grant.uses,
            "delegate": _face(grant),
            "suspended": bool(suspension(grant.tool, find)),
            "step": grant.scope_id.rpartition("/")[2] if grant.scope == "step" else None,
        }


def _stored(rules: Rules) -> Iterator[dict[str, Any]]:
    for mode, patterns in (("ask", rules.asks), ("deny", rules.denies)):
        for pattern in patterns:
            yield {
                "pattern": pattern,
                "mode": mode,
                "issuer": "config",
                "expires_at": None,
                "grant_id": None,
                "uses": None,
                "delegate": pattern,
                "suspended": False,
                "step": None,
            }


def _face(grant: CapabilityGrant) -> str | None:
    """Return what children may get of a grant, None for nothing."""
    face = delegate_of(grant)
    return None if face is None else face.text
