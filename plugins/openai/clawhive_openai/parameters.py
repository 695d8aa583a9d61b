"""Parameters that both APIs have, under other names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from clawhive_core import LlmRequest, MediaBlock, ModelError, model_failure
from clawhive_openai.values import mapping

_UNREASONING = re.compile(r"(ft:)?(gpt-3|gpt-4|chatgpt-)|gpt-5[\w.]*-chat")
_STRICT = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf"}
    | {"title", "description", "$defs", "$ref"}
)
"""Keywords that OpenAI's strict schemas may hold."""


def reasons(model: str) -> bool:
    """Whether a model of OpenAI may reason; those that cannot take no parameter about it."""
    return _UNREASONING.match(model) is None


def effort(request: LlmRequest, *, own: bool) -> str | None:
    """Return the API's word for how much to reason, None to leave it to the server.

    Args:
        request: The request.
        own: Whether OpenAI's own models are asked, which differ in what they take.

    Raises:
        ModelError: `invalid_request`: the model cannot answer without reasoning.
    """
    if request.reasoning != "off":
        return request.reasoning
    if not own:
        return "none"
    if not reasons(request.model):
        return None
    if re.match(r"o\d", request.model):
        raise unsupported(f"`{request.model}` cannot answer without reasoning")
    early = re.fullmatch(r"gpt-5(-mini|-nano)?(-\d{4}-\d\d-\d\d)?", request.model)
    return "minimal" if early else "none"


def schema_format(request: LlmRequest) -> dict[str, Any]:
    """Return the response schema as the APIs take it; strict where OpenAI can hold to it."""
    schema = request.response_schema or {}
    return {"name": "answer", "schema": schema, "strict": _is_strict(schema)}


def _is_strict(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(map(_is_strict, cast("list[Any]", schema)))
    if not isinstance(schema, Mapping):
        return True
    fields = cast("Mapping[str, Any]", schema)
    if not fields.keys() <= _STRICT:
        return False
    properties = mapping(fields.get("properties"))
    if fields.get("type") == "object" or properties:
        required: Any = fields.get("required", [])
        if fields.get("additionalProperties") is not False or set(required) != set(properties):
            return False
    inner = (*properties.values(), *mapping(fields.get("$defs")).values())
    return all(map(_is_strict, (*inner, fields.get("items"), fields.get("anyOf"))))


def with_options(body: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body with the user's further parameters; None takes a parameter away.

    Tools and `include` are added to ours; of an object (`reasoning`, `text`) ours are kept beside.
    """
    for name, value in options.items():
        ours = body.get(name)
        if isinstance(value, Mapping) and isinstance(ours, Mapping):
            body[name] = {**ours, **value}
        elif isinstance(value, list) and isinstance(ours, list):
            body[name] = [*ours, *(each for each in cast("list[Any]", value) if each not in ours)]
        else:
            body[name] = value
    return {name: value for name, value in body.items() if value is not None}


def data_url(block: MediaBlock) -> str:
    """Return inline bytes as a data URL, or the URL."""
    if block.data is None:
        return block.url or ""
    return f"data:{block.media_type};base64,{block.data}"


def plain_text(block: MediaBlock) -> str | None:
    """Return the text of an inline document that is text, None for all else."""
    is_text = block.media_type.startswith("text/") or block.media_type == "application/json"
    if not is_text or block.data is None:
        return None
    from base64 import b64decode

    return b64decode(block.data).decode("utf-8", "replace")


def unsupported(what: str) -> ModelError:
    """Return the error for what the API cannot take."""
    return model_failure("invalid_request", what)
