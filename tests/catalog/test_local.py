"""Tools that are added while the process runs, and tools that the configuration names."""

import sys
import threading

import pytest

from clawhive_core import Hive, ToolError, ToolMeta
from clawhive_core.errors import ConfigError, UnknownId, UsageError
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import ToolCall
from clawhive_core.testing import memory_hive
from tests.harness import Provider, echo

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING = {"type": "object"}


def meta(name="notes.count", schema=TEXT, **more):
    return ToolMeta(name, "Count.", schema, "anything", **{"risk": "safe", **more})


def count(text):
    return {"characters": len(text)}


async def call(hive, name="notes.count", input=None):
    return (await hive.call(name, {"text": "abc"} if input is None else input))[1]


async def test_an_added_tool_is_called_like_any_other_and_recorded():
    async with memory_hive() as hive:
        before = hive.catalog.current.revision
        revision = hive.tools.add(meta(), count)
        assert revision == hive.catalog.current.revision != before
        outcome = await call(hive)
        assert outcome.structured == {"characters": 3}
        await hive.log.flush()
        (row,) = hive.log.read("SELECT tool, provider_id, capability_level FROM v_invocations")
        assert tuple(row) == ("notes.count", "local", "L0")


async def test_each_change_is_a_new_revision_in_the_log():
    async with memory_hive() as hive:
        first = hive.tools.add(meta(), count)
        second = hive.tools.remove("notes.count")
        await hive.log.flush()
        rows = [s.event for s in hive.log.events() if s.event.kind == "catalog.revision"]
        assert [row.body["catalog_revision"] for row in rows] == [first, second]
        assert first != second


async def test_adding_the_same_again_is_no_change():
    async with memory_hive() as hive:
        assert hive.tools.add(meta(), count) == hive.tools.add(meta(), count)
        await hive.log.flush()
        kinds = [stored.event.kind for stored in hive.log.events()]
        assert kinds.count("catalog.revision") == 1


async def test_a_call_offered_under_the_older_contract_answers_tool_changed():
    async with memory_hive() as hive:
        old = hive.tools.add(meta(), count)
        hive.tools.add(meta(idempotent=True), count)
        async with hive.session() as session:
            scope_of = session._request
            from clawhive_core.execution.scope import CallScope

            scope = CallScope(scope_of.scope, scope_of.principal, "step_1")
            asked = ToolCall("c", "notes.count", {"text": "x"}, old)
            outcome = await hive.executor.invoke(asked, scope)
        assert isinstance(outcome, Refusal)
        assert outcome.error == "tool_changed"


async def test_a_removed_tool_is_gone_and_cannot_be_removed_twice():
    async with memory_hive() as hive:
        hive.tools.add(meta(), count)
        hive.tools.remove("notes.count")
        assert (await call(hive)).error == "tool_not_found"
        with pytest.raises(UnknownId, match=r"notes\.count"):
            hive.tools.remove("notes.count")


async def test_only_what_was_added_here_can_be_removed():
    provider = Provider().offer("demo.echo", echo)
    async with memory_hive(providers=[provider]) as hive:
        with pytest.raises(UnknownId):
            hive.tools.remove("demo.echo")
        assert hive.catalog.current.find("demo.echo") is not None


async def test_a_def_runs_in_a_thread_and_an_async_def_in_the_loop():
    seen = {}

    def thread(text):
        seen["def"] = threading.current_thread()
        return text

    async def loop(text):
        seen["async"] = threading.current_thread()
        return text

    async with memory_hive() as hive:
        hive.tools.add(meta("a.thread"), thread)
        hive.tools.add(meta("a.loop"), loop)
        assert (await call(hive, "a.thread")).output == "abc"
        assert (await call(hive, "a.loop")).output == "abc"
    assert seen["async"] is threading.current_thread() is not seen["def"]


async def test_a_parameter_ctx_gets_the_context_and_nested_calls_go_through_the_door():
    async def twice(text, ctx):
        inner = await ctx.call("notes.count", {"text": text})
        denied = await ctx.call("notes.keep", {"text": text})
        return {"n": 2 * inner["characters"], "denied": denied["error"]}

    async with memory_hive() as hive:
        hive.tools.add(meta(), count)
        hive.tools.add(meta("notes.keep", risk="guarded", effects={"text": "fs.write"}), count)
        hive.tools.add(meta("notes.twice"), twice)
        from clawhive_core.runs.requests import RunOptions

        _, outcome = await hive.call("notes.twice", {"text": "abc"}, RunOptions(approve="deny"))
        assert outcome.structured["n"] == 6
        assert outcome.structured["denied"] in {"approval_required", "denied", "approval_denied"}


async def test_policy_input_schema_and_output_schema_hold_for_added_tools_too():
    async with memory_hive() as hive:
        hive.tools.add(meta(effects={"text": "fs.read"}), count)
        assert (await call(hive, input={"text": ".clawhive/hive.db"})).error == "denied"
        assert (await call(hive, input={"text": 1})).error == "invalid_input"
        hive.tools.add(meta(output_schema={"type": "array"}), count)
        assert (await call(hive)).is_error


async def test_what_the_function_does_not_take_or_raises_is_the_calls_failure():
    def fail(text):
        raise ToolError("no luck", code="no_luck")

    async with memory_hive() as hive:
        hive.tools.add(meta(), fail)
        outcome = await call(hive)
        assert outcome.is_error
        assert "no luck" in outcome.output
        hive.tools.add(meta(), count)
        assert (await call(hive, input={"text": "a", "more": 1})).is_error
        hive.tools.add(meta(), lambda text: 1 / 0)
        assert "ZeroDivisionError" in (await call(hive)).output


def generator(text):
    yield text


@pytest.mark.parametrize(
    ("wrong", "function", "says"),
    [
        (meta("count"), count, "one segment"),
        (meta("a b.c"), count, "segments"),
        (meta(risk="mild"), count, "risk"),
        (meta(timeout_ms=0), count, "timeout_ms"),
        (meta(), "count", "no function"),
        (meta(), print, "no function"),
        (meta(), generator, "yields"),
        (meta(), lambda: 1, "`text`"),
        (meta(schema=NOTHING), count, "does not require"),
        (meta(schema={"type": "objekt"}), count, "objekt"),
        (meta(), lambda text, /: 1, "by position"),
        (meta(schema={"type": "object", "properties": {"ctx": {}}}), lambda ctx: 1, "`ctx`"),
    ],
)
async def test_what_cannot_be_a_tool_is_refused_and_changes_nothing(wrong, function, says):
    async with memory_hive() as hive:
        before = hive.catalog.current.revision
        with pytest.raises(UsageError, match=says) as caught:
            hive.tools.add(wrong, function)
        assert caught.value.code == "invalid_tool"
        assert hive.catalog.current.revision == before


async def test_an_added_tool_takes_no_name_from_a_provider_that_stands_before_it():
    provider = Provider("builtin").offer("demo.echo", echo)
    async with memory_hive(providers=[provider]) as hive:
        hive.tools.add(meta("demo.echo", NOTHING), lambda: "mine")
        assert hive.catalog.current.find("demo.echo").meta.provider_id == "builtin"
        (shadow,) = hive.catalog.current.shadowed
        assert (shadow.provider_id, shadow.winner) == ("local", "builtin")


MODULE = """
from clawhive_core import tool

def shout(text: str) -> str:
    "Shout."
    return text.upper()

@tool(risk="safe", category="voices")
async def whisper(text: str, times: int = 1) -> str:
    "Whisper."
    return text.lower() * times

nothing = 1
"""


@pytest.fixture
def open_with(tmp_path, monkeypatch):
    site = tmp_path / "site"
    site.mkdir()
    site.joinpath("voices_for_test.py").write_text(MODULE)
    site.joinpath("broken_for_test.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(str(site))
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    (tmp_path / "config" / "clawhive").mkdir(parents=True)
    (tmp_path / "project").mkdir()

    def opened(text, *, project=False):
        user = tmp_path / "config" / "clawhive" / "config.toml"
        file = tmp_path / "project" / "clawhive.toml" if project else user
        file.write_text(text)
        return Hive.open(tmp_path / "project", env=env)

    yield opened
    for name in ("voices_for_test", "broken_for_test"):
        sys.modules.pop(name, None)


def table(name, function, more=""):
    return f'[[tools]]\nname = "{name}"\nfunction = "{function}"\n{more}\n'


async def test_configured_tools_are_in_the_catalog_with_what_the_table_says(open_with):
    text = table("voices.shout", "voices_for_test:shout", 'risk = "safe"\ncategory = "loud"')
    text += table("voices.whisper", "voices_for_test:whisper", "timeout_ms = 500")
    async with open_with(text) as hive:
        shout, whisper = (
            hive.catalog.current.find(f"voices.{name}").meta for name in ("shout", "whisper")
        )
        assert (shout.provider_id, shout.risk, shout.category) == ("local", "safe", "loud")
        assert (whisper.risk, whisper.category, whisper.timeout_ms) == ("safe", "voices", 500)
        assert shout.input_schema["required"] == ["text"]
        assert (await call(hive, "voices.shout")).output == "ABC"
        assert (await call(hive, "voices.whisper", {"text": "A", "times": 2})).output == "aa"
        assert (await call(hive, "voices.shout", {"text": 1})).error == "invalid_input"


async def test_a_configured_function_is_of_unknown_risk_unless_something_says_more(open_with):
    async with open_with(table("voices.shout", "voices_for_test:shout")) as hive:
        assert hive.catalog.current.find("voices.shout").meta.risk == "unknown"


@pytest.mark.parametrize(
    "function",
    [
        "none_such_module:f",
        "voices_for_test:none",
        "voices_for_test:nothing",
        "voices_for_test",
        "broken_for_test:f",
        "voices_for_test:str.upper",
        ":f",
    ],
)
async def test_a_function_that_cannot_be_used_is_noted_and_left_out(open_with, function):
    text = table("voices.bad", function)
    text += table("voices.shout", "voices_for_test:shout")
    async with open_with(text) as hive:
        assert hive.catalog.current.find("voices.bad") is None
        assert hive.catalog.current.find("voices.shout") is not None
        assert [note for note in hive.notes if "voices.bad" in note]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[tools]]\nfunction = "a:b"\n', "`name`"),
        ('[[tools]]\nname = "a.b"\n', "`function`"),
        ('[[tools]]\nname = 1\nfunction = "a:b"\n', "`name`"),
        (table("a.b", "a:b", 'rsik = "safe"'), "rsik"),
        (table("a.b", "a:b") + table("a.b", "a:b"), "two"),
    ],
)
async def test_a_table_that_says_nothing_useful_is_an_error_with_its_place(open_with, text, says):
    with pytest.raises(ConfigError, match=says) as caught:
        async with open_with(text):
            pytest.fail("it opened")
    assert "[[tools]] " in caught.value.place


async def test_wrong_options_of_a_table_are_noted(open_with):
    text = table("voices.shout", "voices_for_test:shout", 'risk = "mild"')
    async with open_with(text) as hive:
        assert hive.catalog.current.find("voices.shout") is None
        assert [note for note in hive.notes if "mild" in note]


async def test_a_cloned_projects_tools_are_not_even_imported(open_with):
    text = table("voices.shout", "voices_for_test:shout")
    async with open_with(text, project=True) as hive:
        assert hive.catalog.current.find("voices.shout") is None
        assert "voices_for_test" not in sys.modules
