"""`clawhive run`: a task type by name, or a prompt with a model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

import click

from clawhive_core.cli.asking import approve_option, approver, connect
from clawhive_core.cli.inputs import spelled
from clawhive_core.cli.loop import run_async
from clawhive_core.cli.output import (
    hand_over,
    is_terminal,
    next_line,
    note,
    print_error,
    print_json,
    short,
)
from clawhive_core.cli.progress import LiveText, ProgressLine, progress_line
from clawhive_core.cli.settings import Settings
from clawhive_core.errors import ClawHiveError
from clawhive_core.model.principal import DEFAULT_AGENT

if TYPE_CHECKING:
    from clawhive_core.execution.scope import Signal
    from clawhive_core.hive.hive import Hive
    from clawhive_core.model.approvals import Approval
    from clawhive_core.runs.run import RunRequest

_CARD_WIDTH = 500
EXIT_CODES = {"succeeded": 0, "waiting_approval": 3}


class _Given(TypedDict):
    """The words of one `clawhive run`."""

    prompt: str | None
    task: str | None
    inputs: tuple[str, ...]
    model: str | None
    active: tuple[str, ...]
    agent: str | None
    planner: str | None
    grants: tuple[str, ...]
    approve: str | None
    max_tool_rounds: int | None
    out: Path | None
    session: str | None
    as_json: bool


_LONGEST = 4000
"""Characters of a command that somebody still copies."""


@click.command(
    epilog="Example: clawhive run --task run_code_snippet --input language=python "
    "--input code=@examples/primes.py"
)
@click.argument("prompt", required=False)
@click.option("--task", metavar="NAME", help="A task type: TASK, or SKILL.TASK.")
@click.option("--input", "inputs", multiple=True, metavar="KEY=VALUE", help="The task's input.")
@click.option("--model", metavar="PROVIDER:NAME", help="The model that answers the prompt.")
@click.option(
    "--skill",
    "active",
    multiple=True,
    metavar="NAME",
    help="Tell the model a skill's text at once.",
)
@click.option("--agent", metavar="NAME", help="Act as the agent of [agents.NAME].")
@click.option("--planner", metavar="NAME", help="What decides on the steps of the prompt.")
@click.option("--grant", "grants", multiple=True, metavar="CAP", help="Give this task a right.")
@approve_option
@click.option("--max-tool-rounds", type=click.IntRange(1), help="End the loop after so many.")
@click.option("--out", type=click.Path(path_type=Path), help="The folder for the run's files.")
@click.option("--session", metavar="ID", help="Go on in this conversation.")
@click.option("--json", "as_json", is_flag=True, help="Print the run as one JSON object.")
@click.pass_obj
def command(settings: Settings, **options: Unpack[_Given]) -> int:
    """Run a task type of a skill, or an agent's loop over PROMPT.

    KEY=VALUE is text unless the task's schema says otherwise, then JSON; KEY=@FILE is the file's
    text; @FILE alone a JSON object; @@ stands for @.
    """
    if (options["prompt"] is None) == (options["task"] is None):
        raise click.UsageError("Give a PROMPT or --task NAME.")
    if options["prompt"] is not None and not options["prompt"].strip():
        raise click.UsageError("The PROMPT is empty.")
    if options["task"] is not None and options["active"]:
        raise click.UsageError("--skill is for a PROMPT; a task has its own skill.")
    if options["task"] is not None and options["planner"] is not None:
        raise click.UsageError("--planner is for a PROMPT; a task has its own steps.")
    run, waits, printed = run_async(_run(settings, options))
    if options["as_json"]:
        print_json(run)
    else:
        print_run(run, waits, printed=printed)
    return EXIT_CODES.get(run["status"], 1)


async def _run(
    settings: Settings, options: _Given
) -> tuple[dict[str, Any], Sequence[Approval], bool]:
    """Return the run, what waits for a person, and whether its output is printed already."""
    from clawhive_core.cli.inputs import read_inputs
    from clawhive_core.runs.plans.tasks import find_task_type
    from clawhive_core.runs.requests import RunOptions

    line = progress_line(settings, as_json=options["as_json"])
    live = LiveText(line) if is_terminal(sys.stdout) and not options["as_json"] else None

    approve, ask = approver(options["approve"], line, as_json=options["as_json"])

    def announce(request: RunRequest) -> None:
        _announce(request, settings, as_json=options["as_json"])
        line.begin()

    chosen = RunOptions(
        model=options["model"],
        agent=options["agent"],
        planner=options["planner"],
        grants=options["grants"],
        session=options["session"],
        out=options["out"],
        max_tool_rounds=options["max_tool_rounds"],
        skills=options["active"],
        command=_command(settings, options),
        on_start=announce,
        on_signal=relay(line, live),
        stream=live is not None,
        approve=approve,
        ask=ask,
    )
    with line:
        async with settings.hive() as hive:
            connect(chosen, hive)
            if options["prompt"] is not None:
                run = await hive.run(options["prompt"], options=chosen)
            else:
                task = str(options["task"])
                task_type = find_task_type(hive.skills, task, hive.skill_set.left_out)[2]
                given = read_inputs(options["inputs"], task_type.input_schema)
                run = await hive.run(task=task, input=given, options=chosen)
            notes, waits = hive.notes, waiting(hive, run)
    for text in notes:
        note(f"note: {text}")
    return run, waits, live is not None and live.ended(run["output"])


def waiting(hive: Hive, run: Mapping[str, Any]) -> Sequence[Approval]:
    """Return what waits for a person in a run that does, and in those that it started."""
    from clawhive_core.runs.record.lineage import descendants

    if run["status"] != "waiting_approval":
        return ()
    runs = {run["run_id"], *descendants(hive.log, run["run_id"])}
    return [each for each in hive.approvals.list("pending") if each.run_id in runs]


def relay(line: ProgressLine, live: LiveText | None = None) -> Callable[[Signal], None]:
    """Show at once cards, a model's text, and what a program says on its stderr.

    A program's stdout is the task's.
    """
    from codecs import getincrementaldecoder

    decoder = getincrementaldecoder("utf-8")("replace")

    def show(signal: Signal) -> None:
        if live is not None and signal.kind == "text":
            live.take(signal.step_id, signal.text)
        elif live is not None and signal.kind == "again":
            live.again(signal.text)
        elif live is not None:
            live.pause()
        if signal.card is not None:
            with line.hidden():
                _print_card(signal.card)
        if signal.kind != "output" or signal.stream != "stderr":
            line.take(signal)
            return
        line.write(decoder.decode(signal.data))

    return show


def _print_card(card: Mapping[str, Any]) -> None:
    """Print a card as text; what it holds must not steer the terminal."""
    from clawhive_core.model.canonical import canonical_text, preview
    from clawhive_core.model.texts import printable, set_off

    note(f"[{printable(card['card_type'])}]")
    for name, value in card.get("data", {}).items():
        text = value if isinstance(value, str) else canonical_text(value)
        note(set_off(f"  {printable(name)}: {printable(preview(text, _CARD_WIDTH))}"))


def _announce(request: RunRequest, settings: Settings, *, as_json: bool) -> None:
    allow, ask, deny = request.scope.rules.counts()
    note(f"policy: {allow} allowed, {ask} ask, {deny} denied")
    if settings.verbose:
        for grant in request.grants:
            until = f", until {grant.expires_at[:10]}" if grant.expires_at else ""
            source = f", from {short(grant.parent_grant)}" if grant.parent_grant else ""
            note(f"  {grant.mode:5} {grant.capability}  ({grant.issuer}{source}{until})")
    if not as_json:
        note(f"run {short(request.scope.run_id)}: {request.title}")


def print_run(run: Mapping[str, Any], waits: Sequence[Approval], *, printed: bool = False) -> None:
    """Print what came of a run: its output, files, refusals and error, and what to do next."""
    output = None if printed else run["output"]
    if isinstance(output, str):
        hand_over(output if output.endswith("\n") or not output else f"{output}\n")
    elif output is not None:
        print_json(output)
    _print_refusals(run)
    for artifact in run["artifacts"]:
        note(f"  {artifact['path']}  {artifact['bytes']} bytes")
    if run["artifacts"]:
        note(f"files: {run['artifacts_dir']}")
    for warning in run.get("warnings", ()):
        note(f"warning[{warning['code']}]: {warning['message']}")
    if run["error"] is not None:
        print_failure(run["error"])
    if run["status"] == "waiting_approval":
        _print_waiting(run, waits)
    note(f"{run['status']}: clawhive runs show {short(run['run_id'])}")


def _print_waiting(run: Mapping[str, Any], waits: Sequence[Approval]) -> None:
    for each in waits:
        is_below = each.run_id != run["run_id"]
        who = f"  (of {each.principal}, run {short(each.run_id)})" if is_below else ""
        note(f"waits for a person: {each.tool}: {each.preview}{who}")
    note("  look:   clawhive approvals show last")
    note("  answer: clawhive approvals approve last, or deny last")
    note(f"  go on:  clawhive runs resume {short(run['run_id'])}")


def _print_refusals(run: Mapping[str, Any]) -> None:
    for step in run["steps"]:
        for invocation in step["invocations"]:
            error = invocation["error"]  # none where it still waited as its run ended
            if invocation["status"] == "refused" and error is not None:
                note(f"refused: {invocation['tool']}: {error['message']}")
                if (line := next_line(error)) is not None:
                    note(f"  fix: {line}")


def print_failure(error: Mapping[str, Any]) -> None:
    """Print why a run failed, and in which step."""
    step = error.get("step")
    place = None if step is None else f"step {step}"
    print_error(
        ClawHiveError(error["message"], code=error["code"], place=place, fix=next_line(error)),
        as_json=False,
    )


_REPEATED = {
    "task": "--task",
    "inputs": "--input",
    "model": "--model",
    "agent": "--agent",
    "planner": "--planner",
    "active": "--skill",
    "max_tool_rounds": "--max-tool-rounds",
    "out": "--out",
    "session": "--session",
    "approve": "--approve",
    "grants": "--grant",
}


def _command(settings: Settings, options: _Given) -> str:
    """Return the command line so far, for refusals to extend."""
    import shlex

    words = [*settings.command(), "run"]
    if options["prompt"] is not None:
        words.append(argument(options["prompt"]))
    given = cast("Mapping[str, str | int | Path | tuple[str, ...] | None]", options)
    for name, flag in _REPEATED.items():
        value = given[name]
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None:
                words += [flag, str(each)]
    return shlex.join(words)


def started_again(settings: Settings, hive: Hive, run: str) -> str:
    """Return the command for a run, or for the one that started it; empty where none can say it.

    None can where a secret was left out of the record, or where the input is long.

    Raises:
        UnknownId: There is no such run.
    """
    import shlex

    from clawhive_core.events.redaction import MARK
    from clawhive_core.runs.record.lineage import ancestry, start_of
    from clawhive_core.runs.record.view import find_run

    run_id, who = ancestry(hive.log, find_run(hive.log, run))[0]
    start = start_of(hive.log, run_id)
    words = _task(hive, start)
    if words is None:
        return ""
    if who.kind == "agent" and who != DEFAULT_AGENT:
        words += ["--agent", who.name]
    words += _options(hive, start, run_id)
    line = shlex.join([*settings.command(), "run", *words])
    return "" if MARK in line or "\0" in line or len(line) > _LONGEST else line


def repeated(
    settings: Settings, run_id: str, mode: str, model: str | None, grants: Sequence[str]
) -> str:
    """Return the command that repeats a recorded run, with the options of `runs replay`."""
    import shlex

    words = [*settings.command(), "runs", "replay", run_id, "--mode", mode]
    if model is not None:
        words += ["--model", model]
    return shlex.join([*words, *(word for cap in grants for word in ("--grant", cap))])


def argument(prompt: str) -> str:
    """Return a prompt as the word of a command line that options may follow."""
    return f" {prompt}" if prompt.startswith("-") else prompt


def _task(hive: Hive, start: Mapping[str, Any]) -> list[str] | None:
    """Return what names a run's task, None where no words do."""
    from clawhive_core.errors import UnknownTaskType
    from clawhive_core.execution.recorded import resolve_blobs
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
    given = spelled(resolve_blobs(hive.log, task["input"]), schema)
    if given is None:
        return None
    return ["--task", task["task_type"], *(word for each in given for word in ("--input", each))]


def _of_prompt(hive: Hive, start: Mapping[str, Any]) -> list[str]:
    """Return the options that only a prompt has."""
    from clawhive_core.execution.recorded import resolve_blobs
    from clawhive_core.runs.toolsets import SkillTools

    words = ["--model", str(start["model"])]
    if start["planner"] not in {None, hive.config.get("model.planner")}:
        words += ["--planner", start["planner"]]
    for name in SkillTools.from_dict(resolve_blobs(hive.log, start.get("skills"))).active:
        words += ["--skill", name]
    return words


def _options(hive: Hive, start: Mapping[str, Any], run_id: str) -> Sequence[str]:
    """Return the options that every run has, where they are not what it has without them."""
    from clawhive_core.protocols.ledger import RightsWhere
    from clawhive_core.runs.requests import run_folder

    words: list[str] = []
    if start["max_tool_rounds"] != hive.config.get("loop.max_tool_rounds"):
        words += ["--max-tool-rounds", str(start["max_tool_rounds"])]
    if start["artifacts"] != run_folder(hive.config, None, run_id):
        words += ["--out", start["artifacts"]]
    (run,) = hive.records.runs(run_id=run_id)
    if start.get("continues") is not None:
        words += ["--session", run.conversation_id]
    for each in hive.log.find(RightsWhere(scope="task", scope_id=run.task_id)):
        grant = each.grant
        if grant.issuer == "user" and grant.mode == "allow" and grant.parent_grant is None:
            words += ["--grant", grant.capability]
    return words
