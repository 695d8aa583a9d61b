"""What the codes of findings about a skill's exports mean."""

from __future__ import annotations

from clawhive_core.diagnostics.explanation import Explanation

LEFT_OUT = "The skill is left out, and the others are not affected."

EXPORT_FINDINGS: tuple[Explanation, ...] = (
    Explanation(
        "CH0501",
        "The api_version cannot be used",
        "`exports.api_version` is `MAJOR.MINOR` in quotes, such as `1.2`; YAML would read it as a "
        "number otherwise, and 1.10 as 1.1.",
        'Write `api_version: "1.0"`.',
    ),
    Explanation(
        "CH0502",
        "The list of exported tools is not right",
        "A name is misspelt, stands twice, or has a contract without being exported.",
        "Mend the list at the place.",
    ),
    Explanation(
        "CH0503",
        "A JSON Schema is not valid",
        "A schema of a contract breaks the rules of JSON Schema (draft 2020-12).",
        "Mend the schema at the place.",
    ),
    Explanation(
        "CH0506",
        "The access of a skill names no tool of it",
        "`exports.access` frees or limits a tool that the skill does not export, so that it would "
        "do nothing.",
        "Mend the name, or export the tool.",
    ),
    Explanation(
        "CH0507",
        "A rate cannot be used",
        "A rate is `N/second`, `N/minute`, `N/hour`, `N/day` or `unlimited`: how often each user "
        "may call each tool within one second, minute, hour or day of UTC.",
        "Write it so, such as `50/day`.",
    ),
    Explanation(
        "CH0509",
        "An exported tool has no handler",
        "What executes an exported tool is the function of its name in `handlers.py` beside the "
        f"manifest, each `-` of the name as `_`. {LEFT_OUT}",
        "Write `async def NAME(input, ctx): ...` in handlers.py, or export the tool no more.",
    ),
    Explanation(
        "CH0511",
        "The handlers cannot be parsed",
        f"`handlers.py` is no Python; the place is the parser's. Nothing of it ran. {LEFT_OUT}",
        "Mend the file at the place.",
    ),
    Explanation(
        "CH0512",
        "A handler takes other arguments",
        "A handler is called with two arguments by position: the tool's input, and the context "
        f"that its calls, its store and its cards go through. {LEFT_OUT}",
        "Write `def NAME(input, ctx)` or `async def NAME(input, ctx)`.",
    ),
)
