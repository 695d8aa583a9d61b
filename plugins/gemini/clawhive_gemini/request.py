"""A request as the body of `generateContent`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from clawhive_core import LlmRequest, ToolDef, WireTable, model_failure, wire_name
from clawhive_gemini.content import contents_of

_BUDGETS = {"off": 0, "low": 1024, "medium": 8192, "high": 24576}
_LEVELS = {"off": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}
_MODEL = re.compile(r"(?:(?:models|tunedModels)/)?[A-Za-z0-9][A-Za-z0-9._@-]*")
_UNTHINKING = re.compile(r"(?:models/)?(?:gemini-(?:1\.|2\.0)|gemma)")
_BUDGETED = re.compile(r"(?:models/)?gemini-2\.5")


def declaration(tool: ToolDef, name: str) -> dict[str, Any]:
    """Return what the API is sent of a tool."""
    return {
        "name": name,
        "description": tool.description,
        "parametersJsonSchema": tool.parameters,
    }


def path_of(model: str, method: str) -> str:
    """Return the path below the API's version.

    Raises:
        ModelError: `model_not_found`: it is no name of a model.
    """
    if _MODEL.fullmatch(model) is None or ".." in model:
        raise model_failure("model_not_found", f"`{model}` is no name of a Gemini model")
    name = model if "/" in model else f"models/{model}"
    return f"{name}:{method}"


def body_of(request: LlmRequest, table: WireTable[dict[str, Any]]) -> dict[str, Any]:
    """Return the body.

    Raises:
        ModelError: `invalid_request`: the API cannot do what is asked.
    """
    body: dict[str, Any] = {
        "contents": contents_of(request.messages, request.model),
        "generationConfig": _generation(request),
    }
    if request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if table.payload:
        body["tools"] = [{"functionDeclarations": list(table.payload)}]
    choice = _choice(request, table)
    if choice:
        body["toolConfig"] = {"functionCallingConfig": choice}
    return _merged(body, request.options)


def _generation(request: LlmRequest) -> dict[str, Any]:
    config: dict[str, Any] = {"maxOutputTokens": request.max_tokens}
    if request.temperature is not None:
        config["temperature"] = request.temperature
    if request.response_schema is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = request.response_schema
    thinking = _thinking(request)
    if thinking:
        config["thinkingConfig"] = thinking
    return config


def _thinking(request: LlmRequest) -> dict[str, Any]:
    effort, model = request.reasoning, request.model
    if effort is None:
        return {}
    if _UNTHINKING.match(model):
        if effort == "off":
            return {}
        raise model_failure("invalid_request", f"`{model}` does not reason: `reasoning` is refused")
    budgeted = _BUDGETED.match(model)
    how = {"thinkingBudget": _BUDGETS[effort]} if budgeted else {"thinkingLevel": _LEVELS[effort]}
    return how if effort == "off" else {"includeThoughts": True, **how}


def _choice(request: LlmRequest, table: WireTable[Any]) -> dict[str, Any]:
    choice = request.tool_choice
    if choice == "auto" or (choice == "none" and not table.payload):
        return {}
    if choice == "none":
        return {"mode": "NONE"}
    if not table.payload:
        raise model_failure(
            "invalid_request", f"`tool_choice` is `{choice}` and there are no tools"
        )
    if choice == "required":
        return {"mode": "ANY"}
    name = wire_name(choice)
    if name not in table.names:
        raise model_failure(
            "invalid_request", f"`tool_choice` names `{choice}`, which is not offered"
        )
    return {"mode": "ANY", "allowedFunctionNames": [name]}


def _merged(into: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return both: objects are merged, lists are appended to, other values replaced."""
    for key, value in more.items():
        old = into.get(key)
        if isinstance(old, dict) and isinstance(value, Mapping):
            into[key] = _merged(cast("dict[str, Any]", old), cast("Mapping[str, Any]", value))
        elif isinstance(old, list) and isinstance(value, list | tuple):
            into[key] = [*cast("list[Any]", old), *cast("list[Any]", value)]
        else:
            into[key] = value
    return into
