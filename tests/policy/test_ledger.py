from dataclasses import replace
from datetime import UTC, datetime

import pytest

from clawhive_core.events import grants as grant_events
from clawhive_core.events.chain import COLUMNS
from clawhive_core.model.events import Event
from clawhive_core.policy.grants import GrantBook
from clawhive_core.storage.sqlite import grants, transaction
from clawhive_core.storage.sqlite import log as event_log
from clawhive_core.storage.sqlite.log import EventLog, Tables
from clawhive_core.storage.sqlite.migrations import RoomSchema
from clawhive_core.storage.sqlite.tables import tables_of
from tests.harness import grant

UNSEALED = (
    f"INSERT INTO events ({', '.join(COLUMNS)})"
    f" SELECT {', '.join(f'?{n + 1}' for n in range(len(COLUMNS)))} WHERE ?18 IS NULL"
)
"""A row as it was inserted before there were seals."""


@pytest.fixture
def log(tmp_path):
    log = EventLog.open(tmp_path / "hive.db", tables_of(grants))
    yield log
    log.close()


def alive(log):
    rows = log.read("SELECT grant_id FROM v_grants WHERE ended_at IS NULL ORDER BY grant_id")
    return [row["grant_id"] for row in rows]


def test_an_issued_grant_is_a_row_with_all_that_it_says(log):
    given = grant("fs.read:/w/**", expires_at="2030-01-01T00:00:00Z")
    log.append_now(grant_events.issued([given], run_id="run_1"))
    (row,) = [dict(row) for row in log.read("SELECT * FROM v_grants")]
    (event,) = log.events()
    shown = {name: value for name, value in given.to_dict().items() if name != "tool"}
    assert row == {**shown, "uses_left": None, "issued_at": event.ts, "ended_at": None}


def test_a_revoked_grant_ends_with_all_that_was_derived_from_it(log):
    grants = [
        grant("fs.read:/a", grant_id="g1"),
        grant("fs.read:/a", grant_id="g2", parent_grant="g1"),
        grant("fs.read:/a", grant_id="g3", parent_grant="g2"),
        grant("fs.read:/a", grant_id="g4"),
    ]
    log.append_now(grant_events.issued(grants))
    log.append_now(Event("grant.revoked", {"grant_id": "g1", "reason": None}))
    assert alive(log) == ["g4"]


def test_grants_that_derive_from_each_other_do_not_hang(log):
    grants = [
        grant("fs.read:/a", grant_id="g1", parent_grant="g2"),
        grant("fs.read:/a", grant_id="g2", parent_grant="g1"),
    ]
    log.append_now(grant_events.issued(grants))
    log.append_now(Event("grant.revoked", {"grant_id": "g1", "reason": None}))
    assert alive(log) == []


def test_task_grants_die_with_their_task_and_keep_their_end(log):
    log.append_now(grant_events.issued([grant("fs.read:/a", grant_id="g1")]))
    log.append_now(Event("run.end", {}, task_id="task_2"))
    assert alive(log) == ["g1"]
    log.append_now(Event("run.end", {}, task_id="task_1"))
    (ended,) = log.read("SELECT ended_at FROM v_grants")
    log.append_now(Event("grant.revoked", {"grant_id": "g1", "reason": None}))
    assert [row["ended_at"] for row in log.read("SELECT ended_at FROM v_grants")] == [
        ended["ended_at"]
    ]


def test_what_a_skill_gave_steps_ends_where_its_run_stops_and_stays_where_it_goes_on(log):
    def of_step(grant_id, step, issuer="skill"):
        given = grant("fs.read:/a", issuer, grant_id=grant_id)
        return replace(given, scope="step", scope_id=step)

    log.append_now(
        grant_events.issued(
            [
                of_step("g1", "run_1/one"),
                of_step("g2", "run_1/two.0"),
                of_step("g3", "run_1/one", "approval"),
                of_step("g4", "run_10/one"),
                grant("fs.read:/a", "skill", grant_id="g5"),
            ]
        )
    )
    log.append_now(Event("run.status", {}, run_id="run_1", status="running"))
    assert alive(log) == ["g1", "g2", "g3", "g4", "g5"]
    log.append_now(Event("run.status", {}, run_id="run_1", status="waiting_approval"))
    assert alive(log) == ["g3", "g4", "g5"]
    log.append_now(Event("run.end", {}, run_id="run_1", task_id="task_2"))
    assert alive(log) == ["g4", "g5"]


def test_an_id_that_was_issued_before_is_refused_with_its_event(log):
    log.append_now(grant_events.issued([grant("fs.read:/a", grant_id="g1")]))
    with pytest.raises(Exception, match="UNIQUE"):
        log.append_now(grant_events.issued([grant("fs.read:/b", grant_id="g1")]))
    assert len(list(log.events())) == 1


FORMER = """
INSERT INTO grants(grant_id, capability, subject, scope, scope_id, issuer, mode, expires_at,
  parent_grant, issued_at, ended_at, uses, uses_left, delegate, tool)
SELECT json_extract(g.value, '$.grant_id'), json_extract(g.value, '$.capability'),
  json_extract(g.value, '$.subject'), json_extract(g.value, '$.scope'),
  json_extract(g.value, '$.scope_id'), json_extract(g.value, '$.issuer'),
  json_extract(g.value, '$.mode'), json_extract(g.value, '$.expires_at'),
  json_extract(g.value, '$.parent_grant'), e.ts, iif(e.seq = 1, e.ts, NULL),
  json_extract(g.value, '$.uses'), json_extract(g.value, '$.uses'),
  json_extract(g.value, '$.delegate'), json_extract(g.value, '$.tool')
FROM events AS e, json_each(e.body, '$.grants') AS g WHERE e.kind = 'grant.issued'
"""
"""What the projection of before wrote, of which the task of the first event has ended."""


def test_a_database_of_before_keeps_what_stands_and_shows_what_ended(tmp_path, monkeypatch):
    path = tmp_path / "hive.db"
    with monkeypatch.context() as patched:
        events = RoomSchema("events", event_log.SCHEMA.migrations[:6])
        patched.setattr(event_log, "SCHEMA", events)
        patched.setattr(transaction, "INSERT", UNSEALED)
        former = EventLog.open(path, Tables([RoomSchema("policy", grants.SCHEMA.migrations[:5])]))
        former.append_now(grant_events.issued([grant("fs.read:/a", grant_id="g1")]))
        former.append_now(Event("run.end", {}, task_id="task_1", run_id="run_1"))
        standing = [
            replace(grant("fs.read:/b", grant_id="g2", uses=2), scope_id="task_2"),
            replace(grant("fs.read:/c", grant_id="g3", parent_grant="g2"), scope_id="task_2"),
        ]
        former.append_now(grant_events.issued(standing))
        former.append_now(effect=lambda connection: connection.execute(FORMER) and None)
        before = list(former.events())
        former.close()
    log = EventLog.open(path, tables_of(grants))
    assert list(log.events()) == before
    assert alive(log) == ["g2", "g3"]
    assert [tuple(row) for row in log.read("SELECT grant_id, seq FROM grants")] == [
        ("g2", 3),
        ("g3", 3),
    ]
    log.require_rights()
    assert log.compare() == ()
    assert GrantBook(tmp_path, log).of_task("task_2", datetime.now(UTC)) == standing
    log.close()


def test_the_view_tells_of_uses_and_ends_from_the_log(log):
    given = [
        grant("fs.read:/a", grant_id="g1", uses=3),
        grant("fs.read:/a", grant_id="g2", parent_grant="g1"),
        replace(grant("fs.read:/a", "skill", grant_id="g3"), scope="step", scope_id="run_1/one"),
    ]
    log.append_now(grant_events.issued(given))
    log.append_now(
        grant_events.used(["g1"]), grant_events.used(["g1"]), grant_events.returned(["g1"])
    )
    shown = "SELECT grant_id, uses, uses_left, ended_at FROM v_grants ORDER BY grant_id"
    assert [tuple(row) for row in log.read(shown)] == [
        ("g1", 3, 2, None),
        ("g2", None, None, None),
        ("g3", None, None, None),
    ]
    log.append_now(Event("run.status", {}, run_id="run_1", status="interrupted"))
    log.append_now(Event("grant.revoked", {"grant_id": "g1", "reason": None}))
    *_, stopped, revoked = log.events()
    assert [tuple(row) for row in log.read(shown)] == [
        ("g1", 3, 2, revoked.ts),
        ("g2", None, None, revoked.ts),
        ("g3", None, None, stopped.ts),
    ]
    assert log.read("SELECT * FROM grants") == []


def test_what_is_read_of_a_right_is_its_own_however_many_others_stand(log, tmp_path):
    def rows_read():
        seen = []
        book, connection = GrantBook(tmp_path, log), log._readers.get()
        connection.set_trace_callback(seen.append)
        steps = []
        connection.set_progress_handler(lambda: steps.append(1) and None, 10)
        try:
            assert len(book.of_task("task_mine", datetime.now(UTC))) == 2
        finally:
            connection.set_trace_callback(None)
            connection.set_progress_handler(None, 0)
        return len(seen), len(steps)

    def issue(name):
        mine = grant("fs.read:/a", grant_id=f"{name}_up")
        below = grant("fs.read:/a", grant_id=name, parent_grant=f"{name}_up", uses=2)
        log.append_now(
            grant_events.issued([replace(each, scope_id=f"task_{name}") for each in (mine, below)])
        )

    issue("mine")
    alone = rows_read()
    for number in range(200):
        issue(f"other{number}")
        log.append_now(Event("grant.revoked", {"grant_id": f"gone{number}", "reason": None}))
    among = rows_read()
    assert among[0] == alone[0]
    assert among[1] <= alone[1] + 5
