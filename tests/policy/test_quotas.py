"""Quotas: never more calls in a window than allowed, whoever makes them at the same time."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.errors import RunError
from clawhive_core.policy.quotas import Quota
from clawhive_core.protocols.ledger import Unmet
from clawhive_core.storage.sqlite import quotas
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import tables_of

CALLER = """
import sys
from pathlib import Path
from clawhive_core.policy.quotas import Quota
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite import quotas
from clawhive_core.storage.sqlite.tables import tables_of
from clawhive_core.protocols.ledger import Unmet

log = EventLog.open(Path(sys.argv[1]), tables_of(quotas))
sys.stdin.readline()
made, quota = 0, Quota("u", "zodiac.chart", 100, 86_400, 5.0)
try:
    while True:
        log.append_now(quota.reserved(), expects=[quota.left])
        made += 1
except Unmet as error:
    assert quota.used_up(error.found).code == "rate_limited", error
log.close()
print(made)
"""


def opened(folder):
    return EventLog.open(folder / "hive.db", tables_of(quotas))


@pytest.fixture
def log(tmp_path):
    log = opened(tmp_path)
    yield log
    log.close()


def quota(now, user="u", tool="zodiac.chart", limit=2, seconds=60):
    return Quota(user, tool, limit, seconds, now)


def use(log, claim):
    try:
        log.append_now(claim.reserved(), expects=[claim.left])
    except Unmet as error:
        raise claim.used_up(error.found) from None


def rows(log):
    return [tuple(row) for row in log.read("SELECT * FROM v_quotas ORDER BY user_id, tool")]


def test_a_window_takes_so_many_calls_and_the_next_one_begins_anew(log):
    use(log, quota(60.0))
    use(log, quota(119.9))
    with pytest.raises(RunError) as caught:
        use(log, quota(100.5))
    assert (caught.value.code, caught.value.data) == ("rate_limited", {"retry_after": 20})
    with pytest.raises(RunError):
        quota(119.99).require_left(log)
    quota(120.0).require_left(log)
    use(log, quota(120.0))
    assert rows(log) == [("u", "zodiac.chart", 60, "1970-01-01T00:02:00Z", 1)]


def test_what_is_refused_is_not_counted(log):
    use(log, quota(0, limit=1))
    for _ in range(3):
        with pytest.raises(RunError):
            use(log, quota(1, limit=1))
    assert [event.event.kind for event in log.events()] == ["quota.reserved"]


def test_users_tools_and_units_count_for_themselves(log):
    for claim in (quota(0, limit=1), quota(0, "v", limit=1), quota(0, tool="other", limit=1)):
        use(log, claim)
    use(log, quota(0, limit=1, seconds=3600))
    assert len(rows(log)) == 4


def test_a_call_that_never_started_is_given_back_once_and_to_its_own_window(log):
    first = quota(0)
    use(log, first)
    use(log, first)
    log.append_now(first.returned())
    use(log, first)
    use(log, quota(60))
    log.append_now(first.returned())
    assert rows(log)[0][4] == 1


def test_a_clock_that_lags_gains_nothing_and_one_that_ran_far_ahead_locks_nobody_out(log):
    use(log, quota(61))
    use(log, quota(59))  # written later, by a process that looked at its clock before
    with pytest.raises(RunError) as caught:
        use(log, quota(59))
    assert caught.value.data == {"retry_after": 61}
    use(log, quota(10_000_000, "v", limit=1))
    use(log, quota(61, "v", limit=1))


@pytest.mark.promise("P-180")
def test_several_processes_never_make_more_calls_than_the_quota(log, tmp_path):
    callers = [
        subprocess.Popen(
            [sys.executable, "-c", CALLER, str(tmp_path / "hive.db")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    for caller in callers:
        caller.stdin.write("go\n")
        caller.stdin.flush()
    made = [int(caller.communicate(timeout=600)[0]) for caller in callers]
    assert sum(made) == 100
    assert rows(log)[0][4] == 100


@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.sampled_from("uv"), st.booleans()), max_size=25
    )
)  # fmt: skip
def test_the_table_is_what_the_log_gives_again(tmp_path_factory, moves):
    log = opened(tmp_path_factory.mktemp("log"))
    try:
        for now, user, back in moves:
            claim = quota(now, user)
            try:
                use(log, claim)
            except RunError:
                continue
            if back:
                log.append_now(claim.returned())
        assert log.compare() == ()
    finally:
        log.close()


def test_counts_that_somebody_edited_are_found_and_mended(log, tmp_path):
    import sqlite3
    from contextlib import closing

    use(log, quota(0))
    with closing(sqlite3.connect(tmp_path / "hive.db")) as connection:
        connection.execute("UPDATE quotas SET used = 0")
        connection.commit()
    (difference,) = log.rebuild()
    assert difference.table == "quotas"
    assert rows(log)[0][4] == 1
