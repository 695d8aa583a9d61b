"""Real exchanges of the API, played to the SDK under the adapter."""

import re
from pathlib import Path

import pytest

from clawhive_core.testing import Wire, check_wire, read_recordings
from clawhive_gemini.adapter import GeminiAdapter
from clawhive_gemini.settings import Settings

FILE = (
    Path(__file__).resolve().parents[4]
    / "shared"
    / "data"
    / "cassettes_dev"
    / "gemini_generate_content.jsonl"
)
MADE_UP = "pyd_ai_"
"""What the recording client's own ids begin with, where the API gave none."""


def adapter(url):
    return GeminiAdapter(Settings(url), {"GEMINI_API_KEY": "test-key"})


def turns(body):
    """Return the model's turns as the API understands them: either spelling, either base64."""
    turns = [each for each in body.get("contents", []) if each.get("role") == "model"]
    return [[plain(part) for part in turn["parts"]] for turn in turns]


def plain(part):
    part = camel(part)
    if "thoughtSignature" in part:
        signature = part["thoughtSignature"]
        part["thoughtSignature"] = signature.replace("-", "+").replace("_", "/")
    call = part.get("functionCall", {})
    if call.get("id", "").startswith(MADE_UP):
        del call["id"]
    if part.get("toolCall", {}).get("args") == {}:
        del part["toolCall"]["args"]  # the recording client writes out the default
    if part.get("toolResponse", {}).get("toolType") == "FILE_SEARCH":
        # The API leaves it out; the recording client put grounding metadata in.
        part["toolResponse"].pop("response", None)
    return part


def camel(value, depth=2):
    """Return the names of a part and of what it holds in the API's own spelling."""
    if depth == 0 or not isinstance(value, dict):
        return value
    return {
        re.sub(r"_(.)", lambda found: found[1].upper(), key): camel(inner, depth - 1)
        for key, inner in value.items()
    }


@pytest.mark.skipif(not FILE.is_file(), reason="the recordings are not beside this checkout")
@pytest.mark.promise("P-143")
async def test_every_recorded_answer_is_read_and_goes_back_as_the_api_wants_it():
    report = await check_wire(Wire(adapter, turns, tuple(read_recordings(FILE))))
    assert report.exchanges >= 91
    assert report.streamed >= 3
    assert report.errors >= 1
    assert report.compared >= 50
    assert report.tool_calls >= 50
