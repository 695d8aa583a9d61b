"""The adapter over a loopback server, and answers of the API written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawhive_anthropic import AnthropicAdapter, read_settings
from clawhive_core.testing import Wire, read_recordings

KEY = "sk-ant-secret-1234567890"
ROOT = Path(__file__).resolve().parents[3]
PLACE = "shared/data/cassettes*/anthropic_messages.jsonl"


def made(url):
    settings = read_settings({"base_url": url}, {"ANTHROPIC_API_KEY": KEY})
    return AnthropicAdapter(settings)


def turns(body):
    """Return the model's turns, each as a list of blocks: a text by itself is one."""
    said = [each["content"] for each in body.get("messages", ()) if each["role"] == "assistant"]
    return [[{"type": "text", "text": each}] if isinstance(each, str) else each for each in said]


@pytest.fixture
def make():
    return made


@pytest.fixture
def wire():
    return Wire(made, turns, model="claude-sonnet-4-5")


@pytest.fixture
def recordings():
    found = [file for parent in ROOT.parents for file in parent.glob(PLACE)]
    if not found:
        pytest.skip("the recordings of the API are not beside this checkout")
    return tuple(each for file in found for each in read_recordings(file))
