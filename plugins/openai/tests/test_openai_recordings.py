"""Recorded exchanges of both APIs, played to the official SDK under the adapter."""

from pathlib import Path

import pytest

from clawhive_core.testing import Wire, check_wire, read_recordings
from clawhive_openai import OpenAIAdapter, Server

FILES = "shared/data/cassettes*"


def chat_turns(body):
    return [plain(each) for each in body.get("messages", ()) if each["role"] == "assistant"]


def plain(message):
    """Return a message whose text is its text, also where a client sent it as one part.

    Thoughts that a server gave twice are in either place.
    """
    parts, details = message.get("content"), message.get("reasoning_details")
    if isinstance(parts, list) and [part.get("type") for part in parts] == ["text"]:
        message = {**message, "content": parts[0]["text"]}
    thoughts = [each.get("text") or each.get("summary") for each in details or ()]
    if len([each for each in thoughts if each]) == 1:
        message = {"reasoning": next(filter(None, thoughts)), **message}
    return message


class Own(Server):
    """OpenAI's own server, whose models the recordings are of."""

    @property
    def is_openai(self):
        return True


def response_turns(body):
    turns, last = [], None
    items = body.get("input")
    items = items if isinstance(items, list) else []
    for item in items:
        kind = item.get("type", "message")
        # Outputs of what ran at the provider have ids, those of a client's tools have none.
        answered = kind == "mcp_approval_response" or (
            kind.endswith("_output") and not item.get("id")
        )
        own = item.get("role") == "assistant" or ("role" not in item and not answered)
        if own and item == {"role": "assistant", "content": ""}:
            continue  # an older client's empty message before each call
        if own:
            if last is None:
                last = []
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


def recordings(name):
    folders = [each for parent in Path(__file__).resolve().parents for each in parent.glob(FILES)]
    found = [folder / name for folder in folders if (folder / name).is_file()]
    if not found:
        pytest.skip(f"{FILES}/{name} is not beside this checkout")
    return [each for file in found for each in read_recordings(file)]


async def play(api, name, turns, every):
    def make(url):
        return OpenAIAdapter(Own("openai", url, api), {"OPENAI_API_KEY": "made-up"})

    return await check_wire(Wire(make, turns, recordings(name)[::every]))


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.promise("P-136")
async def test_every_recorded_chat_completion_is_read_and_sent_back_as_it_came(every):
    report = await play("chat", "openai_chat.jsonl", chat_turns, every)
    assert report.compared >= 20 // every // 2
    assert report.errors >= 2 // every


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.promise("P-136")
async def test_every_recorded_response_is_read_and_sent_back_as_it_came(every):
    report = await play("responses", "openai_responses.jsonl", response_turns, every)
    assert report.compared >= 20 // every // 2
    assert report.errors >= 1 // every
