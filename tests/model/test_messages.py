from dataclasses import fields, replace

import pytest

from clawhive_core.model.messages import (
    LlmMessage,
    LlmRequest,
    LlmResponse,
    MediaBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    Usage,
    block_from_json,
    block_to_json,
    message_to_json,
)
from clawhive_core.model.tools import Artifact, ToolCall, ToolResult

BLOCKS = [
    TextBlock("hello"),
    ThinkingBlock("hm", "signed", redacted=True),
    ToolCall("c1", "web.search", {"q": "x"}),
    ToolCall("c2", "web.search", {}, malformed='{"q": ', native={"own": {"id": "fc_1"}}),
    TextBlock("signed", native={"gemini": {"thoughtSignature": "abc"}}),
    ProviderBlock("anthropic", {"type": "server_tool_use", "id": "s1"}),
    ToolResult("c1", "found", structured=[1], artifacts=(Artifact("a", "t", 1, "h"),)),
    ToolResult("c1", "no", is_error=True),
    MediaBlock("image", "image/png", data="aGk="),
    MediaBlock("document", "application/pdf", url="https://x.example/a.pdf"),
]


@pytest.mark.parametrize("block", BLOCKS, ids=map(repr, range(len(BLOCKS))))
def test_a_block_survives_its_json(block):
    assert block_from_json(block_to_json(block)) == block


def test_an_unknown_block_is_an_error():
    with pytest.raises(ValueError, match="video"):
        block_from_json({"type": "video"})


def test_a_message_may_mix_kinds():
    message = LlmMessage("assistant", tuple(BLOCKS[:3]))
    types = [block["type"] for block in message_to_json(message)["content"]]
    assert types == ["text", "thinking", "tool_use"]


def test_the_short_form_is_one_text_block():
    assert LlmMessage.text("user", "hi") == LlmMessage("user", (TextBlock("hi"),))


def test_a_response_tells_its_text_and_its_calls_in_order():
    response = LlmResponse((TextBlock("a"), BLOCKS[2], TextBlock("b")))
    assert response.text == "ab"
    assert response.tool_calls == (BLOCKS[2],)


def test_usage_adds_up_and_what_nobody_said_stays_unsaid():
    total = Usage(input_tokens=1, cost=0.5) + Usage(input_tokens=2, output_tokens=3)
    assert total == Usage(input_tokens=3, output_tokens=3, cost=0.5)
    assert (Usage() + Usage()).to_dict() == dict.fromkeys(Usage().to_dict())


def test_a_request_to_another_model_asks_the_same():
    names = [each.name for each in fields(LlmRequest)]
    request = LlmRequest(**{name: f"the {name}" for name in names})
    assert request.to_model("other") == replace(request, model="other")


def test_usage_of_which_nothing_is_known_adds_nothing():
    assert (
        Usage(1, 2, cost=0.5) + Usage() == Usage() + Usage(1, 2, cost=0.5) == Usage(1, 2, cost=0.5)
    )
