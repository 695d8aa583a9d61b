import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core import ToolMeta, ToolResult, without_key
from clawhive_core.model.texts import well_formed
from clawhive_core.testing import ScriptedModel, calling, memory_hive


@given(st.text())
def test_text_without_a_lone_surrogate_stays(text):
    assert well_formed(text) is text


@given(st.text(st.characters(codec=None, categories=None)))
def test_every_text_can_be_written_then_and_is_not_changed_again(text):
    once = well_formed(text)
    once.encode("utf-8")
    assert well_formed(once) == once


def test_half_of_a_pair_is_shown_by_its_escape():
    assert well_formed("caf\udce9 \U0001f600") == "caf\\udce9 \U0001f600"


@pytest.mark.parametrize(
    ("key", "said"), [("sk-12345", "[key] is bad"), ("none", "none is bad"), ("", "k is bad")]
)
def test_a_key_is_taken_out_of_what_a_provider_says_and_a_word_is_not(key, said):
    assert without_key(f"{key or 'k'} is bad", key) == said


class Halves:
    """A tool whose output no encoding of Unicode can write."""

    provider_id = "demo"

    async def list_tools(self):
        schema = {"type": "object", "additionalProperties": False}
        return [ToolMeta("demo.halves", "Say half of a pair.", schema, "demo", risk="safe")]

    async def invoke(self, tool_name, input, ctx):
        return ToolResult(ctx.tool_call_id, "a\ud800b")

    async def close(self):
        pass


@pytest.mark.promise("P-248")
async def test_what_a_model_is_sent_of_a_tool_can_be_written():
    model = ScriptedModel([calling("demo.halves", {}), "Done."])
    async with memory_hive(providers=[Halves()], adapters=[model]) as hive:
        run = await hive.run("Go.", model="scripted:any")
    assert run["status"] == "succeeded"
    (result,) = model.requests[-1].messages[-1].content
    assert result.output == "a\\ud800b"


@pytest.mark.promise("P-248")
async def test_what_a_person_and_a_model_say_can_be_written():
    model = ScriptedModel(["half \ud800 of a pair"])
    async with memory_hive(adapters=[model]) as hive:
        run = await hive.run("caf\udce9", model="scripted:any")
    assert run["output"] == "half \\ud800 of a pair"
    assert model.requests[0].messages[0].content[0].text == "caf\\udce9"
