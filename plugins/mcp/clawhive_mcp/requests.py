"""The requests of servers: a person's answer, a model's words, the workspace's place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from mcp_types import (
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    Root,
    SamplingMessage,
    TextContent,
)

from clawhive_core import ClawHiveError, LlmMessage, LlmRequest, Question, TextBlock
from clawhive_mcp.connection import Call
from clawhive_mcp.errors import log, printable
from clawhive_mcp.servers import Server

_MAX_QUESTIONS = 5
"""The number of questions to a person that one call may lead to."""
_MAX_FIELDS = 20
_MAX_WORDS = 4_000
_MAX_SAMPLES = 8
"""The number of requests to a model that one call may lead to."""
_MAX_TOKENS = 4_096
_MAX_TEXT = 200_000
_KINDS = frozenset({"string", "integer", "number", "boolean", "array"})


class ServerRequests:
    """Answers what one server asks of its client while a call is under way.

    Args:
        server: The server.
        root: The project root.
        calling: Returns the call that it asks for, None where none can be told.
    """

    def __init__(self, server: Server, root: str, calling: Callable[[], Call | None]) -> None:
        self._server, self._root, self._calling = server, root, calling

    async def roots(self, context: Any) -> ListRootsResult:  # noqa: ARG002 - the SDK's signature
        """Return the workspace, which is all that it is told of."""
        return ListRootsResult(roots=[Root(uri=Path(self._root).as_uri(), name="workspace")])  # pyright: ignore[reportArgumentType] - a text is what it is made of

    async def elicited(self, context: Any, params: ElicitRequestParams) -> ElicitResult:  # noqa: ARG002 - as above
        """Put its question to the person; without one it is declined."""
        call, question = self._calling(), self._question(params)
        if call is None or call.ctx is None or question is None:
            return self._declined("nobody can be asked" if question else "it is no usable form")
        call.questions += 1
        if call.questions > _MAX_QUESTIONS:
            return self._declined(f"it asked more than {_MAX_QUESTIONS} times in one call")
        with call.waiting():
            answer = await call.ctx.ask(question)
        if answer.action == "cancel":
            return self._declined("nobody answered")
        log.info("mcp.elicitation.%s server=%s", answer.action, self._server.name)
        return ElicitResult(
            action=answer.action,
            content=dict(answer.values) if answer.action == "accept" and not question.url else None,
        )

    async def sampled(
        self,
        context: Any,  # noqa: ARG002 - as above
        params: CreateMessageRequestParams,
    ) -> CreateMessageResult | ErrorData:
        """Ask the model that the configuration names, under the run's budget, rights and log."""
        call = self._calling()
        if call is None or call.ctx is None:
            return self._refused("no call of it is under way")
        call.samples += 1
        if call.samples > _MAX_SAMPLES:
            return self._refused(f"it asked more than {_MAX_SAMPLES} times in one call")
        texts = [_text_of(each) for each in params.messages]
        if not texts or not all(texts) or params.tools:
            return self._refused("only texts are sampled, without tools")
        if sum(map(len, texts)) + len(params.system_prompt or "") > _MAX_TEXT:
            return self._refused(f"its messages have more than {_MAX_TEXT} characters")
        request = LlmRequest(
            self._server.sampling,
            tuple(
                LlmMessage(each.role, (TextBlock(text),))
                for each, text in zip(params.messages, texts, strict=True)
            ),
            system=params.system_prompt,
            max_tokens=max(1, min(params.max_tokens, _MAX_TOKENS)),
            temperature=params.temperature,
        )
        try:
            response = await call.ctx.complete(request)
        except ClawHiveError as error:
            return self._refused(f"{error.code}: {error.message}")
        return CreateMessageResult(
            role="assistant",
            content=TextContent(type="text", text=response.text),
            model=self._server.sampling,
            stop_reason="endTurn",
        )

    def _question(self, params: ElicitRequestParams) -> Question | None:
        """Return what a person can be asked, None for what is no form, or an odd address."""
        source, message = f"the MCP server `{self._server.name}`", params.message[:_MAX_WORDS]
        if not isinstance(params, ElicitRequestFormParams):
            url = params.url
            usable = urlsplit(url).scheme in {"http", "https"} and url.isprintable()
            return Question(source, message, url=url) if usable and " " not in url else None
        schema: Mapping[str, Any] = params.requested_schema
        fields: Any = schema.get("properties") or {}
        required: Any = schema.get("required") or ()
        if not isinstance(fields, Mapping):
            return None
        named = cast("Mapping[str, Any]", fields)
        if len(named) > _MAX_FIELDS or not all(map(_is_flat, named.values())):
            return None
        return Question(source, message, dict(named), tuple(map(str, required)))

    def _declined(self, why: str) -> ElicitResult:
        log.info("mcp.elicitation.declined server=%s: %s", self._server.name, why)
        return ElicitResult(action="decline")

    def _refused(self, why: str) -> ErrorData:
        log.warning("mcp.sampling.refused server=%s: %s", self._server.name, printable(why, 300))
        return ErrorData(code=INVALID_REQUEST, message=printable(why, 300))


def _is_flat(schema: Any) -> bool:
    kind: Any = cast("Mapping[str, Any]", schema).get("type") if isinstance(schema, Mapping) else 0
    return isinstance(kind, str) and kind in _KINDS


def _text_of(message: SamplingMessage) -> str:
    """Return the text of a message; nothing where it holds anything else."""
    parts = message.content_as_list
    texts = [each.text for each in parts if isinstance(each, TextContent)]
    return "\n".join(texts) if len(texts) == len(parts) else ""
