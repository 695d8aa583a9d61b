"""What the codes about contracts between skills mean, and about what stands unseen in files."""

from __future__ import annotations

from clawhive_core.diagnostics.explanation import Explanation
from clawhive_core.diagnostics.export_codes import LEFT_OUT

_PHASE = "`contracts.phase` says whether it is a warning or an error."

CONTRACT_FINDINGS: tuple[Explanation, ...] = (
    Explanation(
        "CH0003",
        "The lines end unlike those of other files",
        "They end by CR LF, or by CR alone. Everything is read as it is meant; other tools, hashes "
        "and diffs see another text.",
        "End the lines by LF.",
    ),
    Explanation(
        "CH0004",
        "A file holds a control character",
        "Nobody sees it, and it may steer the terminal that shows the file.",
        "Remove it.",
    ),
    Explanation(
        "CH0005",
        "A file holds a character that nobody sees",
        "Signs that turn the direction of text, and tags, make a person read another text than a "
        f"model does: they are an error. {LEFT_OUT} Spaces of no width are a warning.",
        "Remove it; look at the text around it first.",
    ),
    Explanation(
        "CH0007",
        "A file of a skill is a link that leads elsewhere",
        "A SKILL.md, a manifest or a handlers file may be a link to a file below the folder of "
        f"skills only, so that no skill shows what lies elsewhere. {LEFT_OUT}",
        "Put the file itself there.",
    ),
    Explanation(
        "CH0010",
        "A file begins with a byte order mark",
        "It is passed over here; other tools take it for text and find no frontmatter.",
        "Save the file as UTF-8 without it.",
    ),
    Explanation(
        "CH0303",
        "`external_tools` is the old form of `imports`",
        f"It is read as an import from the only skill that exports the tool. {_PHASE}",
        "Write the import that the message gives.",
    ),
    Explanation(
        "CH0312",
        "A run type does not exist",
        "`allowed_run_types` names the task types that a skill's handlers may start: TASK for one "
        f"of its own, SKILL.TASK for another's. {LEFT_OUT}",
        "Write the name that is suggested, or remove it.",
    ),
    Explanation(
        "CH0313",
        "`requires_skill_data` is an old form",
        "It ties a skill to how another one keeps its data, which may then never change. " + _PHASE,
        "Import one of the tools that the message names, and call it.",
    ),
    Explanation(
        "CH0314",
        "`data_paths` is an old form",
        f"It ties others to how a skill keeps its data. {_PHASE}",
        "Export a tool that answers the data, and let others import it.",
    ),
    Explanation(
        "CH0315",
        "A tool breaks its skill's own `risk_policy`",
        "The tool states a level or risk above `max_level` or `max_risk`. What it does not state "
        "follows from the skill's permissions, and a tool that is above the cap by them is left "
        "out of the catalog at start.",
        "Raise the cap, or lower what the tool does.",
    ),
    Explanation(
        "CH0316",
        "`data_paths` names more than `public_state`",
        f"`public_state` is the only data that this old key may name. {LEFT_OUT}",
        "Export a tool that answers the data.",
    ),
    Explanation(
        "CH0408",
        "A skill is called like a part of ClawHive",
        "`core`, `local`, `mcp` and `sandbox` begin the names of tools that are not a skill's. "
        + LEFT_OUT,
        "Rename the skill.",
    ),
    Explanation(
        "CH0609",
        "The imported tool is for subscribers",
        "A call for a user without a subscription is refused with `subscription_required`.",
        "Answer that refusal in the handler, or import a free tool.",
    ),
    Explanation(
        "CH0610",
        "A skill imports another skill's code",
        "What is not exported may change at any time, and it would run past subscription, quota "
        f"and log. {_PHASE}",
        "Import a tool that the other skill exports, and call it by `ctx.call`.",
    ),
    Explanation(
        "CH0613",
        "A handler keeps or reads values outside of its own namespace",
        "A skill has `skills.ITS-ID.*` and nothing else; the call would be refused. " + LEFT_OUT,
        "Use the skill's own namespace; another skill's data is answered by its tools.",
    ),
    Explanation(
        "CH0614",
        "A bare name could mean two tools",
        "A handler's bare name means the skill's own tool, else the first import's.",
        "Call the other one by its whole name, SKILL.TOOL.",
    ),
    Explanation(
        "CH0615",
        "A handler calls a tool that its contract does not name",
        f"Such a call is refused with `tool_not_imported`. {_PHASE} In `compat` policy alone "
        "decides it.",
        "Add the tool to `imports`, or to `requires.tools`.",
    ),
    Explanation(
        "CH0616",
        "An import is never used",
        "Neither the handlers nor a step nor the text name the imported tool.",
        "Remove it from `imports`.",
    ),
    Explanation(
        "CH0617",
        "Several skills export an external tool",
        f"`external_tools` names a tool and not whose it is, and several export it. {LEFT_OUT}",
        "Write an import that names the skill.",
    ),
    Explanation(
        "CH0618",
        "Handlers import a file beside them",
        "What runs a skill's handlers, a sandbox engine or a process of its own, gets the text of "
        "`handlers.py` alone: an import of another file of the skill fails at each call.",
        "Write what the other file holds into `handlers.py`.",
    ),
    Explanation(
        "CH0701",
        "A deprecation is too short",
        "Between `announced` and `removal_date` lie 30 days at least. " + LEFT_OUT,
        "Write the date that the message gives, or a later one.",
    ),
    Explanation(
        "CH0702",
        "A deprecated tool is exported beyond its date",
        "Its `removal_date` is past, so that nobody can believe the dates.",
        "Remove the tool, or write a later date.",
    ),
    Explanation(
        "CH0703",
        "An imported tool is deprecated",
        "The message says when it goes, and what stands in for it. Until then it works as before.",
        "Import the replacement.",
    ),
    Explanation(
        "CH0704",
        "The replacement of a deprecated tool is none",
        "It does not exist, which is an error, or goes away itself, which is a warning.",
        "Name a tool that is exported and stays.",
    ),
    Explanation(
        "CH0706",
        "A deprecation cannot be read",
        "A date is not YEAR-MONTH-DAY, or a tool is deprecated twice. " + LEFT_OUT,
        "Mend it at the place.",
    ),
    Explanation(
        "CH0707",
        "Nothing says when a deprecation was announced",
        "Without `announced` nobody can tell whether users had the 30 days.",
        "Add `announced: YEAR-MONTH-DAY`.",
    ),
    Explanation(
        "CH0708",
        "A deprecated tool is gone before its date, or was never there",
        "The tool is not exported, and its `removal_date` lies ahead: its users had less time than "
        "they were told, or the name is misspelt.",
        "Mend the name, or export the tool until then.",
    ),
)
