"""The input of a call: what may enter a tool, copied so that nobody changes it."""

from __future__ import annotations

import json
from typing import Any

from clawhive_core.errors import InvalidInput
from clawhive_core.model.json_values import MAX_DEPTH, json_object
from clawhive_core.model.tools import ToolCall

MAX_INPUT = 16 * 1024 * 1024
"""About the bytes of JSON that a call's input may be."""


def input_of(call: ToolCall) -> tuple[dict[str, Any], bool]:
    """Return a copy of a call's input, and whether it is portable.

    Raises:
        InvalidInput: As `json_object`, or the model did not write its arguments as a JSON object.
    """
    if call.malformed is None:
        return json_object(call.input, MAX_INPUT)
    try:
        kind = type(json.loads(call.malformed)).__name__
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the arguments are no JSON: {error}") from error
    if kind == "dict":  # which models are refused at the door, before the log takes them
        raise InvalidInput(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    raise InvalidInput(f"the arguments are {kind}, and an object is needed")


def as_recorded(call: ToolCall) -> dict[str, Any]:
    """Return a call's input as the log holds it: empty where it is none that can be used."""
    try:
        return input_of(call)[0]
    except InvalidInput:
        return {}
