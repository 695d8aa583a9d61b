"""`risk_policy`: a cap that a skill puts on its own tools; it only tightens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, get_args

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import Level, Risk

if TYPE_CHECKING:
    from clawhive_core.skills.contracts.skill import ExportedTool
    from clawhive_core.skills.documents.fields import Fields

LEVELS: tuple[Level, ...] = get_args(Level)
RISKS: tuple[Risk, ...] = ("safe", "guarded", "unknown", "unsafe")
"""From the least to the greatest."""

_KEYS = ("max_level", "max_risk", "confirm")


@dataclass(frozen=True, slots=True)
class RiskPolicy:
    """The most that a skill's tools may be, and whether a person confirms each call."""

    max_level: Level = "L2"
    max_risk: Risk = "unsafe"
    confirm: bool = False

    def beyond(self, level: Level, risk: Risk) -> str | None:
        """Return what of a tool lies above the cap, None where nothing does."""
        if LEVELS.index(level) > LEVELS.index(self.max_level):
            return f"its level {level} is above max_level {self.max_level}"
        if RISKS.index(risk) > RISKS.index(self.max_risk):
            return f"its risk {risk} is above max_risk {self.max_risk}"
        return None


UNCAPPED = RiskPolicy()


def read_risk_policy(contract: Fields) -> RiskPolicy:
    """Return the `risk_policy` of a contract.

    Raises:
        InvalidSkill: A part is not what it must be.
    """
    body = contract.below("risk_policy")
    body.closed(_KEYS, "`risk_policy`")
    return RiskPolicy(
        body.one_of("max_level", LEVELS) or LEVELS[-1],
        body.one_of("max_risk", RISKS) or RISKS[-1],
        body.flag("confirm"),
    )


def beyond_policy(policy: RiskPolicy, tools: tuple[ExportedTool, ...]) -> Iterator[Finding]:
    """Yield an error for each tool that states more than the skill's own policy allows.

    What a tool does not state follows from the skill's permissions when it enters the catalog,
    which leaves out one that is above the cap then.
    """
    for tool in tools:
        stated = (tool.facts.level or LEVELS[0], tool.facts.risk or RISKS[0])
        problem = policy.beyond(*stated)
        if problem is not None:
            message = f"`{tool.name}` breaks the skill's risk_policy: {problem}"
            fix = "raise the cap, or lower what the tool does"
            yield tool.place.finding("CH0315", "error", message, fix)
