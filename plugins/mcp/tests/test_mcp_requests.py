"""The requests of servers: who answers them, and what they never get."""

import asyncio
import json
from dataclasses import replace

import pytest

from clawhive_core import Answer
from clawhive_core.hive.hive import RunOptions
from clawhive_core.testing import ScriptedModel, memory_hive

FIELDS = {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}}
FORM = {"requestedSchema": {"type": "object", "properties": FIELDS, "required": ["city"]}}
ASK = ["elicitation/create", {"message": "Where to?", **FORM}]
SAMPLE = [
    "sampling/createMessage",
    {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Capital of France?"}}],
        "maxTokens": 100_000,
    },
]
IMAGE = {"type": "image", "data": "", "mimeType": "x"}


class Person:
    """A person who approves nothing, and answers questions as told."""

    def __init__(self, answer, seconds=0.0):
        self.answer, self.seconds, self.asked = answer, seconds, []

    async def __call__(self, approval):
        pass

    async def reply(self, question):
        self.asked.append(question)
        answered = asyncio.Event()
        asyncio.get_running_loop().call_later(self.seconds, answered.set)
        await answered.wait()
        return self.answer


async def called(place, person=None, sampling="", asked=(ASK,), model=(), **plan):
    """Call a tool whose server asks; return its result, and what the log has."""
    server = replace(place.rough(call="asks", asked=asked, **plan), sampling=sampling)
    more = {} if person is None else {"approve": "ask", "ask": person}
    options = RunOptions(grants=["tool.call:mcp.**", "model.call:**"], **more)
    models = [ScriptedModel(list(model))]
    async with memory_hive(providers=[place.provider(server)], adapters=models) as hive:
        outcome = (await hive.call("mcp.demo.add", {"a": 1, "b": 1}, options))[1]
        await hive.log.flush()
        events = [(each.event.kind, each.event.body) for each in hive.log.events()]
    return outcome, events


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (
            Answer("accept", {"city": "Rome", "days": 3}),
            {"action": "accept", "content": {"city": "Rome", "days": 3}},
        ),
        (Answer("decline"), {"action": "decline"}),
        (Answer("cancel"), {"action": "decline"}),
    ],
)
async def test_a_person_answers_a_question_of_a_server_and_the_log_has_no_answer(
    place, answer, got
):
    person = Person(answer)
    outcome, events = await called(place, person)
    assert outcome.output == "2"
    assert [each["result"] for each in place.answers()["elicitation/create"]] == [got]
    [question] = person.asked
    assert (question.source, question.message) == ("the MCP server `demo`", "Where to?")
    assert (dict(question.fields), question.required) == (FIELDS, ("city",))
    [body] = [body for kind, body in events if kind == "question.answered"]
    assert (body["tool"], body["action"]) == ("mcp.demo.add", answer.action)
    assert "Rome" not in json.dumps([body for _, body in events])


async def test_without_a_person_a_question_is_declined(place):
    assert (await called(place))[0].output == "2"
    assert [each["result"] for each in place.answers()["elicitation/create"]] == [
        {"action": "decline"}
    ]


@pytest.mark.slow
async def test_the_time_of_a_call_stands_still_while_a_person_is_asked(place):
    person = Person(Answer("decline"), seconds=1.0)
    outcome, _ = await called(place, person, timeout_ms=700)
    assert outcome.output == "2"


DEEP = {"properties": {"a": {"type": "object", "properties": {}}}, "type": "object"}
MANY = {"properties": {f"f{n}": {"type": "string"} for n in range(99)}, "type": "object"}


ODD = [
    {"message": "deep", "requestedSchema": DEEP},
    {"message": "many", "requestedSchema": MANY},
    {"message": "x", "mode": "url", "elicitationId": "1", "url": "javascript:alert(1)"},
    {"message": "x", "mode": "url", "elicitationId": "1", "url": "file:///etc/passwd"},
    {"message": "x", "mode": "url", "elicitationId": "1", "url": "https://h/\u202egro"},
]


async def test_an_odd_question_reaches_nobody(place):
    person = Person(Answer("accept"))
    await called(place, person, asked=[["elicitation/create", each] for each in ODD])
    assert person.asked == []
    answers = place.answers()["elicitation/create"]
    assert [each["result"] for each in answers] == [{"action": "decline"}] * len(ODD)


async def test_an_address_to_open_is_shown_with_its_server(place):
    params = {"message": "Pay here", "mode": "url", "elicitationId": "1", "url": "https://pay/x"}
    person = Person(Answer("accept"))
    await called(place, person, asked=[["elicitation/create", params]])
    assert [each.url for each in person.asked] == ["https://pay/x"]
    assert place.answers()["elicitation/create"][0]["result"] == {"action": "accept"}


@pytest.mark.slow
async def test_a_server_that_asks_again_and_again_is_declined(place):
    person = Person(Answer("accept", {"city": "Rome"}))
    await called(place, person, asked=[ASK] * 9)
    assert len(person.asked) == 5
    assert len(place.answers()["elicitation/create"]) == 9


async def test_a_server_gets_the_model_that_is_named_for_it_under_the_runs_log(place):
    _, events = await called(place, sampling="scripted:any", asked=[SAMPLE], model=["Paris."])
    [answer] = place.answers()["sampling/createMessage"]
    assert answer["result"]["content"] == {"type": "text", "text": "Paris."}
    [request] = [body for kind, body in events if kind == "model.start"]
    assert "100000" not in json.dumps(request)
    assert "sampling" in place.sent("initialize")[0]["params"]["capabilities"]


@pytest.mark.parametrize("sampling", ["", "nobody:any", "scripted:any"])
async def test_what_is_not_sampled_is_an_error_of_that_request_alone(place, monkeypatch, sampling):
    monkeypatch.setattr("clawhive_mcp.requests._MAX_TEXT", 1_000)
    odd = (
        {"messages": []},
        {"systemPrompt": "x" * 3_000},
        {"messages": [{"role": "user", "content": IMAGE}]},
    )
    changes = odd if sampling == "scripted:any" else ({},)
    asked = [[SAMPLE[0], {**SAMPLE[1], **change}] for change in changes]
    outcome, events = await called(place, sampling=sampling, asked=asked, model=["x"])
    assert outcome.output == "2"
    answers = place.answers()["sampling/createMessage"]
    assert ["error" in each for each in answers] == [True] * len(changes)
    assert [kind for kind, _ in events if kind == "model.end"] == []


@pytest.mark.slow
async def test_a_server_samples_no_more_than_a_few_times_a_call(place):
    await called(place, sampling="scripted:any", asked=[SAMPLE] * 12, model=["x"] * 12)
    answers = place.answers()["sampling/createMessage"]
    assert ["result" in each for each in answers] == [True] * 8 + [False] * 4
