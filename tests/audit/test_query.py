import pytest

from clawhive_core.audit.query import find_ids, query
from clawhive_core.errors import UnknownId
from clawhive_core.model.events import Blob, Event
from clawhive_core.protocols.ledger import EventsWhere
from clawhive_core.storage.sqlite.log import EventLog

RUN, OTHER = "run_aa11000000000000", "run_aa22000000000000"


@pytest.fixture
def log(tmp_path):
    log = EventLog.open(tmp_path / "hive.db")
    log.append_now(
        Event("run.start", {"title": "one"}, run_id=RUN, trace_id="trace_1", task_id="task_1"),
        Event("invocation.start", {"decision": "allow"}, run_id=RUN, step_id=f"{RUN}/r1"),
        Event("invocation.start", {"decision": "ask"}, run_id=RUN, step_id=f"{RUN}/r10"),
        Event("invocation.refused", {"decision": "deny"}, run_id=OTHER, tool="file.read"),
        Event("approval.requested", {"input_preview": 'Say "Grüße"\n'}, principal="user:ana"),
        Event("approval.resolved", {"o": Blob("long " * 200 + "Nadel")}, status="denied"),
        Event("approvals", {"o": Blob({"deep": ["x" * 600, 'a "quoted" Nagel']})}),
    )
    yield log
    log.close()


def seqs(log, limit=100, text=None, **wanted):
    return [event.seq for event in query(log, EventsWhere(**wanted), limit, text=text).events]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7]),
        ({"run_id": RUN}, [1, 2, 3]),
        ({"trace_id": "trace_1"}, [1]),
        ({"task_id": "task_1"}, [1]),
        ({"step_id": f"{RUN}/r1"}, [2]),
        ({"tool": "file.read"}, [4]),
        ({"tool": "file"}, []),
        ({"principal": "user:ana"}, [5]),
        ({"kind": "approval.requested"}, [5]),
        ({"kind": "approval"}, [5, 6]),
        ({"status": "denied"}, [6]),
        ({"decision": "deny"}, [4]),
        ({"run_id": RUN, "decision": "ask"}, [3]),
        ({"run_id": OTHER, "decision": "ask"}, []),
        ({"text": 'say "grüße"\n'}, [5]),
        ({"text": "NADEL"}, [6]),
        ({"text": '"quoted" NAGEL'}, [7]),
        ({"text": "not there"}, []),
        ({"text": "%"}, []),
        ({"tool": "x' OR '1'='1"}, []),
    ],
    ids=str,
)
@pytest.mark.promise("P-084")
def test_each_filter_lets_through_what_it_says_and_all_of_them_must_hold(log, wanted, found):
    assert seqs(log, **wanted) == found


def test_times_bound_the_answer_from_the_first_and_before_the_second(log, monkeypatch):
    moments = iter([f"2026-01-01T00:00:0{n}.000000Z" for n in range(3)])
    log._now = lambda: next(moments)
    for name in "abc":
        log.append_now(Event(name, {}))
    bounds = {"since": "2026-01-01T00:00:01.000000Z", "until": "2026-01-01T00:00:02.000000Z"}
    assert [each.event.kind for each in query(log, EventsWhere(**bounds)).events] == ["b"]


def test_the_newest_are_kept_and_it_says_when_older_ones_are_left_out(log):
    assert seqs(log, limit=2) == [6, 7]
    assert query(log, EventsWhere(), 6).truncated
    assert not query(log, EventsWhere(), 7).truncated


def test_more_than_a_page_is_found(log):
    log.append_now(*(Event("many", {"t": f"No. {number}."}) for number in range(1200)))
    assert len(query(log, EventsWhere(kind="many"), 5000).events) == 1200
    assert seqs(log, text="no. 0.") == [8]


def test_text_is_not_found_in_a_body_that_was_pruned(log):
    log.append_now(effect=lambda c: c.execute("UPDATE blobs SET data = NULL") and None)
    assert seqs(log, text="nadel") == []


def test_secrets_are_not_found_because_they_are_not_there(log):
    log.redactor.add("hunter22")
    log.append_now(Event("a", {"text": "hunter22", "o": Blob("hunter22 " * 100)}))
    assert seqs(log, text="hunter22") == []
    assert seqs(log, text="[redacted]") == [8]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"run_id": "aa11"}, {"run_id": RUN}),
        ({"run_id": "run_aa2"}, {"run_id": OTHER}),
        ({"run_id": "last"}, {"run_id": OTHER}),
        ({"trace_id": "1"}, {"trace_id": "trace_1"}),
        ({"task_id": "last"}, {"task_id": "task_1"}),
        ({"run_id": "aa11", "step_id": "r1"}, {"run_id": RUN, "step_id": f"{RUN}/r1"}),
        ({"run_id": RUN, "step_id": "last"}, {"run_id": RUN, "step_id": f"{RUN}/r10"}),
        ({"step_id": f"{RUN}/r10"}, {"step_id": f"{RUN}/r10"}),
    ],
    ids=str,
)
def test_ids_are_found_by_a_unique_beginning_or_last(log, given, found):
    nothing = dict.fromkeys(("run_id", "trace_id", "task_id", "step_id"))
    assert find_ids(log, given) == {**nothing, **found}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"run_id": "aa"}, "names several runs"),
        ({"run_id": "zz"}, "names no run"),
        ({"run_id": ""}, "names several runs"),
        ({"run_id": OTHER, "step_id": "last"}, "names no step"),
        ({"run_id": "%"}, "names no run"),
        ({"trace_id": "trace_1x"}, "names no trace"),
    ],
    ids=str,
)
def test_an_id_that_names_nothing_or_several_is_refused(log, given, said):
    with pytest.raises(UnknownId, match=said):
        find_ids(log, given)
