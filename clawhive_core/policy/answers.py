"""A person's answer to a call: yes or no, for how long, with which rights, with which changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypedDict, get_args

from clawhive_core.capabilities import contains, normalise, parse
from clawhive_core.errors import UsageError
from clawhive_core.model.approvals import Approval, ApprovalScope
from clawhive_core.model.grants import CapabilityGrant, Scope
from clawhive_core.model.ids import new_id
from clawhive_core.model.late import dataclass
from clawhive_core.policy.persistent import DEFAULT_LIFE
from clawhive_core.policy.terms import on_terms, usable, written

Verdict = Literal["approve", "deny"]

_SCOPES: tuple[str, ...] = get_args(ApprovalScope)
_WIDER = ", ".join(_SCOPES[1:])


@dataclass(frozen=True, slots=True)
class Edited:
    """A call as a person changed it: checked, and decided about anew."""

    approval_id: str
    input: Mapping[str, Any]
    digest: str
    """The digest that the answer is bound to, as `Approval.digest`."""
    capabilities: tuple[str, ...]
    sinks: Mapping[str, Any]
    diff: str
    verdict: str
    """The verdict on the changed call: `allow` or `ask`."""
    rules: tuple[str, ...]
    destinations: tuple[Mapping[str, Any], ...] = ()
    """The sources of the values of `sinks`, as `Approval.destinations`."""


class AnswerOptions(TypedDict, total=False):
    """The options of an answer beside yes or no."""

    scope: ApprovalScope
    """`once` approves this call; a wider one also gives its rights for that long."""
    reason: str | None
    """The reason, for the log and for whoever asked."""
    grants: Sequence[str]
    """The rights that a wider scope gives, within those of the call; all of them otherwise."""
    life: timedelta | None
    """The longest life of these rights; `always` ends after 90 days otherwise."""
    edited: Edited | None
    """The call as it is approved, where the person changed it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, by one person."""

    verdict: Verdict
    by: str
    scope: ApprovalScope = "once"
    reason: str | None = None
    grants: Sequence[str] = ()
    life: timedelta | None = None
    edited: Edited | None = None

    def check(self, approval: Approval) -> None:
        """Refuse what is no answer to this approval.

        Raises:
            UsageError: An unknown answer or scope; more than yes or no for a denial; a wider scope
                for an unsafe tool; rights without a wider scope; another call's changes.
        """
        if self.verdict not in {"approve", "deny"} or self.scope not in _SCOPES:
            raise UsageError(
                f"`{self.verdict}` for `{self.scope}` is no answer",
                fix=f"approve or deny; once, {_WIDER}",
            )
        gives = bool(self.grants) or self.life is not None
        if self.verdict == "deny" and (self.scope != "once" or gives or self.edited is not None):
            raise UsageError("a denial is for this call", place="--scope", fix="leave the rest out")
        if self.scope != "once" and approval.risk == "unsafe":
            raise UsageError(
                f"`{approval.tool}` is unsafe: a person approves each call of it, and no scope "
                "waives that",
                place="--scope",
                fix="approve this call alone: leave --scope out, or say --scope once",
            )
        if self.scope == "once" and gives:
            raise UsageError(
                "approving one call gives no right", place="--scope", fix=f"one of: {_WIDER}"
            )
        if self.edited is not None and self.edited.approval_id != approval.approval_id:
            raise UsageError("the changes are those of another call", place="--edit")

    def rights(self, capabilities: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
        """Return the capabilities that a wider scope gives: those of the call, or less.

        Raises:
            CapabilityError: One cannot be read.
            UsageError: One is more than the call needs.
        """
        if self.scope == "once" or not self.grants:
            return () if self.scope == "once" else tuple(capabilities)
        wanted = dict.fromkeys(normalise(text, variables) for text in self.grants)
        asked = [parse(text) for text in capabilities]
        for text in wanted:
            if not any(contains(each, parse(text)) for each in asked):
                raise UsageError(
                    f"`{text}` is more than this call asked for",
                    place="--grant",
                    fix=f"take it from: {', '.join(capabilities)}; wider rights are given by "
                    "`clawhive grants issue`",
                )
        return tuple(wanted)

    def issue(
        self, capabilities: Sequence[str], approval: Approval, tool: str | None
    ) -> list[CapabilityGrant]:
        """Return the grants of a wider scope, to whoever made the call of an approval.

        Args:
            capabilities: What is granted.
            approval: The approval.
            tool: What the tool of its call was, as `ToolIdentity.text`.
        """
        scopes: Mapping[str, tuple[Scope, str]] = {
            "step": ("step", approval.step),
            "task": ("task", approval.task_id),
            "session": ("session", approval.conversation_id),
            "always": ("persistent", ""),
        }
        life = self.life or (DEFAULT_LIFE if self.scope == "always" else None)
        ends = None if life is None else written(datetime.now(UTC) + life)
        return [
            usable(
                on_terms(
                    CapabilityGrant(
                        new_id("grant"),
                        "",
                        approval.principal,
                        *scopes[self.scope],
                        "approval",
                        expires_at=ends,
                        tool=tool,
                    ),
                    parse(text),
                ),
                datetime.now(UTC),
            )
            for text in capabilities
        ]
