"""A model on loopback that makes the calls of a fixed script, whatever a client speaks to it.

It speaks Anthropic's Messages, OpenAI's Responses and Chat Completions, and Gemini's
generateContent, each at once or as a stream; a program that needs no model posts to `/plain`. The
place in the script is the number of results in the conversation, so that a request which is
repeated gets the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

MODEL = "scripted"
DONE = "That is all."
OTHER = '{"title": "Scripted"}'
"""What requests that offer none of our tools get: clients ask for titles beside the work."""
_ID = "toolu_%d"
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One call of the script, and a piece of the text that comes back."""

    name: str
    tool: str
    args: Facts
    says: str


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sends, in whatever way it speaks."""

    tools: Sequence[tuple[str, str]]
    """The tools' namespaces, empty for most clients, and names."""
    answers: Sequence[str]
    """The results of the calls so far."""
    streams: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model says: a call, or the last words."""

    number: int
    text: str = DONE
    tool: tuple[str, str] | None = None
    args: Facts = field(default_factory=dict[str, Any])

    @property
    def id(self) -> str:
        """The call's id."""
        return _ID % self.number


class Script:
    """The calls that a client is made to do, and what came of them.

    Args:
        steps: The calls, in order.
        stable: The tools that each client must have from the start.
        late: A tool that is there once it was enabled.
        before: Called with a step's name and the last answer, once, before it is given.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        stable: Sequence[str],
        late: str,
        before: Callable[[str, str], None],
    ) -> None:
        self.steps, self.stable, self.late, self.before = steps, stable, late, before
        self.done: dict[str, str] = {}
        """By step, what is wrong with its answer; empty where nothing is."""
        self.lists = False
        self.late_at: int | None = None
        """The number of answers when the late tool was first there."""
        self.refused: str | None = None
        """The request that could not be answered."""
        self._given = -1
        self._lock = Lock()

    def turn(self, request: Request) -> Turn:
        """Return what the model says to a request."""
        count = len(request.answers)
        found = {word: self._named(request.tools, word) for word in (*self.stable, self.late)}
        if not any(found.values()):
            return Turn(count, text=OTHER)
        with self._lock:
            self.lists = self.lists or all(found[word] for word in self.stable)
            if found[self.late] and self.late_at is None:
                self.late_at = count
            for step, answer in zip(self.steps, request.answers, strict=False):
                wrong = "" if step.says in answer else f"answered {answer[:300]}"
                self.done.setdefault(step.name, wrong)
            if count >= len(self.steps):
                return Turn(count)
            step = self.steps[count]
            if count > self._given:
                self.before(step.name, request.answers[-1] if request.answers else "")
                self._given = count
        tool = self._named(request.tools, step.tool) or ("", step.tool)
        return Turn(count, tool=tool, args=step.args)

    @staticmethod
    def _named(tools: Sequence[tuple[str, str]], word: str) -> tuple[str, str] | None:
        """Return a tool as the client calls it: with letters in front."""
        return next((each for each in tools if each[1].endswith(word)), None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _from_messages(body: Facts) -> Request:
    """Read Anthropic's Messages."""
    blocks = [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    answers = [_text(each.get("content")) for each in blocks if each["type"] == "tool_result"]
    tools = [("", each["name"]) for each in body.get("tools") or ()]
    return Request(tools, answers, body.get("stream", False))


def _as_messages(turn: Turn, *, streams: bool) -> Any:
    """Write Anthropic's Messages, as events where it streams."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    start: dict[str, Any]
    if turn.tool is None:
        stop, start = "end_turn", {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": turn.text}
        whole = {**start, "text": turn.text}
    else:
        stop = "tool_use"
        start = {"type": "tool_use", "id": turn.id, "name": turn.tool[1], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(turn.args)}
        whole = {**start, "input": turn.args}
    message = {
        "id": f"msg_{turn.number}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [whole],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }
    if not streams:
        return message
    return [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage},
        {"type": "message_stop"},
    ]


def _from_chat(body: Facts) -> Request:
    """Read OpenAI's Chat Completions."""
    answers = [_text(each["content"]) for each in body["messages"] if each["role"] == "tool"]
    tools = [("", each["function"]["name"]) for each in body.get("tools") or ()]
    return Request(tools, answers, body.get("stream", False))


def _as_chat(turn: Turn, *, streams: bool) -> Any:
    """Write OpenAI's Chat Completions, as chunks where it streams."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.text}
    if turn.tool is not None:
        function = {"name": turn.tool[1], "arguments": json.dumps(turn.args)}
        call = {"index": 0, "id": turn.id, "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    stop = "stop" if turn.tool is None else "tool_calls"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    base = {"id": f"chat_{turn.number}", "created": 1, "model": MODEL}
    if not streams:
        choice = {"index": 0, "message": message, "finish_reason": stop}
        return {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
    base["object"] = "chat.completion.chunk"
    return [
        {**base, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage},
    ]


def _from_responses(body: Facts) -> Request:
    """Read OpenAI's Responses; Codex sends the tools of a server as one namespace."""
    tools: list[tuple[str, str]] = []
    for each in body.get("tools") or ():
        inner = each.get("tools")
        if isinstance(inner, list):
            tools += [(each.get("name", ""), tool.get("name", "")) for tool in inner]
        else:
            tools.append(("", each.get("name", "")))
    given = body["input"] if isinstance(body["input"], list) else []
    answers = [
        _text(each["output"]) for each in given if each.get("type") == "function_call_output"
    ]
    return Request(tools, answers, body.get("stream", False))


def _as_responses(turn: Turn, *, streams: bool) -> Any:
    """Write OpenAI's Responses, as events where it streams."""
    item: dict[str, Any] = {
        "type": "message",
        "id": f"item_{turn.number}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": turn.text, "annotations": []}],
    }
    if turn.tool is not None:
        namespace, name = turn.tool
        item = {
            "type": "function_call",
            "id": f"item_{turn.number}",
            "call_id": turn.id,
            "name": name,
            "arguments": json.dumps(turn.args),
            "status": "completed",
            **({"namespace": namespace} if namespace else {}),
        }
    response = {
        "id": f"resp_{turn.number}",
        "object": "response",
        "created_at": 1,
        "model": MODEL,
        "status": "completed",
        "output": [item],
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }
    if not streams:
        return response
    started = {**response, "status": "in_progress", "output": [], "usage": None}
    return [
        {"type": "response.created", "response": started},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]


def _from_gemini(body: Facts) -> Request:
    """Read Gemini's generateContent."""
    parts = [part for content in body["contents"] for part in content.get("parts", ())]
    answers = [
        _text(each["functionResponse"]["response"]) for each in parts if "functionResponse" in each
    ]
    tools = [
        ("", each["name"])
        for tool in body.get("tools") or ()
        for each in tool.get("functionDeclarations", ())
    ]
    return Request(tools, answers)


def _as_gemini(turn: Turn, *, streams: bool) -> Any:
    """Write Gemini's generateContent."""
    part: dict[str, Any] = {"text": turn.text}
    if turn.tool is not None:
        part = {"functionCall": {"id": turn.id, "name": turn.tool[1], "args": turn.args}}
    content = {"role": "model", "parts": [part]}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    whole = {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage,
        "modelVersion": MODEL,
    }
    return [whole] if streams else whole


def _from_plain(body: Facts) -> Request:
    """Read what a program posts that needs no model."""
    return Request([("", each) for each in body["tools"]], body["answers"])


def _as_plain(turn: Turn, *, streams: bool) -> Any:
    """Write it; `tool` is None at the end."""
    del streams
    return {"tool": turn.tool and turn.tool[1], "args": turn.args}


_COUNTED = {"input_tokens": 1, "totalTokens": 1}
_WAYS: Mapping[str, tuple[Callable[[Facts], Request], Callable[..., Any]]] = {
    "/v1/messages": (_from_messages, _as_messages),
    "/v1/chat/completions": (_from_chat, _as_chat),
    "/v1/responses": (_from_responses, _as_responses),
    "/plain": (_from_plain, _as_plain),
}


def _events(path: str, events: Sequence[Facts]) -> Iterator[bytes]:
    for event in events:
        kind = f"event: {event['type']}\n" if "type" in event else ""
        yield f"{kind}data: {json.dumps(event)}\n\n".encode()
    if path == "/v1/chat/completions":
        yield b"data: [DONE]\n\n"


@contextmanager
def served(script: Script) -> Generator[str]:
    """Serve a script on loopback; give the address."""

    class Handler(BaseHTTPRequestHandler):
        """The model."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            try:
                kind, content = self._answer(path, json.loads(body or b"{}"))
            except (KeyError, TypeError, ValueError, RuntimeError) as error:
                script.refused = f"{path}: {type(error).__name__}: {error}"
                self.send_error(500, "it cannot be answered")
                return
            self._send(kind, content)

        def do_GET(self) -> None:
            self._send("application/json", b'{"data": [], "models": []}')

        def _answer(self, path: str, body: Facts) -> tuple[str, bytes]:
            way, streams = _WAYS.get(path), path.endswith(":streamGenerateContent")
            if streams or path.endswith(":generateContent"):
                way = _from_gemini, _as_gemini
            if way is None:  # tokens are counted, or something that matters to nobody
                return "application/json", json.dumps(_COUNTED).encode()
            read, write = way
            request = read(body)
            streams = streams or request.streams
            value = write(script.turn(request), streams=streams)
            if streams:
                return "text/event-stream", b"".join(_events(path, value))
            return "application/json", json.dumps(value).encode()

        def _send(self, kind: str, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
