import anyio
import pytest

from clawhive_core.audit.query import line, tail
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.storage.sqlite.log import EventLog


@pytest.fixture
def log(tmp_path):
    log = EventLog.open(tmp_path / "hive.db")
    yield log
    log.close()


def stored(kind, body, **columns):
    event = Event(kind, body, **columns)
    return StoredEvent(57, "2026-11-22T08:09:10.123456Z", event, "p", "h")


def test_the_last_events_come_in_order(log):
    log.append_now(*(Event("a", {}, run_id=f"run_{n % 2}") for n in range(30)))
    assert [event.seq for event in tail(log, 3)] == [28, 29, 30]
    assert [event.seq for event in tail(log, 3, run_id="run_1")] == [26, 28, 30]
    assert [event.seq for event in tail(log, 100)] == list(range(1, 31))
    assert tail(log, 0) == tail(log, -1) == []


async def test_following_yields_what_is_appended_later(log):
    seen = []
    log.append_now(Event("old", {}), Event("first", {}))

    async def collect(scope):
        async for event in log.follow(1):
            seen.append(event.event.kind)
            if len(seen) == 3:
                scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(collect, group.cancel_scope)
        await log.append(Event("second", {}))
        await log.append(Event("third", {}))
    assert seen == ["first", "second", "third"]


def test_a_line_tells_time_number_kind_run_tool_status_and_preview():
    event = stored(
        "invocation.end",
        {"output_preview": "three files", "error": None},
        run_id="run_4f1c09d2ab37e5c8",
        tool="file.list",
        status="succeeded",
    )
    assert line(event) == (
        "08:09:10.123     57 invocation.end     4f1c09d2 file.list succeeded three files"
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"code": "timeout", "message": "too slow"}}, "timeout: too slow"),
        ({"refusal": {"error": "denied", "message": "no"}, "input_preview": "x"}, "denied: no"),
        ({"input_preview": "x", "output_preview": ""}, "x"),
        ({"title": 5, "reason": "r"}, "r"),
        ({}, "-"),
    ],
)
def test_a_line_says_what_is_most_worth_reading(body, said):
    assert line(stored("a", body)).endswith(said)


def test_a_line_cannot_steer_the_terminal():
    evil = "\x1b[2J\x9b1m\u202e\r\nx\x00"
    text = line(stored(f"k{evil}", {"output_preview": evil}, tool=evil, run_id=evil, status=evil))
    assert text.isprintable()


def test_a_line_is_cut_at_its_width():
    assert len(line(stored("a", {"output_preview": "x" * 1000}), width=80)) == 80
