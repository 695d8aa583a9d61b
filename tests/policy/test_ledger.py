from dataclasses import replace

import pytest

from clawhive_core.events.log import EventLog
from clawhive_core.model.events import Event
from clawhive_core.policy import ledger
from tests.harness import grant


@pytest.fixture
def log(tmp_path):
    log = EventLog.open(tmp_path / "hive.db", [ledger.SCHEMA], ledger.PROJECTIONS)
    yield log
    log.close()


def alive(log):
    rows = log.read("SELECT grant_id FROM v_grants WHERE ended_at IS NULL ORDER BY grant_id")
    return [row["grant_id"] for row in rows]


def test_an_issued_grant_is_a_row_with_all_that_it_says(log):
    given = grant("fs.read:/w/**", expires_at="2030-01-01T00:00:00Z")
    log.append_now(ledger.issued([given], run_id="run_1"))
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
    log.append_now(ledger.issued(grants))
    log.append_now(Event("grant.revoked", {"grant_id": "g1", "reason": None}))
    assert alive(log) == ["g4"]


def test_grants_that_derive_from_each_other_do_not_hang(log):
    grants = [
        grant("fs.read:/a", grant_id="g1", parent_grant="g2"),
        grant("fs.read:/a", grant_id="g2", parent_grant="g1"),
    ]
    log.append_now(ledger.issued(grants))
    log.append_now(Event("grant.revoked", {"grant_id": "g1", "reason": None}))
    assert alive(log) == []


def test_task_grants_die_with_their_task_and_keep_their_end(log):
    log.append_now(ledger.issued([grant("fs.read:/a", grant_id="g1")]))
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
        ledger.issued(
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
    log.append_now(ledger.issued([grant("fs.read:/a", grant_id="g1")]))
    with pytest.raises(Exception, match="UNIQUE"):
        log.append_now(ledger.issued([grant("fs.read:/b", grant_id="g1")]))
    assert len(list(log.events())) == 1
