"""Counted rights: never more calls than were given, whoever makes them at the same time."""

import subprocess
import sys
from datetime import UTC, datetime

import anyio
import pytest

from clawhive_core.errors import StorageError
from clawhive_core.events.grants import issued, returned, used
from clawhive_core.execution.scope import CallScope, RunScope
from clawhive_core.model.events import Event
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.model.refusal import Refusal
from clawhive_core.policy.grants import GrantBook, Wish, used_up
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.ledger import DescentOf, GrantsUsable, Unmet
from clawhive_core.runs.requests import RunOptions
from clawhive_core.storage.sqlite import grants
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import tables_of
from clawhive_core.testing import memory_hive
from tests.harness import Provider, echo, grant

SPENDER = """
import sys
from pathlib import Path
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite import grants
from clawhive_core.storage.sqlite.tables import tables_of
from clawhive_core.events import grants as grant_events
from clawhive_core.protocols.ledger import DescentOf, GrantsUsable, Unmet

log = EventLog.open(Path(sys.argv[1]), tables_of(grants))
sys.stdin.readline()
made, mine = 0, ("child" + sys.argv[2],)
try:
    while True:
        line = list(log.find(DescentOf(mine)))
        log.append_now(grant_events.used(line), expects=[GrantsUsable(mine)])
        made += 1
except Unmet as error:
    assert error.found == list(mine), error
log.close()
print(made)
"""


def opened(folder):
    return EventLog.open(folder / "hive.db", tables_of(grants))


@pytest.fixture
def log(tmp_path):
    log = opened(tmp_path)
    yield log
    log.close()


def left(log):
    return {row[0]: row[1] for row in log.read("SELECT grant_id, uses_left FROM v_grants")}


def use(log, *grant_ids):
    log.append_now(used(list(log.find(DescentOf(grant_ids)))), expects=[GrantsUsable(grant_ids)])


def test_a_use_counts_for_the_grant_and_for_what_it_derives_from(log):
    log.append_now(
        issued(
            [
                grant("fs.read:/a", grant_id="session", uses=3),
                grant("fs.read:/a", grant_id="one", uses=3, parent_grant="session"),
                grant("fs.read:/a", grant_id="two", uses=3, parent_grant="session"),
                grant("fs.read:/a", grant_id="free"),
            ]
        )
    )
    use(log, "one")
    use(log, "two", "free")
    assert left(log) == {"session": 1, "one": 2, "two": 2, "free": None}
    use(log, "one")
    with pytest.raises(Unmet) as caught:
        use(log, "two")
    assert caught.value.found == ["two"]
    assert used_up(caught.value.found).code == "grant_used_up"
    assert left(log)["two"] == 2
    log.require_rights()


def test_a_call_that_uses_two_children_counts_once_for_their_parent(log):
    log.append_now(
        issued(
            [
                grant("fs.read:/a", grant_id="parent", uses=1),
                grant("fs.read:/a", grant_id="a", uses=1, parent_grant="parent"),
                grant("fs.write:/a", grant_id="b", uses=1, parent_grant="parent"),
            ]
        )
    )
    use(log, "a", "b")
    assert left(log) == {"parent": 0, "a": 0, "b": 0}


def test_a_use_given_back_never_makes_more_than_were_given(log):
    log.append_now(issued([grant("fs.read:/a", grant_id="g", uses=2)]))
    use(log, "g")
    log.append_now(returned(["g"]))
    log.append_now(returned(["g"]))
    assert left(log) == {"g": 2}


def test_a_revoked_grant_has_no_use_left(log):
    log.append_now(issued([grant("fs.read:/a", grant_id="g", uses=2)]))
    log.append_now(Event("grant.revoked", {"grant_id": "g", "reason": None}))
    with pytest.raises(Unmet):
        use(log, "g")
    with pytest.raises(Unmet):
        use(log, "nobody")


def test_uses_raised_behind_the_log_are_found(log):
    import sqlite3

    log.append_now(issued([grant("fs.read:/a", grant_id="g", uses=2)]))
    use(log, "g")
    log.require_rights()
    with sqlite3.connect(log.path) as connection:
        connection.execute("UPDATE grants SET uses_left = 2")
    connection.close()
    with pytest.raises(StorageError) as caught:
        log.require_rights()
    assert caught.value.code == "forged_rights"


@pytest.mark.slow
@pytest.mark.promise("P-092")
def test_eight_processes_never_use_a_right_more_often_than_it_was_given(tmp_path):
    log = opened(tmp_path)
    children = [
        grant("fs.read:/a", grant_id=f"child{n}", uses=40, parent_grant="parent") for n in range(8)
    ]
    log.append_now(issued([grant("fs.read:/a", grant_id="parent", uses=40), *children]))
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SPENDER, str(log.path), str(n)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(8)
    ]
    for each in running:
        each.stdin.write("go\n")
        each.stdin.flush()
    made = [int(each.communicate(timeout=600)[0]) for each in running]
    assert sum(made) == 40
    assert left(log)["parent"] == 0
    log.require_rights()
    log.close()


def keeping(hive, **wish):
    """Give the session `mine` a right to write below docs."""
    book = GrantBook(hive.config.user_dir, hive.log)
    wanted = Wish("fs.write:${workspace}/docs/**", "session", "mine", **wish)
    return book, book.issue(wanted, {"workspace": str(hive.root)}, datetime.now(UTC))["grant_id"]


def keeper():
    return Provider().offer("demo.keep", echo, risk="guarded", effects={"path": "fs.write"})


MINE = RunOptions(session="mine", approve="deny")


@pytest.mark.promise("P-095")
async def test_a_right_for_two_calls_covers_two_of_the_sessions_calls_in_any_run():
    provider = keeper()
    async with memory_hive(providers=[provider]) as hive:
        keeping(hive, uses=2)
        done = [(await hive.call("demo.keep", {"path": f"docs/{n}"}, MINE))[1] for n in range(3)]
        assert [isinstance(each, Refusal) for each in done] == [False, False, True]
        assert "--grant" in done[2].next["hint"]
        (row,) = hive.log.read("SELECT uses_left FROM v_grants WHERE scope = 'session'")
        assert row["uses_left"] == 0
    assert len(provider.calls) == 2


async def test_calls_side_by_side_share_the_uses_that_are_left():
    provider = keeper()
    async with memory_hive(providers=[provider]) as hive:
        keeping(hive, uses=3)
        done = []

        async def call(session, number):
            done.append(await session.invoke("demo.keep", {"path": f"docs/{number}"}))

        async with (
            hive.session(options=MINE) as one,
            hive.session(options=MINE) as other,
            anyio.create_task_group() as group,
        ):
            for number in range(4):
                group.start_soon(call, one, number)
                group.start_soon(call, other, number + 10)
        assert sum(not isinstance(each, Refusal) for each in done) == 3
    assert len(provider.calls) == 3


async def test_a_revocation_reaches_a_session_between_two_of_its_calls():
    provider = keeper()
    async with memory_hive(providers=[provider]) as hive:
        book, grant_id = keeping(hive)
        async with hive.session(options=MINE) as session:
            first = await session.invoke("demo.keep", {"path": "docs/a"})
            book.revoke(grant_id, datetime.now(UTC))
            second = await session.invoke("demo.keep", {"path": "docs/a"})
    assert not isinstance(first, Refusal)
    assert second.error in {"approval_required", "denied"}
    assert len(provider.calls) == 1


async def test_only_an_intent_that_was_written_gives_its_uses_back(log):
    from clawhive_core.execution.executor import give_back
    from clawhive_core.execution.pending import PendingCall
    from clawhive_core.model.tools import ToolCall
    from clawhive_core.policy.rules import Decision

    log.append_now(issued([grant("fs.read:/a", grant_id="g", uses=2)]))
    use(log, "g")
    scope = CallScope(RunScope("t", "t", "r", "c", "u", "/", "/o", Rules(())), DEFAULT_AGENT, "r/1")
    decision = Decision("allow", (), (), (), (), counted=("g",))
    pending = PendingCall(ToolCall("c", "demo.keep", {}), scope, decision=decision)
    give_back(pending, log)
    assert left(log) == {"g": 1}
    log.append_now(used(["g"], **pending.ids), expects=[GrantsUsable(("g",))])
    assert left(log) == {"g": 0}
    give_back(pending, log)
    give_back(pending, log)
    assert left(log) == {"g": 1}
