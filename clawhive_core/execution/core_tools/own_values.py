"""The core tools `read`, `save` and `show`: what a skill keeps, and what it shows the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from clawhive_core.errors import ToolError
from clawhive_core.execution.context import ToolContext
from clawhive_core.execution.core_tools.provider import PROVIDER_ID, CoreTool
from clawhive_core.model.patterns import pattern
from clawhive_core.model.tools import ToolMeta
from clawhive_core.protocols.context import InvokeContext, Store

_PATH = {
    "type": "string",
    "maxLength": 300,
    "description": "skills.SKILL.KEY: the skill's own id, then names joined by dots.",
}
_KEY = pattern(r"[\w-]+(?:\.[\w-]+)*")


def _place(ctx: InvokeContext, path: str) -> tuple[Store, str]:
    """Return the namespace of the skill that calls, and the key in it.

    Raises:
        ToolError: `denied` for everybody else and for every other namespace, `invalid_input`.
    """
    context = cast("ToolContext", ctx)  # the executor's own, which alone calls providers
    who = context.principal
    if who.kind != "skill":
        raise ToolError(
            f"`{who}` has nothing of its own to read or save: only the handlers of skills have",
            code="denied",
            fix="call a tool that the skill exports",
        )
    prefix = f"skills.{who.name}."
    if not path.startswith(prefix):
        raise ToolError(
            f"the skill `{who.name}` reads and saves below `{prefix}` only, not `{path}`",
            code="denied",
            place=path,
            fix=f"write `{prefix}KEY`; what another skill keeps, one of its tools answers",
        )
    key = path.removeprefix(prefix)
    if _KEY.fullmatch(key) is None:
        raise ToolError(
            f"`{path}` is no path",
            code="invalid_input",
            place=path,
            fix=f"write `{prefix}KEY`: letters, digits, `_` and `-`, joined by dots",
        )
    return context.services.store_for(context.scope, f"skill_{who.name}"), key


async def _read(input: Mapping[str, Any], ctx: InvokeContext) -> dict[str, Any]:
    store, key = _place(ctx, input["path"])
    return {"data": await store.get(key)}


async def _save(input: Mapping[str, Any], ctx: InvokeContext) -> dict[str, Any]:
    store, key = _place(ctx, input["path"])
    await store.put(key, input["data"])
    return {"path": input["path"]}


async def _show(input: Mapping[str, Any], ctx: InvokeContext) -> dict[str, Any]:
    cast("ToolContext", ctx).card(input)
    return {"shown": True}


READ = CoreTool(
    ToolMeta(
        name="read",
        description="Return what a skill saved under a path; null where it saved nothing.",
        input_schema={
            "type": "object",
            "additionalProperties": False,
            "required": ["path"],
            "properties": {"path": _PATH},
        },
        output_schema={"type": "object", "required": ["data"]},
        provider_id=PROVIDER_ID,
        risk="safe",
        always_load=True,
        category="own values",
    ),
    _read,
)

SAVE = CoreTool(
    ToolMeta(
        name="save",
        description="Keep a JSON value of at most 1 MiB under a path of the skill's own.",
        input_schema={
            "type": "object",
            "additionalProperties": False,
            "required": ["path", "data"],
            "properties": {"path": _PATH, "data": {"description": "Any JSON value."}},
        },
        provider_id=PROVIDER_ID,
        risk="safe",
        idempotent=True,
        always_load=True,
        category="own values",
    ),
    _save,
)

SHOW = CoreTool(
    ToolMeta(
        name="show",
        description="Show the user a card at once, such as one that offers a subscription.",
        input_schema={
            "type": "object",
            "additionalProperties": False,
            "required": ["type", "card_type"],
            "properties": {
                "type": {"const": "card"},
                "card_type": {"type": "string", "pattern": r"^[A-Za-z0-9_-]{1,64}$"},
                "data": {"type": "object", "description": "What the card says."},
            },
        },
        provider_id=PROVIDER_ID,
        risk="safe",
        always_load=True,
        category="own values",
    ),
    _show,
)

TOOLS = (READ, SAVE, SHOW)
