"""The conformance suites: they pass what is right and name what is wrong."""

import dataclasses
import subprocess
import sys

import anyio
import pytest

from clawhive_core import CheckResult, LlmResponse, TextBlock, ToolCall, ToolMeta, ToolResult, Usage
from clawhive_core.protocols.adapter import StreamEvent
from clawhive_core.testing import ScriptedModel, check_adapter, check_policy, check_provider

GOOD = ToolMeta(
    "good.tool",
    "A good tool.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "good",
    risk="safe",
    output_schema={"type": "object"},
    examples=({"path": "a"},),
)


class Provider:
    provider_id = "good"

    def __init__(self, *metas, answer=None):
        self.metas = list(metas) or [GOOD]
        self.answer = answer if answer is not None else {"ok": True}

    async def list_tools(self):
        return list(self.metas)

    async def invoke(self, tool_name, input, ctx):
        if isinstance(self.answer, Exception):
            raise self.answer
        return ToolResult(ctx.tool_call_id, "ok", structured=self.answer)

    async def close(self):
        return None


def meta(**changes):
    return dataclasses.replace(GOOD, **changes)


async def test_a_good_provider_passes():
    await check_provider(Provider())
    await check_provider(Provider(meta(effects={"path": "fs.read"}, sinks=("path",))))


async def test_the_providers_that_ship_pass():
    from clawhive_builtin.stub import StubProvider

    await check_provider(StubProvider())


@pytest.mark.parametrize(
    ("provider", "says"),
    [
        (Provider(GOOD, GOOD), "two tools have one name"),
        (Provider(meta(provider_id="other")), "`provider_id` is 'other'"),
        (Provider(meta(name="tool")), "one segment is reserved"),
        (Provider(meta(name="bad tool")), "1 to 4 segments"),
        (Provider(meta(description=" ")), "write one"),
        (Provider(meta(risk="low")), "the risk 'low' is unknown"),
        (Provider(meta(capability_level="L9")), "'L9'"),
        (Provider(meta(timeout_ms=0)), "must be positive"),
        (Provider(meta(input_schema={"type": "strin"})), "`input_schema` is no JSON Schema"),
        (Provider(meta(input_schema={"type": "array"}, examples=())), "an input is an object"),
        (Provider(meta(output_schema={"type": 3})), "`output_schema` is no JSON Schema"),
        (Provider(meta(effects={"file": "fs.read"})), "`effects` names 'file'"),
        (Provider(meta(effects={"path": "fs.raed"})), "'fs.raed' is no verb"),
        (Provider(meta(sinks=("to",))), "the sink 'to' is no parameter"),
        (Provider(meta(examples=({"path": 3},))), "is refused"),
        (Provider(answer=ValueError("crash")), "crash"),
        (Provider(meta(output_schema={"type": "string"})), "output schema refuses"),
        (Provider("no meta"), "holds str"),
    ],
)
@pytest.mark.promise("P-050")
async def test_a_provider_that_breaks_the_protocol_is_told_how(provider, says):
    with pytest.raises(AssertionError, match=None) as caught:
        await check_provider(provider)
    assert says in str(caught.value)


async def test_a_provider_whose_list_changes_is_found():
    turns = iter([False, True])

    class Fickle(Provider):
        async def list_tools(self):
            return [meta(idempotent=next(turns))]

    with pytest.raises(AssertionError, match="something else each time"):
        await check_provider(Fickle())


async def test_a_tool_with_effects_is_not_called_by_the_suite():
    def boom():
        raise AssertionError("called")

    class Dangerous(Provider):
        async def invoke(self, tool_name, input, ctx):
            boom()

    await check_provider(Dangerous(meta(risk="unsafe")))
    await check_provider(Dangerous(meta(capability_level="L1")))
    await check_provider(Dangerous(meta(side_effects=True)))


@pytest.mark.promise("P-050")
async def test_good_adapters_pass():
    call = LlmResponse((TextBlock("a"), ToolCall("", "test.echo", {"text": "x"})), "tool_use")
    await check_adapter(ScriptedModel(["a", call, "b", "c", call, call]))
    from clawhive_builtin.scripted import ScriptedAdapter

    await check_adapter(ScriptedAdapter(), "demo")


def adapter(answer=None, events=None, **facts):
    class Made(ScriptedModel):
        async def chat(self, request):
            return answer if answer is not None else LlmResponse((TextBlock("ok"),))

        async def stream(self, request):
            for event in events if events is not None else [DONE]:
                yield event

    made = Made([])
    for name, value in facts.items():
        setattr(made, name, value)
    return made


OK = LlmResponse((TextBlock("ok"),))
DONE = StreamEvent("done", response=LlmResponse(()))
TWINS = (ToolCall("a", "t", {}), ToolCall("a", "t", {}))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (adapter(name=""), "must not be empty"),
        (adapter(name="a:b"), "holds one"),
        (adapter(name=None), "must be a text"),
        (adapter(host=""), "`host`"),
        (adapter(supports_tools=None), "must be a bool"),
        (adapter({"text": "ok"}), "answered dict"),
        (adapter(LlmResponse([TextBlock("x")])), "must be a tuple"),
        (adapter(LlmResponse(("x",))), "holds str"),
        (adapter(LlmResponse((ToolResult("a", "b"),))), "no tool results"),
        (adapter(LlmResponse((), "stop")), "the stop reason 'stop'"),
        (adapter(LlmResponse((), "tool_use")), "without a tool call"),
        (adapter(LlmResponse((ToolCall("a", "t", {}),))), "1 tool calls"),
        (adapter(LlmResponse((ToolCall("", "t", {}),), "tool_use")), "has no id"),
        (adapter(LlmResponse(TWINS, "tool_use")), "two tool calls have one id"),
        (adapter(LlmResponse((ToolCall("a", "t", "x"),), "tool_use")), "no object"),
        (adapter(LlmResponse((), usage={"input": 3})), "`usage` is dict"),
        (adapter(LlmResponse((), usage=Usage(input_tokens=-1))), "`usage.input_tokens` is -1"),
        (adapter(events=[]), "yields nothing"),
        (adapter(events=[StreamEvent("text", "a")]), "exactly one `done`"),
        (adapter(events=[DONE, DONE]), "exactly one `done`"),
        (adapter(events=[DONE, StreamEvent("text", "a")]), "must come last"),
        (adapter(events=[StreamEvent("done")]), "the whole response"),
        (adapter(events=[StreamEvent("text", "a"), DONE]), "the pieces of text make 'a'"),
        (adapter(events=[StreamEvent("tool_use", block=TWINS[0]), DONE]), "the calls are not"),
    ],
)
async def test_an_adapter_that_breaks_the_protocol_is_told_how(wrong, says):
    with pytest.raises(AssertionError) as caught:
        await check_adapter(wrong)
    assert says in str(caught.value)


class Check:
    name = "mine"

    def __init__(self, answer):
        self.answer = answer

    async def check(self, request):
        return await self.answer(request)


def check(function):
    async def answer(request):
        return function(request)

    return Check(answer)


async def test_good_checks_pass():
    await check_policy(check(lambda request: None))
    await check_policy(
        check(lambda r: CheckResult("deny", "shell") if r.tool.name == "shell.exec" else None)
    )


def raising(request):
    raise KeyError("path")


def rewriting(request):
    request.input["path"] = "else"


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (raising, "raised KeyError"),
        (lambda request: True, "answered bool"),
        (lambda request: CheckResult("allow", "x"), "the verdict is 'allow'"),
        (lambda request: CheckResult("deny", ""), "which rule"),
        (rewriting, "changed the request's input"),
    ],
)
async def test_a_check_that_breaks_the_protocol_is_told_how(function, says):
    with pytest.raises(AssertionError) as caught:
        await check_policy(check(function))
    assert says in str(caught.value)


async def test_a_check_that_remembers_is_found():
    seen = []

    def counting(request):
        seen.append(1)
        return CheckResult("ask", "often") if len(seen) > 5 else None

    with pytest.raises(AssertionError, match="asked again"):
        await check_policy(check(counting))


async def test_a_check_that_hangs_is_found(monkeypatch):
    async def hang(request):
        await anyio.sleep_forever()

    monkeypatch.setattr("clawhive_core.testing.policy.CHECK_SECONDS", 0.01)
    with pytest.raises(AssertionError, match="no answer within"):
        await check_policy(Check(hang))


async def test_a_check_without_a_name_is_found():
    nameless = check(lambda request: None)
    nameless.name = " "
    with pytest.raises(AssertionError, match="must not be empty"):
        await check_policy(nameless)


def test_importing_the_testing_package_imports_nothing_heavy():
    code = (
        "import sys, clawhive_core.testing\n"
        "from clawhive_core.testing import ScriptedModel\n"
        "print([m for m in ('asyncio', 'anyio', 'pydantic', 'yaml', 'sqlite3', 'pytest', "
        "'jsonschema_rs', 'clawhive_core.hive') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_is_not_public_is_no_attribute():
    import clawhive_core.testing as package

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.nothing  # noqa: B018 - looking is the test
