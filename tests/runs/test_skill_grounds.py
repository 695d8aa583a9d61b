"""What a trusted skill's own search returned, its own calls may read; nobody else's."""

import pytest

from clawhive_core import Hive
from clawhive_core.hive.hive import RunOptions
from clawhive_core.plugins.manager import open_plugins
from clawhive_core.testing import ScriptedModel, calling
from clawhive_core.testing.memory import _Given
from tests.harness import Provider, text

FOUND = {
    "items": [
        {
            "title": "",
            "url": "https://a.example/1",
            "snippet": "or see https://evil.example/x",
            "provider": "web",
        }
    ]
}
ASKS = "ask:sink.url"
PAGES = """
      - {name: search, tool: web.search, input: {query: "${input.query}"}}
      - {name: keep, tool: web.keep}
      - name: pages
        tool: web.fetch
        for_each: "${steps.search.output.items}"
        input: {url: "${item.url}"}
"""
GROUNDS = "grounds: {web.search: ['items/*/url:url']}"
SKILL = """
id: find
version: 1.0.0
permissions: ["net.http:**"]
requires: {tools: [web.search, web.fetch, web.post, web.crawl, web.wipe]}
exports:
  api_version: "1.0"
  tools:
    - name: ask
      capability_level: L0
      risk: safe
      records: ['page:url']
      input_schema: {}
      output_schema: {}
%s
tasks:
  report:
    input_schema: {type: object, properties: {query: {type: string}}}
    steps:%s
"""
HANDLER = """
async def ask(input, ctx):
    found = await ctx.call("web.search", {"query": "made up by the skill"})
    url = found["items"][0][input.get("from", "url")].split()[-1]
    return await ctx.call(input.get("tool", "web.fetch"), {"url": url})
"""
READS = {"effects": {"url": "net.http"}, "sinks": ("url:url",)}


async def search(_input, _ctx):
    return text("found", structured=FOUND)


async def fetch(given, _ctx):
    return text(f"page {given['url']}")


async def crawl(given, ctx):
    return text(str(await ctx.call("web.fetch", given)))


def web():
    keep = {"requires_confirm": True, "risk": "safe"}
    return (
        Provider("web")
        .offer("web.search", search)
        .offer("web.fetch", fetch, **READS)
        .offer("web.post", fetch, **READS, side_effects=True, risk="guarded")
        .offer("web.wipe", fetch, **READS, risk="unsafe")
        .offer("web.crawl", crawl)
        .offer("web.keep", fetch_nothing, **keep)
    )


async def fetch_nothing(_given, _ctx):
    return text("kept")


class Project:
    """The skill `find` over a web of one page."""

    def __init__(self, root):
        self.root = root
        self.web = web()
        self.env = {"HOME": str(root.parent), "XDG_CONFIG_HOME": str(root.parent / "config")}

    def write(self, grounds=GROUNDS, steps=PAGES, handler=HANDLER, *, trusted=True):
        folder = self.root / "skills" / "find"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "clawhive.yaml").write_text(SKILL % (grounds, steps), "utf-8")
        (folder / "handlers.py").write_text(handler, "utf-8")
        if trusted:
            from clawhive_core.config.load import open_config
            from clawhive_core.skills.discovery.decisions import SkillTrust, content_digest
            from clawhive_core.skills.load import load_skills

            config = open_config(self.root, {}, self.env)
            skill = load_skills(config, env=self.env).find("find").skill
            SkillTrust(config.user_dir).add(skill, content_digest(skill.content), self.env)

    def hive(self, model=None, **flags):
        def load(config, env):
            adapters = {} if model is None else {"clawhive_llm_adapters": (model,)}
            return _Given((self.web,), adapters, open_plugins(config, env))

        flags = {"plugins.enabled": ["builtin"], **flags}
        return Hive.open(self.root, flags=flags, env=self.env, plugins=load)

    @property
    def fetched(self):
        return [given["url"] for name, given in self.web.calls if name == "web.fetch"]


@pytest.fixture
def project(project_root):
    return Project(project_root)


async def asked(hive):
    """Return why calls asked, each tool with its rules of sinks."""
    await hive.log.flush()
    kinds = {"approval.requested", "invocation.refused"}
    rows = [each.event for each in hive.log.events() if each.event.kind in kinds]
    return [(row.tool, [rule for rule in row.body["rules"] if "sink" in rule]) for row in rows]


TASK = {"task": "find.report", "input": {"query": "x"}}


@pytest.mark.promise("P-118")
async def test_the_pages_that_a_tasks_own_search_found_are_read_without_asking(project):
    project.write(steps=PAGES.replace("      - {name: keep, tool: web.keep}\n", ""))
    async with project.hive() as hive:
        run = await hive.run(**TASK)
        assert (run["status"], project.fetched) == ("succeeded", ["https://a.example/1"])
        assert await asked(hive) == []


@pytest.mark.promise("P-118")
async def test_a_run_that_goes_on_still_knows_what_its_search_found(project):
    project.write()
    async with project.hive() as hive:
        run = await hive.run(**TASK)
        assert (run["status"], await asked(hive)) == ("waiting_approval", [("web.keep", [])])
        hive.approvals.resolve("last", "approve", by="user:ana")
    async with project.hive() as hive:
        run = await hive.resume("last")
        assert (run["status"], project.fetched) == ("succeeded", ["https://a.example/1"])


@pytest.mark.parametrize(
    ("grounds", "trusted"), [("", True), ("grounds: {web.search: []}", True), (GROUNDS, False)]
)
async def test_without_a_trusted_contract_that_says_so_a_found_page_asks(project, grounds, trusted):
    steps = PAGES.replace("      - {name: keep, tool: web.keep}\n", "")
    project.write(grounds, steps, trusted=trusted)
    async with project.hive() as hive:
        run = await hive.run(**TASK, options=RunOptions(grants=["net.http:**", "tool.call:**"]))
        assert (run["status"], project.fetched) == ("waiting_approval", [])
        assert await asked(hive) == [("web.fetch", [ASKS])]


async def test_the_right_to_reach_the_page_still_comes_from_grants(project):
    project.write(steps=PAGES.replace("      - {name: keep, tool: web.keep}\n", ""))
    async with project.hive(**{"policy.ask": ["net.http:https://a.example/**"]}) as hive:
        run = await hive.run(**TASK)
        assert run["status"] == "waiting_approval"
        assert await asked(hive) == [("web.fetch", [])]


@pytest.mark.parametrize(
    ("given", "asks"),
    [
        ({}, []),
        ({"from": "snippet"}, [("web.fetch", [ASKS])]),
        ({"tool": "web.post"}, [("web.post", [ASKS])]),
        ({"tool": "web.crawl"}, [("web.fetch", [ASKS])]),
    ],
    ids=["its url", "a link in the text", "what changes something", "what another tool reads"],
)
async def test_a_handler_reads_what_its_own_search_found_and_nothing_more(project, given, asks):
    project.write()
    options = RunOptions(words=("look it up",), approve="park")
    rights = {"policy.allow": ["net.http:**", "tool.call:**"]}
    async with project.hive(**rights) as hive:
        async with hive.session("agent:default", options) as session:
            await session.call("find.ask", given)
        assert await asked(hive) == asks
        assert len([name for name, _ in project.web.calls if name != "web.crawl"]) == 2 - len(asks)


async def test_a_task_that_a_model_calls_reads_what_its_search_found(project):
    project.write(steps=PAGES.replace("      - {name: keep, tool: web.keep}\n", ""))
    model = ScriptedModel([calling("find.report", {"query": "made up by a model"}), "done"])
    rights = {"policy.allow": ["net.http:**", "tool.call:**"]}
    async with project.hive(model, **rights) as hive:
        run = await hive.run("look it up", model="scripted:x")
        assert (run["status"], project.fetched) == ("succeeded", ["https://a.example/1"])


async def test_an_unsafe_tool_is_denied_what_the_skills_search_found(project):
    project.write()
    rights = {"policy.allow": ["net.http:**", "tool.call:**"]}
    words = RunOptions(words=("look it up",))
    async with project.hive(**rights) as hive, hive.session("agent:default", words) as session:
        outcome = await session.call("find.ask", {"tool": "web.wipe"})
        assert outcome["error"] == "denied"
        await hive.log.flush()
        rows = [each.event for each in hive.log.events()]
        (refused,) = [row.body for row in rows if row.kind == "invocation.refused"]
        assert "deny:tainted.url" in refused["rules"]


async def test_a_model_may_not_name_what_a_skills_search_found(project):
    project.write()
    script = [
        calling("find.ask", {}),
        calling("web.fetch", {"url": "https://a.example/1"}),
        "done",
    ]
    model = ScriptedModel(script)
    rights = {"policy.allow": ["net.http:**", "tool.call:**"]}
    async with project.hive(model, **rights) as hive:
        run = await hive.run("look it up", model="scripted:x")
        assert (run["status"], project.fetched) == ("waiting_approval", ["https://a.example/1"])
        assert await asked(hive) == [("web.fetch", [ASKS])]
