"""Real exchanges of the API, played to the SDK under the adapter."""

import re
from pathlib import Path

import pytest

from clawhive_core.testing import Wire, check_wire, read_recordings
from clawhive_gemini.adapter import GeminiAdapter
from clawhive_gemini.settings import Settings

FILES = "shared/data/cassettes*/gemini_generate_content.jsonl"


def adapter(url):
    return GeminiAdapter(Settings(url), {"GEMINI_API_KEY": "test-key"})


def turns(body):
    """Return the model's turns as the API understands them: either spelling, either base64."""
    turns = [each for each in body.get("contents", []) if each.get("role") == "model"]
    return [[plain(part) for part in turn.get("parts") or ()] for turn in turns]


def plain(part):
    part = camel(part)
    signature = part.get("thoughtSignature")
    return part if signature is None else part | {"thoughtSignature": standard(signature)}


def standard(base64):
    return base64.replace("-", "+").replace("_", "/")


def camel(value, depth=2):
    """Return the names of a part and of what it holds in the API's own spelling."""
    if depth == 0 or not isinstance(value, dict):
        return value
    return {
        re.sub(r"_(.)", lambda found: found[1].upper(), key): camel(inner, depth - 1)
        for key, inner in value.items()
    }


def recordings():
    found = [file for parent in Path(__file__).resolve().parents for file in parent.glob(FILES)]
    if not found:
        pytest.skip("the recordings are not beside this checkout")
    return [each for file in found for each in read_recordings(file)]


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.promise("P-143")
async def test_every_recorded_answer_is_read_and_goes_back_as_the_api_wants_it(every):
    report = await check_wire(Wire(adapter, turns, recordings()[::every]))
    assert report.compared >= 50 // every // 2
    assert report.tool_calls >= 50 // every // 2
    if every == 1:
        assert report.exchanges >= 91
        assert report.streamed >= 3
        assert report.errors >= 1
