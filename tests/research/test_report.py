"""`research_report` through a whole project: tools, rights, files, replay."""

import hashlib
import json
import os
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from clawhive_core import Hive, ToolMeta, ToolResult
from clawhive_core.runs.requests import RunOptions
from clawhive_core.testing import ScriptedModel, calling, memory_hive

BUILTIN = {"plugins.enabled": ["builtin"]}
QUERY = "How are approvals parked?"
SCHEMA = jsonschema.Draft202012Validator(
    json.loads(resources.files("clawhive_core").joinpath("data/schemas/evidence.json").read_text())
)


class Search:
    """Another provider of `web.search`."""

    provider_id = "web"

    def __init__(self, answer):
        self.answer = answer

    async def list_tools(self):
        schema = {"type": "object"}
        return [
            ToolMeta("web.search", "Search.", schema, "web", risk="safe", capability_level="L0")
        ]

    async def invoke(self, tool_name, input, ctx):
        if isinstance(self.answer, Exception):
            raise self.answer
        return ToolResult(ctx.tool_call_id, "found", structured=self.answer)

    async def close(self):
        """Nothing is held."""


def page(number, snippet="An approval is parked.", provider="web"):
    url = f"https://example.org/{number}"
    return {"title": f"Page {number}", "url": url, "snippet": snippet, "provider": provider}


@pytest.fixture
async def hive():
    async with memory_hive(settings=BUILTIN) as made:
        yield made


def put(hive, **texts):
    for name, text in texts.items():
        path = hive.root / name.replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


async def report(hive, **input):
    run = await hive.run(task="research_report", input={"query": QUERY, **input})
    assert run["status"] == "succeeded", run["error"]
    folder = Path(run["artifacts_dir"])
    assert (folder / "report.md").read_text("utf-8") == run["output"]
    evidence = json.loads((folder / "evidence.json").read_text("utf-8"))
    assert list(SCHEMA.iter_errors(evidence)) == []
    return run, evidence


def codes(evidence):
    return {each["about"]: each["code"] for each in evidence["warnings"]}


@pytest.mark.promise("P-067")
async def test_it_quotes_local_documents_with_their_places_and_replays(hive):
    put(
        hive,
        a__md="# Rules\r\n\r\nApprovals 😀 are parked, 再開 later.\r\n",
        b__md="No word of it.",
    )
    run, evidence = await report(hive, documents=["*.md"])
    (item,) = [each for each in evidence["items"] if each["url"] == "a.md"]
    data = (hive.root / "a.md").read_bytes()
    assert data.decode()[item["span"]["start"] : item["span"]["end"]] == item["snippet"]
    assert item["sha256"] == hashlib.sha256(data).hexdigest()
    assert item["source_index"] == 1
    assert "[1]" in run["output"]
    assert "`a.md`" in run["output"]
    assert "b.md" not in run["output"]
    assert {each["path"]: each["media_type"] for each in run["artifacts"]} == {
        "report.md": "text/markdown",
        "report.html": "text/html",
        "evidence.json": "application/json",
        "sources.json": "application/json",
    }
    names = [each["name"] for each in run["steps"]]
    assert names[0] == "tool.research.gather"
    assert {"tool.file.search", "tool.file.read", "tool.web.search"} <= set(names)
    for step in run["steps"]:
        assert step["provider_id"]
        assert step["capability_level"] in {"L0", "L1"}
        assert step["input_preview"]
        assert step["output_preview"]
    result = await hive.replay(run["run_id"])
    assert (result.ok, result.complete) == (True, True)


@pytest.mark.promise("P-067")
async def test_the_stub_is_marked_in_report_and_evidence(hive):
    run, evidence = await report(hive)
    assert [each["made_up"] for each in evidence["sources"]] == [True] * 3
    assert "No real source was found" in run["output"]
    assert run["output"].count("(made up by the stub)") == 3
    assert codes(evidence) == {"web.search": "stub"}


@pytest.mark.parametrize("count", [1, 2, 20])
async def test_there_are_never_more_sources_than_asked_for(hive, count):
    put(hive, **{f"d{n}__md": f"Approval number {n}." for n in range(9)})
    _, evidence = await report(hive, documents="*.md", max_sources=count)
    assert len(evidence["sources"]) == min(count, 9 + 3)
    assert [each["index"] for each in evidence["sources"]] == list(range(1, min(count, 12) + 1))


@pytest.mark.promise("P-068")
async def test_what_cannot_be_read_is_named_and_the_rest_is_used(hive):
    put(hive, good__md="Approvals are parked.", b__bin=b"\xff\xfe approvals", n__txt="approval\0")
    put(hive, __env="KEY=approvals", other__md="Nothing.", same__md="Approvals are parked.")
    put(hive, huge__txt="An approval.\n" + "filler\n" * 60_000)
    names = ["good.md", "b.bin", "n.txt", ".env", "other.md", "same.md", "huge.txt", "gone.md"]
    run, evidence = await report(hive, documents=[*names, "none/*.md", "/etc/passwd"])
    found = codes(evidence)
    assert found.pop("none/*.md") == "not_found"
    assert found == {
        "b.bin": "not_text",
        "n.txt": "not_text",
        ".env": "denied",
        "other.md": "no_match",
        "same.md": "duplicate",
        "huge.txt": "truncated",
        "gone.md": "not_found",
        "/etc/passwd": "denied",
        "web.search": "stub",
    }
    real = [each["url"] for each in evidence["sources"] if not each["made_up"]]
    assert sorted(real) == ["good.md", "huge.txt"]
    assert "KEY=approvals" not in json.dumps([run, evidence])
    for name in found:
        assert f"`{name}`" in run["output"]


async def test_a_folder_stands_for_its_text_files_but_not_for_old_reports(hive):
    put(hive, **{"docs/a__md": "Approvals.", "docs/x/b__txt": "Approvals.\n\nParked."})
    put(hive, **{"clawhive-out/run_1/report__md": "Approvals are parked."})
    for documents, expected in (
        ("docs", ["docs/a.md", "docs/x/b.txt"]),
        ("docs/", ["docs/a.md", "docs/x/b.txt"]),
        (".", ["docs/a.md", "docs/x/b.txt"]),
        ("**/*.md", ["docs/a.md"]),
        ("clawhive-out/**/report.md", ["clawhive-out/run_1/report.md"]),
    ):
        _, evidence = await report(hive, documents=documents, max_sources=20)
        real = [each["url"] for each in evidence["sources"] if not each["made_up"]]
        assert sorted(real)[: len(expected)] == expected, documents
        for old in (hive.root / "clawhive-out").glob("run_*/report.md"):
            if old.parent.name != "run_1":
                old.unlink()


async def test_of_many_documents_the_best_are_read_and_the_others_counted(hive):
    put(hive, **{f"many/d{n:04}__md": f"Number {n} is parked." for n in range(300)})
    put(hive, **{"many/z__md": "Approvals are parked."})
    run, evidence = await report(hive, documents="many", max_sources=1)
    assert [each["url"] for each in evidence["sources"]] == ["many/z.md"]
    reads = [each for each in run["steps"] if each["name"] == "tool.file.read"]
    assert len(reads) <= 41
    assert codes(evidence)["many/**"] == "too_many"


async def test_too_many_documents_by_name_are_refused_at_once(hive):
    from clawhive_core.errors import InvalidInput

    with pytest.raises(InvalidInput) as refused:
        await report(hive, documents=[f"d{n}.md" for n in range(101)])
    assert refused.value.place == "/documents"


@pytest.mark.parametrize(
    "input", [{"query": ""}, {"query": " \n"}, {"depth": "4"}, {"max_sources": 0}]
)
async def test_bad_input_is_refused_with_its_place_and_no_run(hive, input):
    from clawhive_core.errors import InvalidInput

    with pytest.raises(InvalidInput) as refused:
        await report(hive, **input)
    assert refused.value.place == f"/{next(iter(input))}"
    assert hive.log.read("SELECT count(*) FROM runs")[0][0] == 0


@pytest.mark.parametrize(
    ("depth", "count"), [("quick", 1), ("standard", 3), ("deep", 6), (1, 1), ("3", 6)]
)
async def test_depth_says_how_much_of_a_source_is_quoted(hive, depth, count):
    put(hive, a__md="\n\n".join(f"Approval {n} is parked." for n in range(9)))
    _, evidence = await report(hive, documents="a.md", depth=depth, max_sources=1)
    assert len(evidence["items"]) == count


async def test_another_provider_of_the_search_serves_it_by_the_order():
    items = [page(1), page(1), page(2, "Unrelated.")]
    async with memory_hive(providers=[Search({"items": items})], settings=BUILTIN) as hive:
        put(hive, a__md="Approvals wait.")
        run, evidence = await report(hive, documents="a.md")
    urls = [each["url"] for each in evidence["sources"]]
    assert urls == ["https://example.org/1", "a.md", "https://example.org/2"]
    assert not any(each["made_up"] for each in evidence["sources"])
    assert "<https://example.org/1>" in run["output"]


async def test_saved_pages_are_searched_as_the_web(tmp_path):
    config = tmp_path / "home" / "clawhive"
    config.mkdir(parents=True)
    config.joinpath("config.toml").write_text('[plugins.builtin]\npages = "pages"\n')
    pages = tmp_path / "project" / "pages"
    pages.mkdir(parents=True)
    pages.joinpath("a.md").write_text("url: https://example.org/a\nApprovals are parked here.\n")
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(config.parent), "PATH": os.environ["PATH"]}
    async with Hive.open(tmp_path / "project", env=env) as hive:
        run, evidence = await report(hive)
    (source,) = evidence["sources"]
    assert (source["url"], source["provider"]) == ("https://example.org/a", "pages")
    assert "made up" not in run["output"]


@pytest.mark.parametrize("answer", [RuntimeError("no network"), {"items": []}, {"items": [{}]}, []])
async def test_a_search_that_fails_or_finds_nothing_leaves_the_documents(answer):
    async with memory_hive(providers=[Search(answer)], settings=BUILTIN) as hive:
        put(hive, a__md="Approvals are parked.")
        _, evidence = await report(hive, documents="a.md")
        empty = await hive.run(task="research_report", input={"query": QUERY})
        written = (Path(empty["artifacts_dir"]) / "report.md").read_text("utf-8")
    assert [each["url"] for each in evidence["sources"]] == ["a.md"]
    is_broken = isinstance(answer, Exception) or answer == {"items": [{}]}
    assert ("web.search" in codes(evidence)) == is_broken
    assert (empty["status"], empty["error"]["code"]) == ("failed", "nothing_found")
    assert "No source was found." in written


async def test_a_user_who_denies_the_search_gets_a_report_of_the_documents():
    async with memory_hive(settings={**BUILTIN, "policy.deny": ["tool.call:web.search"]}) as hive:
        put(hive, a__md="Approvals are parked.")
        _, evidence = await report(hive, documents="a.md")
    assert codes(evidence) == {"web.search": "denied"}
    assert len(evidence["sources"]) == 1


async def test_it_reads_nothing_beyond_the_workspace_whatever_was_granted(hive, tmp_path):
    outside = tmp_path / "secret.md"
    outside.write_text("Approvals are parked.")
    options = RunOptions(grants=(f"fs.read:{tmp_path}/**",))
    given = {"query": QUERY, "documents": [str(outside)]}
    run = await hive.run(task="research_report", input=given, options=options)
    assert run["status"] == "succeeded"
    assert "secret.md" in run["output"]
    assert "Approvals are parked." not in run["output"]


async def test_a_model_calls_it_as_a_tool_and_gets_its_files():
    model = ScriptedModel(
        [calling("research.research_report", {"query": QUERY, "documents": "a.md"}), "Done."]
    )
    async with memory_hive(adapters=[model], settings=BUILTIN) as hive:
        put(hive, a__md="Approvals are parked.")
        run = await hive.run("Report.", model="scripted:x")
        replayed = await hive.replay(run["run_id"])
    assert run["status"] == "succeeded"
    assert {each["path"] for each in run["artifacts"]} == {
        *("report.md", "report.html", "evidence.json", "sources.json")
    }
    assert replayed.ok
