"""The hive for programs without async."""

import inspect
import signal
import threading

import anyio
import pytest

from clawhive_core import Hive, ToolMeta
from clawhive_core.catalog.local import ToolsFacade
from clawhive_core.errors import ClawHiveError, ConfigError, UsageError
from clawhive_core.hive.hive import SyncHive
from clawhive_core.hive.spawned import SubAgent
from clawhive_core.hive.sync import SyncSession, SyncSubAgent, SyncTools
from clawhive_core.model.refusal import Refusal
from clawhive_core.runs.session import Session

OPEN = {"type": "object"}
SNIPPET = {"language": "python", "code": "print(6 * 7)"}


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    return {"path": root, "env": env}


def local(name, **facts):
    return ToolMeta(name, "A tool.", OPEN, "local", risk="safe", **facts)


@pytest.mark.promise("P-077")
def test_a_program_without_async_runs_calls_and_looks_back(project):
    with Hive.open_sync(**project) as hive:
        run = hive.run(task="run_code_snippet", input=SNIPPET)
        assert (run["status"], run["output"].strip()) == ("succeeded", "42")
        _, outcome = hive.call("skill_open", {"name": "code"})
        assert outcome.structured["name"] == "code"
        assert hive.replay(run["run_id"]).ok
        assert hive.rules()["principal"] == "agent:default"
        assert hive.explain("file.read", {"path": "x"})["verdict"] == "allow"
        assert hive.check_skills().ok
        assert hive.root == project["path"]
        assert hive.config.root == hive.root
        assert hive.notes == ()


BLOCKING = {
    Hive: (SyncHive, {"working"}),
    Session: (SyncSession, {"result"}),
    SubAgent: (SyncSubAgent, set()),
    ToolsFacade: (SyncTools, {"open"}),
}


@pytest.mark.parametrize("kind", BLOCKING)
def test_every_method_has_a_blocking_one(kind):
    blocking, own = BLOCKING[kind]
    public = {
        name
        for name, each in vars(kind).items()
        if not name.startswith("_") and inspect.isfunction(each)
    }
    assert public - own - set(vars(blocking)) == set()


def test_a_derived_method_is_its_original_with_another_end(project):
    with Hive.open_sync(**project) as hive:
        for name in ("run", "call", "explain", "replay", "resume", "edited", "rules"):
            ours, theirs = getattr(hive, name), getattr(hive._inner, name)
            assert inspect.signature(ours) == inspect.signature(theirs), name
            assert ours.__doc__ == theirs.__doc__
            assert not inspect.iscoroutinefunction(ours)


def test_a_session_shares_a_run_and_answers_refusals(project):
    with Hive.open_sync(**project) as hive:
        with hive.session(principal="client:mcp/cursor") as session:
            assert session.call("skill_open", {"name": "docs"})["name"] == "docs"
            assert isinstance(session.invoke("no.tool", {}), Refusal)
            run_id, conversation = session.run_id, session.conversation_id
        events = []
        for stored in hive.events():
            events.append(stored.event)
            if stored.event.kind == "run.end":
                break
    assert {event.run_id for event in events} == {run_id}
    assert conversation in {event.conversation_id for event in events}
    assert events[-1].status == "failed"


def test_a_run_that_waits_is_answered_and_resumed(project):
    readme = project["path"] / "a.md"
    readme.write_text("one two")
    given = {"path": "a.md", "find": "one", "replace": "1"}
    with Hive.open_sync(**project) as hive:
        run = hive.run(task="edit_docs", input=given)
        assert run["status"] == "waiting_approval"
        (approval,) = hive.approvals.pending()
        hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")
        assert hive.resume(run["run_id"])["status"] == "succeeded"
    assert readme.read_text() == "1 two"


def test_tools_are_added_and_removed_while_it_runs(project):
    def zone():
        return "UTC"

    with Hive.open_sync(**project) as hive:
        before = hive.tools.add(local("clock.zone"), zone)
        assert hive.call("clock.zone", {})[1].output == "UTC"
        assert hive.tools.remove("clock.zone") != before
        assert hive.call("clock.zone", {})[1].error == "tool_not_found"


def test_errors_come_as_they_are(project):
    with Hive.open_sync(**project) as hive, pytest.raises(UsageError) as caught:
        hive.run(task="no_such_task")
    assert caught.value.code == "unknown_task_type"
    project["path"].joinpath("clawhive.toml").write_text("[")
    with pytest.raises(ConfigError), Hive.open_sync(**project):
        pytest.fail("it opened")


@pytest.fixture
def _interruptible():
    """Let SIGINT interrupt; a shell starts what is in its background with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
@pytest.mark.parametrize("in_session", [False, True])
def test_an_interrupted_caller_cancels_the_work_and_that_is_recorded(project, in_session):
    async def hang():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        await anyio.sleep_forever()

    def work(hive):
        if in_session:
            with hive.session() as session:
                session.call("clock.hang", {})
        hive.call("clock.hang", {})

    with Hive.open_sync(**project) as hive:
        hive.tools.add(local("clock.hang"), hang)
        with pytest.raises(KeyboardInterrupt):
            work(hive)
        statuses = [stored.event.status for stored in hive._inner.log.events()]
    assert statuses[-1] == "cancelled"


def test_whoever_still_waits_when_it_closes_is_told(project):
    heard, told, begun, followed = [], [], threading.Event(), threading.Event()

    async def hang():
        begun.set()
        await anyio.sleep_forever()

    def follow(hive):
        for stored in hive.events():
            heard.append(stored.event.kind)
            if stored.event.kind == "run.start":
                followed.set()

    def wait(hive):
        try:
            hive.call("clock.hang", {})
        except ClawHiveError as error:
            told.append(error.code)

    with Hive.open_sync(**project) as hive:
        hive.tools.add(local("clock.hang"), hang)
        threads = [threading.Thread(target=each, args=(hive,)) for each in (follow, wait)]
        for thread in threads:
            thread.start()
        assert begun.wait(300)
        assert followed.wait(300)
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    assert told == ["cancelled"]
    assert "run.start" in heard


def test_a_closed_hive_takes_nothing_on(project):
    with Hive.open_sync(**project) as hive:
        stream = hive.events()
        hive.call("skill_open", {"name": "code"})
        next(stream)
    stream.close()
    with pytest.raises(ClawHiveError, match="closed"):
        hive.call("skill_open", {"name": "code"})
    with pytest.raises(ClawHiveError, match="closed"), hive.session():
        pytest.fail("it opened")


async def test_it_is_refused_where_an_event_loop_runs(project):
    with pytest.raises(UsageError) as caught, Hive.open_sync(**project):
        pytest.fail("it opened")
    assert caught.value.code == "inside_event_loop"
