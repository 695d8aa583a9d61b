"""The decision: the maximum over a call's capabilities, its tool's floor, and every check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clawhive_core.capabilities import parse
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.tools import ToolMeta
from clawhive_core.policy.rules import (
    NO_GRANT,
    SENSITIVE_RULE,
    Authority,
    Decision,
    Rules,
    speaks_of,
)
from clawhive_core.protocols.check import CheckResult, PolicyRequest, Verdict

_LIFTABLE = frozenset((NO_GRANT, SENSITIVE_RULE))
"""The denies that a person's grant of the very capability ends."""


def decide(request: PolicyRequest, rules: Rules, checks: Sequence[CheckResult] = ()) -> Decision:
    """Decide one call; only an approval of this very call discharges an ask."""
    tool, given = request.tool, request.input
    suspended = rules.suspended(tool)
    asks_nothing = tool.risk == "safe" and not (tool.requires_confirm or checks)
    kept = rules.decided if asks_nothing and not suspended else None
    if kept is not None and (known := kept.get(request.capabilities)) is not None:
        return known
    found = [
        (text, rules.authority(parse(text), given, suspended)) for text in request.capabilities
    ]
    if asks_nothing and (free := _free(found)) is not None:
        if kept is not None:
            kept[request.capabilities] = free
        return free
    authorities = [each for _, each in found]
    floor = asks_by_itself(request.tool, authorities)
    verdict = strictest([each.verdict for each in authorities])
    reasons = [f"{each.verdict}:{each.rule}" for each in authorities]
    if floor and verdict == "allow":
        verdict = "ask"
        reasons.append(f"ask:risk.{request.tool.risk}")
    granted = [
        (text, each.grant.grant_id)
        for text, each in found
        if each.verdict == "allow" and each.grant is not None
    ]
    verdict = strictest([verdict, *(result.verdict for result in checks)])
    reasons += [f"{result.verdict}:{result.rule}" for result in checks]
    missed = _missed(suspended, found, given) if suspended else ()
    reasons += [f"suspended:{grant_id}" for grant_id in missed]
    return Decision(
        verdict,
        tuple(reasons),
        tuple(granted),
        tuple(text for text, each in found if each.verdict == "deny"),
        tuple(text for text, each in found if each.verdict == "ask"),
        tuple(
            text
            for text, each in found
            if each.verdict != "allow" or (floor and not each.by_person)
        ),
        any(each.verdict == "deny" and each.rule not in _LIFTABLE for each in authorities)
        or any(result.verdict == "deny" for result in checks),
        request.tool.risk == "unsafe" or any(result.verdict == "ask" for result in checks),
        floor,
        _counted(authorities),
        missed,
    )


def _free(found: Sequence[tuple[str, Authority]]) -> Decision | None:
    """Return the decision of a safe tool's call where nothing is asked or denied, else None."""
    if not found:
        return None
    reasons: list[str] = []
    granted: list[tuple[str, str]] = []
    uses: dict[str, None] = {}
    for text, authority in found:
        grant = authority.grant
        if authority.verdict != "allow" or grant is None:
            return None
        reasons.append(f"allow:{authority.rule}")
        granted.append((text, grant.grant_id))
        if grant.uses is not None:
            uses[grant.grant_id] = None
    return Decision("allow", tuple(reasons), tuple(granted), (), (), counted=tuple(uses))


def _counted(authorities: Sequence[Authority]) -> tuple[str, ...]:
    grants = [each.grant for each in authorities if each.grant is not None]
    return tuple(dict.fromkeys(each.grant_id for each in grants if each.uses is not None))


def _missed(
    suspended: Sequence[CapabilityGrant],
    found: Sequence[tuple[str, Authority]],
    given: Mapping[str, Any],
) -> tuple[str, ...]:
    """Return the ids under which a person knows the grants that would have helped.

    One to call the tool would have, whatever else the tool needs since it changed.
    """
    open_ = [parse(text) for text, each in found if not each.by_person]
    ids = (
        each.parent_grant or each.grant_id
        for each, pattern in ((each, parse(each.capability)) for each in suspended)
        if pattern.constraints.admit(given)
        and any(
            pattern.verb == "tool.call" or speaks_of(each, pattern, capability)
            for capability in open_
        )
    )
    return tuple(dict.fromkeys(ids))


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the maximum in allow < ask < deny; of nothing, deny."""
    found = set(verdicts)
    if "deny" in found or not found:
        return "deny"
    return "ask" if "ask" in found else "allow"


def asks_by_itself(tool: ToolMeta, authorities: Sequence[Authority]) -> bool:
    """Whether the tool's floor is `ask`.

    An unsafe tool asks each time; a guarded or unknown one, or one that requires a confirmation,
    asks unless a person granted each capability of the call.
    """
    if tool.risk == "unsafe":
        return True
    if tool.risk == "safe" and not tool.requires_confirm:
        return False
    return not all(each.by_person for each in authorities)
