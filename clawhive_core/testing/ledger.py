"""The conformance suite for ledgers."""

# ruff: noqa: S101 - what the suite finds wrong is an AssertionError, as in the tests that call it

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, Unpack

import anyio

from clawhive_core.errors import LogWriteFailed
from clawhive_core.events.chain import COLUMNS, genesis, row_hash
from clawhive_core.events.redaction import Redactor
from clawhive_core.model.events import Blob, Event, EventColumns
from clawhive_core.model.grants import CapabilityGrant, Issuer, Scope
from clawhive_core.model.records import Page
from clawhive_core.protocols import ledger as port
from clawhive_core.protocols.ledger import Expectation, Inspection, Ledger, Unmet, Window
from clawhive_core.testing.memory_ledger import MemoryLedger

Open = Callable[[Redactor], Ledger]
"""Opens the same log again at each call."""
Look = Callable[[Ledger], Inspection]
"""Returns a look at the log as it lies there, after what was appended until now."""

_SECRET = "sk-ledger-4f1c09d2ab37e5c8"  # noqa: S105 - made up, to see that it is not written
_RACERS = 8
_WHOLE = (port.RightsWhere, port.ActiveGrants, port.DescentOf, port.IdsWhere)
"""The queries that are answered at once, without pages."""
_PENDING = frozenset({"pending"})
_STOPPED = frozenset({"interrupted", "waiting_approval"})


async def check_ledger(open_log: Open, look: Look) -> None:
    """Hold a ledger to its protocol: order and chain, expectations, fences, queries, bodies.

    Each answer to each query is compared with that of `MemoryLedger` after the same events. What
    needs a process of its own is not in here: see `races`, whose cases many processes may run.

    Args:
        open_log: Opens a new, empty log the first time, and then the same one again.
        look: Gives the inspection of what `open_log` opened.

    Raises:
        AssertionError: With the case and what was wrong.
    """
    log = open_log(Redactor())
    reference = MemoryLedger()
    try:
        for name, events in _story():
            await log.append(*events)
            await reference.append(*events)
            _compare(name, log, reference)
        await _expectations(log, reference)
        _chain(log, look)
        await _fences(log)
        await _races(log)
        await _follows(log)
        _refuses(log)
        _prunes(log)
        log.require_rights()
        log.require_own("run_a")
        assert log.compare() == (), "the records are not what the events give"
    finally:
        log.close()
    await _secrets(open_log, look)


def _run_start(
    run_id: str,
    parent_run_id: str | None = None,
    task_type: str | None = None,
    conversation_id: str = "conv_1",
) -> Event:
    body = {
        "task": {"task_type": task_type},
        "title": "a title",
        "artifacts": f"/out/{run_id}",
        "parent_run_id": parent_run_id,
        "fence": 1,
        "worker": "worker_1",
    }
    return Event(
        "run.start",
        body,
        trace_id="trace_1",
        run_id=run_id,
        task_id=f"task_{run_id}",
        conversation_id=conversation_id,
        principal="agent:default",
        status="running",
    )


def _of(run: str, kind: str, body: Mapping[str, Any], **columns: Unpack[EventColumns]) -> Event:
    mine: EventColumns = {"trace_id": "trace_1", "task_id": f"task_{run}", **columns}
    mine |= {"run_id": run, "conversation_id": "conv_1"}
    return Event(kind, body, **mine)


def _end(run_id: str, status: str = "succeeded") -> Event:
    return _of(run_id, "run.end", {"error": None, "usage": {}}, status=status)


def _grant(
    grant_id: str,
    scope: Scope = "session",
    scope_id: str = "conv_1",
    issuer: Issuer = "user",
    parent_grant: str | None = None,
    uses: int | None = None,
) -> dict[str, Any]:
    given = (grant_id, "fs.read:/a/**", "agent:default", scope, scope_id, issuer)
    return CapabilityGrant(*given, parent_grant=parent_grant, uses=uses).to_dict()


def _asked(approval_id: str, run_id: str = "run_a", digest: str = "d1") -> Event:
    body = {
        "approval_id": approval_id,
        "digest": digest,
        "risk": "guarded",
        "requested_capabilities": ["fs.write:/a"],
        "sinks": {},
        "input_preview": "{}",
        "diff": "",
        "expires_at": "2999-01-01T00:00:00.000000Z",
        "tool_call": {"input": Blob({"path": "/a"})},
    }
    return _of(
        run_id,
        "approval.requested",
        body,
        tool="a.write",
        principal="agent:default",
        step_id=f"{run_id}/r0#1",
        invocation_id=f"inv_{approval_id}",
    )


def _answered(approval_id: str, status: str, scope: str | None = None) -> Event:
    body: dict[str, Any] = {"approval_id": approval_id, "by": "user:ana", "reason": None}
    if scope is not None:
        body |= {"scope": scope, "grants": []}
    return Event("approval.resolved", body, status=status)


def _call(run_id: str, number: int, kind: str, status: str = "running") -> Event:
    bodies: dict[str, dict[str, Any]] = {
        "invocation.start": {
            "capability_level": "L0",
            "risk": "safe",
            "requested_capabilities": [],
            "granted_capabilities": [],
            "decision": "allow",
            "approval_required": False,
            "approval_result": None,
            "input_preview": "{}",
            "step": {"name": "tool.a.read", "label": "", "ordinal": number},
            "parent_invocation_id": None,
        },
        "invocation.end": {"error": None, "output_preview": "done", "output": Blob("x" * 2000)},
        "invocation.refused": {
            "refusal": {"error": "denied", "message": "no"},
            "decision": "deny",
            "input_preview": "{}",
            "step": {"name": "tool.a.read", "label": "", "ordinal": number},
        },
        "step.end": {
            "name": "respond",
            "label": "",
            "ordinal": number,
            "action": "respond",
            "error": None,
            "input_preview": "",
            "output_preview": "said",
        },
    }
    return _of(
        run_id,
        kind,
        bodies[kind],
        step_id=f"{run_id}/r{number}",
        invocation_id=None if kind == "step.end" else f"inv_{run_id}_{number}",
        principal="agent:default",
        tool="a.read",
        status=status,
    )


def _story() -> Iterator[tuple[str, Sequence[Event]]]:
    """Yield events, some at a time, as runs make them."""
    yield "a run", [_run_start("run_a"), _run_start("run_b", parent_run_id="run_a")]
    yield "a call", [_call("run_a", 0, "invocation.start")]
    yield "its end", [_call("run_a", 0, "invocation.end", status="succeeded")]
    yield "a refusal", [_call("run_a", 1, "invocation.refused", status="refused")]
    yield "a call that goes on", [_call("run_b", 0, "invocation.start")]
    yield "an answer", [_call("run_a", 2, "step.end", status="succeeded")]
    children = [_grant("grant_2", parent_grant="grant_1"), _grant("grant_3", uses=2)]
    yield "grants", [Event("grant.issued", {"grants": [_grant("grant_1"), *children]})]
    of_task = _grant("grant_4", scope="task", scope_id="task_run_a")
    of_step = _grant("grant_5", scope="step", scope_id="run_a/r0", issuer="skill")
    yield "of a task and a step", [Event("grant.issued", {"grants": [of_task, of_step]})]
    members = [["fs.read:/x/**", "starter", "allow"], ["fs.write:${run}/**", "starter", "allow"]]
    facts = {"id": "5" * 14, "subject": "agent:default", "task_id": "task_run_b", "run": "/out"}
    whole = {**facts, "members": Blob(members)}
    yield "a set", [Event("grant.issued", {"grants": [], "set": whole})]
    yield "a use", [Event("grant.used", {"grant_ids": ["grant_3"]})]
    yield "another", [Event("grant.used", {"grant_ids": ["grant_3"]})]
    yield "one back", [Event("grant.returned", {"grant_ids": ["grant_3"]})]
    yield "a revocation", [Event("grant.revoked", {"grant_id": "grant_1", "reason": "test"})]
    yield "a member's", [Event("grant.revoked", {"grant_id": f"grant_00{'5' * 14}"})]
    yield "questions", [_asked("appr_1"), _asked("appr_2", digest="d2"), _asked("appr_3")]
    edit: dict[str, Any] = {
        "approval_id": "appr_1",
        "digest": "d3",
        "requested_capabilities": ["fs.write:/b"],
        "sinks": {"to": "x"},
        "input_preview": "{}",
        "diff": "+",
    }
    yield "an edit", [Event("approval.edited", edit)]
    yield "an answer to one", [_answered("appr_1", "approved", scope="once")]
    yield "its use", [_answered("appr_1", "consumed")]
    yield "a denial", [_answered("appr_2", "denied")]
    quota = {"user_id": "u", "tool": "a.read", "limit": 9, "seconds": 60, "since": 600}
    yield "quotas", [Event("quota.reserved", quota), Event("quota.reserved", quota)]
    yield "a quota back", [Event("quota.returned", quota)]
    yield "the next window", [Event("quota.reserved", {**quota, "since": 720})]
    pair = {"user_id": "u", "skill_id": "shop"}
    yield "subscriptions", [Event("subscription.added", pair)]
    yield "another one", [Event("subscription.added", {**pair, "skill_id": "astro"})]
    yield "one ended", [Event("subscription.removed", pair)]
    value = {"user_id": "u", "namespace": "n", "key": "k1", "value": Blob("v" * 3000)}
    yield "values", [Event("store.put", value), Event("store.put", {**value, "key": "k2"})]
    yield (
        "one fewer",
        [Event("store.delete", {k: value[k] for k in ("user_id", "namespace")} | {"key": "k2"})],
    )
    yield "a stop", [_of("run_a", "run.status", {"fence": 2, "worker": None}, status="interrupted")]
    taken = {"fence": 3, "worker": "worker_2"}
    yield "a taking", [_of("run_a", "run.status", taken, status="running")]
    yield "ends", [_end("run_b", "failed"), _end("run_a")]
    yield "a task's run", [_run_start("run_c", task_type="job", conversation_id="conv_2")]
    yield "unlike events", [Event("odd", {"a": [1, {"b": None}]}, run_id="run_c")]


def _queries() -> Iterator[Any]:
    """Yield questions of every kind, with each of their fields."""
    yield from (port.RunsWhere(), port.RunsWhere(status="running"), port.RunsWhere(top_level=True))
    yield from (port.RunsWhere(run_id="run_a"), port.RunsWhere(parent_run_id="run_a"))
    yield from (port.RunsWhere(prefix="run_"), port.RunsWhere(above="run_b"))
    yield from (port.RunsWhere(below="run_a"), port.RunsWhere(task_type="job"))
    yield port.RunsWhere(conversation_id="conv_1", turns=True)
    yield from (port.RunsWhere(until="2000"), port.RunsWhere(since="2000", principal="nobody"))
    for run_id in ("run_a", "run_b", "run_none"):
        yield from (port.StepsWhere(run_id), port.StepsWhere(run_id, "failed"))
        yield port.InvocationsWhere(run_id)
    yield from (port.InvocationsWhere(), port.InvocationsWhere(status="refused"))
    yield port.InvocationsWhere(tool="a.read", decision="allow", principal="agent:default")
    yield from (port.ApprovalsWhere(), port.ApprovalsWhere("pending"))
    yield from (port.ApprovalsWhere(prefix="appr_"), port.ApprovalsWhere(step_prefix="run_a/"))
    yield from (port.ApprovalsWhere(digest="d2"), port.ApprovalsWhere(expires_before="2030"))
    yield from (port.GrantsWhere(), port.GrantsWhere(ended=True), port.GrantsWhere(ended=False))
    yield from (
        port.GrantsWhere(scope="task"),
        port.GrantsWhere(scope="session", scope_id="conv_1"),
    )
    yield from (
        port.RightsWhere(checked=False),
        port.RightsWhere(scope="session", scope_id="conv_1"),
    )
    yield from (
        port.RightsWhere(scope="task", scope_id="task_run_b"),
        port.RightsWhere(steps_of="run_a"),
    )
    yield port.RightsWhere(grant_ids=("grant_2", "grant_3", "grant_none"))
    ids = ("grant_1", "grant_2", "grant_3", f"grant_00{'5' * 14}", f"grant_01{'5' * 14}")
    yield from (port.ActiveGrants(ids), port.DescentOf(ids), port.RevocationsWhere())
    yield from (port.RevocationsWhere(ids), port.RevocationsWhere(("grant_9",)))
    yield from (port.QuotasWhere(), port.QuotasWhere("u", "a.read", 60), port.QuotasWhere("v"))
    yield from (
        port.SubscriptionsWhere(),
        port.SubscriptionsWhere("u"),
        port.SubscriptionsWhere("v"),
    )
    yield from (port.ValuesWhere("u", "n"), port.ValuesWhere("u", "n", "k1"))
    yield from (port.ValuesWhere("u", "n", prefix="k"), port.ValuesWhere("u", "other"))
    yield from (
        port.IdsWhere("run_id"),
        port.IdsWhere("run_id", "run_"),
        port.IdsWhere("step_id", "run_a/r0"),
    )
    yield from (port.IdsWhere("trace_id", "trace_1"), port.IdsWhere("task_id", "task_", "run_b"))
    yield from (
        port.EventsWhere(),
        port.EventsWhere(run_id="run_a"),
        port.EventsWhere(kind="grant"),
    )
    yield from (port.EventsWhere(kind="run.end"), port.EventsWhere(parent_run_id="run_a"))
    yield from (port.EventsWhere(decision="deny"), port.EventsWhere(invocation_id="inv_run_a_0"))
    yield port.EventsWhere(run_id="run_a", steps_from="run_a/r0", steps_before="run_a/r2")


def _comparable(value: Any) -> Any:
    """Return a record without moments and hashes, which differ from log to log."""
    if isinstance(value, str):
        return value
    names = [each.name for each in fields(value)]
    apart = {"ts", "prev", "hash", "started_at", "ended_at", "start_at", "end_at", "created_at"}
    apart |= {"issued_at", "stored_at"}
    facts = {name: getattr(value, name) for name in names}
    known = {name: each for name, each in facts.items() if name not in apart}
    known |= {name: facts[name] is None for name in apart & facts.keys()}
    return {**known, "since": None} if isinstance(facts.get("since"), str) else known


def _compare(name: str, log: Ledger, reference: Ledger) -> None:
    for query in _queries():
        for window in (Window(counted=True), Window(limit=2), Window(limit=1, reverse=True)):
            mine, theirs = _find(log, query, window), _find(reference, query, window)
            answer = [_comparable(each) for each in mine]
            wanted = [_comparable(each) for each in theirs]
            assert answer == wanted, (
                f"after {name}: {query} in {window} gives {answer}, and the reference {wanted}"
            )
            if not isinstance(query, _WHOLE):
                assert (mine.next is None) == (theirs.next is None), f"{query}: whether more comes"
                assert mine.total == theirs.total, f"{query}: how many there are"
        if _find(log, query, Window(limit=2)).next is not None:
            whole = [*map(_comparable, _find(log, query, Window()))]
            assert _paged(log, query) == whole, f"{query} in pages"


def _find(log: Ledger, query: Any, window: Window) -> Page[Any]:
    untyped: Any = log
    return untyped.find(query, window)


def _paged(log: Ledger, query: Any) -> list[Any]:
    found: list[Any] = []
    after: str | None = None
    while True:
        page = _find(log, query, Window(limit=2, after=after))
        found += map(_comparable, page)
        if (after := page.next) is None:
            return found


def _expected() -> Iterator[tuple[Expectation, bool]]:
    """Yield expectations at the end of the story, and whether each is met."""
    yield from ((port.RunFree("run_new"), True), (port.RunFree("run_a"), False))
    yield from ((port.AgentsBelow("trace_1", 2), True), (port.AgentsBelow("trace_1", 1), False))
    ended = frozenset({"succeeded"})
    yield from ((port.RunIs("run_a", ended, 3), True), (port.RunIs("run_a", ended, 2), False))
    yield from (
        (port.RunIs("run_c", port.EXECUTED, 1, "worker_1"), True),
        (port.RunIs("run_c", port.EXECUTED, 1, "worker_9"), False),
    )
    yield from ((port.RunOwnedBy("run_c", 1), True), (port.RunOwnedBy("run_c", 0), False))
    yield from ((port.RunOwnedBy("run_none", 1), False), (port.RunIs("run_none", ended, 1), False))
    yield from ((port.SessionAt("conv_1", "run_a"), True), (port.SessionAt("conv_1", None), False))
    yield from ((port.GrantsUsable(("grant_3",)), True), (port.GrantsUsable(("grant_2",)), False))
    yield from ((port.GrantIs("grant_3", 1), True), (port.GrantIs("grant_3", 2), False))
    yield from (
        (port.QuotaLeft("u", "a.read", 2, 60, 720), True),
        (port.QuotaLeft("u", "a.read", 1, 60, 720), False),
    )
    yield from (
        (port.ApprovalIs("appr_2", frozenset({"denied"})), True),
        (port.ApprovalIs("appr_2", _PENDING), False),
    )
    yield (port.ApprovalIs("appr_2", frozenset({"denied"}), "3000-01-01"), False)
    started, ended_ = frozenset({"invocation.start"}), frozenset({"invocation.end"})
    yield (port.InvocationHas("run_b", "inv_run_b_0", started, ended_), True)
    yield (port.InvocationHas("run_a", "inv_run_a_0", started, ended_), False)
    yield (port.SubscriptionIs("u", "astro", there=True), True)
    yield (port.SubscriptionIs("u", "shop", there=True), False)


async def _expectations(log: Ledger, reference: Ledger) -> None:
    for expected, is_met in _expected():
        outcomes: list[Any] = []
        for each in (log, reference):
            before = each.tip()
            try:
                await each.append(Event("expected", {}), expects=[expected])
                outcomes.append("met")
            except Unmet as error:
                outcomes.append(error.found)
                named = error.expectation
                assert named == expected, f"{expected}: it names {named}"
                assert each.tip() == before, f"{expected}: something of the append was kept"
        assert (outcomes[0] == "met") == is_met, f"{expected}: {outcomes[0]}"
        assert outcomes[0] == outcomes[1], f"{expected}: found {outcomes[0]}, not {outcomes[1]}"
    both = (port.RunFree("run_new"), port.RunFree("run_a"))
    with suppress(Unmet):
        await log.append(Event("both", {}), expects=both)
        raise AssertionError("one of two expectations does not hold, and the append was kept")


def _chain(log: Ledger, look: Look) -> None:
    """Compare what is stored with the definition of the chain."""
    found = look(log)
    assert found.id == log.id, "the inspection gives another id"
    prev, numbers = genesis(log.id), list[int]()
    for row in found.raw():
        assert len(row) == len(COLUMNS), f"a row has {len(row)} columns, not {len(COLUMNS)}"
        assert row[COLUMNS.index("prev")] == prev, f"row {row[0]} does not follow the one before"
        assert row_hash(row) == row[-1], f"row {row[0]} has another hash than its columns give"
        prev = row[-1]
        numbers.append(row[0])
    assert numbers == list(range(1, len(numbers) + 1)), "the numbers have gaps"
    assert log.tip() == (numbers[-1], prev), "`tip` is not the last row"
    events = list(log.events())
    assert [each.seq for each in events] == numbers, "`events` leaves some out"
    assert [each.hash for each in events][-1] == prev
    for each in events:
        ref = each.event.body.get("output") if each.event.kind == "invocation.end" else None
        if ref is not None:
            assert log.load(ref) == "x" * 2000, "a body is not what was appended"
            body = log.blob(ref["$blob"])
            assert body is not None, "a body is missing"
            assert hashlib.sha256(body.data).hexdigest() == ref["$blob"], "a body has changed"
    columns = ("seq", "kind", "body")
    some = list(log.rows(columns, "run_a", limit=3))
    assert [row[0] for row in some] == [each.seq for each in log.events(run_id="run_a", limit=3)]


async def _fences(log: Ledger) -> None:
    """A run that somebody else took is closed to who had it before."""
    await log.append(_run_start("run_f"))
    mine = [port.RunOwnedBy("run_f", 1)]
    log.post(Event("mine", {}, run_id="run_f"), expects=mine)
    await log.flush()
    body = {"fence": 2, "worker": None}
    await log.append(
        _of("run_f", "run.status", body, status="interrupted"),
        expects=[port.RunIs("run_f", port.EXECUTED, 1)],
    )
    for _ in range(2):
        log.post(Event("late", {}, run_id="run_f"), expects=mine)
    with suppress(Unmet):
        await log.append(Event("late", {}, run_id="run_f"), expects=mine)
        raise AssertionError("who lost the run can still write")
    with suppress(Unmet):
        await log.flush()
    kinds = [each.event.kind for each in log.events(run_id="run_f")]
    assert kinds == ["run.start", "mine", "run.status"], f"of the lost run there is {kinds}"
    await log.hold()
    assert log.worker in {each.worker for each in log.workers() if each.is_alive}
    (owner,) = log.owners(("run_f", "run_none"))
    assert (owner.run_id, owner.fence, owner.cancel) == ("run_f", 2, False)


async def _races(log: Ledger) -> None:
    """Of many who expect the same at the same time as many get it as there is of it."""
    await log.append(Event("grant.issued", {"grants": [_grant("grant_r", uses=3)]}))
    quota = {"user_id": "r", "tool": "a.read", "limit": 3, "seconds": 60, "since": 600}
    cases: Sequence[tuple[str, int, Expectation, Sequence[Event]]] = (
        (
            "one use each of three",
            3,
            port.GrantsUsable(("grant_r",)),
            [Event("grant.used", {"grant_ids": ["grant_r"]})],
        ),
        (
            "three calls a minute",
            3,
            port.QuotaLeft("r", "a.read", 3, 60, 600),
            [Event("quota.reserved", quota)],
        ),
        (
            "one taking",
            1,
            port.RunIs("run_f", _STOPPED, 2),
            [_of("run_f", "run.status", {"fence": 3, "worker": "w"}, status="running")],
        ),
        ("one run of an id", 1, port.RunFree("run_r"), [_run_start("run_r")]),
    )
    for name, most, expected, events in cases:
        won = list[int]()

        async def race(
            won: list[int] = won, expected: Expectation = expected, events: Sequence[Event] = events
        ) -> None:
            with suppress(Unmet):
                won += await log.append(*events, expects=[expected])

        async with anyio.create_task_group() as group:
            for _ in range(_RACERS):
                group.start_soon(race)
        assert len(won) == most, f"{name}: {len(won)} of {_RACERS} got it"


async def _follows(log: Ledger) -> None:
    """Whoever follows gets what is there and what comes, in order, once."""
    first = log.append_now(Event("followed", {"n": 0}))[0]
    seen: list[int] = []

    async def follow(scope: anyio.CancelScope) -> None:
        async for each in log.follow(first - 1):
            seen.append(each.seq)
            if len(seen) == 3:  # noqa: PLR2004 - what is appended below
                scope.cancel()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(follow, group.cancel_scope)
            for number in (1, 2):
                await log.append(Event("followed", {"n": number}))
    assert seen == [first, first + 1, first + 2], f"following from {first} gave {seen}"


def _refuses(log: Ledger) -> None:
    """Check that what cannot be written leaves nothing behind, and that the log goes on."""
    before = log.tip()
    for bad in (Event("bad", {"x": object()}), Event("bad", {}, run_id=5)):  # pyright: ignore[reportArgumentType] - on purpose
        with suppress(LogWriteFailed):
            log.append_now(Event("good", {}), bad)
            raise AssertionError(f"{bad} was written")
    assert log.tip() == before, "of an append that was refused something was kept"
    log.append_now(Event("nul", {"text": "a\x00b"}, tool="a\x00b"))
    *_, last = log.events(since=(log.tip() or (1, ""))[0] - 1)
    assert last.event.body == {"text": "a\x00b"}, "U+0000 in a body is not kept"
    assert last.event.tool == "a\ufffdb", "U+0000 in a column is not replaced by U+FFFD"


def _prunes(log: Ledger) -> None:
    planned = log.prune("2999-01-01T00:00:00.000000Z", dry_run=True)
    done = log.prune("2999-01-01T00:00:00.000000Z")
    assert done.bodies == planned.bodies > 0, f"{done.bodies} bodies went, {planned.bodies} planned"
    assert log.prune("2999-01-01T00:00:00.000000Z").bodies == 0, "what is pruned goes again"
    (value,) = log.find(port.ValuesWhere("u", "n", "k1"))
    assert log.load(value.value) == "v" * 3000, "the value that a tool keeps was pruned"


async def _secrets(open_log: Open, look: Look) -> None:
    """Nothing of a registered secret is written."""
    redactor = Redactor()
    redactor.add(_SECRET)
    log = open_log(redactor)
    try:
        body = {"text": f"a {_SECRET}", "blob": Blob(_SECRET * 200), _SECRET: 1}
        await log.append(Event("secret", body, tool=_SECRET))
        found = look(log)
        *_, row = found.raw()
        assert _SECRET not in repr(row), "a secret stands in a row"
        *_, last = log.events(since=row[0] - 1)
        kept = log.blob(last.event.body["blob"]["$blob"])
        assert kept is not None, "a body is missing"
        assert _SECRET.encode() not in kept.data, "a secret stands in a body"
    finally:
        log.close()
