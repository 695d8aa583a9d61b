"""The rows of approvals: what a person's answer changes, what stays, and who is too late."""

import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from clawhive_core.errors import RunError, UnknownId, UsageError
from clawhive_core.model.events import Blob, Event
from clawhive_core.policy.answers import Edited
from clawhive_core.policy.approvals import ApprovalBook, expiry, usable, withdrawn
from clawhive_core.policy.persistent import DEFAULT_LIFE, read_persistent
from clawhive_core.protocols.ledger import Unmet
from clawhive_core.storage.sqlite import approvals, grants
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import tables_of

FAR, LONG_AGO = "2999-01-01T00:00:00.000000Z", "2001-01-01T00:00:00.000000Z"
IDS = {
    "trace_id": "trace_1",
    "task_id": "task_1",
    "conversation_id": "conv_1",
    "principal": "agent:default",
    "tool": "demo.keep",
}


@pytest.fixture
def book(tmp_path):
    log = EventLog.open(tmp_path / "hive.db", tables_of(grants, approvals))
    yield ApprovalBook(log, tmp_path / "user", {"workspace": "/w"})
    log.close()


def ask(book, approval_id="appr_a1", run_id="run_1", expires_at=FAR, step_id="step_1", **facts):
    body = {
        "approval_id": approval_id,
        "digest": "d",
        "risk": "guarded",
        "requested_capabilities": ["fs.write:/w/a"],
        "sinks": {},
        "input_preview": "{}",
        "diff": "",
        "expires_at": expires_at,
        "tool_call": {"input": Blob({"path": "a"})},
        **facts,
    }
    event = Event("approval.requested", body, run_id=run_id, step_id=step_id, **IDS)
    book.log.append_now(event)
    return book.find(approval_id)


def use(book, approval_id="appr_a1"):
    """Do what an execution's intent does."""
    body = {"approval_id": approval_id, "by": "clawhive", "reason": None}
    event = Event("approval.resolved", body, status="consumed", run_id="run_1", **IDS)
    try:
        book.log.append_now(event, expects=usable(approval_id))
    except Unmet:
        raise withdrawn(approval_id) from None


def rows(book, columns, table="approvals"):
    return [tuple(row) for row in book.log.read(f"SELECT {columns} FROM {table}")]


def test_an_approval_that_was_used_still_names_who_approved_it_when_and_why(book):
    ask(book)
    book.resolve("appr_a1", "approve", by="user:ana", reason="looks right")
    columns = "state, resolved_by, resolved_at, reason"
    ((_, *answered),) = rows(book, columns)
    use(book)
    assert rows(book, columns) == [("consumed", *answered)]
    assert answered[0] == "user:ana"
    assert answered[2] == "looks right"


def test_an_approval_is_used_once(book):
    ask(book)
    book.resolve("appr_a1", "approve", by="user:ana")
    use(book)
    with pytest.raises(RunError, match="used or withdrawn") as caught:
        use(book)
    assert caught.value.code == "already_resolved"


@pytest.mark.parametrize("answer", [None, "deny"])
def test_what_nobody_approved_cannot_be_used(book, answer):
    ask(book)
    if answer is not None:
        book.resolve("appr_a1", answer, by="user:ana")
    (before,) = rows(book, "state")
    with pytest.raises(RunError):
        use(book)
    assert rows(book, "state") == [before]


def test_an_approval_that_is_not_there_cannot_be_used(book):
    with pytest.raises(RunError) as caught:
        use(book, "appr_none")
    assert caught.value.code == "already_resolved"


def test_an_approval_is_found_by_id_by_prefix_and_as_the_last(book):
    for name in ("appr_a1", "appr_a2", "appr_b1"):
        ask(book, name)
    assert book.find("appr_a2").approval_id == book.find("a2").approval_id == "appr_a2"
    assert book.find("b").approval_id == "appr_b1"
    assert book.find("last").approval_id == "appr_b1"


@pytest.mark.parametrize(
    ("text", "why"), [("c", "names no approval"), ("a", "names several approvals")]
)
def test_a_text_that_names_no_single_approval_is_told_which_of_both(book, text, why):
    for name in ("appr_a1", "appr_a2"):
        ask(book, name)
    with pytest.raises(UnknownId, match=why) as caught:
        book.find(text)
    assert (caught.value.place, bool(caught.value.fix)) == (text, True)


def test_with_no_approval_at_all_the_last_is_none(book):
    with pytest.raises(UnknownId, match="names no approval"):
        book.find("last")


def test_what_a_person_is_shown_is_the_whole_input_of_that_very_call(book):
    ask(book, "appr_a1", tool_call={"input": Blob({"path": "first"})})
    ask(book, "appr_a2", tool_call={"input": Blob({"text": "x" * 5000})})
    assert book.input_of(book.find("a1")) == {"path": "first"}
    assert book.input_of(book.find("a2")) == {"text": "x" * 5000}


def test_a_step_is_asked_about_by_its_newest_approval(book):
    assert book.of_step("run_1", "step_1") is None
    ask(book, "appr_a1")
    ask(book, "appr_a2")
    assert book.of_step("run_1", "step_1").approval_id == "appr_a2"
    assert book.of_step("run_2", "step_1") is None


@pytest.mark.parametrize(("answer", "state"), [("approve", "approved"), ("deny", "denied")])
def test_an_answer_is_kept_with_who_gave_it(book, answer, state):
    ask(book)
    found = book.resolve("a1", answer, by="user:ana", reason="because")
    assert (found.state, found.resolved_by, found.reason) == (state, "user:ana", "because")
    assert rows(book, "count(*)", "grants") == [(0,)]


@pytest.mark.parametrize(
    ("answer", "scope"),
    [("perhaps", "once"), ("approve", "ever"), ("approve", ""), ("perhaps", "always")],
)
def test_an_unknown_answer_or_scope_changes_nothing(book, answer, scope):
    ask(book)
    with pytest.raises(UsageError, match="no answer"):
        book.resolve("a1", answer, by="user:ana", scope=scope)
    assert book.find("a1").state == "pending"
    assert rows(book, "count(*)", "grants") == [(0,)]


@pytest.mark.parametrize("scope", ["task", "session"])
@pytest.mark.parametrize(
    ("risk", "answer", "why"),
    [
        ("guarded", "deny", "a denial is for this call"),
        ("unsafe", "deny", "a denial is for this call"),
        ("unsafe", "approve", "a person approves each call"),
    ],
)
def test_a_wider_scope_is_refused_for_a_denial_and_for_an_unsafe_tool(
    book, scope, risk, answer, why
):
    ask(book, risk=risk)
    with pytest.raises(UsageError, match=why) as caught:
        book.resolve("a1", answer, by="user:ana", scope=scope)
    assert caught.value.place == "--scope"
    assert book.find("a1").state == "pending"


@pytest.mark.parametrize(
    ("answer", "why", "place"),
    [("approve", "those of another call", "--edit"), ("deny", "for this call", "--scope")],
)
def test_the_changes_of_one_call_answer_no_other_and_no_denial(book, answer, why, place):
    ask(book, "appr_a1")
    ask(book, "appr_a2")
    mine = "appr_a1" if answer == "approve" else "appr_a2"
    changed = Edited(mine, {"path": "b"}, "e", ("fs.write:/w/b",), {}, "", "ask", ())
    with pytest.raises(UsageError, match=why) as caught:
        book.resolve("a2", answer, by="user:ana", edited=changed)
    assert caught.value.place == place
    assert [(each.state, each.edited) for each in book.list()] == [("pending", False)] * 2


@pytest.mark.parametrize("risk", ["safe", "guarded", "unknown"])
@pytest.mark.parametrize(("scope", "scope_id"), [("task", "task_1"), ("session", "conv_1")])
def test_a_wider_scope_gives_exactly_the_capabilities_that_were_shown(book, risk, scope, scope_id):
    ask(book, risk=risk, requested_capabilities=["fs.read:/w/a", "fs.write:/w/a"])
    assert book.resolve("a1", "approve", by="user:ana", scope=scope).state == "approved"
    given = book.standing(book.find("a1"))
    assert [each.capability for each in given] == ["fs.read:/w/a", "fs.write:/w/a"]
    assert {(each.subject, each.issuer, each.scope, each.scope_id) for each in given} == {
        ("agent:default", "approval", scope, scope_id)
    }
    assert rows(book, "DISTINCT scope, scope_id", "grants") == [(scope, scope_id)]


@pytest.mark.parametrize(
    ("scope", "life", "holds"),
    [
        ("task", None, None),
        ("task", timedelta(hours=1), timedelta(hours=1)),
        ("always", None, DEFAULT_LIFE),
        ("always", timedelta(hours=1), timedelta(hours=1)),
    ],
)
def test_a_right_for_good_ends_by_itself_and_any_other_where_a_person_says_so(
    book, scope, life, holds
):
    ask(book)
    before = datetime.now(UTC)
    book.resolve("a1", "approve", by="user:ana", scope=scope, life=life)
    after = datetime.now(UTC)
    (given,) = book.standing(book.find("a1"))
    if holds is None:
        assert given.expires_at is None
    else:
        assert before + holds <= datetime.fromisoformat(given.expires_at) <= after + holds


@pytest.mark.parametrize(
    ("facts", "step"),
    [({"grant_step": "run_1/collect"}, "run_1/collect"), ({"step_id": "run_1/2#3"}, "run_1/2")],
)
def test_a_right_for_a_step_is_for_the_step_that_asked_whichever_of_its_calls_it_was(
    book, facts, step
):
    ask(book, **facts)
    book.resolve("a1", "approve", by="user:ana", scope="step")
    (given,) = book.standing(book.find("a1"))
    assert (given.scope, given.scope_id) == ("step", step)


def test_of_the_grants_of_an_answer_those_count_that_nobody_ended(book):
    ask(book, requested_capabilities=["fs.read:/w/a", "fs.write:/w/a"])
    book.resolve("a1", "approve", by="user:ana", scope="task")
    first, second = book.standing(book.find("a1"))
    book.log.append_now(Event("grant.revoked", {"grant_id": first.grant_id, "reason": None}))
    assert book.standing(book.find("a1")) == [second]


def test_the_second_answer_is_refused_and_the_first_stays(book):
    ask(book)
    book.resolve("a1", "deny", by="user:ana", reason="no")
    for answer in ("approve", "deny"):
        with pytest.raises(RunError, match="denied already") as caught:
            book.resolve("a1", answer, by="user:ben", reason="yes")
        assert caught.value.code == "already_resolved"
        assert caught.value.place == "appr_a1"
    found = book.find("a1")
    assert (found.state, found.resolved_by, found.reason) == ("denied", "user:ana", "no")


def test_calls_of_an_unsafe_tool_are_approved_one_by_one_and_denied_together(book):
    unsafe = [ask(book, f"appr_a{number}", risk="unsafe") for number in (1, 2, 3)]
    with pytest.raises(UsageError, match="a person approves each call") as caught:
        book.resolve_each(unsafe, "approve", by="user:ana")
    assert caught.value.place == "--all"
    assert {each.state for each in book.list()} == {"pending"}
    book.resolve_each(unsafe[:1], "approve", by="user:ana")
    book.resolve_each(unsafe[1:], "deny", by="user:ana")
    assert [each.state for each in book.list()] == ["approved", "denied", "denied"]


def test_of_several_approvals_those_are_answered_that_nobody_answered_before(book):
    both = [ask(book, name) for name in ("appr_a1", "appr_a2")]
    book.resolve("a1", "deny", by="user:ben")
    answered = book.resolve_each(both, "approve", by="user:ana")
    assert [each.approval_id for each in answered] == ["appr_a2"]
    assert [each.state for each in book.list()] == ["denied", "approved"]
    with pytest.raises(RunError) as caught:
        book.resolve_each(both, "approve", by="user:ana")
    assert caught.value.code == "already_resolved"


def test_an_answer_that_comes_too_late_gives_no_grant(book):
    ask(book, expires_at=LONG_AGO)
    with pytest.raises(RunError, match="expired already") as caught:
        book.resolve("a1", "approve", by="user:ana", scope="task")
    assert caught.value.code == "already_resolved"
    found = book.find("a1")
    assert (found.state, found.resolved_by) == ("expired", "clawhive")
    assert found.reason == "nobody answered in time"
    assert rows(book, "count(*)", "grants") == [(0,)]


@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_an_answer_that_expires_on_its_way_is_refused_in_its_own_transaction(
    book, monkeypatch, answer
):
    """The look before finds it alive; the compare inside of the transaction does not."""
    ask(book, expires_at=expiry())
    moments = iter(["2000-01-01T00:00:00.000000Z"])
    monkeypatch.setattr("clawhive_core.policy.approvals.now", lambda: next(moments, FAR))
    with pytest.raises(RunError, match="the approval expired") as caught:
        book.resolve("a1", answer, by="user:ana")
    assert caught.value.code == "already_resolved"
    assert rows(book, "state, resolved_by") == [("pending", None)]


def test_only_what_is_pending_and_overdue_expires(book):
    ask(book, "appr_a1", expires_at=LONG_AGO)
    ask(book, "appr_a2", expires_at=FAR)
    ask(book, "appr_a3", expires_at=FAR)
    book.resolve("a3", "approve", by="user:ana")
    assert [each.approval_id for each in book.pending()] == ["appr_a2"]
    assert [each.state for each in book.list()] == ["expired", "pending", "approved"]
    assert [each.approval_id for each in book.list("expired")] == ["appr_a1"]


@pytest.mark.parametrize(
    ("answer", "state", "closed"),
    [
        (None, "expired", True),
        (None, "drifted", True),
        ("approve", "expired", False),
        ("approve", "drifted", True),
        ("deny", "expired", False),
        ("deny", "drifted", False),
    ],
)
def test_what_was_answered_may_still_turn_out_to_have_drifted_and_nothing_else(
    book, answer, state, closed
):
    ask(book)
    if answer is not None:
        book.resolve("a1", answer, by="user:ana")
    before = book.find("a1")
    assert book.close(before, state, "it changed") is closed
    after = book.find("a1")
    assert after.state == (state if closed else before.state)
    assert (after.reason == "it changed") is closed


def test_a_used_approval_has_neither_expired_nor_drifted(book):
    ask(book)
    book.resolve("a1", "approve", by="user:ana")
    use(book)
    for state in ("expired", "drifted"):
        assert not book.close(book.find("a1"), state, "late")
    assert book.find("a1").state == "consumed"


def test_the_end_of_a_run_ends_its_own_open_approvals_only(book):
    for name, run in (("a1", "run_1"), ("a2", "run_1"), ("a3", "run_1"), ("b1", "run_2")):
        ask(book, f"appr_{name}", run_id=run)
    book.resolve("a2", "approve", by="user:ana")
    book.resolve("a3", "deny", by="user:ana")
    book.log.append_now(Event("run.end", {}, run_id="run_1"))
    assert [(each.approval_id, each.state) for each in book.list()] == [
        ("appr_a1", "expired"),
        ("appr_a2", "expired"),
        ("appr_a3", "denied"),
        ("appr_b1", "pending"),
    ]


def test_one_id_is_asked_for_once(book):
    ask(book)
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        ask(book)
    assert len(book.list()) == 1


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("is_written", [False, True], ids=["before the answer", "after it"])
def test_a_right_for_good_counts_once_its_answer_is_written(book, monkeypatch, is_written):
    """A process that is killed around the commit leaves no right too many and none too few."""
    ask(book)
    real = EventLog.append_now

    def killed(log, *events, **more):
        if is_written:
            real(log, *events, **more)
        raise Killed

    monkeypatch.setattr(EventLog, "append_now", killed)
    with pytest.raises(Killed):
        book.resolve("a1", "approve", by="user:ana", scope="always")
    monkeypatch.undo()
    assert read_persistent(book.user_dir).entries == ()
    (left,) = read_persistent(book.user_dir).pending
    book.finish()
    found = read_persistent(book.user_dir)
    if is_written:
        assert [each.grant for each in found.entries] == [left.grant]
        assert found.pending == ()
    else:
        assert (found.entries, found.pending) == ((), (left,))
        book.resolve("a1", "deny", by="user:ana")
        book.finish()
        assert read_persistent(book.user_dir).pending == ()
