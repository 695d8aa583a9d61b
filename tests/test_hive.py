"""The hive as programs use it."""

import anyio
import pytest

from clawhive_core import Hive, ToolMeta, ToolResult
from clawhive_core.errors import ConfigError, LogWriteFailed, PluginError
from clawhive_core.model.refusal import Refusal
from clawhive_core.testing import ScriptedModel, memory_hive
from tests.harness import user_of


class One:
    """A provider of one tool."""

    def __init__(self, name="one.tool", provider_id="one", answer="yes", **meta):
        self.provider_id = provider_id
        facts = {"risk": "safe", **meta}
        self.meta = ToolMeta(name, "One.", {"type": "object"}, provider_id, **facts)
        self.answer = answer
        self.closed = 0

    async def list_tools(self):
        return [self.meta]

    async def invoke(self, tool_name, input, ctx):
        return ToolResult(ctx.tool_call_id, self.answer)

    async def close(self):
        self.closed += 1


@pytest.fixture
def env(tmp_path):
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "home/.config")}


async def test_a_hive_opens_a_folder_or_its_file_and_closes_everything(tmp_path, env):
    file = tmp_path / "clawhive.toml"
    file.write_text("[loop]\nmax_tool_rounds = 3\n")
    for path in (tmp_path, file):
        async with Hive.open(path, env=env) as hive:
            assert hive.root == tmp_path
            assert hive.config.get("loop.max_tool_rounds") == 3
    async with Hive.open(tmp_path, env=env, flags={"loop.max_tool_rounds": 5}) as hive:
        assert hive.config.get("loop.max_tool_rounds") == 5


async def test_a_broken_configuration_raises_on_entering(tmp_path, env):
    tmp_path.joinpath("clawhive.toml").write_text("[")
    with pytest.raises(ConfigError):
        async with Hive.open(tmp_path, env=env):
            pytest.fail("it opened")


async def test_providers_and_adapters_are_closed_once_also_after_an_error():
    provider = One()
    closed = []

    class Model(ScriptedModel):
        async def close(self):
            closed.append(1)

    async def fail():
        async with memory_hive(providers=[provider], adapters=[Model(["x"])]) as hive:
            await hive.run("x", model="scripted:x")
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        await fail()
    assert (provider.closed, closed) == (1, [1])


async def test_an_adapter_that_nobody_asked_is_not_closed():
    closed = []

    class Model(ScriptedModel):
        async def close(self):
            closed.append(1)

    async with memory_hive(adapters=[Model([])]):
        pass
    assert closed == []


async def test_nothing_is_left_of_a_memory_hive():
    async with memory_hive(providers=[One()]) as hive:
        root = hive.root
        await hive.call("one.tool", {})
        assert (root / ".clawhive" / "hive.db").is_file()
    assert not root.parent.exists()


async def test_a_memory_hive_loads_no_installed_plugin_unless_it_is_named():
    async with memory_hive() as hive:
        providers = {tool.meta.provider_id for tool in hive.catalog.current}
        assert "sandbox" in providers
        assert providers.isdisjoint({"builtin", "stub"})
    async with memory_hive(settings={"plugins.enabled": ["builtin"]}) as hive:
        assert hive.catalog.current.find("file.read") is not None


async def test_a_call_is_a_run_of_its_own_named_after_its_tool():
    async with memory_hive(providers=[One()]) as hive:
        run_id, outcome = await hive.call("one.tool", {})
        assert outcome.output == "yes"
        (row,) = hive.log.read("SELECT run_id, title, status, principal FROM v_runs")
    assert tuple(row) == (run_id, "one.tool", "succeeded", "user:local")


@pytest.mark.promise("P-048")
async def test_a_session_answers_values_or_refusals_as_dicts():
    async with memory_hive(providers=[One()]) as hive:
        async with hive.session(principal="client:mcp/cursor") as session:
            assert await session.call("one.tool", {}) == "yes"
            refused = await session.call("none.tool", {})
            assert refused["error"] == "tool_not_found"
            assert isinstance(await session.invoke("none.tool", {}), Refusal)
            run_id, conversation = session.run_id, session.conversation_id
        events = list(hive.log.events(run_id=run_id))
    calls = [stored.event for stored in events if stored.event.kind.startswith("invocation.")]
    assert {event.principal for event in calls} == {"client:mcp/cursor"}
    assert {event.conversation_id for event in calls} == {conversation}
    assert events[-1].event.status == "failed"


async def test_a_principal_that_is_none_is_refused():
    async with memory_hive() as hive:
        with pytest.raises(ValueError, match="no principal"):
            async with hive.session(principal="nobody"):
                pytest.fail("it opened")


async def test_calls_of_one_session_side_by_side_are_steps_of_one_run():
    async with memory_hive(providers=[One()]) as hive, hive.session() as session:
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(session.call, "one.tool", {})
        rows = hive.log.read("SELECT count(DISTINCT step_id) FROM events WHERE kind LIKE 'invo%'")
        assert rows[0][0] == 20


async def test_a_cancelled_session_is_recorded_as_cancelled():
    async with memory_hive(providers=[One()]) as hive:
        with anyio.CancelScope() as scope:
            async with hive.session() as session:
                await session.call("one.tool", {})
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        assert hive.log.read("SELECT status FROM runs")[0][0] == "cancelled"


async def test_events_are_heard_as_they_are_committed():
    heard = []
    async with memory_hive(providers=[One()]) as hive:

        async def listen():
            async for stored in hive.events():
                heard.append(stored.event.kind)
                if stored.event.kind == "run.end":
                    return

        with anyio.fail_after(300):
            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                await hive.call("one.tool", {})
    assert heard[0] == "run.start"
    assert heard[-1] == "run.end"


@pytest.mark.promise("P-268")
async def test_whoever_follows_a_hive_hears_other_processes_and_its_end(monkeypatch):
    monkeypatch.setattr("clawhive_core.events.following.FOLLOW_SECONDS", 0.01)
    heard = set()
    async with memory_hive(providers=[One()]) as hive:

        async def listen():
            async for stored in hive.events():
                heard.add(stored.event.run_id)

        with anyio.fail_after(300):
            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                await anyio.lowlevel.checkpoint()
                async with Hive.open(hive.root, env=user_of(hive)) as other:
                    run_id, _ = await other.call("file.list", {})
                while run_id not in heard:
                    await anyio.lowlevel.checkpoint()
                await hive._close()
    assert run_id in heard


@pytest.mark.parametrize(("order", "winner"), [(["one", "two"], "one"), (["two", "one"], "two")])
@pytest.mark.promise("P-031")
async def test_the_preferred_order_decides_who_serves_a_name(order, winner):
    settings = {"tools.preferred_provider_order": order}
    providers = [One("any.tool", "one", "from one"), One("any.tool", "two", "from two")]
    async with memory_hive(providers=providers, settings=settings) as hive:
        _, outcome = await hive.call("any.tool", {})
        (shadow,) = hive.catalog.current.shadowed
    assert outcome.output == f"from {winner}"
    assert (shadow.winner, shadow.provider_id) == (winner, {"one": "two", "two": "one"}[winner])


async def test_a_provider_that_cannot_list_its_tools_is_noted_and_the_rest_works():
    class Broken(One):
        async def list_tools(self):
            raise OSError("no connection")

    async with memory_hive(providers=[Broken(provider_id="broken"), One()]) as hive:
        _, outcome = await hive.call("one.tool", {})
        assert outcome.output == "yes"
        assert any("broken" in note for note in hive.notes)


@pytest.mark.promise("P-017")
async def test_a_policy_check_is_asked_and_only_tightens():
    class Never:
        name = "never"

        async def check(self, request):
            from clawhive_core import CheckResult

            return CheckResult("deny", "because")

    async with memory_hive(providers=[One()], checks=[Never()]) as hive:
        _, outcome = await hive.call("one.tool", {})
    assert outcome.error == "denied"


@pytest.mark.promise("P-017")
async def test_a_policy_check_whose_plugin_failed_stops_every_effect(tmp_path, env):
    from clawhive_core.plugins.manager import PluginManager, PluginOptions
    from clawhive_core.plugins.plugin import PluginFailure, PluginRecord

    class Failing(PluginManager):
        def providers(self):
            return [One()]

        def failed_hooks(self, hook):
            if hook != "clawhive_policy_checks":
                return []
            failure = PluginFailure.of(PluginError("broken"))
            record = PluginRecord(
                *("guard", "dist", "1", "guard", "failed"),
                installed=True,
                imported=False,
                enabled=True,
                hooks=(hook,),
                tools=(),
                error=failure,
                source="",
                load_ms=None,
            )
            return [record]

    def load(config, env):
        return Failing((), PluginOptions())

    async with Hive.open(tmp_path, env=env, plugins=load) as hive:
        _, outcome = await hive.call("one.tool", {})
    assert outcome.error == "denied"


async def test_a_log_is_signed_early_as_it_grows_and_at_its_end(monkeypatch):
    from clawhive_core.audit import checkpoints
    from tests.harness import verify

    async with memory_hive(providers=[One()]) as hive:
        path, user_dir = hive.log.path, hive.config.user_dir

        def window():
            report = verify(path, user_dir)
            assert report.ok
            return report.window_rows

        await hive.call("one.tool", {})
        assert window() == 0
        await hive.call("one.tool", {})
        rows = window()
        assert rows > 0
        monkeypatch.setattr(checkpoints, "SIGN_ROWS", 2 * rows)
        await hive.call("one.tool", {})
        assert window() == 0
        await hive.call("one.tool", {})
        assert window() == rows
        await hive._close()
        assert window() == 0


async def test_a_users_directory_that_cannot_be_written_is_noted_and_stops_nothing(tmp_path):
    tmp_path.joinpath("home").write_text("a file where a folder should be")
    root = tmp_path / "project"
    root.mkdir()
    env = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "home")}
    async with Hive.open(root, env=env, flags={"plugins.enabled": []}) as hive:
        _, outcome = await hive.call("sandbox.collect_outputs", {})
        assert not outcome.is_error
        assert any("no checkpoint was written" in note for note in hive.notes)


async def test_a_run_that_cannot_be_recorded_at_all_says_so_and_nothing_else():
    async with memory_hive(adapters=[ScriptedModel(["Hello."])]) as hive:
        path = hive.log.path
        path.rename(path.with_suffix(".before"))
        path.touch()
        with pytest.raises(LogWriteFailed, match="replaced"):
            await hive.run("Hello", model="scripted:x")


async def test_approvals_can_be_awaited_each_once_until_the_hive_is_closed(tmp_path, env):
    (tmp_path / "a.md").write_text("one two")
    given = {"path": "a.md", "find": "one", "replace": "1"}
    seen = []

    async def answer():
        async for approval in hive.approvals.waiting():
            seen.append(approval.tool)
            hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")
            answered.set()

    answered = anyio.Event()
    async with anyio.create_task_group() as group, Hive.open(tmp_path, env=env) as hive:
        group.start_soon(answer)
        run = await hive.run(task="edit_docs", input=given)
        await answered.wait()
        assert (await hive.resume(run["run_id"]))["status"] == "succeeded"
    assert len(seen) == 1
    assert (tmp_path / "a.md").read_text() == "1 two"
