"""Two runs compared with each other, and one run as a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from clawhive_core.runs.record.diff import diff_runs, lines_of
from clawhive_core.runs.record.page import MAX_TEXT, page
from clawhive_core.testing import ScriptedModel, calling, memory_hive

MODEL = "scripted:test"


def script(n, text="ok"):
    return [calling("test.echo", {"n": n}), text]


@pytest.mark.promise("P-113")
async def test_a_run_and_its_repetition_do_not_differ(tools):
    model = ScriptedModel([*script(1), *script(1)])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        one = await hive.run("go", model=MODEL)
        other = await hive.run("go", model=MODEL)
        found = diff_runs(hive.log, one["run_id"], other["run_id"])
        assert found.equal
        assert list(lines_of(found)) == []


@pytest.mark.promise("P-113")
async def test_steps_that_one_run_lacks_and_facts_that_differ_are_named(tools):
    answers = iter(["a" * 5000 + "1", "a" * 5000 + "2"])
    tools.add("test.long", lambda given, ctx: next(answers))
    long = calling("test.long", {})
    model = ScriptedModel([*script(1)[:1], long, "ok", *script(2)[:1], long, "no"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        one = await hive.run("go", model=MODEL)
        other = await hive.run("go", model=MODEL)
        found = diff_runs(hive.log, one["run_id"], other["run_id"])
    assert [(step.change, step.name, step.input) for step in found.steps] == [
        ("removed", "tool.test.echo", {"n": 1}),
        ("added", "tool.test.echo", {"n": 2}),
        ("changed", "tool.test.long", {}),
        ("changed", "answer", ""),
    ]
    assert [each.field for each in found.fields] == ["output"]
    assert any(line.startswith("+ tool.test.echo") for line in lines_of(found))


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.links += [value for name, value in attrs if name in {"src", "href", "onclick"}]
        if tag not in {"meta", "!doctype"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.promise("P-114")
async def test_a_page_holds_the_run_loads_nothing_and_closes_what_it_opens(tools):
    evil = "<script>alert(1)</script><img src=x onerror=y>"
    tools.add("test.evil", lambda given, ctx: evil)
    tools.add("test.write", lambda given, ctx: "", effects={"path": "fs.write"})
    model = ScriptedModel(
        [calling("test.evil", {"say": evil}), calling("test.write", {"path": "/x"}), evil]
    )
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run(f"go {evil}", model=MODEL)
        text = page(hive.log, run["run_id"])
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.links == []
    assert not {"script", "img", "link", "iframe"} & set(tags.seen)
    assert text.count('<details class="call') == 2
    assert text.count('<details class="model') == 3
    assert 'class="call refused"' in text
    assert "&lt;script&gt;" in text
    assert "default-src 'none'" in text
    assert run["run_id"] in text


async def test_a_value_that_is_too_long_is_cut_and_says_so(tools):
    tools.add("test.long", lambda given, ctx: "y" * (MAX_TEXT + 10))
    model = ScriptedModel([calling("test.long", {}), "ok"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
        text = page(hive.log, run["run_id"])
    assert "characters in the log]" in text
    assert len(text) < 10 * MAX_TEXT


async def test_a_secret_is_in_no_page(tools):
    effects = {"": "secret.use:TOKEN"}
    tools.add("test.say", lambda given, ctx: f"it is {ctx.secret('TOKEN')}", effects=effects)
    model = ScriptedModel([calling("test.say", {}), "ok"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        hive._env["TOKEN"] = "sw0rdfish-and-more"
        run = await hive.run("go", model=MODEL, grants=("secret.use:TOKEN",))
        text = page(hive.log, run["run_id"])
    assert "it is [redacted]" in text
    assert "sw0rdfish" not in text
    assert re.search(r"redacted", text, re.IGNORECASE)


async def test_an_interrupted_run_has_a_page_too(define, tools):
    async with memory_hive(providers=[tools]) as hive:
        define(hive, {"name": "fail", "tool": "test.fail", "input": {}})
        run = await hive.run(task="job")
        assert "test.fail" in page(hive.log, run["run_id"])
