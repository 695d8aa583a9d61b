"""Every kind of part, end, block and answer that Google's SDK knows, and some that nobody does."""

import json
from importlib import import_module

import pytest

from clawhive_core import LlmMessage, TextBlock, ToolCall, ToolResult
from clawhive_core.testing import WireAnswer, WireServer, wire_samples
from clawhive_core.testing.adapter import check_response, check_stream

types = import_module("google.genai.types")  # the plugin's own dependency
SIGNED = {"thoughtSignature": "c2ln"}
FUTURE = {"dream": {"depth": 2, "of": [None, "x"]}, "partMetadata": {"a": 1}}
WITHOUT_KEY = {"parsed", "sdkHttpResponse", "automaticFunctionCallingHistory"}
"""What the SDK adds to answers by itself."""
BLOCKED = {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED", "SPII", "ARMOR"}
BLOCKED |= {"ESCALATION", "PUP"}
AFTER = {"executableCode": {"language": "PYTHON", "code": "1"}}
PIECES = {"partialArgs", "willContinue"}
"""What arguments in pieces have, which are tests of their own."""


def parts():
    """Yield each kind of a part, bare, signed, and within thoughts."""
    for name, field in types.Part.model_fields.items():
        for value in wire_samples(field.annotation):
            if name == "function_call" and value.keys() & PIECES:
                value = {key: each for key, each in value.items() if key not in PIECES}  # noqa: PLW2901 - the same in short
            part = {field.alias or name: value}
            yield from (part, part | SIGNED, part | SIGNED | {"thought": True})
    yield FUTURE


@pytest.fixture
async def desk(api):
    async with Desk(api) as made:
        yield made


class Desk:
    """One server and one adapter, asked again and again."""

    def __init__(self, api):
        self.api = api
        self.answer = api.body({"text": "ok"})
        self.server = WireServer(lambda _: WireAnswer.of(self.answer))

    async def __aenter__(self):
        await self.server.__aenter__()
        self.adapter = self.api.adapter(self.server.url)
        return self

    async def __aexit__(self, *error):
        await self.adapter.close()
        await self.server.__aexit__(*error)

    async def read(self, answer):
        self.answer = answer
        if isinstance(answer, str):
            events = [event async for event in self.adapter.stream(self.api.request())]
            check_stream(events, answer[:500])
            response = events[-1].response
        else:
            response = await self.adapter.chat(self.api.request())
        check_response(response, str(answer)[:500])
        return response

    async def returned(self, response, model="gemini-2.5-pro"):
        """Return what the next request carries: the model's parts, and the answers to its calls."""
        results = tuple(ToolResult(call.id, call.id) for call in response.tool_calls)
        turn = LlmMessage("assistant", response.content)
        follow = LlmMessage("user", results or (TextBlock("Go on."),))
        self.answer = self.api.body({"text": "ok"})
        await self.adapter.chat(self.api.request(turn, follow, model=model))
        *said, answers = self.server.requests[-1].body["contents"]
        found = [each.get("functionResponse") for each in answers["parts"]]
        return [part for each in said for part in each["parts"]], found


@pytest.mark.promise("P-244")
@pytest.mark.parametrize("streamed", [False, True])
async def test_every_part_is_read_and_goes_back_as_it_came(api, desk, streamed):
    given = list(parts())
    assert len(given) > 200
    for part in given:
        body = api.body(part, AFTER)
        back, answers = await desk.returned(await desk.read(api.sse(body) if streamed else body))
        call = part.get("functionCall")
        if call is not None:
            part = {**part, "functionCall": {"args": {}, **call}}  # noqa: PLW2901 - the default, written out
            named = {key: call[key] for key in ("id", "name") if key in call}
            assert answers[0].keys() - {"response"} == named.keys()
        silent = part == {"text": ""} or (part.keys() == {"text", "thought"})
        assert back == [part, AFTER][silent:]


@pytest.mark.promise("P-244")
async def test_every_end_and_every_block_has_its_outcome(api, desk):
    for end in [*types.FinishReason, "DREAM"]:
        word = str(getattr(end, "value", end))
        for body in (api.body({"text": "a"}, finish=word), api.body(finish=word)):
            for answer in (body, api.sse(body)):
                response = await desk.read(answer)
                assert response.raw_stop_reason == word
                filtered = any(each in word for each in BLOCKED)
                assert (response.stop_reason == "content_filter") is filtered
    for reason in [*types.BlockedReason, "DREAM"]:
        word = str(getattr(reason, "value", reason))
        body = {"promptFeedback": {"blockReason": word}, "usageMetadata": {"promptTokenCount": 1}}
        for answer in (body, api.sse(body)):
            response = await desk.read(answer)
            assert (response.stop_reason, response.content) == ("content_filter", ())
            assert response.raw_stop_reason == word


@pytest.mark.promise("P-244")
async def test_an_answer_with_every_field_is_read_whole_and_in_frames_of_one_field(api, desk):
    samples = wire_samples(types.GenerateContentResponse)
    for sample in [samples[0], *samples[-2:]]:
        body = {key: each for key, each in sample.items() if key not in WITHOUT_KEY}
        if not body:
            continue
        body["candidates"] = [{**each, "index": 0} for each in body.get("candidates", [])]
        await desk.read(body)
    head = [{"responseId": "r"}, {"modelVersion": "gemini-2.5-pro"}, {"createTime": "now"}]
    tail = [{"usageMetadata": {"promptTokenCount": "3", "candidatesTokenCount": True}}]
    response = await desk.read(api.sse(*head, api.body({"text": "a"}), *tail))
    assert (response.text, response.response_id) == ("a", "r")
    assert (response.usage.input_tokens, response.usage.output_tokens) == (3, None)


@pytest.mark.promise("P-244")
@pytest.mark.parametrize("streamed", [False, True])
async def test_calls_of_one_id_are_several_and_each_is_answered(api, desk, streamed):
    call = {"functionCall": {"id": "c", "name": "test__echo", "args": {"n": 1}}}
    other = {"functionCall": {"id": "c", "name": "test__echo", "args": {"n": 2}}}
    none = {"functionCall": {"name": "test__echo", "args": None}}
    odd = {"functionCall": {"id": 5, "name": None}}
    body = api.body({"text": "I look."}, call, other, none, odd)
    response = await desk.read(api.sse(body) if streamed else body)
    assert [each.input for each in response.tool_calls] == [{"n": 1}, {"n": 2}, {}, {}]
    assert response.tool_calls[0].id == "c"
    back, answers = await desk.returned(response)
    assert back[1:3] == [call, other]
    assert [each.get("id") for each in answers] == ["c", "c", None, 5]
    said = [each["response"]["output"] for each in answers]
    assert said == [each.id for each in response.tool_calls]


async def test_only_an_unsigned_first_call_is_given_a_signature(api, desk):
    call = {"functionCall": {"name": "test__echo", "args": {}}}
    unsigned = await desk.read(api.body({"text": "a", **SIGNED}, call, call))
    back, _ = await desk.returned(unsigned, model="gemini-3-pro")
    assert ["thoughtSignature" in each for each in back] == [True, True, False]
    signed = await desk.read(api.body(call | SIGNED, call))
    back, _ = await desk.returned(signed, model="gemini-3-pro")
    assert back == [call | SIGNED, call]


async def test_a_future_part_survives_the_log(api, desk):
    from clawhive_core.model.messages import block_from_json, block_to_json

    response = await desk.read(api.body(FUTURE, {"functionCall": {"name": "x"}}))
    logged = json.loads(json.dumps([block_to_json(each) for each in response.content]))
    assert tuple(map(block_from_json, logged)) == response.content
    assert isinstance(response.content[1], ToolCall)


@pytest.mark.parametrize(
    ("number", "word", "stop"),
    [(1, "STOP", "end_turn"), (2, "MAX_TOKENS", "max_tokens"), (3, "SAFETY", "content_filter"),
     (99, "99", "other"), (-1, "-1", "other")],
)  # fmt: skip
async def test_an_end_that_is_a_number_is_the_one_of_that_number(api, desk, number, word, stop):
    for body in (api.body({"text": "a"}, finish=number), [api.body({"text": "a"}, finish=number)]):
        response = await desk.read(body)
        assert (response.raw_stop_reason, response.stop_reason) == (word, stop)
