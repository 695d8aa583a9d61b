"""Rights that many tasks share: recorded once, and as good as each right by itself."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from clawhive_core.errors import ClawHiveError, StorageError
from clawhive_core.events import grants as grant_events
from clawhive_core.model.events import Event
from clawhive_core.policy.grants import GrantBook, derived
from clawhive_core.policy.revocations import Revocations
from clawhive_core.policy.rules import Rules
from clawhive_core.policy.starter import starter_grants
from clawhive_core.storage.sqlite import grants
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import tables_of
from clawhive_core.testing import memory_hive
from tests.harness import grant

NOW = datetime.now(UTC)
RUN = "/w/out/run_1"


@pytest.fixture
def log(tmp_path):
    log = EventLog.open(tmp_path / "hive.db", tables_of(grants))
    yield log
    log.close()


def starters(number, run=RUN):
    return starter_grants(f"task_{number}", "agent:default", {"workspace": "/w", "run": run})


def begin(log, number, *more, run=RUN):
    grants = starters(number, run)
    log.append_now(grant_events.issued([*grants, *more], run, task_id=f"task_{number}"))
    return grants


def change(log, *statements):
    with closing(sqlite3.connect(log.path)) as other:
        for statement in statements:
            other.execute(statement)
        other.commit()


def shown(log, task):
    sql = "SELECT * FROM v_grants WHERE scope_id = ? ORDER BY grant_id"
    return [dict(row) for row in log.read(sql, (task,))]


def test_a_task_is_given_each_right_of_its_set_and_what_is_its_own(log, tmp_path):
    mine = grant("fs.read:/x", grant_id="own")
    grants = begin(log, 1, mine)
    book = GrantBook(tmp_path, log)
    assert book.of_task("task_1", NOW) == [*sorted(grants, key=lambda g: g.grant_id), mine]
    assert len({each.grant_id for each in grants}) == len(grants)
    rows = [row for row in book.active(NOW) if row["grant_id"] != "own"]
    assert {row["capability"] for row in rows} == {each.capability for each in grants}
    log.require_rights()
    assert log.compare() == ()


def test_tasks_that_have_rights_alike_share_their_record(log):
    for number in range(5):
        begin(log, number, run=f"/w/out/run_{number}")
    assert log.read("SELECT count(*) FROM blobs")[0][0] == 1
    assert max(len(str(stored.event.body)) for stored in log.events()) < 400
    texts = {row["capability"] for row in shown(log, "task_3")}
    assert texts == {each.capability for each in starters(3, "/w/out/run_3")}


def test_the_view_shows_a_sets_rights_as_any_others_and_when_they_ended(log):
    first, *rest = sorted(begin(log, 1), key=lambda each: each.grant_id)
    (given,) = log.events()
    rows = shown(log, "task_1")
    kept = [{k: v for k, v in each.to_dict().items() if k != "tool"} for each in (first, *rest)]
    more = {"uses_left": None, "issued_at": given.ts, "ended_at": None}
    assert rows == [{**each, **more} for each in kept]
    log.append_now(Event("grant.revoked", {"grant_id": first.grant_id, "reason": None}))
    log.append_now(Event("run.end", {}, task_id="task_1", run_id="run_1"))
    _, revoked, ended = log.events()
    assert [row["ended_at"] for row in shown(log, "task_1")] == [
        revoked.ts,
        *[ended.ts] * len(rest),
    ]
    assert log.read("SELECT * FROM grant_sets") == []


def test_one_right_of_a_set_is_revoked_alone_with_all_that_comes_from_it(log, tmp_path):
    grants = begin(log, 1)
    children = derived(grants, "task_2", "agent:helper")
    log.append_now(grant_events.issued(children))
    rules, below = Rules(grants), Rules(children)
    refresh, book = Revocations(log, tmp_path), GrantBook(tmp_path, log)
    for each in (rules, below):
        refresh(each)
    gone = grants[3].grant_id
    book.revoke(gone, NOW)
    for each in (rules, below):
        refresh(each)
    assert gone not in {each.grant_id for each in rules.every}
    assert gone not in {each.parent_grant for each in below.every}
    assert len(rules.every) == len(below.every) == len(grants) - 1
    assert {each.grant_id for each in book.of_task("task_1", NOW)} == {
        each.grant_id for each in grants
    } - {gone}
    assert len(book.of_task("task_2", NOW)) == len(grants) - 1
    assert log.compare() == ()
    log.append_now(Event("run.end", {}, task_id="task_1", run_id="run_1"))
    assert book.of_task("task_2", NOW) == []


COPY = (
    "INSERT INTO grant_sets SELECT 'f', subject, 'task_2', run, members, '[]', issued_at, seq"
    " FROM grant_sets"
)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE grant_sets SET run = '/'",
        "UPDATE grant_sets SET subject = 'agent:other'",
        "UPDATE grant_sets SET revoked = '[]'",
        "UPDATE grant_sets SET task_id = 'task_2'",
        'UPDATE grant_sets SET members = \'[["fs.write:/**","user","allow"]]\'',
        "UPDATE grant_sets SET seq = 2",
        COPY,
    ],
)
def test_a_set_that_was_changed_behind_the_log_gives_nothing(log, tmp_path, statement):
    first, *_ = begin(log, 1)
    log.append_now(Event("grant.revoked", {"grant_id": first.grant_id, "reason": None}))
    change(log, statement)
    task = "task_2" if "task_2" in statement else "task_1"
    with pytest.raises(StorageError) as caught:
        GrantBook(tmp_path, log).of_task(task, NOW)
    assert caught.value.code == "forged_rights"
    with pytest.raises(StorageError):
        log.require_rights()


def test_a_set_of_a_task_that_ended_does_not_rise_again(log, tmp_path):
    begin(log, 1)
    change(log, "CREATE TABLE kept AS SELECT * FROM grant_sets")
    log.append_now(Event("run.end", {}, task_id="task_1", run_id="run_1"))
    change(log, "INSERT INTO grant_sets SELECT * FROM kept")
    with pytest.raises(StorageError) as caught:
        GrantBook(tmp_path, log).of_task("task_1", NOW)
    assert caught.value.code == "forged_rights"


def test_a_right_that_comes_from_a_forged_set_gives_nothing(log, tmp_path):
    log.append_now(grant_events.issued(derived(begin(log, 1), "task_2", "agent:helper")))
    change(log, "UPDATE grant_sets SET run = '/'")
    with pytest.raises(StorageError) as caught:
        GrantBook(tmp_path, log).of_task("task_2", NOW)
    assert caught.value.data["table"] == "grant_sets"


def test_a_body_of_rights_that_was_changed_gives_nothing(log, tmp_path):
    begin(log, 1)
    change(
        log,
        "DROP TRIGGER blobs_refuse_update",
        "UPDATE blobs SET data = replace(CAST(data AS TEXT), 'fs.read', 'fs.delete')",
    )
    with pytest.raises(ClawHiveError) as caught:
        GrantBook(tmp_path, log).of_task("task_1", NOW)
    assert caught.value.code == "damaged_body"


def test_only_numbered_rights_that_say_nothing_else_are_a_set():
    grants = starters(1)
    made, others = grant_events.divided(grants, RUN)
    assert others == []
    assert sorted(made.grants(), key=lambda g: g.grant_id) == sorted(
        grants, key=lambda g: g.grant_id
    )
    assert grant_events.divided(grants, "") == (None, grants)
    assert grant_events.divided(grants[:1], RUN) == (None, grants[:1])
    assert grant_events.divided(grants[1:], RUN) == (None, grants[1:])
    loose = [grant("fs.read:/a", "starter", grant_id=f"grant_{n}") for n in range(3)]
    assert grant_events.divided(loose, RUN) == (None, loose)


async def test_old_bodies_of_rights_are_not_pruned():

    async with memory_hive() as hive:
        async with hive.session():
            pass
        before = hive.log.read("SELECT count(*) FROM v_grants")[0][0]
        hive.log.prune("2999-01-01T00:00:00.000000Z")
        assert hive.log.read("SELECT count(*) FROM v_grants")[0][0] == before > 0
