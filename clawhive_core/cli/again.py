"""The command line that starts a recorded run's task again, for refusals to extend by `--grant`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clawhive_core.cli.inputs import spelled
from clawhive_core.model.principal import DEFAULT_AGENT

if TYPE_CHECKING:
    from clawhive_core.cli.settings import Settings
    from clawhive_core.hive.hive import Hive

_LONGEST = 4000
"""Characters of a command that somebody still copies."""
_GIVEN = """
    SELECT capability FROM grants WHERE scope = 'task' AND scope_id = ? AND issuer = 'user'
    AND mode = 'allow' AND parent_grant IS NULL ORDER BY seq, rowid
"""


def started_again(settings: Settings, hive: Hive, run: str) -> str:
    """Return the command for a run, or for the one that started it; empty where none can say it.

    None can where a secret was left out of the record, or where the input is long.

    Raises:
        UnknownId: There is no such run.
    """
    import shlex

    from clawhive_core.events.redaction import MARK
    from clawhive_core.runs.record.lineage import line_of, start_of
    from clawhive_core.runs.record.view import find_run

    run_id, who = line_of(hive.log, find_run(hive.log, run))[0]
    start = start_of(hive.log, run_id)
    words = _task(hive, start)
    if words is None:
        return ""
    if who.kind == "agent" and who != DEFAULT_AGENT:
        words += ["--agent", who.name]
    words += _options(hive, start, run_id)
    line = shlex.join([*settings.command(), "run", *words])
    return "" if MARK in line or "\0" in line or len(line) > _LONGEST else line


def repeated(settings: Settings, run_id: str, given: Mapping[str, Any]) -> str:
    """Return the command that repeats a recorded run, with the options of `runs replay`."""
    import shlex

    words = [*settings.command(), "runs", "replay", run_id, "--mode", given["mode"]]
    if given["model"] is not None:
        words += ["--model", given["model"]]
    return shlex.join([*words, *(word for cap in given["grants"] for word in ("--grant", cap))])


def argument(prompt: str) -> str:
    """Return a prompt as the word of a command line that options may follow."""
    return f" {prompt}" if prompt.startswith("-") else prompt


def _task(hive: Hive, start: Mapping[str, Any]) -> list[str] | None:
    """Return what names a run's task, None where no words do."""
    from clawhive_core.errors import UnknownTaskType
    from clawhive_core.execution.nested.recorded import full
    from clawhive_core.runs.plans.tasks import find_task_type

    task = start["task"]
    if task["task_type"] is None:
        return (
            None if task["prompt"] is None else [argument(task["prompt"]), *_of_prompt(hive, start)]
        )
    try:
        schema = find_task_type(hive.skills, task["task_type"])[2].input_schema
    except UnknownTaskType:
        return None
    given = spelled(full(hive.log, task["input"]), schema)
    if given is None:
        return None
    return ["--task", task["task_type"], *(word for each in given for word in ("--input", each))]


def _of_prompt(hive: Hive, start: Mapping[str, Any]) -> list[str]:
    """Return the options that only a prompt has."""
    from clawhive_core.execution.nested.recorded import full
    from clawhive_core.runs.offering.enabling import SkillTools

    words = ["--model", str(start["model"])]
    if start["planner"] not in {None, hive.config.get("model.planner")}:
        words += ["--planner", start["planner"]]
    for name in SkillTools.from_dict(full(hive.log, start.get("skills"))).active:
        words += ["--skill", name]
    return words


def _options(hive: Hive, start: Mapping[str, Any], run_id: str) -> Sequence[str]:
    """Return the options that every run has, where they are not what it has without them."""
    from clawhive_core.runs.record.folder import run_folder

    words: list[str] = []
    if start["max_tool_rounds"] != hive.config.get("loop.max_tool_rounds"):
        words += ["--max-tool-rounds", str(start["max_tool_rounds"])]
    if start["artifacts"] != run_folder(hive.config, None, run_id):
        words += ["--out", start["artifacts"]]
    sql = "SELECT conversation_id, task_id FROM runs WHERE run_id = ?"
    conversation, task_id = hive.log.read(sql, (run_id,))[0]
    if start.get("continues") is not None:
        words += ["--session", conversation]
    for row in hive.log.read(_GIVEN, (task_id,)):
        words += ["--grant", row[0]]
    return words
