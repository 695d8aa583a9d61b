"""A request as the Messages API takes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from clawhive_anthropic.blocks import Value
from clawhive_anthropic.turns import CACHED, write_turns
from clawhive_core import LlmRequest, ModelError, ToolDef, WireTable, model_failure, wire_name

_OURS = frozenset({"messages", "model", "stream"})
_CHOICES = {"none": {"type": "none"}, "required": {"type": "any"}}
_COMBINING = ("allOf", "anyOf", "oneOf")

_SAMPLING = frozenset({"temperature", "top_k", "top_p"})
_WITH_SAMPLING = "2023-06-01"
"""The last version of the API that has them; the later ones refuse any value."""

_BUDGETS = {"low": 2048, "medium": 8192, "high": 24576}
_LEAST_BUDGET = 1024
_BY_BUDGET = re.compile(r"claude-(3|(opus|sonnet|haiku)-4(-[0-5])?(-\d{8}|-latest)?$)")
"""Models that are told how many tokens to think; later ones are told how hard to try."""


@dataclass(frozen=True, slots=True)
class Written:
    """A request's body, and what stands beside it."""

    body: Value
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, object] = field(default_factory=dict[str, object])


def write_tool(tool: ToolDef, wire: str) -> Value:
    """Return a tool as it is offered."""
    schema, note = _input_schema(tool.parameters)
    description = f"{tool.description}{note}"
    described = {"description": description} if description else {}
    return {"name": wire, **described, "input_schema": schema}


def _input_schema(parameters: Mapping[str, Any]) -> tuple[Value, str]:
    """Return a schema that the API takes; what it refuses at the top becomes words."""
    combining = {key: parameters[key] for key in _COMBINING if key in parameters}
    schema = {key: value for key, value in parameters.items() if key not in combining}
    if not combining:
        return {**schema, "type": "object"}, ""
    import json

    note = f"\n\nThe input must also satisfy this JSON Schema: {json.dumps(combining)}"
    return {**schema, "type": "object"}, note


def write_request(request: LlmRequest, table: WireTable[Value], *, stream: bool) -> Written:
    """Return the request.

    Raises:
        ModelError: `invalid_request`: something that the API cannot do, by its name.
    """
    options = dict(request.options)
    _check(options)
    betas = options.pop("betas", ())
    cache = bool(request.cache_hints)
    turns = write_turns(request.messages, cache=cache)
    more_tools = options.pop("tools", ())
    config = {**_output_config(request), **options.pop("output_config", {})}
    body: Value = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "system": _system(request.system, cache=cache),
        "tools": _tools((*table.payload, *more_tools), cache=cache),
        "tool_choice": _tool_choice(request, table, offered=bool(table.payload or more_tools)),
        "messages": turns.messages,
        "temperature": request.temperature,
        "thinking": _thinking(request),
        "output_config": config or None,
        "container": turns.container,
        "stream": stream or None,
    }
    body = {key: value for key, value in body.items() if value is not None} | options
    headers = {} if _SAMPLING.isdisjoint(body) else {"anthropic-version": _WITH_SAMPLING}
    if not betas:
        return Written(body, headers)
    return Written(body, headers | {"anthropic-beta": ",".join(betas)}, {"beta": "true"})


def _check(options: Mapping[str, Any]) -> None:
    """Refuse options that the request itself says, or that have another form than the API's."""
    for name in sorted(options.keys() & _OURS):
        raise _refused(f"the option `{name}` is the request's own and cannot be set beside it")
    for name, kinds in {
        "betas": list | tuple,
        "tools": list | tuple,
        "output_config": dict,
    }.items():
        if name in options and not isinstance(options[name], kinds):
            raise _refused(f"the option `{name}` is neither list nor table, as it must be")


def _refused(message: str) -> ModelError:
    return model_failure("invalid_request", message)


def _system(system: str | None, *, cache: bool) -> str | list[Value] | None:
    if system is None or not system.strip():
        return None
    return [{"type": "text", "text": system, "cache_control": CACHED}] if cache else system


def _tools(tools: tuple[Value, ...], *, cache: bool) -> list[Value] | None:
    if not tools:
        return None
    last = {**tools[-1], "cache_control": CACHED} if cache else tools[-1]
    return [*tools[:-1], last]


def _tool_choice(request: LlmRequest, table: WireTable[Value], *, offered: bool) -> Value | None:
    choice = request.tool_choice
    if choice == "auto" or (choice == "none" and not offered):
        return None
    if not offered:
        raise _refused(f"`tool_choice` is `{choice}` and no tool is offered")
    if choice in _CHOICES:
        return _CHOICES[choice]
    wire = wire_name(choice)
    if wire not in table.names:
        raise _refused(f"`tool_choice` names `{choice}`, which is not offered")
    return {"type": "tool", "name": wire}


def _output_config(request: LlmRequest) -> Value:
    config: Value = {}
    if request.response_schema is not None:
        config["format"] = {"type": "json_schema", "schema": _strict(request.response_schema)}
    if request.reasoning not in {None, "off"} and not _BY_BUDGET.search(request.model):
        config["effort"] = request.reasoning
    return config


def _strict(schema: Mapping[str, Any]) -> Value:
    """Return the schema within the subset that the API takes, where the SDK can say it."""
    from anthropic import transform_schema

    plain = cast("Value", schema)
    try:
        return transform_schema(plain)
    except (AssertionError, AttributeError, TypeError, ValueError):
        return dict(plain)  # its keywords are beyond the SDK: the API says what it makes of them


def _thinking(request: LlmRequest) -> Value | None:
    effort = request.reasoning
    if effort is None:
        return None
    if effort == "off":
        return {"type": "disabled"}
    if not _BY_BUDGET.search(request.model):
        return {"type": "adaptive"}
    if request.max_tokens <= _LEAST_BUDGET:
        raise _refused(f"`{request.model}` reasons with `max_tokens` above {_LEAST_BUDGET} only")
    half = max(_LEAST_BUDGET, request.max_tokens // 2)  # the rest is for the answer
    return {"type": "enabled", "budget_tokens": min(_BUDGETS[effort], half)}
