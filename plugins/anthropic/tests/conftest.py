"""The adapter over a loopback server, and answers of the API written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawhive_anthropic import AnthropicAdapter, read_settings
from clawhive_core.testing import Recording, Wire, read_recordings

KEY = "sk-ant-secret-1234567890"
ROOT = Path(__file__).resolve().parents[3]
PLACE = "shared/data/cassettes_dev/anthropic_messages.jsonl"


def made(url):
    settings = read_settings({"base_url": url}, {"ANTHROPIC_API_KEY": KEY})
    return AnthropicAdapter(settings)


def turns(body):
    """Return the model's turns, without what the recorded client neither keeps nor sends.

    That is fields without a value, citations, and who called a tool.
    """
    messages = body["messages"]
    return [carried(each["content"]) for each in messages if each["role"] == "assistant"]


def carried(value):
    if isinstance(value, list):
        return [carried(each) for each in value]
    if not isinstance(value, dict):
        return value
    left_out = {"caller"} | ({"citations"} if value.get("type") == "text" else set())
    return {
        key: carried(each)
        for key, each in value.items()
        if each is not None and key not in left_out
    }


def conversations(recording):
    """Yield the conversations of a recording, of which some hold several."""
    held = []
    for exchange in recording.exchanges:
        if held and len(turns(exchange.request)) <= len(turns(held[-1].request)):
            yield Recording(recording.name, tuple(held))
            held = []
        held.append(exchange)
    yield Recording(recording.name, tuple(held))


@pytest.fixture
def make():
    return made


@pytest.fixture
def wire():
    return Wire(made, turns, model="claude-sonnet-4-5")


@pytest.fixture
def recordings():
    found = [parent / PLACE for parent in ROOT.parents if parent.joinpath(PLACE).is_file()]
    if not found:
        pytest.skip("the recordings of the API are not beside this checkout")
    whole = read_recordings(found[0])
    return tuple(each for recording in whole for each in conversations(recording))
