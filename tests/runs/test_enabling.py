"""Tools that skills require: offered once the skill is active, and recorded with the run."""

from contextlib import suppress

import pytest

from clawhive_core import ToolResult
from clawhive_core.capabilities import parse
from clawhive_core.execution.effects import is_denied_always
from clawhive_core.execution.handlers.handlers import reach_of
from clawhive_core.execution.scope import CORE
from clawhive_core.hive.hive import RunOptions
from clawhive_core.model.messages import LlmResponse
from clawhive_core.model.tools import ToolMeta
from clawhive_core.runs.record import ownership
from clawhive_core.runs.toolsets import SkillTools
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.testing import ScriptedModel, calling, memory_hive
from tests.runs.conftest import FORGET, Cut
from tests.runs.test_skill_prompt import MODEL, Desk

OPENS = calling("skill_open", {"name": "words"})
REQUIRES = "requires: {{tools: [{}]}}\n"


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.delenv("CLAWHIVE_RUN", raising=False)
    desk = Desk(tmp_path)
    requires(desk, "test.count")
    return desk


@pytest.fixture
def tools(tools):
    tools.add("test.count", lambda given, ctx: {"n": 3}, idempotent=True)
    return tools.add("test.keep", lambda given, ctx: "kept", risk="guarded")


def requires(desk, *names, skill="words"):
    folder = desk.text(skill, "Counts words.", "Count slowly.", users=True)
    folder.joinpath("clawhive.yaml").write_text(REQUIRES.format(", ".join(names)))


def configure(desk, text):
    """Write the user's own configuration: a project's would have to be trusted first."""
    desk.user_dir.mkdir(parents=True, exist_ok=True)
    desk.user_dir.joinpath("config.toml").write_text(text, "utf-8")


READER = '[agents.reader]\ntools = ["test.echo"]\n'


def names(request):
    return [tool.name for tool in request.tools]


@pytest.mark.promise("P-195")
@pytest.mark.parametrize("place", ["manifest", "frontmatter"])
async def test_opening_a_skill_offers_the_tools_that_it_requires_behind_the_others(
    desk, tools, place
):
    if place == "frontmatter":
        folder = desk.user_dir / "skills" / "words"
        folder.joinpath("clawhive.yaml").unlink()
        front = "name: words\ndescription: Counts.\nrequires: {tools: [test.count]}"
        folder.joinpath("SKILL.md").write_text(f"---\n{front}\n---\nCount slowly.\n")
    configure(desk, READER)
    counts = calling("test.count", {})
    desk.model = ScriptedModel([counts, OPENS, counts, "Three."])
    async with desk.hive(tools) as hive:
        run = await hive.run("go", model=MODEL, agent="reader")
        assert run["output"] == "Three."
        first, second, third, last = desk.model.requests
        assert "test.count" not in names(first)
        assert "test.echo" in names(first)
        assert "test.fail" not in names(first)
        assert names(second) == names(first)
        assert names(third) == names(last) == [*names(first), "test.count"]
        refused = second.messages[-1].content[0].structured
        assert (refused["error"], refused["reason"]) == ("tool_not_enabled", "not_enabled")
        assert refused["next"] == {"action": "open_skill", "skills": ["words"]}
        assert (
            third.messages[-1]
            .content[0]
            .output.endswith("Offered from now on, for this skill: `test.count`.")
        )
        assert tools.calls == [("test.count", {})]
        assert (await hive.replay("last")).ok
        (event,) = [e.event for e in hive.log.events() if e.event.kind == "tools.enabled"]
        assert (event.body["skill"], event.body["tools"]) == ("words", ["test.count"])
        assert event.step_id == f"{run['run_id']}/r1.0"


@pytest.mark.promise("P-195")
async def test_a_skill_that_the_user_names_brings_its_tools_from_the_start(desk, tools):
    configure(desk, READER)
    desk.model = ScriptedModel([calling("test.count", {}), "Three."])
    async with desk.hive(tools) as hive:
        run = await hive.run("go", model=MODEL, agent="reader", skills=["words"])
        assert names(desk.model.requests[0])[-1] == "test.count"
        assert "It works with the tools `test.count`." in desk.model.requests[0].system
        assert run["output"] == "Three."
        assert (await hive.replay("last")).ok


@pytest.mark.promise("P-196")
async def test_a_stopped_run_offers_after_it_what_it_offered_before(desk, tools):
    configure(desk, READER)
    requires(desk, "test.count", "test.keep")
    desk.model = ScriptedModel([OPENS, calling("test.keep", {}), calling("test.count", {}), "Ok."])
    async with desk.hive(tools) as hive:
        assert (await hive.run("go", model=MODEL, agent="reader"))["status"] == "waiting_approval"
        hive.approvals.resolve("last", "approve", by="user:ana")
    requires(desk, "test.echo")
    async with desk.hive(tools) as hive:
        run = await hive.resume("last")
        assert (run["status"], run["output"]) == ("succeeded", "Ok.")
        enabled = [each for each in hive.log.events() if each.event.kind == "tools.enabled"]
        assert len(enabled) == 1
        assert names(desk.model.requests[-1])[-2:] == ["test.count", "test.keep"]
        assert (await hive.replay("last")).ok


@pytest.mark.promise("P-196")
@pytest.mark.parametrize("mode", ["tools", "model", "policy"])
@pytest.mark.parametrize("named", [(), ("words",)])
async def test_the_other_replays_offer_the_same(desk, tools, mode, named):
    configure(desk, READER)
    counts = calling("test.count", {})
    script = [counts, "Three."] if named else [counts, OPENS, counts, "Three."]
    desk.model = ScriptedModel([*script, *script])
    async with desk.hive(tools) as hive:
        run = await hive.run("go", model=MODEL, agent="reader", skills=named)
        report = await hive.replay(run["run_id"], mode)
        assert report.differences == ()
        half = len(script)
        if mode == "model":
            assert [names(each) for each in desk.model.requests[half:]] == [
                names(each) for each in desk.model.requests[:half]
            ]


async def test_what_a_skill_brought_stays_in_its_conversation(desk, tools):
    configure(desk, READER)
    desk.model = ScriptedModel([OPENS, "Read.", "Again.", "New.", "More."])
    async with desk.hive(tools) as hive:
        for session in ("conv_1", "conv_1", "conv_2"):
            await hive.run("go", model=MODEL, agent="reader", session=session)
        assert names(desk.model.requests[2]) == names(desk.model.requests[1])
        assert "test.count" not in names(desk.model.requests[3])
        run = (await hive.run("go", model=MODEL, agent="reader", session="conv_1"))["run_id"]
        assert names(desk.model.requests[4])[-1] == "test.count"
        assert (await hive.replay(run)).ok


@pytest.mark.promise("P-197")
async def test_what_a_skill_may_not_bring_is_told_with_the_reason(desk, tools):
    tools.add("test.net", lambda given, ctx: "x", effects={"url": "net.connect"})
    tools.add("test.go", lambda given, ctx: "x", effects={"": "env.read:HOME", "path": "fs.read"})
    requires(desk, "test.count", "test.net", "test.go", "test.fail", "web.search")
    allow = '"test.echo", "test.count", "test.net", "test.go", "web.search"'
    configure(
        desk,
        f'{READER}allow = [{allow}]\n[policy]\ndeny = ["net.connect:**", "env.read:**"]\n',
    )
    desk.model = ScriptedModel([OPENS, "Read."])

    class Stub:
        provider_id = "stub"

        async def list_tools(self):
            return [ToolMeta("web.search", "Made up.", {"type": "object"}, "stub")]

        async def invoke(self, tool_name, input, ctx):
            return ToolResult(ctx.tool_call_id, "made up")

        async def close(self):
            return None

    async with desk.hive(tools, Stub()) as hive:
        await hive.run("go", model=MODEL, agent="reader")
        first, second = desk.model.requests
        assert names(second) == [*names(first), "test.count"]
        told = second.messages[-1].content[0].output.splitlines()[-1]
        assert told == (
            "Offered from now on, for this skill: `test.count`. Not offered: `test.net` (policy "
            "denies it), `test.go` (policy denies it), `test.fail` (the agent's list of tools does "
            "not have it), `web.search` (only a stub offers it)."
        )
        assert (await hive.replay("last")).ok


async def test_a_tool_that_went_away_is_told_with_the_nearest_name(desk, tools):
    configure(desk, READER)
    desk.model = ScriptedModel([OPENS, "Read."])
    async with desk.hive(tools) as hive:
        skill = hive.skill_set.find("words").skill
        object.__setattr__(skill.requires, "tools", ("test.cound", "qq"))
        await hive.run("go", model=MODEL, agent="reader")
    told = desk.model.requests[-1].messages[-1].content[0].output
    assert "`test.cound` (there is no such tool; did you mean `test.count`?)" in told
    assert "`qq` (no such tool)" in told


async def test_an_agent_without_a_list_is_offered_all_it_sees_and_reads_nothing_new(desk, tools):
    desk.model = ScriptedModel([OPENS, "Read."])
    async with desk.hive(tools) as hive:
        await hive.run("go", model=MODEL)
    first, second = desk.model.requests
    assert names(first) == names(second)
    assert "test.count" in names(first)
    assert "Offered" not in second.messages[-1].content[0].output


async def test_what_is_offered_anyhow_is_not_told_as_left_out(desk, tools):
    configure(desk, '[policy]\ndeny = ["tool.call:test.*"]\n')
    desk.model = ScriptedModel([OPENS, "Read."])
    async with desk.hive(tools) as hive:
        await hive.run("go", model=MODEL)
    assert "test.count" in names(desk.model.requests[0])
    assert "ffered" not in desk.model.requests[1].messages[-1].content[0].output


async def test_a_file_of_a_skill_and_a_skill_that_cannot_be_opened_bring_nothing(desk, tools):
    configure(desk, READER)
    desk.user_dir.joinpath("skills", "words", "more.md").write_text("More.")
    folder = desk.text("mine")
    folder.joinpath("clawhive.yaml").write_text(REQUIRES.format("test.count"))
    file = calling("skill_open", {"name": "words", "path": "more.md"})
    desk.model = ScriptedModel([file, calling("skill_open", {"name": "mine"}), "Read."])
    async with desk.hive(tools) as hive:
        await hive.run("go", model=MODEL, agent="reader")
    assert all("test.count" not in names(request) for request in desk.model.requests)
    assert "untrusted_skill" in str(desk.model.requests[-1].messages[-1].content[0])


async def test_a_tools_own_calls_are_not_bound_by_the_list(desk, tools):
    async def outer(given, ctx):
        return await ctx.call("test.count", {})

    tools.add("test.outer", outer)
    configure(desk, '[agents.reader]\ntools = ["test.outer"]\n')
    desk.model = ScriptedModel([calling("test.outer", {}), "Three."])
    async with desk.hive(tools) as hive:
        run = await hive.run("go", model=MODEL, agent="reader")
    assert [each[0] for each in tools.calls] == ["test.outer", "test.count"]
    assert run["steps"][0]["status"] == "succeeded"


DENIES = [parse(text) for text in ("net.connect:**", "tool.call:a.*", "fs.read:/x/**")]


@pytest.mark.parametrize(
    ("name", "effects", "shut"),
    [
        ("a.b", {}, True),
        ("b.b", {}, False),
        ("a.b", {"url": "net.connect"}, True),
        ("a.b", {"url": "net.connect", "path": "fs.read"}, False),
        ("a.b", {"": "net.connect:x.org", "path": "fs.read"}, True),
        ("a.b", {"": "env.read:HOME", "url": "net.connect"}, False),
        ("a.b", {"path": "fs.read"}, False),
        ("a.b", {"path": ("fs.read:/x/{}", "net.connect:x.org")}, False),
        ("a.b", {"": "fs.read:${workspace}/y"}, True),
    ],
)
def test_a_tool_is_shut_where_denies_cover_all_that_it_could_need(name, effects, shut):
    meta = ToolMeta(name, "X.", {"type": "object"}, "test", effects=effects)
    assert is_denied_always(meta, DENIES, {"workspace": "/x"}) is shut


def test_what_is_recorded_is_read_again():
    assert SkillTools.from_dict(SkillTools().to_dict()) == SkillTools.from_dict(None)


PROVIDER = """\
exports:
  api_version: "1.0"
  tools:
    - {name: shared, input_schema: {}, output_schema: {}}
    - {name: unasked, input_schema: {}, output_schema: {}}
"""
CONSUMER = """\
exports:
  api_version: "1.0"
  tools: [{name: own, input_schema: {}, output_schema: {}}]
imports: [{from: provider, tools: [shared], min_version: "1.0"}]
requires: {tools: [test.count]}
"""
ONE = "async def %s(input, ctx): return {}\n"


@pytest.mark.promise("P-199")
async def test_a_skill_alone_gives_the_model_its_own_tools_its_imports_and_what_it_requires(
    desk, tools
):
    desk.text("provider", users=True).joinpath("clawhive.yaml").write_text(PROVIDER)
    desk.user_dir.joinpath("skills/provider/handlers.py").write_text(
        ONE % "shared" + ONE % "unasked"
    )
    desk.text("consumer", users=True).joinpath("clawhive.yaml").write_text(CONSUMER)
    desk.user_dir.joinpath("skills/consumer/handlers.py").write_text(ONE % "own")
    configure(desk, "[agents.reader]\ntools = []\n")
    desk.model = ScriptedModel([calling("provider.unasked", {}), "Done."])
    async with desk.hive(tools) as hive:
        core = {tool.meta.name for tool in hive.catalog.current if tool.meta.provider_id == CORE}
        core.remove("run_program")  # the planner `code` offers it
        await hive.run("go", model=MODEL, agent="reader", skills=["consumer"])
        shown = hive.skill_set.find("consumer").skill
    first, second = desk.model.requests
    assert set(names(first)) == core | {"consumer.own", "provider.shared", "test.count"}
    assert set(reach_of(shown).tools) == {"consumer.own", "provider.shared", "test.count"}
    refused = second.messages[-1].content[0].structured
    assert (refused["error"], refused["next"]["skills"]) == ("tool_not_enabled", ["provider"])


CHILD = """
[agents.helper]
description = "Helps."
model = "child:x"
tools = []
[agents.default.sub_agent]
allowed_tools = [{}]
"""


@pytest.mark.promise("P-205")
@pytest.mark.parametrize(
    ("allowed", "told"),
    [
        ('"test.count"', "Offered from now on, for this skill: `test.count`."),
        (
            '"test.echo"',
            "Not offered: `test.count` (the agent's list of tools does not have it).",
        ),
    ],
)
async def test_a_sub_agents_skills_bring_no_more_than_its_parent_gives_on_in_no_replay(
    desk, tools, allowed, told
):
    configure(desk, CHILD.format(allowed))
    desk.model = ScriptedModel([calling("agent.helper", {"task": "count"}), "Three."])
    script = [OPENS, calling("test.count", {}), "Three."]
    child = ScriptedModel([*script, *script], name="child")
    async with desk.hive(tools, models=(child,)) as hive:
        options = RunOptions(model=MODEL, grants=("agent.spawn:helper",))
        run = await hive.run("go", options=options)
        kid = run["children"][0]["run_id"]
        assert child.requests[1].messages[-1].content[0].output.endswith(told)
        made = len(tools.calls)
        assert made == (1 if "count" in allowed else 0)
        for mode in ("exact", "model", "policy", "tools"):
            assert (await hive.replay(kid, mode)).differences == ()
        assert len(tools.calls) == 2 * made


async def test_a_task_is_repeated_by_the_agent_that_did_it(tools, define):
    settings = {"agents.reader.allow": ["test.echo"]}
    async with memory_hive(providers=[tools], settings=settings) as hive:
        define(hive, {"name": "a", "tool": "test.echo"}, {"name": "b", "tool": "test.count"})
        run = await hive.run(task="job", agent="reader")
        assert [each["status"] for each in run["steps"]] == ["succeeded", "failed"]
        for mode in ("policy", "tools"):
            assert (await hive.replay(run["run_id"], mode)).differences == ()
        assert [name for name, _ in tools.calls] == ["test.echo", "test.echo"]


@pytest.mark.promise("P-196")
async def test_a_run_cut_at_any_row_of_its_log_goes_on_with_the_same_tools(
    desk, tools, monkeypatch
):
    configure(desk, READER)
    script = [OPENS, calling("test.count", {}), LlmResponse((), "refusal")]

    def answer(request):
        return script[sum(message.role == "assistant" for message in request.messages)]

    desk.model = ScriptedModel([answer] * 999)
    async with desk.hive(tools) as hive:
        whole = await hive.run("go", model=MODEL, agent="reader")
        await hive.log.flush()
        rows = sum(1 for _ in hive.log.events(run_id=whole["run_id"]))
        for left in range(1, rows):
            with monkeypatch.context() as patch:
                cut_after(patch, left)
                with suppress(Cut):
                    await hive.run("go", model=MODEL, agent="reader")
            await hive.log.append(effect=lambda connection: connection.execute(FORGET))
            if not ownership.recover(hive.log):
                continue  # it was cut before its start was written
            run = await hive.resume("last")
            assert (run["status"], run["error"]) == (whole["status"], whole["error"])
            assert facts(run) == facts(whole)
            assert names(desk.model.requests[-1])[-1] == "test.count"
            kinds = [each.event.kind for each in hive.log.events(run_id=run["run_id"])]
            assert (kinds.count("tools.enabled"), kinds.count("step.end")) == (1, 1)
            assert (await hive.replay(run["run_id"])).ok


def facts(run):
    return [(each["name"], each["action"], each["status"]) for each in run["steps"]]


def cut_after(patch, left):
    """Let so many events be written, and none after them, as if the process were gone."""
    post, append = EventLog.post, EventLog.append

    def count(events):
        nonlocal left
        left -= len(events)
        if left < 0:
            raise Cut

    def posting(log, *events):
        count(events)
        post(log, *events)

    async def appending(log, *events, **more):
        count(events)
        return await append(log, *events, **more)

    patch.setattr(EventLog, "post", posting)
    patch.setattr(EventLog, "append", appending)
