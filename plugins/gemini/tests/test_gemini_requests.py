"""Requests as the API is sent them."""

import pytest

from clawhive_core import (
    LlmMessage,
    MediaBlock,
    ModelError,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolDef,
    ToolResult,
)

DUMMY = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="


async def test_a_plain_request_says_no_more_than_was_asked(api):
    assert await api.sent(api.request(tools=())) == {
        "contents": [{"role": "user", "parts": [{"text": "Say hello."}]}],
        "generationConfig": {"maxOutputTokens": 4096},
    }


async def test_each_field_of_a_request_has_its_place(api):
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {}}}
    sent = await api.sent(
        api.request(
            system="Be brief.",
            max_tokens=7,
            temperature=0.0,
            response_schema=schema,
            cache_hints={"key": "session"},
            options={
                "generationConfig": {"topP": 0.5, "maxOutputTokens": 9},
                "tools": [{"googleSearch": {}}],
                "safetySettings": [{"category": "x", "threshold": "OFF"}],
            },
        )
    )
    assert sent["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert sent["generationConfig"] == {
        "maxOutputTokens": 9,
        "temperature": 0.0,
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
        "topP": 0.5,
    }
    assert sent["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "test__echo",
                    "description": "Answer its text.",
                    "parametersJsonSchema": {"type": "object", "$defs": {"a": {}}},
                }
            ]
        },
        {"googleSearch": {}},
    ]
    assert sent["safetySettings"] == [{"category": "x", "threshold": "OFF"}]


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", None),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("test.echo", {"mode": "ANY", "allowedFunctionNames": ["test__echo"]}),
    ],
)
async def test_tool_choice_is_the_calling_mode(api, choice, config):
    sent = await api.sent(api.request(tool_choice=choice))
    assert sent.get("toolConfig") == (config and {"functionCallingConfig": config})


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        ("gemini-3-pro", "off", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3-pro", "high", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("models/gemini-2.5-pro", "low", {"includeThoughts": True, "thinkingBudget": 1024}),
        ("gemini-2.5-flash", "off", {"thinkingBudget": 0}),
        ("gemini-2.0-flash", "off", None),
        ("gemini-3-pro", None, None),
    ],
)
async def test_reasoning_is_a_level_or_a_budget_by_generation(api, model, effort, config):
    sent = await api.sent(api.request(model=model, reasoning=effort))
    assert sent["generationConfig"].get("thinkingConfig") == config


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"model": "gemini-2.0-flash", "reasoning": "low"}, "does not reason"),
        ({"tool_choice": "required", "tools": ()}, "there are no tools"),
        ({"tool_choice": "other.tool"}, "not offered"),
        ({"messages": (LlmMessage("user", (ToolResult("x", "1"),)),)}, "without its call"),
        ({"messages": (LlmMessage("assistant", (ThinkingBlock("x"),)),)}, "no message"),
    ],
    ids=str,
)
async def test_what_the_api_cannot_do_is_said_before_it_is_asked(api, more, words):
    messages = more.pop("messages", ())
    with pytest.raises(ModelError, match=words) as wrong:
        await api.adapter("http://127.0.0.1:1").chat(api.request(*messages, **more))
    assert (wrong.value.code, wrong.value.data["retryable"]) == ("invalid_request", False)


@pytest.mark.parametrize("model", ["../../x", "a b", "gemini?key=1", "x/y/z", "", "a:b"])
async def test_a_name_that_would_lead_elsewhere_is_no_model(api, model):
    with pytest.raises(ModelError) as wrong:
        await api.adapter("http://127.0.0.1:1").chat(api.request(model=model))
    assert wrong.value.code == "model_not_found"


FOREIGN = (
    LlmMessage(
        "assistant",
        (
            ThinkingBlock("secret", "sig", native={"anthropic": {"type": "thinking"}}),
            ProviderBlock("openai", {"type": "web_search_call"}),
            TextBlock("I call.", {"openai": {"id": "m1"}}),
            ToolCall("toolu_1", "test.echo", {"a": 1}, native={"anthropic": {"x": 1}}),
            ToolCall("toolu_2", "test.echo", {"a": 2}),
        ),
    ),
    LlmMessage("user", (ToolResult("toolu_1", "one"), ToolResult("toolu_2", "two"))),
)


@pytest.mark.promise("P-145")
async def test_a_conversation_of_another_provider_goes_on_here(api):
    contents = (await api.sent(api.request(*FOREIGN)))["contents"]
    assert contents[0]["parts"] == [
        {"text": "I call."},
        {
            "functionCall": {"args": {"a": 1}, "id": "toolu_1", "name": "test__echo"},
            "thoughtSignature": DUMMY,
        },
        {"functionCall": {"args": {"a": 2}, "id": "toolu_2", "name": "test__echo"}},
    ]
    assert contents[1]["parts"][0]["functionResponse"]["id"] == "toolu_1"


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "models/gemini-1.5-pro", "other"])
async def test_only_models_that_check_signatures_get_the_one_that_is_not_checked(api, model):
    assert DUMMY not in str(await api.sent(api.request(*FOREIGN, model=model)))


async def test_media_are_inline_or_by_address(api):
    blocks = (
        MediaBlock("image", "image/png", data="AAAA"),
        MediaBlock("document", "application/pdf", url="gs://b/x.pdf"),
    )
    sent = await api.sent(api.request(LlmMessage("user", blocks)))
    assert sent["contents"][0]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://b/x.pdf"}},
    ]


async def test_an_equal_tool_list_is_compiled_once_and_sent_equal(api):
    tools = (ToolDef("a.b", "", {}), ToolDef("c.d", "", {}))
    adapter = api.adapter("http://127.0.0.1:1")
    assert adapter._tools.table(tools) is adapter._tools.table(tools)
    one = await api.sent(api.request(tools=tools))
    more = await api.sent(api.request(tools=(*tools, ToolDef("e.f", "", {}))))
    declared, grown = (each["tools"][0]["functionDeclarations"] for each in (one, more))
    assert grown[: len(declared)] == declared
