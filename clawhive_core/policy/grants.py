"""Grants that a person gives beside a run: issued, listed, revoked, and what of them counts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from clawhive_core.capabilities import Capability, contains, parse
from clawhive_core.config.private_file import version_of
from clawhive_core.errors import RunError, UnknownId, UsageError
from clawhive_core.events.grants import issued
from clawhive_core.model.events import Event
from clawhive_core.model.grants import CapabilityGrant, Mode, Scope
from clawhive_core.model.ids import new_id
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.principal import DEFAULT_AGENT, LOCAL_USER, Principal
from clawhive_core.policy.persistent import (
    DEFAULT_LIFE,
    FILE,
    PersistentGrant,
    drop,
    keep,
    read_persistent,
    swap,
)
from clawhive_core.policy.suspension import FindTool, changed, renewed, taken_over
from clawhive_core.policy.terms import is_live, on_terms, usable, utc, written
from clawhive_core.protocols.ledger import ActiveGrants, GrantIs, Ledger, RightsWhere, Unmet

_UNITS: Mapping[str, timedelta] = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_DURATION = pattern(r"(\d{1,9})([smhdw])")
_LONGEST = timedelta(days=3660)


@dataclass(frozen=True, slots=True)
class Wish:
    """The wish of a person to grant: the right, to whom, for how long."""

    capability: str
    scope: Scope
    scope_id: str = ""
    """The id of the task or session; empty for a persistent grant."""
    subject: str = str(DEFAULT_AGENT)
    life: timedelta | None = None
    uses: int | None = None
    mode: Mode = "allow"
    delegate: str | None = None
    """The part that children may get: a pattern, empty for nothing, None for the default."""
    tool: str | None = None
    """The identity of the tool that it names, as `ToolIdentity.text`."""


class GrantBook:
    """The grants of one project and of its user.

    Args:
        user_dir: The user's own directory, which holds the persistent ones.
        log: The project's log, which holds the others; None where nothing is recorded yet.
    """

    def __init__(self, user_dir: Path, log: Ledger | None = None) -> None:
        self._user_dir = user_dir
        self._log = log

    @property
    def problem(self) -> str | None:
        """The reason that the persistent grants do not count, or None."""
        return read_persistent(self._user_dir).problem

    def counting(
        self, conversation_id: str | None, principal: Principal, now: datetime
    ) -> list[CapabilityGrant]:
        """Return the session's and the persistent grants that this principal has now.

        What the local user granted to the default agent the local user has too.

        Args:
            conversation_id: The session; None for a new one, which nobody can have given any.
            principal: Who has them.
            now: The present, in UTC.

        Raises:
            StorageError: `forged_rights`: the log gives fewer.
        """
        found = [entry.grant for entry in read_persistent(self._user_dir).entries]
        if conversation_id is not None:
            found += self._in_log(RightsWhere(scope="session", scope_id=conversation_id))
        return [each for each in found if _is_for(each, principal) and is_live(each, now)]

    def mark(self) -> object:
        """Return what is another where grants may have come or gone since."""
        epoch = None if self._log is None else self._log.epoch()
        return epoch, version_of(os.path.join(self._user_dir, FILE))  # noqa: PTH118 - for each call

    def of_task(self, task_id: str, now: datetime) -> list[CapabilityGrant]:
        """Return a task's grants as they stand now: not ended, not expired, no parent revoked.

        Raises:
            StorageError: `forged_rights`: the log gives fewer.
        """
        found = self._in_log(RightsWhere(scope="task", scope_id=task_id))
        return [each for each in found if is_live(each, now)]

    def of_steps(self, run_id: str, now: datetime) -> list[CapabilityGrant]:
        """Return the grants of a run's steps that have not ended, as they stand now.

        Raises:
            StorageError: `forged_rights`: the log gives fewer.
        """
        found = self._in_log(RightsWhere(steps_of=run_id))
        return [each for each in found if is_live(each, now)]

    def active(self, now: datetime) -> list[dict[str, Any]]:
        """Return every grant that has neither ended nor expired, oldest first, as JSON."""
        rows = [
            {**entry.grant.to_dict(), "uses_left": None, "issued_at": entry.issued_at}
            for entry in read_persistent(self._user_dir).entries
        ]
        if self._log is not None:
            rows += [each.to_dict() for each in self._log.find(RightsWhere(checked=False))]
        live = [row for row in rows if is_live(CapabilityGrant.from_dict(row), now)]
        return sorted(live, key=lambda row: (row["issued_at"], row["grant_id"]))

    def issue(self, wish: Wish, variables: Mapping[str, str], now: datetime) -> dict[str, Any]:
        """Issue a grant and return it as JSON.

        Args:
            wish: What is granted.
            variables: What `workspace`, `home` and `run` stand for.
            now: The present, in UTC.

        Raises:
            CapabilityError: The capability cannot be used.
            UsageError: The subject is no principal, or the life is too long.
            StorageError: It could not be written; nothing was granted.
        """
        grant = _made(wish, variables, now)
        at = written(now)
        if grant.scope == "persistent":
            keep(self._user_dir, PersistentGrant(grant, at))
        else:
            self._opened().append_now(_issued_by_person(grant), sync=True)
        return {**grant.to_dict(), "uses_left": grant.uses, "issued_at": at}

    def resume(self, text: str, find: FindTool, now: datetime) -> dict[str, Any]:
        """Give a grant anew for its tool as it is now, in place of the old one; return it as JSON.

        What is left of its uses and of its time is left of the new one's.

        Args:
            text: Its id, a unique part of the id's start, or `last`.
            find: Finds the tool that it names.
            now: The present, in UTC.

        Raises:
            UnknownId: It names no active grant, or several.
            UsageError: Nothing suspends it, every use was made, or its tool is gone.
            RunError: `already_resolved`: it was used, revoked or given anew meanwhile.
            StorageError: It could not be written.
        """
        row, old = self.find(text, now)
        new = renewed(replace(old, uses=row["uses_left"]), find)
        body = {"grant_id": old.grant_id, "reason": f"its tool changed: now {new.grant_id}"}
        ended, at = Event("grant.revoked", body, principal=str(LOCAL_USER)), written(now)
        if new.scope == "persistent":
            if not swap(self._user_dir, old.grant_id, PersistentGrant(new, at)):
                raise UnknownId(f"{old.grant_id} is gone", place=text, fix="clawhive grants list")
            if self._log is not None:
                self._log.append_now(ended, sync=True)
        else:
            given = _issued_by_person(new)
            as_read = GrantIs(old.grant_id, row["uses_left"])
            try:
                self._opened().append_now(ended, given, sync=True, expects=(as_read,))
            except Unmet:
                raise changed(old.grant_id) from None
        return {**new.to_dict(), "uses_left": new.uses, "issued_at": at}

    def find(self, text: str, now: datetime) -> tuple[dict[str, Any], CapabilityGrant]:
        """Return an active grant, as a row too, by its id, a part of its start, or `last`.

        Raises:
            UnknownId: It names none, or several.
        """
        row = self._find(text, now)
        return row, CapabilityGrant.from_dict(row)

    def revoke(self, text: str, now: datetime) -> str:
        """End a grant and what was derived from it; return its id.

        Args:
            text: Its id, a unique part of the id's start, or `last`.
            now: The present, in UTC.

        Raises:
            UnknownId: It names no active grant, or several.
            StorageError: It could not be written.
        """
        grant_id = str(self._find(text, now)["grant_id"])
        dropped = drop(self._user_dir, grant_id)
        if self._log is not None:
            body = {"grant_id": grant_id, "reason": "revoked by a person"}
            event = Event("grant.revoked", body, principal=str(LOCAL_USER))
            self._log.append_now(event, sync=True)
        elif not dropped:
            raise UnknownId(f"the grant {grant_id} is gone", place=text, fix="clawhive grants list")
        return grant_id

    def _find(self, text: str, now: datetime) -> dict[str, Any]:
        rows = self.active(now)
        given = [row for row in rows if is_given(row)]
        if text == "last" and given:
            return given[-1]
        wanted = text if text.startswith("grant_") else f"grant_{text}"
        found = [row for row in rows if str(row["grant_id"]).startswith(wanted)]
        if len(found) == 1 and text:
            return found[0]
        what = "names several grants; write more of it" if found and text else "names no grant"
        raise UnknownId(f"`{text}` {what}", place=text, fix="clawhive grants list")

    def _in_log(self, query: RightsWhere) -> list[CapabilityGrant]:
        """Return the grants of the log that stand, with what they derive from, and have a use left.

        Raises:
            StorageError: `forged_rights`: the log gives fewer.
        """
        if self._log is None:
            return []
        found = self._log.find(query).items
        if above := {each.grant.parent_grant for each in found} - {None}:
            # What it derives from was revoked meanwhile, or in another project.
            stands = {entry.grant.grant_id for entry in read_persistent(self._user_dir).entries}
            stands |= set(self._log.find(ActiveGrants(tuple(filter(None, above)))))
            found = [each for each in found if each.grant.parent_grant in {None, *stands}]
        return [replace(each.grant, uses=each.uses_left) for each in found if each.uses_left != 0]

    def _opened(self) -> Ledger:
        if self._log is None:
            raise UsageError("this project has no log yet", fix="open one, then issue the grant")
        return self._log


def derived(grants: Iterable[CapabilityGrant], task_id: str, subject: str) -> list[CapabilityGrant]:
    """Return what a task takes over from live grants: task grants whose parents are these."""
    return [
        replace(
            grant,
            grant_id=new_id("grant"),
            subject=subject,
            scope="task",
            scope_id=task_id,
            parent_grant=grant.grant_id,
            expires_at=utc(grant.expires_at),
            tool=taken_over(grant.tool),
        )
        for grant in grants
    ]


def is_given(row: Mapping[str, Any]) -> bool:
    """Whether a person gave a grant itself, so that no run made it for its task."""
    return row["parent_grant"] is None and row["issuer"] in {"user", "approval"}


def duration(text: str) -> timedelta:
    """Return how long `30m`, `2h`, `10d` or `1w` is.

    Raises:
        UsageError: It is no duration, nothing, or longer than ten years.
    """
    found = _DURATION.fullmatch(text)
    life = timedelta() if found is None else _timedelta(int(found[1]), _UNITS[found[2]])
    if not timedelta() < life <= _LONGEST:
        raise UsageError(
            f"{text!r} is no duration between a second and ten years",
            place="--expires",
            fix="write a number and a unit: 30m, 2h, 10d or 1w",
        )
    return life


def _timedelta(number: int, unit: timedelta) -> timedelta:
    try:
        return number * unit
    except OverflowError:
        return timedelta.max


def _made(wish: Wish, variables: Mapping[str, str], now: datetime) -> CapabilityGrant:
    try:
        Principal.parse(wish.subject)
    except ValueError as error:
        raise UsageError(
            str(error), place="--subject", fix=f"leave it out for {DEFAULT_AGENT}"
        ) from None
    life = wish.life or (DEFAULT_LIFE if wish.scope == "persistent" else None)
    capability = parse(wish.capability, variables)
    grant = CapabilityGrant(
        new_id("grant"),
        "",
        wish.subject,
        wish.scope,
        wish.scope_id,
        "user",
        wish.mode,
        expires_at=None if life is None else written(now + life),
        uses=wish.uses,
        delegate=_face(wish, capability, variables),
        tool=wish.tool,
    )
    return usable(on_terms(grant, capability), now)


def _face(wish: Wish, use: Capability, variables: Mapping[str, str]) -> str | None:
    """Return the canonical delegate face of a wish.

    Raises:
        CapabilityError: It cannot be used.
        UsageError: It is more than what is granted.
    """
    if not wish.delegate:
        return wish.delegate
    face = parse(wish.delegate, variables)
    if not contains(use, face):
        raise UsageError(
            f"`{face}` is more than the right itself, `{use}`",
            place="--delegate",
            fix="write a part of it, or `none`",
        )
    return face.text


def _is_for(grant: CapabilityGrant, principal: Principal) -> bool:
    holders = {str(principal)}
    if principal == LOCAL_USER:
        holders.add(str(DEFAULT_AGENT))
    return grant.subject in holders


def _issued_by_person(grant: CapabilityGrant) -> Event:
    of_task = grant.scope == "task"
    return issued(
        [grant],
        principal=str(LOCAL_USER),
        task_id=grant.scope_id if of_task else None,
        conversation_id=None if of_task else grant.scope_id,
    )


def used_up(grant_ids: Sequence[str]) -> RunError:
    """Return the error `grant_used_up` of grants without a use left; `data` names them."""
    return RunError(
        "every use of the right was made, or it was revoked",
        code="grant_used_up",
        fix="clawhive grants issue CAP --uses N",
        data={"grant_ids": list(grant_ids)},
    )
