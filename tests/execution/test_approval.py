"""Asking a person about one exact call: what is asked, what the answer is bound to, who is late."""

import hashlib
import os
from dataclasses import replace

import pytest

from clawhive_core.errors import NeedHumanApproval
from clawhive_core.events import grants as grant_events
from clawhive_core.execution.approvals import Approvals, bound_files, call_digest
from clawhive_core.execution.pending import PendingCall
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.events import Event
from clawhive_core.model.principal import Principal
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import ToolCall
from clawhive_core.policy.approvals import ApprovalBook, expiry
from clawhive_core.storage.sqlite import approvals, grants
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import tables_of
from tests.harness import House, echo, grant

LONG_AGO = "2001-01-01T00:00:00.000000Z"


class AskingHouse(House):
    """A house whose log has the tables of approvals and grants, and whose calls may ask."""

    def __init__(self, folder):
        super().__init__(folder)
        self.log.close()
        self.log = EventLog.open(folder / "hive.db", tables_of(grants, approvals))
        self.book = ApprovalBook(self.log, folder / "user", {"workspace": str(folder)})
        self.wiring.log, self.wiring.redact = self.log, self.log.redactor.add
        self.wiring.approvals = Approvals(self.book)

    def asking(self, approve="park", ask=None, rules=None, **fields) -> CallScope:
        scope = self.scope(**fields)
        more = {} if rules is None else {"rules": rules}
        return replace(scope, run=replace(scope.run, approve=approve, ask=ask, **more))

    async def keep(self, given=None, *, name="demo.keep", **fields):
        call = ToolCall("call_1", name, {"path": "a.txt"} if given is None else given)
        return await self.executor.invoke(call, self.asking(**fields))

    async def resumed(self, **fields):
        """Make the call again in a run that knows of its step that a person was asked."""
        scope = self.asking(**fields)
        run = replace(scope.run, asked=frozenset((scope.step_id,)))
        call = ToolCall("call_1", "demo.keep", {"path": "a.txt"})
        return await self.executor.invoke(call, replace(scope, run=run))

    async def parked(self, given=None, **fields):
        with pytest.raises(NeedHumanApproval) as caught:
            await self.keep(given, **fields)
        return self.book.find(caught.value.data["approval_id"])

    def answer(self, answer="approve", **fields):
        return self.book.resolve("last", answer, by="user:ana", **fields)


@pytest.fixture
async def house(tmp_path):
    house = AskingHouse(tmp_path)
    house.offer("demo.keep", echo, risk="guarded", effects={"path": "fs.write"})
    await house.ready()
    yield house
    house.close()


def code_of(outcome):
    """Return a refusal's code and the approval's state; only a denial is taken to the user."""
    assert isinstance(outcome, Refusal), outcome
    state = outcome.next.get("state")
    if outcome.error == "approval_denied":
        assert outcome.next["action"] == ("ask_user" if state == "denied" else "propose_again")
    return outcome.error, state


async def test_a_call_is_asked_for_once_and_made_once(house):
    approval = await house.parked()
    assert await house.parked() == approval
    assert house.provider.calls == []
    house.answer()
    assert not isinstance(await house.keep(), Refusal)
    assert code_of(await house.keep()) == ("approval_denied", "consumed")
    assert len(house.provider.calls) == 1
    assert [each.state for each in house.book.list()] == ["consumed"]


async def test_the_error_of_a_waiting_call_says_what_to_look_at(house):
    with pytest.raises(NeedHumanApproval, match="waits for a person") as caught:
        await house.keep()
    approval = house.book.find("last")
    assert caught.value.place == approval.approval_id
    assert caught.value.fix == f"clawhive approvals show {approval.approval_id}"


@pytest.mark.parametrize("parent", [None, "inv_1"])
async def test_where_nobody_may_be_asked_nothing_is_asked(house, parent):
    outcome = await house.keep(approve="deny", parent_invocation_id=parent)
    assert code_of(outcome)[0] == "approval_required"
    assert house.book.list() == []


async def test_asking_here_with_nobody_to_ask_waits_for_an_answer_from_elsewhere(house):
    await house.parked(approve="ask")
    assert [each.state for each in house.book.list()] == ["pending"]


async def test_parking_asks_nobody_here(house):
    async def ask(approval):
        house.answer()

    await house.parked(approve="park", ask=ask)
    assert [each.state for each in house.book.list()] == ["pending"]


@pytest.mark.parametrize("answer", ["approve", "deny"])
async def test_an_answer_given_here_counts_at_once(house, answer):
    async def ask(approval):
        house.answer(answer, reason="so be it")

    outcome = await house.keep(approve="ask", ask=ask)
    if answer == "approve":
        assert outcome.structured == {"path": "a.txt"}
    else:
        assert code_of(outcome) == ("approval_denied", "denied")
        assert "so be it" in outcome.message
    assert len(house.provider.calls) == (answer == "approve")


async def test_a_call_that_changes_while_a_person_thinks_is_not_made(house):
    async def ask(approval):
        house.root.joinpath("a.txt").write_text("changed", "utf-8")
        house.answer()

    outcome = await house.keep(approve="ask", ask=ask)
    assert code_of(outcome) == ("approval_denied", "drifted")
    assert house.book.find("last").state == "drifted"
    assert house.provider.calls == []


async def test_what_nobody_answered_in_time_is_refused_at_the_next_try(house, monkeypatch):
    monkeypatch.setattr("clawhive_core.execution.approvals.expiry", lambda: LONG_AGO)
    await house.parked()
    assert code_of(await house.keep()) == ("approval_denied", "expired")
    assert house.book.find("last").reason == "nobody answered in time"


class Meanwhile:
    """A check during which another process does something; it abstains."""

    name = "meanwhile"

    def __init__(self, act, at):
        self.act, self.left = act, at

    async def check(self, request):
        self.left -= 1
        if self.left == 0:
            self.act()


async def test_an_approval_that_another_process_uses_first_is_not_used_again(house):
    def use():
        body = {"approval_id": approval.approval_id, "by": "clawhive", "reason": None}
        house.log.append_now(Event("approval.resolved", body, status="consumed"))

    approval = await house.parked()
    house.answer()
    house.checks = [Meanwhile(use, at=2)]  # the decision after the answer
    assert code_of(await house.keep()) == ("approval_denied", "consumed")
    assert house.provider.calls == []
    assert "intended" not in {row["status"] for row in await house.rows()}


async def used(house):
    """Return an approval that a broken-off attempt of the call used."""
    await house.parked()
    house.answer()
    await house.keep()
    return house.book.find("last")


async def test_a_used_approval_counts_for_another_attempt_of_the_same_call(house):
    approval = await used(house)
    outcome = await house.keep(approved=approval.approval_id, attempt=2)
    assert not isinstance(outcome, Refusal)
    assert len(house.provider.calls) == 2
    assert [each.state for each in house.book.list()] == ["consumed"]


async def test_the_log_says_that_a_person_is_needed_whatever_comes_of_it(house):
    await house.keep(approve="deny")
    await house.parked()
    house.answer()
    await house.keep()
    house.give("fs.write:${workspace}/a.txt")
    await house.keep(step="step_2")
    found = [
        (each.event.kind, each.event.body["approval_required"])
        for each in await house.events()
        if "approval_required" in each.event.body
    ]
    assert found == [
        ("invocation.refused", True),
        ("approval.requested", True),
        ("invocation.start", True),
        ("invocation.start", False),
    ]


async def test_what_was_answered_needs_nobody_who_may_be_asked(house):
    await house.parked()
    house.answer()
    assert not isinstance(await house.resumed(approve="deny"), Refusal)
    approval = house.book.find("last")
    again = await house.keep(approve="deny", approved=approval.approval_id, attempt=2)
    assert not isinstance(again, Refusal)
    assert len(house.provider.calls) == 2


async def test_a_step_about_which_nobody_was_asked_has_no_answer(house):
    assert code_of(await house.resumed(approve="deny"))[0] == "approval_required"


async def test_an_answer_that_no_longer_fits_stops_nothing_that_rights_allow_without_it(house):
    await house.parked()
    house.answer()
    house.root.joinpath("a.txt").write_text("changed", "utf-8")
    house.give("fs.write:${workspace}/a.txt")
    assert not isinstance(await house.resumed(), Refusal)
    assert house.book.find("last").state == "drifted"
    (start,) = [
        each.event for each in await house.events() if each.event.kind == "invocation.start"
    ]
    assert start.body["approval_result"] is None


async def test_another_attempt_that_touches_something_else_is_refused(house):
    approval = await used(house)
    outcome = await house.keep({"path": "b.txt"}, approved=approval.approval_id, attempt=2)
    assert code_of(outcome) == ("approval_denied", "drifted")
    assert len(house.provider.calls) == 1


async def test_an_approval_that_nobody_used_does_not_count_for_another_attempt(house):
    approval = await house.parked()
    house.answer()
    outcome = await house.keep(approved=approval.approval_id, attempt=2)
    assert code_of(outcome) == ("approval_denied", "drifted")
    assert house.provider.calls == []


async def test_a_wider_answer_counts_for_the_runs_further_calls_and_for_nothing_else(house):
    rules = house.scope().run.rules
    others = [
        grant(f"fs.write:{house.root}/b.txt", "approval"),
        grant(f"fs.write:{house.root}/a.txt", "skill"),
        replace(grant(f"fs.write:{house.root}/a.txt", "approval"), subject="agent:other"),
    ]
    house.log.append_now(grant_events.issued(others, task_id="task_1"))
    await house.parked(rules=rules)
    house.answer(scope="task")
    before = set(rules.grants)
    await house.keep(rules=rules)
    (added,) = set(rules.grants) - before
    assert (added.issuer, added.subject) == ("approval", "agent:default")
    assert added.capability == f"fs.write:{house.root}/a.txt"
    again = await house.keep(rules=rules, step="step_2")
    assert not isinstance(again, Refusal)
    await house.parked({"path": "b.txt"}, rules=rules, step="step_3")


@pytest.mark.parametrize("scope", ["task", "session"])
async def test_a_wider_answer_needs_no_second_question(house, scope):
    rules = house.scope().run.rules
    await house.parked(rules=rules)
    house.answer(scope=scope)
    for step in ("step_1", "step_2"):
        assert not isinstance(await house.keep(rules=rules, step=step), Refusal)
    assert len(house.book.list()) == 1


async def test_a_person_is_shown_where_data_goes_as_far_as_it_was_given(house):
    house.offer("demo.send", echo, risk="guarded", sinks=("to", "copy"))
    await house.catalog.add(house.provider)
    await house.parked({"to": "ana@example.com", "text": "hello"}, name="demo.send")
    assert house.book.find("last").sinks == {"to": "ana@example.com"}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"proposal": {"diff": "-a\n+b\n"}}, "-a\n+b\n"),
        ({"proposal": {"diff": "+" * 300_000}}, "+" * 262_144),
        ({"proposal": {"diff": ["-a"]}}, ""),
        ({"proposal": "-a"}, ""),
        ({"proposal": {}}, ""),
        ({}, ""),
    ],
    ids=["diff", "long", "no text", "no object", "empty", "none"],
)
async def test_a_person_is_shown_the_diff_of_what_was_proposed(house, given, shown):
    await house.parked({"path": "a.txt", **given})
    assert house.book.find("last").diff == shown


def pending(house, input=None, **fields):
    tool = house.catalog.current.find("demo.keep")
    given = {"path": "a.txt"} if input is None else input
    made = PendingCall(ToolCall("c", "demo.keep", given), house.scope(), tool)
    made.capabilities = (f"fs.write:{house.root}/a.txt",)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


async def test_an_approval_that_says_nothing_of_its_tool_drifts_like_any_other(house):
    """As those that earlier versions asked for."""
    more = {"approval_id": "appr_old", "digest": "another", "sinks": {}, "diff": ""}
    house.log.append_now(pending(house).asked({**more, "expires_at": expiry()}))
    house.answer()
    assert code_of(await house.resumed()) == ("approval_denied", "drifted")


async def test_the_digest_is_of_tool_arguments_rights_principal_and_files(house):
    first = call_digest(pending(house))
    assert call_digest(pending(house, {"path": "a.txt"})) == first
    other = replace(house.scope(), principal=Principal("skill", "zodiac"))
    found = [
        first,
        call_digest(pending(house, {"path": "a.txt", "mode": 1})),
        call_digest(pending(house, capabilities=("fs.write:/other",))),
        call_digest(pending(house, scope=other)),
        call_digest(pending(house, tool=None)),
        call_digest(pending(house, call=ToolCall("c", "demo.other", {"path": "a.txt"}))),
    ]
    house.root.joinpath("a.txt").write_text("now it is there", "utf-8")
    found.append(call_digest(pending(house)))
    house.root.joinpath("a.txt").write_text("now it differs", "utf-8")
    found.append(call_digest(pending(house)))
    assert len(set(found)) == len(found)


def test_the_bound_files_are_the_single_ones_that_may_change(tmp_path):
    root = tmp_path.resolve()
    (root / "a").write_bytes(b"content")
    (root / "link").symlink_to("a")
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    wanted = {
        "a": hashlib.sha256(b"content").hexdigest(),
        "missing": "absent",
        "pipe": "no file",
        "folder": "no file",
    }
    asked = [f"fs.write:{root}/{name}" for name in (*wanted, "link")]
    found = bound_files((*asked, f"fs.write:{root}/**", f"fs.read:{root}/b", "net.http:**"))
    assert found.pop(f"{root}/link").startswith("unreadable:")
    assert found == {f"{root}/{name}": each for name, each in wanted.items()}
    assert list(bound_files((f"fs.delete:{root}/a",))) == [f"{root}/a"]
