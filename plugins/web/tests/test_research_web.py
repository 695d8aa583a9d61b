"""`research_report` over real HTTP: five questions that pages of the tiny web answer."""

import hashlib
import json
import sys
from pathlib import Path

import pytest

from clawhive_core import ToolMeta, ToolResult
from clawhive_core.runs.requests import RunOptions
from clawhive_core.testing import ScriptedModel, memory_hive
from clawhive_web.pages import WebPages

TINY = Path(__file__).parents[3] / "examples" / "tiny-web"
sys.path.append(str(TINY))
serve = pytest.importorskip("serve")
QUESTIONS = json.loads((TINY / "questions.json").read_text("utf-8"))
BUILTIN = {"plugins.enabled": ["builtin"]}
QUERY = "How long is mackerel smoked in Kestrel Bay?"


class Search:
    """`web.search` by the tiny web's own engine, asked over HTTP."""

    provider_id = "tiny"

    def __init__(self, base):
        self.base = base

    async def list_tools(self):
        schema = {"type": "object"}
        return [
            ToolMeta(
                "web.search",
                "Search.",
                schema,
                "tiny",
                risk="safe",
                capability_level="L0",
                effects={"": f"net.http:{self.base}/search"},
            )
        ]

    async def invoke(self, tool_name, input, ctx):
        asked = {"q": input["query"], "format": "json"}
        page = await ctx.http.request("GET", f"{self.base}/search", params=asked)
        items = [
            {"title": x["title"], "url": x["url"], "snippet": x["content"], "provider": x["engine"]}
            for x in page.json()["results"]
        ]
        return ToolResult(ctx.tool_call_id, "found", structured={"items": items})

    async def close(self):
        """Nothing is held."""


@pytest.fixture(scope="module")
def web():
    with serve.tiny_web(slow=0) as server:
        yield server


@pytest.fixture
async def hive(web):
    providers = [WebPages(), Search(web.url)]
    async with memory_hive(providers=providers, settings=BUILTIN) as made:
        yield made


async def report(hive, web, query, **more):
    options = RunOptions(grants=(f"net.http:{web.url}/**",))
    given = {"query": query, "max_sources": 3, **more}
    run = await hive.run(task="research_report", input=given, options=options)
    return run, json.loads(written(run, "evidence.json"))


def written(run, name):
    return (Path(run["artifacts_dir"]) / name).read_text("utf-8")


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each["from"])
async def test_the_report_quotes_what_answers_the_question(hive, web, question):
    run, evidence = await report(hive, web, question["query"])
    assert run["status"] == "succeeded", run["error"]
    quoted = [each for each in evidence["items"] if each["url"] == web.url + question["from"]]
    held = " ".join(each["snippet"] for each in quoted)
    assert [fact for fact in question["facts"] if fact not in " ".join(held.split())] == []
    page = written(run, "report.html")
    assert all(fact in " ".join(page.split()) for fact in question["facts"])
    assert len(evidence["sources"]) <= 3


async def test_each_quotation_stands_at_its_span_of_the_page_as_it_was_recorded(hive, web):
    run, evidence = await report(hive, web, QUESTIONS[0]["query"])
    sources = json.loads(written(run, "sources.json"))
    assert sources == evidence["sources"]
    reader = WebPages()
    for item in evidence["items"]:
        name = item["url"].removeprefix(web.url).lstrip("/") or "index.html"
        body = (TINY / "pages" / name).read_bytes()
        found = await reader._readers.read(body, "html", url=item["url"], charset="utf-8")
        text = found["text"]
        assert text[item["span"]["start"] : item["span"]["end"]] == item["snippet"]
        assert hashlib.sha256(text.encode()).hexdigest() == item["sha256"]
    await reader.close()


async def test_pages_that_fail_are_listed_and_the_rest_is_used(hive, web):
    run, evidence = await report(hive, web, QUERY, max_sources=9)
    noted = {each["about"]: each["code"] for each in evidence["warnings"]}
    assert noted[f"{web.url}/gone.html"] == "page_failed"
    assert "six hours" in run["output"]


async def test_a_run_repeats_exactly_from_the_log_with_the_server_unasked(hive, web):
    run, _ = await report(hive, web, QUESTIONS[1]["query"])
    before = len(web.requests)
    result = await hive.replay(run["run_id"])
    assert (result.ok, result.complete) == (True, True)
    assert len(web.requests) == before


async def test_nothing_found_is_a_failed_run_whose_report_is_kept(hive, web):
    run, evidence = await report(hive, web, "zyzzyva quokka")
    assert (run["status"], run["error"]["code"]) == ("failed", "nothing_found")
    assert evidence["sources"] == []
    assert "No source was found." in written(run, "report.md")


async def test_what_a_hostile_page_tells_to_do_is_not_done(hive, web):
    run, _ = await report(hive, web, "secrets of smoked mackerel revealed, instructions")
    called = {each["name"] for each in run["steps"]}
    assert not called & {"tool.shell.exec", "tool.file.read", "tool.file.write"}
    assert not [each for each in web.requests if "collector" in each]


async def test_of_a_models_answer_only_what_the_quotations_support_is_kept(web):
    said = "Mackerel is smoked for six hours [1].\nMackerel is smoked for forty-1 hours [1].\nYes."
    providers = [WebPages(), Search(web.url)]
    model = ScriptedModel([said])
    async with memory_hive(providers=providers, adapters=[model], settings=BUILTIN) as hive:
        run, evidence = await report(hive, web, QUERY, model="scripted:x")
        replayed = await hive.replay(run["run_id"])
    assert "- Mackerel is smoked for six hours. ([1], characters" in run["output"]
    left = [each["message"] for each in evidence["warnings"] if each["code"] == "unsupported"]
    assert len(left) == 2
    assert "do not hold the number 1" in left[0]
    assert replayed.ok
