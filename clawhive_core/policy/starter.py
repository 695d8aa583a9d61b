"""The rights of a task out of the box, before anybody granted anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from clawhive_core.capabilities import parse
from clawhive_core.events.grants import MOST, SHARED_ISSUERS, is_shareable, member_id, new_set_id
from clawhive_core.model.grants import CapabilityGrant, Issuer, Mode
from clawhive_core.model.ids import new_ids
from clawhive_core.policy.terms import on_terms

ALLOWED = (
    "fs.read:${workspace}/**",
    "fs.read:${run}/**",
    "fs.write:${run}/**",
    "sandbox.read:**",
    "sandbox.write:**",
    "sandbox.exec:**",
    "tool.call:**",
    "tool.enable:**",
    "mem.read:own/**",
    "mem.write:own/**",
    "model.call:*",
)
"""`model.call:PROVIDER` is the provider's default host; another host is a further segment."""

ASKED = (
    "fs.write:${workspace}/**",
    "fs.delete:${workspace}/**",
    "net.http:**",
    "net.connect:**",
    "agent.spawn:**",
    "model.call:**",
)


def granted_verbs(allowed: Sequence[str] = ()) -> frozenset[str]:
    """Return the verbs of which something is allowed out of the box, or by `[policy] allow`."""
    return frozenset(pattern.partition(":")[0] for pattern in (*ALLOWED, *allowed))


def starter_grants(
    task_id: str, subject: str, variables: Mapping[str, str]
) -> list[CapabilityGrant]:
    """Return the out-of-the-box grants of a task.

    Args:
        task_id: The task with which they end.
        subject: The principal that gets them.
        variables: Absolute paths for `workspace` and `run`.
    """
    target = Target(task_id, subject, variables)
    return [*target.grants(ALLOWED, "starter"), *target.grants(ASKED, "starter", "ask")]


class Target:
    """The receiver of grants, the task, and the paths that their variables stand for."""

    def __init__(self, task_id: str, subject: str, variables: Mapping[str, str]) -> None:
        self.task_id = task_id
        self.subject = subject
        self.variables = variables
        self._set_id = new_set_id()
        self._numbered = 0

    def grants(
        self, patterns: Sequence[str], issuer: Issuer, mode: Mode = "allow"
    ) -> list[CapabilityGrant]:
        """Return one task grant a pattern; what many tasks share are members of one set.

        Raises:
            CapabilityError: A pattern cannot be used.
        """
        subject, task_id = self.subject, self.task_id
        found: list[CapabilityGrant] = []
        for grant_id, pattern in zip(self._ids(issuer, len(patterns)), patterns, strict=True):
            each = parse(pattern, self.variables)
            grant = CapabilityGrant(grant_id, each.text, subject, "task", task_id, issuer, mode)
            found.append(on_terms(grant, each) if each.constraints else grant)
        return found

    def members(self, grants: Sequence[CapabilityGrant]) -> list[CapabilityGrant]:
        """Return grants of a task that were cut down, those that tasks share as a new set."""
        set_id, number, found = new_set_id(), 0, list[CapabilityGrant]()
        for each in grants:
            if is_shareable(each) and number < MOST:
                found.append(replace(each, grant_id=member_id(set_id, number)))
                number += 1
            else:
                found.append(each)
        return found

    def _ids(self, issuer: Issuer, count: int) -> Sequence[str]:
        if issuer not in SHARED_ISSUERS or self._numbered + count > MOST:
            return new_ids("grant", count)
        first, self._numbered = self._numbered, self._numbered + count
        return [member_id(self._set_id, number) for number in range(first, first + count)]
