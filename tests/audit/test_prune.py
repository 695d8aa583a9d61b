import pytest

from clawhive_core.model.events import Blob, Event
from clawhive_core.storage.sqlite import pruning
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.pruning import vacuum
from tests.harness import verify

D = "2026-06-01T00:00:00.000000Z"
OLD, NEW = "2026-05-01T00:00:00.000000Z", "2026-07-01T00:00:00.000000Z"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "hive.db"


@pytest.fixture
def log(path):
    log = EventLog.open(path)
    yield log
    log.close()


def put(log, ts, *texts, run=None, kind="a", **more):
    log._now = lambda: ts
    body = {f"o{n}": Blob(text * 300) for n, text in enumerate(texts)}
    log.append_now(Event(kind, body, run_id=run, **more))


def left(log):
    rows = log.read("SELECT substr(data, 1, 2) FROM blobs WHERE data IS NOT NULL ORDER BY 1")
    return [row[0].decode() for row in rows]


def size(path):
    return sum(file.stat().st_size for file in path.parent.glob("hive.db*"))


def test_bodies_that_only_older_events_refer_to_become_tombstones(log, path, tmp_path):
    put(log, OLD, "A1", "B1")
    put(log, NEW, "B1", "C1")
    found = log.prune(D)
    assert left(log) == ["B1", "C1"]
    assert (found.bodies, found.bytes) == (1, 600)
    (event,) = [s for s in log.events() if s.event.kind == "bodies.pruned"]
    assert event.event.body == {"before": D, "bodies": 1, "bytes": 600}
    report = verify(path, tmp_path / "user")
    assert (report.ok, report.pruned) == (True, 1)
    assert "1 body was pruned: only the digests are left" in report.lines()


def test_a_run_counts_as_a_whole_from_its_end(log):
    put(log, OLD, "A1", run="over")
    put(log, OLD, kind="run.end", run="over", status="succeeded")
    put(log, OLD, "B1", run="ended late")
    put(log, NEW, kind="run.end", run="ended late", status="succeeded")
    put(log, OLD, "C1", run="waits")
    found = log.prune(D)
    assert left(log) == ["B1", "C1"]
    assert found.waiting_runs == 2


def test_a_value_that_a_tool_keeps_stays_and_one_that_it_forgot_goes(log):
    def value(kind, key, text=None):
        log._now = lambda: OLD
        body = {"user_id": "u", "namespace": "n", "key": key}
        log.append_now(Event(kind, body if text is None else {**body, "value": Blob(text * 300)}))

    value("store.put", "kept", "A1")
    value("store.put", "changed", "B1")
    value("store.put", "changed", "C1")
    value("store.put", "forgotten", "D1")
    value("store.delete", "forgotten")
    assert log.prune(D).bodies == 2
    assert left(log) == ["A1", "C1"]


def test_a_dry_run_says_what_would_go_and_changes_nothing(log):
    put(log, OLD, "A1", "B1")
    rows = len(list(log.events()))
    assert log.prune(D, dry_run=True).bodies == 2
    assert left(log) == ["A1", "B1"]
    assert len(list(log.events())) == rows


def test_pruning_again_finds_nothing(log):
    put(log, OLD, "A1")
    assert log.prune(D).bodies == 1
    assert log.prune(D).bodies == 0
    assert [s.event.kind for s in log.events()].count("bodies.pruned") == 1


def test_a_pruned_content_that_is_written_again_is_there_again(log, path, tmp_path):
    put(log, OLD, "A1")
    log.prune(D)
    put(log, NEW, "A1")
    assert left(log) == ["A1"]
    assert verify(path, tmp_path / "user").pruned == 0


def test_what_an_event_needs_that_was_written_meanwhile_stays(log, monkeypatch):
    put(log, OLD, "A1", "B1", "C1")
    real = pruning._present_bodies

    def slow(readers, bodies):
        found = real(readers, bodies)
        put(log, NEW, "B1")
        return found

    monkeypatch.setattr(pruning, "_present_bodies", slow)
    found = log.prune(D)
    assert left(log) == ["B1"]
    assert found.bodies == 2


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_prune_that_is_broken_off_leaves_every_body_whole_or_gone_and_recorded(
    log, path, tmp_path, monkeypatch, batches
):
    monkeypatch.setattr(pruning, "BATCH", 2)
    put(log, OLD, "A1", "B1", "C1", "D1", "E1")
    real, made = pruning._tombstones, []

    def breaking(*arguments):
        def remove(connection):
            real(*arguments)(connection)
            made.append(1)
            if len(made) > batches:
                raise OSError("the disk is gone")

        return remove

    monkeypatch.setattr(pruning, "_tombstones", breaking)
    with pytest.raises(OSError, match="the disk is gone"):
        log.prune(D)
    assert len(left(log)) == 5 - 2 * batches
    events = [s.event.body["bodies"] for s in log.events() if s.event.kind == "bodies.pruned"]
    assert events == [2] * batches
    assert verify(path, tmp_path / "user").ok


def test_the_space_is_free_then_and_vacuum_gives_it_back(log, path):
    for number in range(200):
        put(log, OLD, f"{number:04}" * 20)
    log.prune(D)
    assert log.free_bytes() > 1_000_000
    log.close()
    before = size(path)
    vacuum(path)
    assert size(path) < before - 1_000_000
    again = EventLog.open(path)
    assert again.free_bytes() == 0
    assert len(list(again.events())) == 201
    again.append_now(Event("after", {}))
    again.close()


def test_what_was_pruned_is_nowhere_in_the_files_after_a_vacuum(log, path):
    put(log, OLD, "secret text ")
    log.prune(D)
    log.close()
    vacuum(path)
    found = [file for file in path.parent.iterdir() if b"secret text" in file.read_bytes()]
    assert found == []


def test_a_tombstone_that_no_prune_made_is_a_missing_body(log, path, tmp_path):
    put(log, OLD, "A1")
    put(log, NEW, "B1")
    log.prune(D)
    log.append_now(effect=lambda c: c.execute("UPDATE blobs SET data = NULL") and None)
    report = verify(path, tmp_path / "user")
    assert [(p.code, p.seq) for p in report.problems] == [("missing_body", 2)]
