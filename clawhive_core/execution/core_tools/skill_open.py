"""The core tool `skill_open`: a skill's body, or one of its files, when a model asks for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from clawhive_core.execution.core_tools.provider import PROVIDER_ID, CoreTool
from clawhive_core.execution.core_tools.skill_library import SkillLibrary, SkillPage
from clawhive_core.model.principal import Principal
from clawhive_core.model.tools import Enablement, ToolMeta, ToolResult
from clawhive_core.protocols.context import InvokeContext

_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_ANSWER: dict[str, Any] = {
    "name": _TEXT,
    "path": {"type": ["string", "null"]},
    "text": _TEXT,
    "truncated": {"type": "boolean"},
    "files": {"type": "array", "items": _TEXT},
    "more_files": _COUNT,
}

SKILL_OPEN = ToolMeta(
    name="skill_open",
    description=(
        "Read the text of a skill before doing what the skill is for; with `path`, one of the"
        " files that the text refers to."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "The name of the skill."},
            "path": {
                "type": "string",
                "minLength": 1,
                "description": "A file of the skill, relative to its folder; without it, its text.",
            },
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "properties": _ANSWER,
        "required": list(_ANSWER),
        "additionalProperties": False,
    },
    provider_id=PROVIDER_ID,
    capability_level="L0",
    risk="safe",
    idempotent=True,
    output_trust="trusted",  # nothing is answered that nobody vouches for
    always_load=True,
    category="skills",
    keywords=("skill", "instructions", "knowledge", "how"),
    examples=({"name": "code"}, {"name": "code", "path": "references/limits.md"}),
)


def skill_open(
    library: SkillLibrary, known: Callable[[Principal], Collection[str] | None] = lambda _: None
) -> CoreTool:
    """Return the tool over a library of skills.

    Args:
        library: The skills.
        known: The ids of the only ones that a principal knows, None for all.
    """

    async def run(input: Mapping[str, Any], ctx: InvokeContext) -> ToolResult:
        from anyio import to_thread

        work = partial(library.only(known(ctx.principal)).open, input["name"], input.get("path"))
        page = await to_thread.run_sync(work, abandon_on_cancel=True)
        enables = Enablement((), skill=page.skill) if page.path is None else None
        value = _as_json(page)
        return ToolResult(ctx.tool_call_id, _as_text(page), structured=value, enables=enables)

    return CoreTool(SKILL_OPEN, run)


def _as_text(page: SkillPage) -> str:
    if not page.files:
        return page.tagged
    more = f", and {page.more_files} more" if page.more_files else ""
    return f"{page.tagged}\nFiles of the skill, for `path`: {', '.join(page.files)}{more}"


def _as_json(page: SkillPage) -> dict[str, Any]:
    return {
        "name": page.skill,
        "path": page.path,
        "text": page.text,
        "truncated": page.left > 0,
        "files": list(page.files),
        "more_files": page.more_files,
    }
