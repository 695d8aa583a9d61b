"""The exported tools of skills in a project: called, bounded, recorded."""

import json
import shutil
import sys
from pathlib import Path

import anyio
import pytest

from clawhive_core import Hive, confine
from clawhive_core.execution.handlers import child
from clawhive_core.plugins.manager import open_plugins
from clawhive_core.runs.requests import RunOptions
from clawhive_core.testing.memory import _Given
from tests.harness import exports

ZODIAC = """
id: zodiac
version: 1.0.0
exports:
  api_version: "1.0"
  tools:
    - name: calculate
      description: Compute a chart.
      input_schema:
        type: object
        required: [date]
        properties: {date: {type: string}}
      output_schema: {type: object, required: [chart]}
    - {name: peek, input_schema: {type: object}, output_schema: {type: object}}
"""
ZODIAC_HANDLERS = """
async def calculate(input, ctx):
    await ctx.save("skills.zodiac.last", input["date"])
    return {"chart": "chart of " + input["date"], "for": ctx.skill_id}


async def peek(input, ctx):
    return {"data": await ctx.read("skills.zodiac.last")}
"""
JUNG = """
id: jung
version: 1.0.0
%simports: [{from: zodiac, tools: [calculate], min_version: "1.0"}]
%s
"""


def asking(expression):
    """Return the handler `ask`, which answers an expression."""
    return f"async def ask(input, ctx):\n    return {expression}\n"


class Project:
    """Skills in a folder, and a Hive over them."""

    def __init__(self, root):
        self.root = root
        self.flags = {"plugins.enabled": ["builtin"]}
        self.env = {"HOME": str(root.parent), "XDG_CONFIG_HOME": str(root.parent / "config")}

    def skill(self, name, manifest, handlers):
        folder = self.root / "skills" / name
        folder.mkdir(parents=True, exist_ok=True)
        folder.joinpath("clawhive.yaml").write_text(manifest, "utf-8")
        folder.joinpath("handlers.py").write_text(handlers, "utf-8")
        return folder

    def zodiac(self, handlers=ZODIAC_HANDLERS):
        return self.skill("zodiac", ZODIAC, handlers)

    def jung(self, handlers, more=""):
        names = [
            line.split("(")[0].split()[-1] for line in handlers.splitlines() if "(input" in line
        ]
        return self.skill("jung", JUNG % (exports(*names), more), handlers)

    def hive(self, *providers, **flags):
        def load(config, env):
            return _Given(providers, {}, open_plugins(config, env))

        flags = {**self.flags, **flags}
        return Hive.open(self.root, flags=flags, env=self.env, plugins=load)

    def trust(self, name):
        from clawhive_core.config.load import open_config
        from clawhive_core.skills.discovery.decisions import SkillTrust, content_digest
        from clawhive_core.skills.load import load_skills

        config = open_config(self.root, {}, self.env)
        skill = load_skills(config, env=self.env).find(name).skill
        SkillTrust(config.user_dir).add(skill, content_digest(skill.content), self.env)

    async def call(self, name, input=None, options=None, **flags):
        async with self.hive(**flags) as hive:
            outcome = (await hive.call(name, input or {}, options))[1]
            await hive.log.flush()
            rows = hive.log.read("SELECT * FROM v_invocations ORDER BY seq")
            self.rows = [dict(row) for row in rows]
            self.notes = hive.notes
        return outcome

    async def value(self, name, input=None, options=None, **flags):
        outcome = await self.call(name, input, options, **flags)
        return getattr(outcome, "value", None) if hasattr(outcome, "value") else outcome.to_dict()


@pytest.fixture
def project(project_root):
    return Project(project_root)


async def test_an_exported_tool_is_described_as_its_contract_says_or_by_its_skill(project):
    project.zodiac()
    async with project.hive() as hive:
        tools = hive.catalog.current.tools
        assert tools["zodiac.calculate"].meta.description == "Compute a chart."
        assert tools["zodiac.peek"].meta.description == "A tool of the skill `zodiac`."


async def test_an_exported_tool_is_called_like_every_other(project):
    project.zodiac()
    assert await project.value("zodiac.calculate", {"date": "2000-01-01"}) == {
        "chart": "chart of 2000-01-01",
        "for": "zodiac",
    }
    outer, inner = project.rows
    assert (outer["tool"], outer["provider_id"]) == ("zodiac.calculate", "skill_zodiac")
    assert (outer["status"], outer["risk"], outer["capability_level"]) == (
        "succeeded", "safe", "L0",
    )  # fmt: skip
    assert (inner["tool"], inner["principal"]) == ("save", "skill:zodiac")


async def test_its_input_and_output_are_held_against_its_schemas(project):
    project.zodiac(
        "def calculate(input, ctx):\n    return {'chrat': 1}\ndef peek(input, ctx): ...\n"
    )
    assert (await project.call("zodiac.calculate")).error == "invalid_input"
    wrong = await project.value("zodiac.calculate", {"date": "x"})
    assert wrong["error"] == "invalid_output"
    assert "chart" in wrong["message"]


@pytest.mark.parametrize("name", ["calculate", "zodiac.calculate"])
async def test_a_cross_skill_call_is_recorded_with_consumer_provider_tool_and_result(project, name):
    project.zodiac()
    project.jung(
        f"async def ask(input, ctx):\n    return await ctx.call('{name}', {{'date': 'd'}})"
    )
    assert (await project.value("jung.ask"))["chart"] == "chart of d"
    row = next(row for row in project.rows if row["tool"] == "zodiac.calculate")
    assert (row["principal"], row["provider_id"]) == ("skill:jung", "skill_zodiac")
    assert "chart of d" in row["output_preview"]
    assert row["parent_invocation_id"]


async def test_a_bare_name_is_an_own_tool_first(project):
    project.zodiac()
    project.jung("""
async def ask(input, ctx):
    return await ctx.call("calculate", {})

def calculate(input, ctx):
    return {"own": True}
""")
    assert await project.value("jung.ask") == {"own": True}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("zodiac.peek", "imports: [{from: zodiac, tools: [peek]}]"),
        ("file.read", "requires: {tools: [file.read]}"),
        ("sandbox.exec", "requires: {tools: [sandbox.exec]}"),
        ("nothing.there", "requires: {tools: [nothing.there]}"),
    ],
)
async def test_what_the_contract_does_not_name_is_refused_and_recorded(project, name, hint):
    project.zodiac()
    project.jung(asking("await ctx.call(*[input['name']], {})"))
    outcome = await project.call("jung.ask", {"name": name})
    assert outcome.is_error
    refusal = outcome.structured
    assert (refusal["error"], refusal["reason"]) == ("tool_not_imported", "rights")
    assert hint in refusal["next"]["hint"]
    row = next(row for row in project.rows if row["status"] == "refused")
    assert (row["tool"], row["principal"]) == (name, "skill:jung")


async def test_a_required_tool_is_called_within_the_permissions(project):
    project.root.joinpath("a.md").write_text("hello", "utf-8")
    project.root.joinpath("b.md").write_text("hidden", "utf-8")
    project.zodiac()
    handlers = """
async def ask(input, ctx):
    return [await ctx.call("file.read", {"path": path}) for path in ("a.md", "b.md")]
"""
    required = "requires: {tools: [file.read]}\n"
    project.jung(handlers, required + 'permissions: ["fs.read:${workspace}/a.md"]')
    one, other = await project.value("jung.ask")
    assert one["text"] == "hello"
    assert other["error"] == "denied"
    project.jung(handlers, required)
    one, other = await project.value("jung.ask")
    assert (one["error"], other["error"]) == ("denied", "denied")


async def test_a_handler_has_no_right_that_its_caller_lacks(project):
    project.root.joinpath(".env").write_text("KEY=1", "utf-8")
    project.zodiac()
    project.jung(
        asking("await ctx.call('file.read', {'path': '/etc/hosts'})"),
        'requires: {tools: [file.read]}\npermissions: ["fs.read:/**"]',
    )
    assert (await project.value("jung.ask"))["error"] == "denied"
    given = RunOptions(grants=["fs.read:/etc/hosts"], approve="deny")
    assert "text" in await project.value("jung.ask", options=given)


async def test_the_rights_of_one_skill_are_no_rights_of_another(project):
    """zodiac may read; jung, which may not, calls it; and jung's own call is denied."""
    project.root.joinpath("a.md").write_text("hello", "utf-8")
    project.skill(
        "zodiac",
        ZODIAC + 'requires: {tools: [file.read]}\npermissions: ["fs.read:${workspace}/**"]\n',
        "async def calculate(input, ctx):\n"
        "    return {'chart': await ctx.call('file.read', {'path': 'a.md'})}\n"
        "def peek(input, ctx): ...\n",
    )
    project.jung("""
async def ask(input, ctx):
    return await ctx.call("zodiac.calculate", {"date": "d"})
""")
    denied = (await project.value("jung.ask"))["chart"]
    assert denied["error"] == "denied"
    assert (await project.value("zodiac.calculate", {"date": "d"}))["chart"]["text"] == "hello"


@pytest.mark.parametrize(
    "path",
    ["skills.zodiac.last", "skills.jung", "skills.jung.", "other", "skills.jung.a b",
     "skills.jung..a", "", "skills.jung.x/../../zodiac", "skills.jungastro.x"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["read", "save"])
async def test_a_skill_reaches_no_namespace_but_its_own(project, path, method):
    project.zodiac()
    data = ", 'data': 1" if method == "save" else ""
    project.jung(asking(f"await ctx.call('{method}', {{'path': {path!r}{data}}})"))
    assert (await project.value("jung.ask"))["error"] in {"denied", "invalid_input"}


async def test_values_are_kept_from_run_to_run_for_each_user(project):
    project.zodiac()
    await project.value("zodiac.calculate", {"date": "2001"})
    assert await project.value("zodiac.peek") == {"data": "2001"}
    assert await project.value("zodiac.peek", **{"user.id": "ana"}) == {"data": None}


async def test_only_skills_have_something_of_their_own(project):
    outcome = await project.call("save", {"path": "skills.jung.x", "data": 1})
    assert outcome.structured["error"] == "denied"
    assert "user:local" in outcome.structured["message"]


async def test_a_card_reaches_the_listeners_at_once(project):
    project.zodiac()
    project.jung(
        "async def ask(input, ctx):\n    await ctx.show('subscribe', {'skill_id': 'zodiac'})"
    )
    signals = []
    await project.call("jung.ask", options=RunOptions(on_signal=signals.append))
    (shown,) = [signal for signal in signals if signal.kind == "show"]
    assert shown.card == {
        "type": "card", "card_type": "subscribe", "data": {"skill_id": "zodiac"},
    }  # fmt: skip


@pytest.mark.parametrize("value", ['{"error": "subscription_required", "message": "m"}', "refused"])
async def test_a_refusal_that_is_passed_on_is_the_answer(project, value):
    """Also where the output schema would refuse it."""
    body = f"return {value}" if value != "refused" else "return await ctx.call('no.' + 'such')"
    project.zodiac(f"async def calculate(input, ctx):\n    {body}\ndef peek(input, ctx): ...\n")
    outcome = await project.call("zodiac.calculate", {"date": "d"})
    assert outcome.is_error
    assert outcome.value["error"] in {"subscription_required", "tool_not_imported"}


async def test_a_handler_that_calls_itself_without_end_is_stopped(project):
    project.zodiac()
    project.jung("async def again(input, ctx):\n    return await ctx.call('again')")
    assert (await project.value("jung.again"))["error"] == "call_depth_exceeded"
    assert sum(row["tool"] == "jung.again" for row in project.rows) == 10


async def test_handlers_that_call_each_other_side_by_side_do_not_deadlock(project):
    project.zodiac()
    project.jung("""
import asyncio

async def many(input, ctx):
    if input["n"] == 0:
        return 1
    n = input["n"] - 1
    found = await asyncio.gather(*[ctx.call("many", {"n": n}) for _ in range(6)])
    return sum(found)
""")
    with anyio.fail_after(300):
        assert await project.value("jung.many", {"n": 2}) == 36


async def test_a_handler_asks_only_so_often(project):
    project.zodiac()
    project.jung("""
async def ask(input, ctx):
    while True:
        try:
            await ctx.call("read", {"path": "skills.jung.x"})
        except Exception:
            pass
""")
    answer = await project.value("jung.ask", **{"sandbox.tool_calls": 5})
    assert (answer["error"], answer["limit"]) == ("limit_reached", "tool_calls")
    assert sum(row["tool"] == "read" for row in project.rows) == 5


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("raise ValueError('bad')", "tool_failed"),
        ("return {1, 2}", "invalid_output"),
        ("return float('nan')", "invalid_output"),
        ("return [x for x in range(10**9)]", "limit_reached"),
        ("while True: print('x' * 10000)", "limit_reached"),
        ("while True: pass", "timeout"),
        ("return open('/etc/passwd').read()", "tool_failed"),
    ],
)
async def test_a_bad_handler_fails_its_call_alone(project, body, code):
    manifest = "id: bad\nexports: {api_version: '1.0', tools: ["
    timeout_ms = 1_500 if code == "timeout" else 300_000
    manifest += f"{{name: f, timeout_ms: {timeout_ms}, input_schema: {{}}, output_schema: {{}}}}, "
    manifest += "{name: g, input_schema: {}, output_schema: {}}]}"
    handlers = f"def f(input, ctx):\n    {body}\ndef g(input, ctx):\n    return 1"
    project.skill("bad", manifest, handlers)
    limits = {"sandbox.memory_bytes": 32 * 1024 * 1024}
    async with project.hive(**limits) as hive, hive.session() as session:
        failed = await session.call("bad.f", {})
        assert failed["error"] == code
        if code == "tool_failed":
            assert failed["message"].startswith("handlers.py:2: ")
            assert failed["line"] == 2
        assert await session.call("bad.g", {}) == 1


UNSUPPORTED = "def g():\n    yield 5\ndef f(input, ctx):\n    return list(g())\n"
ONE = "id: one\n" + exports("f")


async def test_what_no_engine_runs_is_refused_with_the_ways_out(project):
    project.skill("one", ONE, UNSUPPORTED)
    failed = await project.value("one.f")
    assert failed["error"] == "sandbox_unavailable"
    assert "handlers.py:2: the engine `monty` cannot run `yield` (generators)" in failed["message"]
    assert "clawhive skills trust one" in failed["next"]["hint"]


@pytest.mark.promise("P-260")
@pytest.mark.parametrize(
    ("code", "fix"),
    [
        ("import words\n", "write what `words` holds into handlers.py itself: handlers get"),
        ("def g():\n    from .words import n\n", "write what `.words` holds into handlers.py"),
        ("import statistics\nimport words\n", "write it without that, and write what `words`"),
        (
            "import statistics\ntry:\n    import words\nexcept ImportError:\n    words = 1\n",
            "clawhive skills trust one",
        ),
    ],
)
async def test_trust_is_no_way_out_for_handlers_that_import_a_file_beside_them(project, code, fix):
    folder = project.skill("one", ONE, f"{code}def f(input, ctx):\n    return 1\n")
    folder.joinpath("words.py").write_text("n = 1\n")
    failed = await project.value("one.f")
    assert failed["error"] == "sandbox_unavailable"
    assert fix in failed["next"]["hint"]
    assert ("skills trust" in failed["next"]["hint"]) is ("try" in code)
    project.trust("one")
    trusted = await project.value("one.f")
    assert (trusted == 1) is ("try" in code or "def g" in code)


async def test_without_an_engine_trust_is_no_way_out_for_them_either(project):
    folder = project.skill("one", ONE, "import words\ndef f(input, ctx):\n    return 1\n")
    folder.joinpath("words.py").write_text("n = 1\n")
    failed = await project.value("one.f", **{"plugins.enabled": []})
    assert failed["error"] == "sandbox_unavailable"
    assert "switch the plugin `builtin` on, and write what `words`" in failed["next"]["hint"]


async def test_what_no_engine_runs_runs_in_a_process_once_the_user_trusts_the_skill(project):
    folder = project.skill("one", ONE, UNSUPPORTED)
    project.trust("one")
    assert await project.value("one.f") == [5]
    folder.joinpath("handlers.py").write_text(UNSUPPORTED.replace("5", "6"))
    assert (await project.value("one.f"))["error"] == "sandbox_unavailable"


async def test_a_trusted_skill_stays_in_the_engine_where_it_can(project):
    project.skill("one", ONE, "def f(input, ctx):\n    return open('/etc/hosts').read()\n")
    project.trust("one")
    assert (await project.value("one.f"))["error"] == "tool_failed"


async def test_a_trusted_handler_asks_through_the_same_executor(project):
    project.zodiac()
    project.jung("""
def g():
    yield 1

async def ask(input, ctx):
    await ctx.save("skills.jung.x", {"n": list(g())})
    return [await ctx.read("skills.jung.x"), await ctx.call("calculate", {"date": "d"}),
            await ctx.call("file." + "read", {"path": "x"})]
""")
    project.trust("jung")
    saved, chart, refused = await project.value("jung.ask")
    assert (saved, chart["chart"], refused["error"]) == (
        {"n": [1]}, "chart of d", "tool_not_imported",
    )  # fmt: skip


WRITING = """
def g():
    yield 1

async def f(input, ctx):
    done = []
    for path in ("notes/a.txt", "notes/.envrc", ".git/hooks/pre-commit"):
        given = {"path": path, "text": "x"}
        done.append(await ctx.call("file.write", given))
        try:
            open(f"{ctx.root}/{path}", "a").write("y")
        except OSError:
            continue
        done.append(path)
    return done
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the fence is made on Linux only")
async def test_a_trusted_handler_writes_by_calls_that_are_decided_and_not_by_itself(project):
    project.root.joinpath(".git/hooks").mkdir(parents=True)
    more = 'requires: {tools: [file.write]}\npermissions: ["fs.write:${workspace}/**"]\n'
    project.skill("one", ONE + more, WRITING.replace("{ctx.root}", str(project.root)))
    project.trust("one")
    asked = []

    async def yes(approval):
        asked.append(approval.tool)
        hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")

    options = RunOptions(approve="ask", ask=yes)
    async with project.hive() as hive:
        done = (await hive.call("one.f", {}, options))[1].value
    assert asked == ["one.f", "file.write"]
    written, *refused = done
    assert "error" not in written, written
    assert [each["error"] for each in refused] == ["denied", "denied"]
    assert project.root.joinpath("notes/a.txt").read_text() == "x"
    assert not project.root.joinpath("notes/.envrc").exists()
    assert list(project.root.joinpath(".git/hooks").iterdir()) == []


@pytest.mark.parametrize("unfenced", ["run", "refuse"])
@pytest.mark.parametrize("missing", [[], ["a part"]])
async def test_what_the_fence_lacks_is_on_record_and_is_refused_where_it_is_to_be(
    project, monkeypatch, missing, unfenced
):
    source = Path(child.__file__).with_name("handler_child.py")
    shutil.copy(confine.__file__, project.root)
    for name in ("handler_child.py", "fence.py"):
        text = source.with_name(name).read_text("utf-8")
        text = text.replace("self.missing: list[str] = []", f"self.missing: list[str] = {missing}")
        project.root.joinpath(name).write_text(text)
    monkeypatch.setattr(child, "_PROGRAM", project.root / "handler_child.py")
    project.skill("one", ONE, UNSUPPORTED)
    project.trust("one")
    async with project.hive(**{"sandbox.unfenced": unfenced}) as hive:
        outcome = (await hive.call("one.f", {}))[1]
        await hive.log.flush()
        (event,) = [e.event for e in hive.log.events() if e.event.kind == "handler.started"]
    assert (event.body["engine"], event.body["missing"]) == ("python", missing)
    assert event.invocation_id is not None
    if missing and unfenced == "refuse":
        assert outcome.value["error"] == "sandbox_unavailable"
        assert "its fence lacks a part" in outcome.value["message"]
    else:
        assert outcome.value == [5]


async def test_a_cancelled_call_takes_its_handler_along(project):
    project.skill("one", ONE, "def f(input, ctx):\n    while True: pass\n")
    async with project.hive() as hive, hive.session() as session:
        with anyio.move_on_after(0.5) as scope:
            await session.call("one.f", {})
        assert scope.cancelled_caught
        await hive.log.flush()
        (row,) = hive.log.read("SELECT status, error FROM v_invocations")
        assert (row["status"], json.loads(row["error"])["code"]) == ("failed", "cancelled")


@pytest.mark.parametrize("name", ["file", "core", "sandbox", "builtin", "show", "web"])
async def test_a_skill_takes_no_name_of_a_plugin(project, name):
    project.skill(name, ONE.replace("one", name), "def f(input, ctx): ...\n")
    async with project.hive() as hive:
        assert f"{name}.f" not in hive.catalog.current.tools
        told = [f"the skill `{name}` are left out", f"the skill `{name}` is not loaded"]
        assert any(each in note for each in told for note in hive.notes)


async def test_what_a_contract_declares_decides_the_call(project):
    project.skill(
        "one",
        """
id: one
permissions: ["net.http:api.example.com/**"]
exports:
  api_version: "1.0"
  tools:
    - {name: f, input_schema: {}, output_schema: {}}
    - name: g
      output_schema: {}
      risk: safe
      capability_level: L0
      input_schema: {type: object, properties: {path: {type: string}}}
      effects: {path: fs.read}
      sinks: [path]
      idempotent: true
      side_effects: true
      requires_confirm: true
      timeout_ms: 99
""",
        "def f(input, ctx): ...\ndef g(input, ctx): ...\n",
    )
    async with project.hive() as hive:
        f, g = (hive.catalog.current.tools[name].meta for name in ("one.f", "one.g"))
    assert (f.risk, f.capability_level, f.timeout_ms) == ("unsafe", "L2", 30_000)
    assert (g.risk, g.capability_level, g.timeout_ms) == ("safe", "L0", 99)
    assert (dict(g.effects), g.sinks) == ({"path": "fs.read"}, ("path",))
    assert g.idempotent
    assert g.side_effects
    assert g.requires_confirm


async def test_a_task_type_of_a_bounded_skill_reaches_what_its_handlers_declare(project):
    project.zodiac()
    project.jung(
        asking("await ctx.call('calculate', {'date': 'd'})"),
        'permissions: ["fs.read:${workspace}/**"]\n'
        "tasks: {go: {steps: [{name: one, tool: jung.ask}], output: '${steps.one.output}'}}",
    )
    async with project.hive() as hive:
        run = await hive.run(task="jung.go")
        assert (run["status"], run["output"]["chart"]) == ("succeeded", "chart of d")
        report = await hive.replay(run["run_id"])
        assert report.ok
        assert report.complete


async def test_a_plugin_tool_that_a_handler_calls_is_not_held_to_the_skills_contract(project):
    """What it calls in turn is its own affair, within the skill's rights."""
    from tests.harness import Provider, text

    async def outer(_input, ctx):
        return text(structured=await ctx.call("demo.inner", {}))

    async def inner(_input, ctx):
        return text(structured={"who": str(ctx.principal)})

    provider = Provider().offer("demo.outer", outer).offer("demo.inner", inner)
    project.zodiac()
    project.jung(
        "async def ask(input, ctx):\n    return [await ctx.call('demo.outer'), "
        "await ctx.call('demo.' + 'inner')]",
        'requires: {tools: [demo.outer]}\npermissions: ["tool.call:demo.*"]',
    )
    async with project.hive(provider) as hive, hive.session() as session:
        allowed, refused = await session.call("jung.ask", {})
    assert allowed == {"who": "skill:jung"}
    assert refused["error"] == "tool_not_imported"


async def test_a_provider_that_comes_later_takes_its_own_name_back(project):
    from tests.harness import Provider, echo

    project.zodiac()
    project.jung(
        "async def ask(input, ctx):\n    return await ctx.call('calculate', {'date': 'd'})"
    )
    async with project.hive() as hive, hive.session() as session:
        await hive.catalog.add(Provider("zz").offer("zodiac.calculate", echo))
        tool = hive.catalog.current.tools["zodiac.calculate"]
        assert tool.meta.provider_id == "zz"
        (shadow,) = hive.catalog.current.shadowed
        assert "a skill never takes" in shadow.reason
        assert (await session.call("jung.ask", {}))["error"] == "tool_not_imported"


async def test_what_a_skill_calls_may_call_what_its_own_contract_names(project):
    """Down the chain, although the first caller names only the first link."""
    project.zodiac("""
async def calculate(input, ctx):
    return {"chart": await ctx.call("peek")}

async def peek(input, ctx):
    return {"kept": await ctx.read("skills.zodiac.x")}
""")
    project.jung(asking("await ctx.call('calculate', {'date': 'd'})"))
    project.skill(
        "top",
        "id: top\n"
        + exports("ask")
        + "imports: [{from: jung, tools: [ask]}]\npermissions: ['fs.read:${workspace}/**']",
        asking("await ctx.call('jung.ask')"),
    )
    assert await project.value("top.ask") == {"chart": {"kept": None}}


async def test_a_plugins_tool_keeps_values_of_its_own(project):
    from tests.harness import Provider, text

    async def count(_input, ctx):
        before = await ctx.store.get("n", 0)
        await ctx.store.put("n", before + 1)
        return text(structured={"n": before + 1, "keys": await ctx.store.keys()})

    project.zodiac()
    for number in (1, 2):
        async with project.hive() as hive, hive.session() as session:
            await hive.catalog.add(Provider("demo").offer("demo.count", count))
            assert await session.call("demo.count", {}) == {"n": number, "keys": ["n"]}


async def test_a_handler_sees_the_users_profile(project):
    project.zodiac()
    project.jung(asking("ctx.profile['identity']['birth_info']"))
    config = project.root.parent / "config" / "clawhive" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[user.profile.identity.birth_info]\ndate = 1990-05-01\nplace = 'Bonn'\n")
    assert await project.value("jung.ask") == {"date": "1990-05-01", "place": "Bonn"}


@pytest.mark.promise("P-189")
@pytest.mark.parametrize("phase", ["compat", "enforce", "final"])
async def test_an_undeclared_call_is_policys_alone_in_compat_and_refused_later(project, phase):
    """The rights of the skill bound it all the same."""
    project.root.joinpath("a.md").write_text("hello", "utf-8")
    project.zodiac()
    handlers = """
async def ask(input, ctx):
    return [await ctx.call(name, {"path": "a.md"}) for name in ("file.read", "file.write")]
"""
    project.jung(handlers, 'permissions: ["fs.read:${workspace}/**"]')
    read, write = await project.value("jung.ask", **{"contracts.phase": phase})
    if phase == "compat":
        assert read["text"] == "hello"
        assert write["error"] != "tool_not_imported"
        assert "error" in write
    else:
        assert {read["error"], write["error"]} == {"tool_not_imported"}


@pytest.mark.promise("P-189")
async def test_a_written_call_around_the_contract_keeps_a_skill_out_but_in_compat(project):
    project.zodiac()
    project.jung(asking("await ctx.call('zodiac.peek', {})"))
    async with project.hive() as hive:
        assert hive.skill_set.find("jung").state == "invalid"
        assert any("CH0615" in note for note in hive.notes)
    called = await project.value("jung.ask", **{"contracts.phase": "compat"})
    assert called == {"data": None}


RISKY = """
id: one
permissions: ["net.http:api.example.com/**"]
risk_policy: %s
exports:
  api_version: "1.0"
  tools:
    - {name: f, input_schema: {}, output_schema: {}}
    - {name: g, input_schema: {}, output_schema: {}, risk: safe, capability_level: L0}
"""


@pytest.mark.promise("P-187")
@pytest.mark.parametrize(
    ("policy", "offered", "confirms"),
    [
        ("{}", {"one.f", "one.g"}, False),
        ("{max_level: L1}", {"one.g"}, False),
        ("{max_risk: guarded}", {"one.g"}, False),
        ("{confirm: true}", {"one.f", "one.g"}, True),
    ],
)
async def test_a_risk_policy_only_tightens_what_enters_the_catalog(
    project, policy, offered, confirms
):
    handlers = "def f(input, ctx): ...\ndef g(input, ctx): return 1\n"
    project.skill("one", RISKY % policy, handlers)
    async with project.hive() as hive, hive.session() as session:
        tools = hive.catalog.current.tools
        found = {name for name in tools if name.startswith("one.")}
        assert found == offered
        assert tools["one.g"].meta.requires_confirm is confirms
        left_out = [note for note in hive.notes if "left out by the skill's risk_policy" in note]
        assert len(left_out) == 2 - len(offered)
        called = await session.call("one.g", {})
    assert (called == 1) is not confirms


@pytest.mark.promise("P-187")
@pytest.mark.parametrize(
    ("allowed", "started"),
    [("", True), ("allowed_run_types: []\n", False), ("allowed_run_types: [read]\n", True)],
)
async def test_a_handler_starts_the_task_types_that_its_contract_allows(project, allowed, started):
    project.zodiac()
    task = "tasks: {read: {steps: [{name: a, tool: zodiac.calculate, input: {date: d}}]}}\n"
    handlers = asking("await ctx.call('jung.' + 'read', {})")
    project.jung(handlers, task + allowed)
    answer = await project.value("jung.ask")
    assert ("tool_not_imported" in str(answer)) is not started
