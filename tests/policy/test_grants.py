"""Grants that a person gives beside a run: what counts, for whom, until when."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core import Hive
from clawhive_core.errors import CapabilityError, StorageError, UnknownId, UsageError
from clawhive_core.hive.project_log import open_log
from clawhive_core.model.principal import DEFAULT_AGENT, LOCAL_USER, Principal
from clawhive_core.model.refusal import Refusal
from clawhive_core.policy.grants import GrantBook, Wish, derived, duration, is_live
from clawhive_core.runs.requests import RunOptions
from clawhive_core.testing import memory_hive

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
CLIENT = Principal("client", "mcp/cursor")


@pytest.fixture
def book(tmp_path):
    from clawhive_core.config.load import open_config

    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    (tmp_path / "project").mkdir()
    log = open_log(open_config(tmp_path / "project", {}, env))
    made = GrantBook(tmp_path / "config" / "clawhive", log)
    made.folder, made.log = tmp_path / "config" / "clawhive", log
    yield made
    log.close()


def give(book, scope="persistent", scope_id="", now=NOW, **more):
    wish = Wish("fs.write:/srv/**", scope, scope_id, **more)
    return book.issue(wish, {}, now)


def counting(book, session="s", principal=DEFAULT_AGENT, now=NOW):
    return [grant.grant_id for grant in book.counting(session, principal, now)]


def test_a_persistent_grant_counts_in_every_session_until_it_is_revoked(book):
    given_ = give(book)
    assert counting(book) == counting(book, "other") == [given_["grant_id"]]
    assert book.revoke(given_["grant_id"][:12], NOW) == given_["grant_id"]
    assert counting(book) == []


def test_a_persistent_grant_expires_after_90_days_unless_said_otherwise(book):
    assert give(book)["expires_at"] == "2026-07-30T12:00:00.000000Z"
    assert give(book, life=timedelta(hours=2))["expires_at"] == "2026-05-01T14:00:00.000000Z"


def test_a_session_grant_counts_in_that_session_only(book):
    given_ = give(book, "session", "s")
    assert given_["expires_at"] is None
    assert counting(book, "s") == [given_["grant_id"]]
    assert counting(book, "t") == []
    book.revoke("last", NOW)
    assert counting(book, "s") == []


@pytest.mark.parametrize("scope", ["session", "persistent"])
def test_an_expired_grant_does_not_count_and_is_not_listed(book, scope):
    give(book, scope, "" if scope == "persistent" else "s", life=timedelta(seconds=1))
    assert len(counting(book)) == 1
    later = NOW + timedelta(seconds=1)
    assert counting(book, now=later) == []
    assert book.active(later) == []


def test_a_grant_is_for_its_subject_and_the_users_own_calls(book):
    give(book)
    assert len(counting(book, principal=LOCAL_USER)) == 1
    assert counting(book, principal=CLIENT) == []
    assert counting(book, principal=Principal("agent", "other")) == []
    assert counting(book, principal=Principal("skill", "zodiac")) == []
    give(book, subject=str(CLIENT))
    assert len(counting(book, principal=CLIENT)) == 1
    assert len(counting(book)) == 1


def test_what_a_task_took_over_ends_with_its_parent(book):
    from clawhive_core.events.grants import issued

    for scope in ("session", "persistent"):
        give(book, scope, "s" if scope == "session" else "")
    taken = derived(book.counting("s", DEFAULT_AGENT, NOW), "task_1", str(DEFAULT_AGENT))
    book.log.append_now(issued(taken, task_id="task_1"))
    assert len(book.of_task("task_1", NOW)) == 2
    for left in (1, 0):
        book.revoke("last", NOW)
        assert len(book.of_task("task_1", NOW)) == left


def test_a_persistent_grant_revoked_from_elsewhere_ends_what_a_task_took_over(book):
    from clawhive_core.events.grants import issued

    given_ = give(book)
    taken = derived(book.counting("s", DEFAULT_AGENT, NOW), "task_1", str(DEFAULT_AGENT))
    book.log.append_now(issued(taken, task_id="task_1"))
    GrantBook(book.folder).revoke(given_["grant_id"], NOW)
    assert book.of_task("task_1", NOW) == []


def test_the_log_tells_of_each_grant_of_a_session_and_its_end(book):
    given_ = give(book, "session", "s")
    book.revoke("last", NOW)
    issued_, revoked = [stored.event for stored in book.log.events()]
    assert (issued_.kind, issued_.principal) == ("grant.issued", "user:local")
    assert issued_.body["grants"][0]["grant_id"] == given_["grant_id"]
    assert (revoked.kind, revoked.body["grant_id"]) == ("grant.revoked", given_["grant_id"])


def test_the_file_of_persistent_grants_is_the_users_alone(book):
    give(book)
    file = book.folder / "grants.json"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o622)
    assert counting(book) == []
    assert "others may write it" in book.problem


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "[" * 10_000,
        "\ud800".encode("utf-8", "surrogatepass"),
        '{"schema": "grants/2", "grants": []}',
        '{"schema": "grants/1", "grants": {}}',
        '{"schema": "grants/1", "grants": [1]}',
        '{"schema": "grants/1", "grants": [{"grant_id": "grant_1"}]}',
        (
            '{"schema": "grants/1", "grants": [{"grant_id": "grant_1", "capability": "no",'
            ' "subject": "agent:default", "expires_at": "2099-01-01T00:00:00Z", "issued_at": "x"}]}'
        ),
        (
            '{"schema": "grants/1", "grants": [{"grant_id": "grant_1", "capability": "fs.read:/x",'
            ' "subject": "everybody", "expires_at": "2099-01-01T00:00:00Z", "issued_at": "x"}]}'
        ),
        (
            '{"schema": "grants/1", "grants": [{"grant_id": "grant_1", "capability": "fs.read:/x",'
            ' "subject": "agent:default", "expires_at": null, "issued_at": "x"}]}'
        ),
    ],
)
def test_a_damaged_file_grants_nothing_and_is_kept_when_the_next_grant_is_issued(book, content):
    data = content if isinstance(content, bytes) else content.encode()
    book.folder.mkdir(parents=True, exist_ok=True)
    file = book.folder / "grants.json"
    file.write_bytes(data)
    assert counting(book) == []
    assert str(file) in book.problem
    give(book)
    assert len(counting(book)) == 1
    assert book.folder.joinpath("grants.json.damaged-1").read_bytes() == data


def test_an_expiry_that_nobody_can_read_is_over(book):
    given_ = give(book)
    file = book.folder / "grants.json"
    file.write_text(file.read_text().replace(given_["expires_at"], "some day"))
    assert counting(book) == []


def test_a_grant_that_cannot_be_written_is_not_given(book, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    give(book)
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        give(book)
    assert len(counting(book)) == 1
    assert [path.name for path in book.folder.iterdir() if path.is_file()] == ["grants.json"]


@pytest.mark.parametrize("capability", ["", "fs.read", "fs.fly:/x", "fs.read:${run}/**"])
def test_an_unusable_capability_is_refused(book, capability):
    with pytest.raises(CapabilityError):
        book.issue(Wish(capability, "persistent"), {"workspace": "/p"}, NOW)
    assert book.active(NOW) == []


def test_a_subject_that_is_no_principal_is_refused(book):
    with pytest.raises(UsageError, match="no principal"):
        give(book, subject="everybody")


@pytest.mark.parametrize("text", ["", "none", "grant_", "last"])
def test_revoking_what_is_not_there_or_is_not_one_says_so(book, text):
    if text == "grant_":
        for _ in range(2):
            give(book)
    with pytest.raises(UnknownId):
        book.revoke(text, NOW)


@pytest.mark.parametrize(
    ("text", "why"), [("", "names no grant"), ("x", "names no grant"), ("grant_", "names several")]
)
def test_a_text_that_names_no_single_grant_is_told_which_of_both(book, text, why):
    for _ in range(2):
        give(book)
    with pytest.raises(UnknownId, match=why) as caught:
        book.revoke(text, NOW)
    assert (caught.value.place, caught.value.fix) == (text, "clawhive grants list")
    assert len(counting(book)) == 2


def test_the_last_grant_is_the_last_that_a_person_gave_and_not_a_runs(book):
    from clawhive_core.events.grants import issued
    from tests.harness import grant

    given_ = give(book, "session", "s")
    taken = derived(book.counting("s", DEFAULT_AGENT, NOW), "task_1", str(DEFAULT_AGENT))
    started = grant("fs.read:/x", "starter")
    book.log.append_now(issued([*taken, started], task_id="task_1"))
    assert book.revoke("last", NOW) == given_["grant_id"]
    assert [row["grant_id"] for row in book.active(NOW)] == [started.grant_id]
    with pytest.raises(UnknownId):
        book.revoke("last", NOW)


def test_a_grant_by_an_approvals_wider_scope_is_one_that_a_person_gave(book):
    from clawhive_core.events.grants import issued
    from tests.harness import grant

    given_ = grant("fs.write:/x", "approval")
    book.log.append_now(issued([given_], task_id="task_1"))
    assert book.revoke("last", NOW) == given_.grant_id


@pytest.mark.parametrize(
    ("scope", "named"), [("task", ("task_1", None)), ("session", (None, "conv_1"))]
)
def test_the_log_files_a_grant_under_its_task_or_its_session(book, scope, named):
    give(book, scope, "task_1" if scope == "task" else "conv_1")
    (stored,) = book.log.events()
    assert (stored.event.task_id, stored.event.conversation_id) == named


@pytest.mark.parametrize("scope", ["task", "session"])
def test_a_grant_that_the_log_must_hold_is_refused_where_there_is_none(book, scope):
    with pytest.raises(UsageError, match="no log yet") as caught:
        give(GrantBook(book.folder), scope, "x")
    assert caught.value.fix
    assert GrantBook(book.folder).active(NOW) == []


def test_revoking_a_sessions_grant_leaves_the_file_of_persistent_ones_alone(book):
    give(book, "session", "s")
    book.revoke("last", NOW)
    assert not (book.folder / "grants.json").exists()
    book.folder.mkdir(parents=True, exist_ok=True)
    file = book.folder / "grants.json"
    file.write_text("{")
    give(book, "session", "s")
    book.revoke("last", NOW)
    assert [path.name for path in book.folder.iterdir() if path.is_file()] == ["grants.json"]


@pytest.mark.parametrize("others", [0, 1])
def test_a_grant_that_somebody_else_revokes_at_the_same_moment_is_gone(book, monkeypatch, others):
    import fcntl

    for _ in range(others):
        give(book)
    given_ = give(book)
    alone = GrantBook(book.folder)
    file = book.folder / "grants.json"
    lock = fcntl.flock

    def after_the_other(handle, how):
        """The other process held the lock: what it left is what is found now."""
        lock(handle, how)
        stored = json.loads(file.read_text())
        stored["grants"] = [
            row for row in stored["grants"] if row["grant_id"] != given_["grant_id"]
        ]
        file.write_text(json.dumps(stored))

    monkeypatch.setattr("fcntl.flock", after_the_other)
    with pytest.raises(UnknownId, match="is gone"):
        alone.revoke(given_["grant_id"], NOW)
    assert len(counting(book)) == others


def test_a_grant_that_expires_during_a_run_counts_no_longer():
    from clawhive_core.capabilities import parse
    from clawhive_core.model.grants import CapabilityGrant
    from clawhive_core.policy.rules import Rules
    from clawhive_core.policy.terms import written

    def held(end):
        return CapabilityGrant("g" + end, "fs.read:/x", "a", "task", "t", "user", expires_at=end)

    later = NOW + timedelta(hours=1)
    rules = Rules([held(written(NOW)), held(written(later))])
    for moment, left in ((NOW - timedelta(1), 2), (NOW, 1), (NOW, 1), (later, 0), (later, 0)):
        rules.expire(written(moment))
        assert len(rules.grants) == left
        verdict = rules.authority(parse("fs.read:/x")).verdict
        assert verdict == ("allow" if left else "deny")


@given(st.integers(1, 500), st.sampled_from("smhd"))
def test_a_duration_is_a_number_and_a_unit(number, unit):
    seconds = {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit]
    assert duration(f"{number}{unit}") == timedelta(seconds=number * seconds)


@pytest.mark.parametrize("text", ["", "2", "h", "0s", "-1h", "1.5h", "2 h", "999999999w", "1y"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(UsageError) as caught:
        duration(text)
    assert caught.value.place == "--expires"


@given(st.datetimes(timezones=st.just(UTC)), st.timedeltas(max_value=timedelta(days=3000)))
def test_a_grant_lives_until_its_expiry_and_not_after(moment, life):
    from clawhive_core.model.grants import CapabilityGrant
    from clawhive_core.policy.terms import written

    try:
        end = moment + life
    except OverflowError:
        return
    grant = CapabilityGrant(
        "g", "fs.read:/x", "agent:default", "persistent", "", "user", expires_at=written(end)
    )
    assert is_live(grant, moment) == (end > moment)


async def test_a_session_grant_lifts_the_ask_of_a_guarded_tool_in_runs_of_that_session():
    from tests.harness import Provider, echo

    provider = Provider().offer("demo.keep", echo, risk="guarded", effects={"path": "fs.write"})
    async with memory_hive(providers=[provider]) as hive:
        book = GrantBook(hive.config.user_dir, hive.log)
        wish = Wish("fs.write:${workspace}/docs/**", "session", "mine")
        book.issue(wish, {"workspace": str(hive.root)}, datetime.now(UTC))
        asked = {"path": "docs/a.md"}

        async def call(session):
            options = RunOptions(session=session, approve="deny")
            return (await hive.call("demo.keep", asked, options))[1]

        assert isinstance(await call("other"), Refusal)
        assert not isinstance(await call("mine"), Refusal)
        book.revoke("last", datetime.now(UTC))
        assert isinstance(await call("mine"), Refusal)
    assert len(provider.calls) == 1


def test_an_expiry_in_another_spelling_ends_a_right_during_the_run_too():
    from clawhive_core.model.grants import CapabilityGrant

    spelt = CapabilityGrant(
        "g", "fs.read:/x", "a", "persistent", "", "user", expires_at="2026-05-01T14:00:00+02:00"
    )
    (taken,) = derived([spelt], "t", "a")
    assert taken.expires_at == "2026-05-01T12:00:00.000000Z"


async def test_no_persistent_grant_covers_an_unsafe_tool():
    from tests.harness import Provider, echo

    provider = Provider().offer("demo.wipe", echo, risk="unsafe", effects={"path": "fs.write"})
    async with memory_hive(providers=[provider]) as hive:
        book = GrantBook(hive.config.user_dir, hive.log)
        for pattern in ("fs.write:**", "tool.call:**"):
            book.issue(Wish(pattern, "persistent"), {}, datetime.now(UTC))
        _, outcome = await hive.call("demo.wipe", {"path": "x"}, RunOptions(approve="deny"))
    assert isinstance(outcome, Refusal)
    assert provider.calls == []


async def test_the_skill_of_a_task_bounds_what_a_person_gave_for_good():
    from clawhive_core.policy.boundary import within

    async with memory_hive() as hive:
        book = GrantBook(hive.config.user_dir, hive.log)
        book.issue(Wish("fs.write:/**", "persistent"), {}, datetime.now(UTC))
        taken = derived(book.counting("s", DEFAULT_AGENT, datetime.now(UTC)), "t", "agent:default")
        (cut,) = within(taken, ["fs.write:/srv/out/**"], {})
    assert (cut.capability, cut.parent_grant) == ("fs.write:/srv/out/**", taken[0].parent_grant)


async def test_a_hive_says_why_persistent_grants_do_not_count(tmp_path):
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    tmp_path.joinpath("clawhive").mkdir()
    tmp_path.joinpath("clawhive", "grants.json").write_text("{")
    (tmp_path / "p").mkdir()
    async with Hive.open(tmp_path / "p", env=env) as hive:
        assert any("nothing in it is granted" in line for line in hive.notes)
