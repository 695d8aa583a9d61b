"""What is revoked in one process reaches the rules that another one decides by."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from clawhive_core.capabilities import parse
from clawhive_core.events.grants import issued
from clawhive_core.model.events import Event
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.policy.grants import GrantBook, Wish, derived
from clawhive_core.policy.revocations import Revocations
from clawhive_core.policy.rules import Rules
from clawhive_core.storage.sqlite import grants
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import tables_of

REVOKE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite import grants
from clawhive_core.storage.sqlite.tables import tables_of
from clawhive_core.events import grants as grant_events
from clawhive_core.policy.grants import GrantBook

log = sys.argv[2] and EventLog.open(Path(sys.argv[2]), tables_of(grants))
GrantBook(Path(sys.argv[1]), log or None).revoke(sys.argv[3], datetime.now(UTC))
if log:
    log.close()
"""
NEED = parse("fs.read:/srv/a")


@pytest.fixture
def log(tmp_path):
    log = EventLog.open(tmp_path / "hive.db", tables_of(grants))
    yield log
    log.close()


@pytest.fixture
def user_dir(tmp_path):
    folder = tmp_path / "user"
    folder.mkdir(mode=0o700)
    return folder


def living(log, user_dir, scope, scope_id=""):
    """Return what a task of the session holds, and the id of the grant that it comes from."""
    now, book = datetime.now(UTC), GrantBook(user_dir, log)
    wish = Wish("fs.read:/srv/**", scope, scope_id, life=timedelta(hours=1))
    given = book.issue(wish, {}, now)
    mine = derived(book.counting("s", DEFAULT_AGENT, now), "task_1", str(DEFAULT_AGENT))
    log.append_now(issued(mine))
    return Rules(mine), given["grant_id"]


def epoch_of(log):
    """Return the epoch; while the writer is at work there is none."""
    while (found := log.epoch()) is None:
        pass
    return found


def revoke_elsewhere(user_dir, path, grant_id):
    subprocess.run([sys.executable, "-c", REVOKE, str(user_dir), str(path), grant_id], check=True)


@pytest.mark.promise("P-093")
@pytest.mark.parametrize("scope", [("session", "s"), ("persistent", "")])
def test_a_revocation_by_another_process_ends_rights_of_a_living_run(log, user_dir, scope):
    rules, grant_id = living(log, user_dir, *scope)
    child = rules.bounded(("fs.read:/srv/*",))
    refresh, told = Revocations(log, user_dir), []
    held = [each.grant_id for each in rules.every]
    rules.watch(held, lambda: told.append(held))
    refresh(rules)
    assert rules.authority(NEED).verdict == "allow"
    assert child.authority(NEED).verdict == "allow"
    revoke_elsewhere(user_dir, log.path, grant_id)
    refresh(rules)
    assert rules.authority(NEED).verdict == "deny"
    assert child.authority(NEED).verdict == "deny"
    assert told == [held]


def test_a_persistent_grant_revoked_in_another_project_ends_here_too(log, user_dir):
    rules, grant_id = living(log, user_dir, "persistent")
    refresh = Revocations(log, user_dir)
    refresh(rules)
    revoke_elsewhere(user_dir, "", grant_id)
    assert list(log.read("SELECT 1 FROM events WHERE kind = 'grant.revoked'")) == []
    refresh(rules)
    assert rules.authority(NEED).verdict == "deny"


def test_a_childs_rules_notice_by_themselves(log, user_dir):
    rules, grant_id = living(log, user_dir, "session", "s")
    child, refresh = rules.bounded(("fs.read:/srv/*",)), Revocations(log, user_dir)
    revoke_elsewhere(user_dir, log.path, grant_id)
    refresh(child)
    assert child.authority(NEED).verdict == "deny"


def test_nothing_is_told_of_rights_that_stand_and_nobody_is_told_twice(log, user_dir):
    rules, grant_id = living(log, user_dir, "session", "s")
    refresh, told, heard = Revocations(log, user_dir), [], []
    held, late, other = [each.grant_id for each in rules.every], [], []

    def cut():
        told.append(1)

    rules.watch(held, cut)
    rules.watch(held, lambda: heard.append(1))
    rules.watch(["grant_of_another"], lambda: other.append(1))
    refresh(rules)
    assert told == []
    rules.unwatch(cut)
    GrantBook(user_dir, log).revoke(grant_id, datetime.now(UTC))
    refresh(rules)
    refresh(rules)
    rules.watch(held, lambda: late.append(1))
    assert (told, heard, late, other) == ([], [1], [1], [])


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_revocation_is_noticed_after_decisions_between_which_no_right_changed(
    log, user_dir, elsewhere
):
    rules, grant_id = living(log, user_dir, "session", "s")
    refresh, epochs = Revocations(log, user_dir), set()
    for number in range(3):
        refresh(rules)
        log.append_now(Event("model.start", {"n": number}))
        epochs.add(epoch_of(log))
    assert len(epochs) == 1
    if elsewhere:
        revoke_elsewhere(user_dir, log.path, grant_id)
    else:
        GrantBook(user_dir, log).revoke(grant_id, datetime.now(UTC))
    assert epoch_of(log) not in epochs
    refresh(rules)
    assert rules.authority(NEED).verdict == "deny"


def test_a_revocation_is_noticed_while_the_log_is_being_written(log, user_dir):
    rules, grant_id = living(log, user_dir, "session", "s")
    refresh = Revocations(log, user_dir)
    refresh(rules)
    revoke_elsewhere(user_dir, log.path, grant_id)

    def during(_):
        refresh(rules)

    log.append_now(effect=during)
    assert rules.authority(NEED).verdict == "deny"


def test_rights_of_a_run_that_is_not_recorded_stand(log, user_dir):
    """As those of `policy explain`, whose task is in no log."""
    from tests.harness import grant

    rules = Rules([grant("fs.read:/srv/**")])
    Revocations(log, user_dir)(rules)
    assert rules.authority(NEED).verdict == "allow"
