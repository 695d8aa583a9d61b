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
        "CH0504",
        "A model's API would refuse the schema",
        "An input schema is an object at its root; anything else is an error. Cases at the root "
        "(`oneOf` and such) and names of properties beyond letters, digits, `_`, `.` and `-` are "
        "refused by some APIs: a warning.",
        "Write an object; move cases into a property.",
    ),
    Explanation(
        "CH0505",
        "A reference of a schema leads nowhere",
        "`$ref` may name a place in the same schema. Files and addresses are never fetched. "
        + LEFT_OUT,
        "Copy what it means to `$defs` and write `#/$defs/NAME`.",
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
        "CH0510",
        "A skill exports under the name of a plugin",
        "The first part of its tools' names is that of a provider's tools, which were there first. "
        + LEFT_OUT,
        "Rename the skill.",
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
    Explanation(
        "CH0513",
        "An exported tool lacks a schema",
        "Each exported tool states both `input_schema` and `output_schema`: what others rely on is "
        f"checked at each call, and before a change is published. {LEFT_OUT}",
        "Add the schema; `{}` where anything goes.",
    ),
    Explanation(
        "CH0514",
        "A tool is called like one of the core",
        "A handler that calls `read`, `save` or another of the core's names gets its own tool "
        "instead.",
        "Rename the tool.",
    ),
    Explanation(
        "CH0515",
        "A skill's tool counts as safe and is decided as guarded",
        "A tool outside every sandbox engine is safe only where it changes nothing beyond "
        "ClawHive's own state: the run's folder, the own memory, a sandbox. This one says that it "
        "writes elsewhere, runs programs or has side effects, or its level says so and no effect. "
        "Where the skill is trusted, so that its handlers may run outside of a sandbox, its calls "
        "ask a person once; `clawhive tools show` says why.",
        "Write `risk: guarded`, which `--fix` does; or name only what it touches: "
        "`fs.write:${run}/{}` for the run's folder, no `side_effects` and `L0` where it only "
        "reads.",
    ),
)
