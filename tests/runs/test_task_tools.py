"""`SKILL.TASK` as a tool: nested steps, their rights, their files, their failures."""

import json
from pathlib import Path

import pytest

from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import Artifact, ToolResult
from clawhive_core.runs.plans.task_tools import task_providers
from clawhive_core.skills.contracts.skill import ExportedTool, Exports, Place, Skill, TaskType
from clawhive_core.testing import ScriptedModel, calling, memory_hive
from clawhive_core.testing.memory import memory_hive as open_hive

OPEN = {"type": "object"}
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "word": {"type": "string", "default": "hello"}},
    "required": ["n"],
    "additionalProperties": False,
}


def skill(name="demo", permissions=(), exports=(), **tasks):
    types = {
        task: TaskType(task, f"The task {task}.", SCHEMA, tuple(steps), output)
        for task, (steps, output) in tasks.items()
    }
    tools = tuple(ExportedTool(each, Place("x", 1, 1)) for each in exports)
    return Skill(
        name,
        "1.0.0",
        Path(),
        "test",
        permissions=permissions,
        tasks=types,
        exports=Exports("1.0", tools),
    )


async def offer(hive, *skills):
    await hive.catalog.add(*task_providers(skills, hive.catalog))


def step(name, tool="test.echo", **fields):
    return {"name": name, "tool": tool, "input": {"n": "${input.n}"}, **fields}


def calls_of(run):
    return [
        (each["name"], each["label"], each["status"], each["provider_id"]) for each in run["steps"]
    ]


async def shown(hive, run_id):
    from clawhive_core.runs.record.view import run_json

    await hive.log.flush()
    return run_json(hive.log, run_id)


@pytest.mark.promise("P-065")
async def test_a_task_type_is_a_tool_whose_steps_are_calls_of_their_own(tools):
    job = skill(
        job=(
            [step("one"), step("two", input={"was": "${steps.one.output.n}"})],
            "${steps.two.output}",
        )
    )
    async with memory_hive(providers=[tools]) as hive:
        await offer(hive, job)
        run_id, outcome = await hive.call("demo.job", {"n": 7})
        run = await shown(hive, run_id)
    assert outcome.value == {"was": 7}
    assert calls_of(run) == [
        ("tool.demo.job", "", "succeeded", "skill_demo"),
        ("tool.test.echo", "one", "succeeded", "test"),
        ("tool.test.echo", "two", "succeeded", "test"),
    ]
    assert tools.calls == [("test.echo", {"n": 7}), ("test.echo", {"was": 7})]


async def test_defaults_are_filled_in_and_bad_input_is_refused_at_the_door(tools):
    job = skill(job=([step("one", input={"w": "${input.word}"})], "${steps.one.output.w}"))
    async with memory_hive(providers=[tools]) as hive:
        await offer(hive, job)
        _, outcome = await hive.call("demo.job", {"n": 1})
        _, refused = await hive.call("demo.job", {"n": "x"})
    assert outcome.output == "hello"
    assert isinstance(refused, Refusal)
    assert refused.error == "invalid_input"
    assert len(tools.calls) == 1


async def test_level_and_risk_are_the_highest_of_the_steps(tools):
    tools.add("test.net", lambda given, ctx: 1, capability_level="L2", side_effects=True)
    tools.add(
        "test.keep", lambda given, ctx: 1, risk="guarded", capability_level="L1", idempotent=True
    )
    both = skill(
        both=([step("a", "test.net"), step("b", "test.keep")], None),
        low=([step("a")], None),
        missing=([step("a", "nobody.has")], None),
        outer=([step("a", "demo.both")], None),
        cycle=([step("a", "demo.cycle")], None),
    )
    async with memory_hive(providers=[tools]) as hive:
        await offer(hive, both)
        metas = {name: hive.catalog.current.find(f"demo.{name}").meta for name in both.tasks}
    facts = {name: (meta.capability_level, meta.risk) for name, meta in metas.items()}
    assert facts == {
        "both": ("L2", "guarded"),
        "low": ("L0", "safe"),
        "missing": ("L0", "unknown"),
        "outer": ("L2", "guarded"),
        "cycle": ("L0", "unknown"),
    }
    assert metas["both"].side_effects
    assert not metas["both"].idempotent
    assert metas["both"].timeout_ms > 60_000
    assert {meta.provider_id for meta in metas.values()} == {"skill_demo"}


async def test_a_task_reaches_no_further_than_its_skill_declares(tools):
    effects = {"n": "fs.read"}
    tools.add("test.look", lambda given, ctx: "seen", effects=effects)
    look = [step("a", "test.look", input={"n": "${input.word}"})]
    jobs = skill(permissions=("fs.read:${workspace}/docs/**",), job=(look, "${steps.a.output}"))
    async with memory_hive(providers=[tools]) as hive:
        await offer(hive, jobs)
        _, inside = await hive.call("demo.job", {"n": 1, "word": "docs/a.md"})
        _, outside = await hive.call("demo.job", {"n": 1, "word": "src/a.py"})
        _, plain = await hive.call("test.look", {"n": "src/a.py"})
    assert inside.output == "seen"
    assert outside.is_error
    assert outside.structured["error"] == "denied"
    assert outside.structured["step"] == "a"
    assert plain.output == "seen"


async def test_declared_permissions_give_a_task_nothing_that_its_caller_lacks(tools):
    tools.add("test.look", lambda given, ctx: "seen", effects={"n": "fs.read"}, risk="safe")
    look = [step("a", "test.look", input={"n": "/srv/a.txt"})]
    jobs = skill(permissions=("fs.read:/srv/**",), job=(look, None))
    async with memory_hive(providers=[tools]) as hive:
        await offer(hive, jobs)
        _, outcome = await hive.call("demo.job", {"n": 1})
    assert outcome.structured["error"] == "denied"
    assert tools.calls == []


async def test_a_failed_step_fails_the_call_with_its_error_and_the_output_there_is(tools):
    steps = [step("one"), step("two", "test.fail"), step("three"), step("four", when="always")]
    job = skill(job=(steps, "${steps.four.output.n}"))
    async with memory_hive(providers=[tools]) as hive:
        await offer(hive, job)
        run_id, outcome = await hive.call("demo.job", {"n": 3})
        run = await shown(hive, run_id)
    assert outcome.is_error
    facts = {key: outcome.structured[key] for key in ("error", "step", "output")}
    assert facts == {"error": "tool_failed", "step": "two", "output": 3}
    assert [each["label"] for each in run["steps"]] == ["", "one", "two", "four"]
    assert run["status"] == "failed"


async def test_what_nested_calls_leave_belongs_to_the_result(tools):
    def leave(given, ctx):
        Path(ctx.artifacts, "a.txt").write_text("x")
        return ToolResult("", "left", artifacts=(Artifact("a.txt", "text/plain", 1, "0" * 64),))

    async def outer(given, ctx):
        await ctx.call("demo.job", {"n": 1})
        return "done"

    tools.add("test.leave", leave).add("test.outer", outer)
    job = skill(job=([step("a", "test.leave"), step("b")], None))
    async with memory_hive(providers=[tools]) as hive:
        await offer(hive, job)
        _, direct = await hive.call("demo.job", {"n": 1})
        run_id, through = await hive.call("test.outer", {})
        run = await shown(hive, run_id)
    assert [each.path for each in direct.artifacts] == ["a.txt"]
    assert [each.path for each in through.artifacts] == ["a.txt"]
    assert [each["path"] for each in run["artifacts"]] == ["a.txt"]


async def test_steps_of_a_task_run_in_the_order_of_their_plan(tools):
    steps = [step(f"s{n}", needs=[]) for n in range(6)]
    async with memory_hive(providers=[tools]) as hive:
        await offer(hive, skill(job=(steps, None)))
        run_id, _ = await hive.call("demo.job", {"n": 1})
        run = await shown(hive, run_id)
    assert [each["label"] for each in run["steps"][1:]] == [f"s{n}" for n in range(6)]


async def test_a_task_that_runs_itself_is_stopped(tools):
    job = skill(job=([step("a"), step("again", "demo.job")], None))
    async with memory_hive(providers=[tools]) as hive:
        await offer(hive, job)
        _, outcome = await hive.call("demo.job", {"n": 1})
    assert outcome.structured["error"] == "call_depth_exceeded"


async def test_a_plan_that_cannot_run_is_an_error_of_the_call(tools):
    job = skill(
        job=([step("a", needs=["b"]), step("b", needs=["a"])], None),
        twice=([step("a"), step("a")], None),
    )
    async with memory_hive(providers=[tools]) as hive:
        await offer(hive, job)
        codes = [
            (await hive.call(f"demo.{name}", {"n": 1}))[1].structured["error"] for name in job.tasks
        ]
    assert codes == ["invalid_plan", "invalid_plan"]


async def test_a_provider_keeps_its_names_and_so_does_an_exported_tool(tools):
    tools.add("demo.taken", lambda given, ctx: "the provider's")
    job = skill(
        taken=([step("a")], None),
        said=([step("a")], None),
        free=([step("a")], None),
        exports=("said",),
    )
    async with memory_hive(providers=[tools]) as hive:
        await offer(hive, job)
        catalog = hive.catalog.current
        names = {tool.meta.name for tool in catalog if tool.meta.provider_id == "skill_demo"}
        again = {
            t.meta.name for t in await hive.catalog.refresh() if t.meta.provider_id == "skill_demo"
        }
        _, outcome = await hive.call("demo.taken", {})
    assert names == again == {"demo.free"}
    assert outcome.output == "the provider's"


async def test_a_model_calls_a_task_as_any_tool_and_the_run_replays(tools):
    job = skill(job=([step("one")], "${steps.one.output.n}"))
    model = ScriptedModel([calling("demo.job", {"n": 5}), "It is 5."])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        await offer(hive, job)
        run = await hive.run("Do it.", model="scripted:x")
        assert "demo.job" in {each.name for each in model.requests[0].tools}
        report = await hive.replay(run["run_id"])
    assert run["status"] == "succeeded"
    assert report.ok


async def test_the_steps_of_a_task_are_heard_as_its_progress(tools):
    told = []
    job = skill(job=([step("one"), step("two")], None))
    async with open_hive(providers=[tools]) as hive:
        await offer(hive, job)
        from clawhive_core.runs.requests import RunOptions

        await hive.call("demo.job", {"n": 1}, RunOptions(on_signal=told.append, approve="deny"))
    heard = [(each.kind, each.tool, each.text, each.done, each.total) for each in told]
    assert heard == [
        ("progress", "demo.job", "one", 0, 2),
        ("progress", "demo.job", "two", 1, 2),
    ]


async def test_the_shipped_tasks_are_tools_of_loaded_skills_only():
    async with memory_hive(settings={"plugins.enabled": ["builtin"]}) as hive:
        found = hive.catalog.current.find("code.run_code_snippet").meta
        assert (found.capability_level, found.risk) == ("L2", "safe")
        given = {"language": "python", "code": "print(6 * 7)"}
        _, outcome = await hive.call("code.run_code_snippet", given)
        assert outcome.output == "42\n"
        assert "stdout.txt" in {each.path for each in outcome.artifacts}
        _, failed = await hive.call("code.run_code_snippet", {**given, "code": "print(1)\n1/0"})
    assert failed.structured["error"] == "program_failed"
    assert failed.structured["output"] == "1\n"
    assert "stdout.txt" in {each.path for each in failed.artifacts}
    assert json.dumps(failed.structured)
    off = {"plugins.enabled": ["builtin"], "skills.disabled": ["code"]}
    async with memory_hive(settings=off) as hive:
        assert hive.catalog.current.find("code.run_code_snippet") is None
