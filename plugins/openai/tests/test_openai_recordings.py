"""Recorded exchanges of both APIs, played to the official SDK under the adapter."""

from pathlib import Path

import pytest

from clawhive_core.testing import Wire, check_wire, read_recordings
from clawhive_openai import OpenAIAdapter, Server

SHARED = [each / "shared/data/cassettes_dev" for each in Path(__file__).resolve().parents]
DATA = next((each for each in SHARED if each.is_dir()), None)
OPTIONAL = {"logprobs", "annotations", "status", "output_schema", "sources"}
"""What recorded clients leave out of an item that they send back."""
SEARCHES = "the client writes its own search in the place of the recorded one, or leaves it out"
EXCUSED = {
    "test_dbos/test_multiple_agents": "two conversations, of which the second is another agent's",
    "test_live_tool_search_handoff_openai_to_anthropic": SEARCHES,
    "test_openai_execution_client_round_trip": "the client answers a search of its own side",
    "test_openai_native_tool_search": SEARCHES,
}


class Turn(list):
    """The model's items of one turn; equal where a recorded client sent the same or less.

    Clients leave out what says nothing (`status`, empty lists), and for models that do not reason
    the items' ids too; all that they sent must be sent by the adapter, in the same order.
    """

    def __eq__(self, recorded):
        pairs = zip(self, recorded, strict=False)
        return len(self) == len(recorded) and all(covers(mine, theirs) for mine, theirs in pairs)

    __hash__ = None


def covers(mine, theirs):
    if isinstance(theirs, dict):
        if not isinstance(mine, dict):
            return False
        more = {key for key in mine.keys() - theirs.keys() if mine[key] not in (None, [], "")}
        said = {key: value for key, value in theirs.items() if value is not None}
        same = all(covers(mine.get(key), value) for key, value in said.items())
        return same and more <= OPTIONAL | ({"id"} if "id" not in theirs else set())
    if isinstance(theirs, list) and isinstance(mine, list):
        return len(mine) == len(theirs) and all(map(covers, mine, theirs))
    return mine == theirs or (mine in (None, []) and theirs in (None, []))


def chat_turns(body):
    return [Turn([plain(each)]) for each in body["messages"] if each["role"] == "assistant"]


def plain(message):
    return {key: value for key, value in message.items() if value not in (None, "", [])}


def response_turns(body):
    turns, last = [], None
    items = body["input"] if isinstance(body["input"], list) else []
    for item in items:
        own = item.get("role") == "assistant" or (
            "role" not in item and not item["type"].endswith("call_output")
        )
        if own and item == {"role": "assistant", "content": ""}:
            continue  # an older client's empty message before each call
        if own:
            if last is None:
                last = Turn()
                turns.append(last)
            last.append(simple(item))
        else:
            last = None
    return turns


def simple(item):
    """Return an item as it can be compared: a message of one text by its text if it has no id."""
    if item.get("role") == "assistant" and isinstance(item.get("content"), str):
        parts = [{"type": "output_text", "text": item["content"]}]
        return {"type": "message", "role": "assistant", "content": parts}
    return item


def recordings(file):
    if DATA is None:
        pytest.skip("../shared/data/cassettes_dev is not there")
    return list(read_recordings(DATA / file))


async def play(api, file, turns):
    found = recordings(file)

    def make(url):
        return OpenAIAdapter(Server("openai", url, api), {})

    excused = {
        each.name: why for each in found for name, why in EXCUSED.items() if name in each.name
    }
    return await check_wire(Wire(make, turns, found, excused=excused))


@pytest.mark.promise("P-136")
async def test_every_recorded_chat_completion_is_read_and_sent_back_as_it_came():
    report = await play("chat", "openai_chat.jsonl", chat_turns)
    assert report.compared >= 20
    assert report.errors >= 2


@pytest.mark.promise("P-136")
async def test_every_recorded_response_is_read_and_sent_back_as_it_came():
    report = await play("responses", "openai_responses.jsonl", response_turns)
    assert report.compared >= 20
    assert report.errors >= 1
