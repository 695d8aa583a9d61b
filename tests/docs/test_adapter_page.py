"""The test that the page about adapters shows, run by pytest as a reader would."""

from __future__ import annotations

import subprocess

import pytest

from tests.docs.conftest import block
from tests.harness import own_pytest

PAGE = "docs/how-to/model-adapter.md"

ADAPTER = """
import http.client
import json
import urllib.error
import urllib.request

import anyio.to_thread
from clawhive_core import (
    MAX_BODY, LlmResponse, StreamEvent, TextBlock, model_failure, status_code
)


def words(message):
    return "".join(getattr(block, "text", "") for block in message.content)


class MyAdapter:
    name = "mine"
    host = default_host = "api.example.com"
    supports_tools = False

    def __init__(self, base_url, key):
        self._url, self._key = base_url, key

    async def chat(self, request):
        text = await anyio.to_thread.run_sync(self._post, request, False)
        try:
            return LlmResponse((TextBlock(json.loads(text)["content"]),))
        except (ValueError, KeyError) as error:
            raise model_failure("invalid_response", "no answer of the API") from error

    async def stream(self, request):
        text, said, ended = await anyio.to_thread.run_sync(self._post, request, True), [], False
        for line in text.splitlines():
            if line.startswith("data: "):
                try:
                    event = json.loads(line[6:])
                except ValueError as error:
                    raise model_failure("invalid_response", "half an event") from error
                ended = ended or "done" in event
                if "text" in event:
                    said.append(event["text"])
                    yield StreamEvent("text", event["text"])
        if not ended:
            raise model_failure("invalid_response", "the stream has no end")
        yield StreamEvent("done", response=LlmResponse((TextBlock("".join(said)),)))

    async def close(self):
        pass

    def _post(self, request, stream):
        messages = [{"role": each.role, "content": words(each)} for each in request.messages]
        body = json.dumps({"stream": stream, "messages": messages}).encode()
        headers = {"authorization": self._key, "content-type": "application/json"}
        asked = urllib.request.Request(self._url + "/chat", body, headers)
        try:
            with urllib.request.urlopen(asked, timeout=300) as answer:
                data = answer.read(MAX_BODY.get() + 1)
        except urllib.error.HTTPError as error:
            with error:
                wait = error.headers.get("retry-after")
            raise model_failure(
                status_code(error.code),
                "it failed",
                status=error.code,
                retry_after=None if wait is None else float(wait),
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise model_failure("connection_failed", "it broke") from error
        if len(data) > MAX_BODY.get():
            raise model_failure("response_too_large", "too much")
        return data.decode()
"""
HALF = ADAPTER.replace("if not ended:", "if False:")


@pytest.fixture
def beside(tmp_path):
    """Run the page's test beside an adapter, by a pytest without configuration or plugins."""

    def run(adapter):
        (tmp_path / "my_provider.py").write_text(adapter, "utf-8")
        (tmp_path / "test_adapter.py").write_text(block(PAGE, "python"), "utf-8")
        (tmp_path / "recordings.jsonl").write_text(block(PAGE, "json"), "utf-8")
        return subprocess.run(
            own_pytest("-q", "-c", "/dev/null", "--rootdir", ".", "test_adapter.py"),
            check=False,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )

    return run


def test_the_test_of_the_page_passes_for_an_adapter_that_keeps_to_it(beside):
    done = beside(ADAPTER)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_test_of_the_page_fails_for_one_that_takes_half_a_stream_for_an_answer(beside):
    done = beside(HALF)
    assert done.returncode == 1
    assert "stream, nothing: " in done.stdout
