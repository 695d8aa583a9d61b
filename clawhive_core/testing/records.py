"""The records that events make, by the shortest code that says what they mean.

Projections of a ledger are compared with them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, cast

from clawhive_core.errors import LogWriteFailed, StorageError
from clawhive_core.events import rows
from clawhive_core.events.grants import GrantSet, read
from clawhive_core.events.rows import references
from clawhive_core.model.approvals import Approval
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.late import dataclass
from clawhive_core.model.records import (
    BodyRecord,
    GrantRecord,
    InvocationRecord,
    QuotaRecord,
    RevocationRecord,
    RightRecord,
    RunRecord,
    StepRecord,
    ValueRecord,
    goes_on,
)
from clawhive_core.protocols import ledger as port
from clawhive_core.protocols.stores import Subscription

_ENDED = ("succeeded", "failed", "cancelled")


@dataclass(slots=True)
class _Grant:
    grant: CapabilityGrant
    seq: int
    issued_at: str
    left: int | None
    ended_at: str | None = None


class FoldedRecords:
    """The records that some events make.

    Args:
        stored: Each event as it is stored, in the order of `events.chain.COLUMNS`.
        bodies: The bodies that they refer to, by digest.
    """

    def __init__(self, stored: Sequence[tuple[Any, ...]], bodies: Mapping[str, BodyRecord]) -> None:
        self.bodies = bodies
        self.log = [rows.stored(row) for row in stored]
        self.texts = [str(row[-3]) for row in stored]
        self.runs: dict[str, RunRecord] = {}
        self.grants: dict[str, _Grant] = {}
        self.sets: dict[str, GrantSet] = {}
        self.members: set[str] = set()
        """The ids of those rights that are members of a set."""
        self.approvals: dict[str, dict[str, Any]] = {}
        self.quotas: dict[tuple[str, str, int], tuple[int, int]] = {}
        self.subscriptions: dict[tuple[str, str], str] = {}
        self.values: dict[tuple[str, str, str], tuple[Any, str]] = {}
        for each in self.log:
            self._fold(each)

    def _fold(self, each: StoredEvent) -> None:
        event, body = each.event, each.event.body
        match event.kind:
            case "run.start":
                self.runs[str(event.run_id)] = _run_of(each)
            case "run.status":
                self._change_run(event, body.get("fence"), body.get("worker"))
                if event.status != "running":
                    self._end(
                        each.ts,
                        lambda one: (
                            one.scope == "step"
                            and one.scope_id.startswith(f"{event.run_id}/")
                            and one.issuer == "skill"
                        ),
                    )
            case "run.end":
                self._change_run(event, None, None, each.ts, body["error"])
                self._end(
                    each.ts,
                    lambda one: (
                        (one.scope == "task" and one.scope_id == event.task_id)
                        or (one.scope == "step" and one.scope_id.startswith(f"{event.run_id}/"))
                    ),
                )
                for row in self.approvals.values():
                    is_open = row["state"] in {"pending", "approved"}
                    is_clients = row["principal"].startswith("client:")
                    if row["run_id"] == event.run_id and is_open and not is_clients:
                        row.update(state="expired", resolved_by="clawhive", reason="its run ended")
            case "grant.issued":
                for one in body["grants"]:
                    self._issue(CapabilityGrant.from_dict(one), each)
                if (made := body.get("set")) is not None:
                    self._issue_set(made, each)
            case "grant.used" | "grant.returned":
                for name in body["grant_ids"]:
                    if (one := self.grants.get(name)) is not None and one.left is not None:
                        most = int(one.grant.uses or 0)
                        used = event.kind == "grant.used"
                        one.left = one.left - 1 if used else min(most, one.left + 1)
            case "grant.revoked":
                self._end(each.ts, lambda one: one.grant_id == body["grant_id"])
            case "approval.requested" | "approval.edited" | "approval.resolved":
                self._fold_approval(each)
            case "quota.reserved":
                key = (body["user_id"], body["tool"], body["seconds"])
                since, used = self.quotas.get(key, (body["since"], 0))
                if not goes_on(since, body["since"], body["seconds"]):
                    since, used = body["since"], 0
                self.quotas[key] = since, used + 1
            case "quota.returned":
                key = (body["user_id"], body["tool"], body["seconds"])
                since, used = self.quotas.get(key, (0, 0))
                if since == body["since"] and used > 0:
                    self.quotas[key] = since, used - 1
            case "subscription.added":
                self.subscriptions.setdefault((body["skill_id"], body["user_id"]), each.ts)
            case "subscription.removed":
                self.subscriptions.pop((body["skill_id"], body["user_id"]), None)
            case "store.put":
                key = (body["user_id"], body["namespace"], body["key"])
                self.values[key] = body["value"], each.ts
            case "store.delete":
                self.values.pop((body["user_id"], body["namespace"], body["key"]), None)
            case _:
                pass

    def _change_run(
        self,
        event: Event,
        fence: int | None,
        worker: str | None,
        ended_at: str | None = None,
        error: Mapping[str, Any] | None = None,
    ) -> None:
        if (run := self.runs.get(str(event.run_id))) is None:
            return
        self.runs[run.run_id] = replace(
            run,
            status=str(event.status),
            fence=run.fence if fence is None else fence,
            worker=worker,
            ended_at=ended_at or run.ended_at,
            error=error or run.error,
        )

    def _issue(self, grant: CapabilityGrant, each: StoredEvent) -> None:
        if grant.grant_id in self.grants:
            raise LogWriteFailed(f"The grant {grant.grant_id} is there.", place=grant.grant_id)
        self.grants[grant.grant_id] = _Grant(grant, each.seq, each.ts, grant.uses)

    def _issue_set(self, made: Mapping[str, Any], each: StoredEvent) -> None:
        members = made["members"]
        if "$value" in members:
            value = members["$value"]
        else:
            body = self.bodies[members["$blob"]]
            value = json.loads(body.data)
        row = {"set_id": made["id"], **{name: made[name] for name in ("subject", "task_id", "run")}}
        found = self.sets[made["id"]] = read(row, value)
        for grant in found.grants():
            self._issue(grant, each)
            self.members.add(grant.grant_id)

    def _end(self, ts: str, which: Callable[[CapabilityGrant], bool]) -> None:
        gone = {key for key, one in self.grants.items() if not one.ended_at and which(one.grant)}
        # One that is not there any more, or is kept elsewhere, ends what derives from it too.
        if which(CapabilityGrant("", "", "", "task", "", "user")):
            gone.add("")
        reached = set[str]()
        while gone - reached:
            reached |= gone
            for key, one in self.grants.items():
                if one.grant.parent_grant in gone and one.ended_at is None:
                    gone.add(key)
        for key in gone:
            if key in self.grants:
                self.grants[key].ended_at = self.grants[key].ended_at or ts

    def _fold_approval(self, each: StoredEvent) -> None:
        event, body = each.event, each.event.body
        if event.kind == "approval.requested":
            self.approvals[body["approval_id"]] = {
                "approval_id": body["approval_id"],
                "digest": body["digest"],
                "state": "pending",
                "run_id": event.run_id,
                "trace_id": event.trace_id,
                "task_id": event.task_id,
                "conversation_id": event.conversation_id,
                "step_id": event.step_id,
                "tool": event.tool,
                "risk": body["risk"],
                "principal": event.principal,
                "capabilities": tuple(body["requested_capabilities"]),
                "sinks": body["sinks"],
                "preview": body["input_preview"],
                "diff": body["diff"],
                "created_at": each.ts,
                "expires_at": body["expires_at"],
                "seq": each.seq,
                "step": body.get("grant_step") or str(event.step_id).partition("#")[0],
                "destinations": tuple(body.get("destinations", ())),
            }
        elif (row := self.approvals.get(body["approval_id"])) is None:
            return
        elif event.kind == "approval.edited":
            row.update(
                digest=body["digest"],
                capabilities=tuple(body["requested_capabilities"]),
                sinks=body["sinks"],
                preview=body["input_preview"],
                diff=body["diff"],
                edited=True,
                edited_seq=each.seq,
                destinations=tuple(body.get("destinations", ())),
            )
        elif event.status == "consumed":
            row["state"] = "consumed"
        else:
            row.update(state=event.status, resolved_by=body["by"], reason=body["reason"])
            row["scope"] = body.get("scope") or row.get("scope")
            if "grants" in body:
                row["grants"] = tuple(body["grants"])

    def active_grants(self) -> dict[str, _Grant]:
        """Return the grants that nobody and nothing ended."""
        return {key: one for key, one in self.grants.items() if one.ended_at is None}

    def require(self, expected: port.Expectation) -> None:
        """Raise Unmet where something expected does not hold."""
        met, found = self._met(expected)
        if not met:
            raise port.Unmet(expected, found)

    def _met(self, expected: port.Expectation) -> tuple[bool, Any]:
        match expected:
            case port.RunFree(run_id):
                run = self.runs.get(run_id)
                return run is None, None if run is None else run.status
            case port.AgentsBelow(trace_id, most):
                count = sum(
                    each.trace_id == trace_id and each.parent_run_id is not None
                    for each in self.runs.values()
                )
                return count < most, count
            case port.RunIs(run_id, states, fence, worker):
                run = self.runs.get(run_id)
                if run is None:
                    return False, (None, None)
                met = run.status in states and run.fence == fence
                return met and worker in {None, run.worker}, (run.status, run.fence)
            case port.RunOwnedBy(run_id, fence):
                run = self.runs.get(run_id)
                found = None if run is None else run.fence
                return found == fence, found
            case port.SessionAt(conversation_id, last):
                turns = self.answer(port.RunsWhere(conversation_id=conversation_id, turns=True))
                found = turns[-1].run_id if turns else None
                return found == last, found
            case port.GrantsUsable(ids):
                gone = [each for each in ids if not self._has_use(each)]
                return not gone, gone
            case port.GrantIs(grant_id, uses_left):
                one = self.active_grants().get(grant_id)
                return one is not None and one.left == uses_left, None
            case port.QuotaLeft(user_id, tool, limit, seconds, since):
                began, used = self.quotas.get((user_id, tool, seconds), (since, 0))
                return not (used >= limit and goes_on(began, since, seconds)), began
            case port.ApprovalIs(approval_id, states, at):
                row = self.approvals.get(approval_id)
                if row is None or row["state"] not in states:
                    return False, None if row is None else row["state"]
                return at is None or row["expires_at"] >= at, port.TOO_LATE
            case port.HasEvidence():
                return True, None
            case port.InvocationHas(run_id, invocation_id, any_of, none_of):
                kinds = {
                    each.event.kind
                    for each in self.log
                    if (each.event.run_id, each.event.invocation_id) == (run_id, invocation_id)
                }
                return bool(kinds & any_of) and not kinds & none_of, sorted(kinds)
            case port.SubscriptionIs(user_id, skill_id, there):
                found = (skill_id, user_id) in self.subscriptions
                return found == there, found

    def _has_use(self, grant_id: str) -> bool:
        line, active = self._descent([grant_id]), self.active_grants()
        mine = grant_id in active and grant_id not in self.members
        return mine and all(active[each].left != 0 for each in line if each in active)

    def _descent(self, ids: Sequence[str]) -> list[str]:
        found = set(ids)
        active = self.active_grants()
        todo = list(ids)
        while todo:
            one = active.get(todo.pop())
            parent = None if one is None else one.grant.parent_grant
            if parent is not None and parent not in found:
                found.add(parent)
                todo.append(parent)
        return sorted(found)

    def answer(self, query: Any) -> list[Any]:
        """Return all that a query asks for, oldest first or in its order."""
        match query:
            case port.RunsWhere():
                return [each for each in self.runs.values() if self._is_run(query, each)]
            case port.StepsWhere(run_id, status):
                steps = self._steps(run_id)
                return [each for each in steps if status in {None, each.status}]
            case port.InvocationsWhere():
                return [each for each in self._invocations() if _equals(query, each)]
            case port.ApprovalsWhere():
                return [each for each in self._approvals() if _is_approval(query, each)]
            case port.GrantsWhere(ended, scope, scope_id, subject):
                return [
                    _grant_record(one)
                    for one in sorted(
                        self.grants.values(), key=lambda one: (one.issued_at, one.grant.grant_id)
                    )
                    if ended in {None, one.ended_at is not None}
                    and scope in {None, one.grant.scope}
                    and scope_id in {None, one.grant.scope_id}
                    and subject in {None, one.grant.subject}
                ]
            case port.RightsWhere():
                return self._rights(query)
            case port.ActiveGrants(ids):
                return sorted(set(ids) & self.active_grants().keys())
            case port.DescentOf(ids):
                return self._descent(ids)
            case port.RevocationsWhere(ids):
                return [
                    RevocationRecord(each.event.body["grant_id"], each.seq)
                    for each in self.log
                    if each.event.kind == "grant.revoked"
                    and (ids is None or each.event.body["grant_id"] in ids)
                ]
            case port.QuotasWhere(user_id, tool, seconds):
                return [
                    QuotaRecord(*key, *value)
                    for key, value in sorted(self.quotas.items())
                    if user_id in {None, key[0]}
                    and tool in {None, key[1]}
                    and seconds in {None, key[2]}
                ]
            case port.SubscriptionsWhere(user_id, skill_id):
                return [
                    Subscription(user, skill, since)
                    for (skill, user), since in sorted(self.subscriptions.items())
                    if user_id in {None, user} and skill_id in {None, skill}
                ]
            case port.ValuesWhere(user_id, namespace, key, prefix):
                return [
                    ValueRecord(name, value, at)
                    for (user, space, name), (value, at) in sorted(
                        self.values.items(), key=lambda item: item[0]
                    )
                    if (user, space) == (user_id, namespace)
                    and key in {None, name}
                    and name.startswith(prefix or "")
                ]
            case port.IdsWhere(column, prefix, run_id):
                mine = [each.event for each in self.log if run_id in {None, each.event.run_id}]
                ids = [str(found) for each in mine if (found := getattr(each, column)) is not None]
                if prefix is None:
                    return ids[-1:]
                found = sorted({each for each in ids if each.startswith(prefix)})[:2]
                return found[:1] if found[:1] == [prefix] else found
            case port.EventsWhere():
                return [each for each in self.log if self._is_event(query, each)]
            case _:
                raise StorageError(f"{type(query).__name__} is no query of a ledger.")

    def _is_run(self, query: port.RunsWhere, run: RunRecord) -> bool:
        columns = ("status", "run_id", "task_id", "parent_run_id", "conversation_id", "principal")
        is_turn = run.status == "succeeded" and run.task_type is None and run.parent_run_id is None
        return (
            all(getattr(query, name) in {None, getattr(run, name)} for name in columns)
            and query.task_type in {None, run.task_type}
            and (query.since is None or run.started_at >= query.since)
            and (query.until is None or run.started_at < query.until)
            and run.run_id.startswith(query.prefix or "")
            and query.top_level in {None, run.parent_run_id is None}
            and (query.above is None or run.run_id in self._line(query.above))
            and (query.below is None or query.below in self._line(run.run_id)[1:])
            and (query.turns is None or is_turn)
        )

    def _line(self, run_id: str) -> list[str]:
        found, at = list[str](), self.runs.get(run_id)
        while at is not None:
            found.append(at.run_id)
            at = None if at.parent_run_id is None else self.runs.get(at.parent_run_id)
        return found

    def _rights(self, query: port.RightsWhere) -> list[RightRecord]:
        mine, of_sets = list[RightRecord](), list[RightRecord]()
        everything = (query.grant_ids, query.scope, query.scope_id, query.steps_of) == (None,) * 4
        of_task = query.checked and query.scope == "task" and query.scope_id is not None
        for key, one in self.active_grants().items():
            grant = one.grant
            wanted = (
                (query.grant_ids is None or key in query.grant_ids)
                and query.scope in {None, grant.scope}
                and query.scope_id in {None, grant.scope_id}
            )
            if query.steps_of is not None:
                of_step = grant.scope == "step" and grant.scope_id.startswith(f"{query.steps_of}/")
                wanted = wanted and of_step
            if not wanted:
                continue
            right = RightRecord(grant, one.left, one.issued_at)
            if key not in self.members:
                mine.append(right)
            elif of_task or everything:
                of_sets.append(right)
        return of_sets + mine

    def _approvals(self) -> list[Approval]:
        return [Approval(**row) for row in self.approvals.values()]

    def _is_event(self, query: port.EventsWhere, each: StoredEvent) -> bool:
        event, body = each.event, each.event.body
        columns = ("run_id", "trace_id", "task_id", "step_id", "tool", "principal", "status")
        if any(getattr(query, name) not in {None, getattr(event, name)} for name in columns):
            return False
        kind = query.kind
        if query.parent_run_id is not None:
            run = self.runs.get(str(event.run_id))
            if run is None or run.parent_run_id != query.parent_run_id:
                return False
        step = event.step_id
        return (
            (kind is None or event.kind == kind or event.kind.startswith(f"{kind}."))
            and query.decision in {None, body.get("decision")}
            and (query.since is None or each.ts >= query.since)
            and (query.until is None or each.ts < query.until)
            and query.invocation_id in {None, event.invocation_id}
            and (query.steps_from is None or (step is not None and step > query.steps_from))
            and (query.steps_before is None or (step is not None and step < query.steps_before))
            and (query.after_seq is None or each.seq > query.after_seq)
        )

    def _invocations(self) -> list[InvocationRecord]:
        found: list[InvocationRecord] = []
        for each in self.log:
            event = each.event
            same = [
                other
                for other in self.log
                if event.invocation_id is not None
                and (other.event.run_id, other.event.invocation_id)
                == (event.run_id, event.invocation_id)
            ]
            if event.kind == "approval.requested":
                begun = {"invocation.start", "invocation.refused"}
                if any(one.event.kind in begun and one.seq > each.seq for one in same):
                    continue
            elif event.kind not in {"invocation.start", "invocation.refused"}:
                continue
            if event.invocation_id is not None:
                ends = [one for one in same if one.event.kind == "invocation.end"]
                found.append(self._invocation(each, ends[-1] if ends else None))
        return found

    def _invocation(self, each: StoredEvent, end: StoredEvent | None) -> InvocationRecord:
        event, body = each.event, each.event.body
        is_asked, is_refused = event.kind == "approval.requested", event.kind.endswith("refused")
        error = None if end is None else end.event.body.get("error")
        if is_refused:
            status, ended = event.status or "refused", each.ts
            refusal = cast("Mapping[str, Any]", body.get("refusal") or {})
            error = {"code": refusal.get("error"), "message": refusal.get("message")}
        elif end is not None:
            status, ended = str(end.event.status), end.ts
        else:
            over = any(
                one.event.run_id == event.run_id
                and one.event.invocation_id is None
                and one.seq > each.seq
                and one.event.kind in {"run.end", "run.status"}
                and (
                    one.event.status in _ENDED
                    or (one.event.status == "interrupted" and not is_asked)
                )
                for one in self.log
            )
            waiting = "parked" if is_asked else "running"
            status, ended = ("refused" if is_asked else "unknown") if over else waiting, None
        mine: Any = event
        said: Any = body
        output: Any = None if end is None else end.event.body.get("output_preview")
        return InvocationRecord(
            mine.invocation_id,
            mine.run_id,
            mine.step_id,
            mine.trace_id,
            mine.tool,
            event.provider_id,
            mine.principal,
            said.get("capability_level"),
            said.get("risk"),
            said.get("requested_capabilities"),
            said.get("granted_capabilities"),
            said.get("decision"),
            bool(said.get("approval_required")),
            said.get("approval_result"),
            each.ts,
            ended,
            status,
            error,
            said.get("input_preview"),
            output,
            said.get("parent_invocation_id"),
            each.seq,
        )

    def _steps(self, run_id: str) -> list[StepRecord]:
        best: dict[str, tuple[int, StepRecord]] = {}
        first: dict[str, int] = {}
        is_over = False
        for each in self.log:
            event = each.event
            if event.run_id == run_id and event.step_id is not None:
                first.setdefault(event.step_id, each.seq)
            own = event.run_id == run_id and event.invocation_id is None
            is_over = is_over or (own and event.kind == "run.end")
        for call in self._invocations():
            if call.run_id == run_id and call.step_id:
                rank = call.seq + (call.parent_invocation_id is None) * 10**15
                _keep_best(best, rank, self._step_of_call(call, first, is_over=is_over))
        for each in self.log:
            event = each.event
            if event.kind == "step.end" and event.run_id == run_id and event.step_id is not None:
                _keep_best(best, each.seq + 2 * 10**15, _own_step(each, first[event.step_id]))
        return sorted((step for _, step in best.values()), key=lambda step: step.seq)

    def _step_of_call(
        self, call: InvocationRecord, first: Mapping[str, int], *, is_over: bool
    ) -> StepRecord:
        said: Any = self.log[call.seq - 1].event.body.get("step") or {}
        status = {"intended": "running", "refused": "failed", "abandoned": "failed"}.get(
            call.status, call.status
        )
        if call.status == "parked":
            status = "cancelled" if is_over else "waiting_approval"
        return StepRecord(
            call.step_id,
            call.run_id,
            said.get("name"),
            said.get("label"),
            said.get("ordinal"),
            "tool_call",
            status,
            call.error,
            call.trace_id,
            call.provider_id,
            call.capability_level,
            call.input_preview,
            call.output_preview,
            first[call.step_id],
        )

    def unused(self, before: str) -> tuple[list[str], int]:
        """Return the bodies that only old events refer to, and how many runs wait."""
        ends = {each.event.run_id for each in self.log if each.event.kind == "run.end"}
        ended = {
            each.event.run_id
            for each in self.log
            if each.event.kind == "run.end" and each.ts < before
        }
        old, kept, waiting = dict[str, None](), set[str](), set[str | None]()
        for each, text in zip(self.log, self.texts, strict=True):
            found, run = list(references(text)), each.event.run_id
            rights = each.event.kind in {"grant.issued", "grant.revoked"}
            if found and each.ts < before and (run is None or run in ended):
                old.update(dict.fromkeys(found))
                kept.update(found if rights else ())
                continue
            kept.update(found)
            if found and each.ts < before and run not in ends:
                waiting.add(run)
        for value, _ in self.values.values():
            kept.update(references(canonical_text({"value": value})))
        for each in self.log:
            if each.event.kind == "run.start" and each.event.run_id not in ended:
                kept |= self._said(each.event.body.get("continues"))
        return [sha for sha in old if sha not in kept], len(waiting)

    def _said(self, run_id: str | None) -> set[str]:
        """Return the bodies of what was said before a run that goes on from another."""
        found = set[str]()
        while run_id is not None:
            of_run = [
                (each, text)
                for each, text in zip(self.log, self.texts, strict=True)
                if each.event.run_id == run_id
                and each.event.kind in {"run.start", "model.start", "model.end", "run.end"}
            ]
            found.update(sha for _, text in of_run for sha in references(text))
            asked = [each.event.body for each, _ in of_run if each.event.kind == "model.start"]
            started = [each.event.body for each, _ in of_run if each.event.kind == "run.start"]
            is_whole = bool(asked) and asked[0]["history"]["count"] == len(asked[0]["new"])
            run_id = None if is_whole or not started else started[0].get("continues")
        return found


def _keep_best(best: dict[str, tuple[int, StepRecord]], rank: int, step: StepRecord) -> None:
    if step.step_id not in best or rank > best[step.step_id][0]:
        best[step.step_id] = rank, step


def _equals(query: Any, record: Any) -> bool:
    return all(
        value is None or getattr(record, name) == value for name, value in asdict(query).items()
    )


def _is_approval(query: port.ApprovalsWhere, approval: Approval) -> bool:
    columns = ("state", "run_id", "tool", "approval_id", "step_id", "digest", "principal")
    return (
        all(getattr(query, name) in {None, getattr(approval, name)} for name in columns)
        and approval.approval_id.startswith(query.prefix or "")
        and approval.step_id.startswith(query.step_prefix or "")
        and (query.expires_before is None or approval.expires_at < query.expires_before)
    )


def _run_of(started: StoredEvent) -> RunRecord:
    event, body = started.event, started.event.body
    mine: Any = event
    return RunRecord(
        mine.run_id,
        mine.trace_id,
        mine.task_id,
        body["parent_run_id"],
        mine.conversation_id,
        mine.principal,
        body["task"]["task_type"],
        body["title"],
        mine.status,
        started.ts,
        None,
        None,
        body["artifacts"],
        started.seq,
        body.get("fence", 0),
        body.get("worker"),
    )


def _own_step(ended: StoredEvent, seq: int) -> StepRecord:
    body = ended.event.body
    mine: Any = ended.event
    return StepRecord(
        mine.step_id,
        mine.run_id,
        body["name"],
        body["label"],
        body["ordinal"],
        body["action"],
        mine.status,
        body["error"],
        mine.trace_id,
        mine.provider_id,
        body.get("capability_level"),
        body["input_preview"],
        body["output_preview"],
        seq,
    )


def _grant_record(one: _Grant) -> GrantRecord:
    grant = one.grant
    return GrantRecord(
        grant.grant_id,
        grant.capability,
        grant.subject,
        grant.scope,
        grant.scope_id,
        grant.issuer,
        grant.mode,
        grant.expires_at,
        grant.parent_grant,
        grant.uses,
        one.left,
        grant.delegate,
        one.issued_at,
        one.ended_at,
    )
