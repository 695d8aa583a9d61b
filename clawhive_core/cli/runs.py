"""`clawhive runs`: look at runs, go on with them, cancel and repeat them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from clawhive_core.cli.asking import approve_option, approver, connect
from clawhive_core.cli.loop import run_async
from clawhive_core.cli.output import hand_over, next_line, note, print_json, say, short, table
from clawhive_core.cli.settings import Settings

if TYPE_CHECKING:
    from clawhive_core.hive.replaying import ReplayMode
    from clawhive_core.model.approvals import Approval
    from clawhive_core.runs.replays.replay import ReplayReport


@click.group(epilog="Example: clawhive runs show last")
def command() -> None:
    """Look at runs, go on with them, cancel and repeat them.

    RUN is an id, a unique part of its start, or `last`.
    """


@command.command("list", epilog="Example: clawhive runs list --limit 5")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def list_(settings: Settings, limit: int, *, as_json: bool) -> None:
    """List the newest runs."""
    from clawhive_core.runs.record.ownership import recover
    from clawhive_core.runs.record.view import list_runs

    runs: list[dict[str, Any]] = []
    if settings.has_log():
        log = settings.log()
        recover(log)
        runs = list_runs(log, limit)
        log.close()
    if as_json:
        print_json({"schema": "runs/1", "runs": runs})
        return
    rows = [
        (
            short(run["run_id"]),
            run["status"],
            run["started_at"][:19].replace("T", " "),
            _title(run),
        )
        for run in runs
    ]
    say(*table(rows, ("RUN", "STATUS", "STARTED", "TITLE")))


def _title(run: Mapping[str, Any]) -> str:
    """Return what a run is called in a list: a sub-agent's with the run that started it."""
    parent = run["parent_run_id"]
    return str(run["title"]) if parent is None else f"{run['title']} (for {short(parent)})"


@command.command(epilog="Example: clawhive runs show last --json")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show(settings: Settings, run: str, *, as_json: bool) -> None:
    """Print a run step by step."""
    from clawhive_core.runs.record.ownership import recover
    from clawhive_core.runs.record.view import find_run, run_json

    log = settings.log()
    recover(log)
    value = run_json(log, find_run(log, run))
    log.close()
    if as_json:
        print_json(value)
    else:
        _print(value)


@command.command(epilog="Example: clawhive runs resume last")
@click.argument("run")
@approve_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def resume(settings: Settings, run: str, approve: str | None, *, as_json: bool) -> int:
    """Go on with a run that waits for a person or was interrupted.

    Calls that ended are answered from the log; one that was broken off is made again where its
    tool says that this does no harm. A tool that was parked for a call of its own begins again.
    """
    from dataclasses import replace

    from clawhive_core.cli.progress import progress_line
    from clawhive_core.cli.run import EXIT_CODES, print_run, relay, started_again, waiting
    from clawhive_core.runs.requests import RunOptions

    line = progress_line(settings, as_json=as_json)
    mode, ask = approver(approve, line, as_json=as_json)
    options = RunOptions(on_signal=relay(line), approve=mode, ask=ask)
    settings.log().close()

    async def go_on() -> tuple[dict[str, Any], Sequence[Approval]]:
        async with settings.hive() as hive:
            line.begin()
            connect(options, hive)
            again = started_again(settings, hive, run)
            value = await hive.resume(run, replace(options, command=again))
            return value, waiting(hive, value)

    with line:
        value, waits = run_async(go_on())
    if as_json:
        print_json(value)
    else:
        print_run(value, waits)
    return EXIT_CODES.get(value["status"], 1)


@command.command(epilog="Example: clawhive runs cancel last")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def cancel(settings: Settings, run: str, *, as_json: bool) -> None:
    """Cancel a run: its process notices within a second; one that waits ends at once."""
    from clawhive_core.hive.project_log import checkpoint, checkpoints_of
    from clawhive_core.runs.record.ownership import cancel as cancel_run
    from clawhive_core.runs.record.view import find_run, run_json

    log = settings.log()
    try:
        run_id = find_run(log, run)
        living = cancel_run(log, run_id)
        signed = checkpoints_of(log, settings.config().user_dir)
        problem = None if living else checkpoint(log, signed, run_id)
        value = run_json(log, run_id)
    finally:
        log.close()
    if problem is not None:
        note(f"note: {problem}")
    if as_json:
        print_json(value)
    else:
        told = "its process was told to cancel it" if living else "cancelled"
        say(f"run {short(run_id)}: {told}")


@command.command(epilog="Example: clawhive runs replay last")
@click.argument("run")
@click.option(
    "--mode",
    type=click.Choice(["exact", "tools", "model", "policy"]),
    default="exact",
    show_default=True,
    help="What is done anew: only our own code, the tools, the model, or the decisions.",
)
@click.option("--model", metavar="PROVIDER:NAME", help="With --mode model: another model.")
@click.option("--grant", "grants", multiple=True, metavar="CAP", help="Give the new run a right.")
@approve_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def replay(
    settings: Settings,
    run: str,
    mode: ReplayMode,
    model: str | None,
    grants: tuple[str, ...],
    approve: str | None,
    *,
    as_json: bool,
) -> int:
    """Run a run again; exit 1 where it and its record part.

    `exact` compares planner, loop and orchestrator with the record and executes nothing. `tools`
    makes the calls anew on the model's recorded turns; `model` asks a model anew over the tools'
    recorded answers. Both are new runs, under today's policy. `policy` decides every recorded call
    under today's rules and executes nothing.
    """
    from clawhive_core.cli.progress import progress_line
    from clawhive_core.cli.run import print_failure, relay, repeated
    from clawhive_core.runs.record.lineage import end_of
    from clawhive_core.runs.record.view import find_run
    from clawhive_core.runs.requests import RunOptions

    log = settings.log()
    run_id = find_run(log, run)  # by the end of a replay `last` is another
    log.close()
    line = progress_line(settings, as_json=as_json)
    answered, ask = approver(approve, line, as_json=as_json)
    options = RunOptions(
        model=model,
        grants=grants,
        command=repeated(settings, run_id, mode, model, grants),
        on_signal=relay(line),
        approve=answered,
        ask=ask,
    )

    async def repeat() -> tuple[ReplayReport, Mapping[str, Any] | None]:
        async with settings.hive() as hive:
            connect(options, hive)
            report = await hive.replay(run_id, mode, options)
            end = end_of(hive.log, report.new_run_id) if report.new_run_id else None
            return report, None if end is None else end.event.body["error"]

    with line:
        report, error = run_async(repeat())
    if as_json:
        print_json(report.to_dict())
    else:
        _print_replay(report)
        if error is not None:
            print_failure(error)
    return 0 if report.ok else 1


_COMPARED = {"exact": "events", "policy": "decisions"}


def _print_replay(report: ReplayReport) -> None:
    for each in report.differences or (report.difference,):
        if each is not None:
            say(f"run {short(report.run_id)}: {each.message}")
    if report.ok:
        end = "" if report.complete else "; its record ends there, unfinished"
        what = _COMPARED.get(report.mode, "calls")
        say(f"run {short(report.run_id)}: no difference in {report.compared} {what}{end}")
    if report.new_run_id is not None:
        note(f"repeated as: clawhive runs show {short(report.new_run_id)}")


@command.command(epilog="Example: clawhive runs diff run_1a2b run_3c4d")
@click.argument("a")
@click.argument("b")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def diff(settings: Settings, a: str, b: str, *, as_json: bool) -> int:
    """Compare two runs: steps, what they came to, how they ended; exit 1 where they differ.

    Times and ids never differ.
    """
    from clawhive_core.runs.record.diff import diff_runs, lines_of
    from clawhive_core.runs.record.view import find_run

    log = settings.log()
    try:
        found = diff_runs(log, find_run(log, a), find_run(log, b))
    finally:
        log.close()
    if as_json:
        print_json(found.to_dict())
    else:
        for line in lines_of(found):
            say(line)
        end = "no difference" if found.equal else "they differ"
        say(f"{short(found.a)} and {short(found.b)}: {end}")
    return 0 if found.equal else 1


@command.command(epilog="Example: clawhive runs export last --out run.html")
@click.argument("run")
@click.option("--out", metavar="FILE", help="Where to; `-` is stdout.  [default: RUN.html]")
@click.pass_obj
def export(settings: Settings, run: str, out: str | None) -> None:
    """Write a run as one HTML file: its timeline, and what was asked, decided and answered.

    The file loads nothing and holds what the log holds, from which secrets are redacted.
    """
    from pathlib import Path

    from clawhive_core.diagnostics.files import file_errors, replace_file
    from clawhive_core.runs.record.page import page
    from clawhive_core.runs.record.view import find_run

    log = settings.log()
    try:
        run_id = find_run(log, run)
        text = page(log, run_id)
    finally:
        log.close()
    if out == "-":
        hand_over(text)
        return
    target = Path(f"{run_id}.html" if out is None else out)
    with file_errors("the run cannot be written", target, "name another file, or `-` for stdout"):
        replace_file(target, text.encode())
    say(str(target))


def _print(run: Mapping[str, Any]) -> None:
    say(f"run      {run['run_id']}  {run['status']}")
    say(f"task     {run['title']}")
    say(f"trace    {run['trace_id']}")
    if run["parent_run_id"] is not None:
        say(f"parent   {run['parent_run_id']}")
    say(f"started  {run['started_at']}   ended  {run['ended_at'] or '-'}")
    if run["artifacts"]:
        say(f"files    {run['artifacts_dir']}")
    for number, step in enumerate(run["steps"], 1):
        _print_step(number, step)
    _print_tree(run["children"], 0)
    for warning in run.get("warnings", ()):
        say(f"warning  {warning['code']}: {warning['message']}")
    if run["error"] is not None:
        say(f"error    {run['error']['code']}: {run['error']['message']}")
        if (line := next_line(run["error"])) is not None:
            say(f"fix      {line}")
    if run.get("output_pruned"):
        say("output   pruned: only its digest is left")
    for artifact in run["artifacts"]:
        say(f"file     {artifact['path']}  {artifact['bytes']} bytes")
    used = run["usage"]
    if used["input_tokens"] is not None:
        note(f"tokens   {used['input_tokens']} in, {used['output_tokens']} out")


def _print_tree(children: Sequence[Mapping[str, Any]], depth: int) -> None:
    """Print the sub-agents of a run, those that they started below them."""
    for child in children:
        who = child["principal"].removeprefix("agent:")
        line = f"{short(child['run_id'])}  {child['status']}  {who}: {child['title']}"
        say(f"agent    {'  ' * depth}{line}")
        _print_tree(child["children"], depth + 1)


def _print_step(number: int, step: Mapping[str, Any]) -> None:
    label = f" ({step['label']})" if step["label"] else ""
    facts = " ".join(str(each) for each in (step["provider_id"], step["capability_level"]) if each)
    say(f"{number:3}. {step['status']:10} {step['name']}{label}  {facts}")
    several = len(step["invocations"]) > 1
    for attempt, invocation in enumerate(step["invocations"], 1):
        if several:
            say(f"     attempt {attempt}: {invocation['status']}")
        if invocation["requested_capabilities"]:
            needs = ", ".join(invocation["requested_capabilities"])
            say(f"     needs   {needs} -> {invocation['decision']}")
    if step["input_preview"]:
        say(f"     input   {step['input_preview']}")
    for invocation in step["invocations"]:
        if invocation["asked_input_preview"] is not None:
            say(f"     asked   {invocation['asked_input_preview']}  (a person edited it)")
    if step["output_preview"]:
        say(f"     output  {step['output_preview']}")
    if step["error"] is not None:
        say(f"     error   {step['error']['code']}: {step['error']['message']}")
        if (line := next_line(step["error"])) is not None:
            say(f"     next    {line}")
