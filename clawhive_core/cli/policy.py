"""`clawhive policy`: the rules in force, explanations of decisions, and tables that test them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from clawhive_core.cli.inputs import json_object
from clawhive_core.cli.loop import run_async
from clawhive_core.cli.output import (
    format_option,
    hand_over,
    lines_of_text,
    next_line,
    note,
    print_json,
    say,
    short,
    table,
)
from clawhive_core.cli.settings import Settings

if TYPE_CHECKING:
    from clawhive_core.diagnostics.finding import Finding
    from clawhive_core.hive.hive import Hive
    from clawhive_core.policy.cases import Case, Outcome

_OUT = "policy-test"
"""The folder of the imagined run, in `${run}`."""


@click.group(epilog="Example: clawhive policy show")
def command() -> None:
    """Show the rules in force, explain a decision, test a table. Nothing is executed."""


class _Situation(TypedDict):
    """The run in which a call is imagined."""

    task: str | None
    agent: str | None
    session: str | None
    grants: tuple[str, ...]


def _situation(command: Any) -> Any:
    """Give a command the options that say in which run a call is imagined."""
    options = (
        click.option("--task", metavar="TASK", help="As in a run of this task type."),
        click.option("--agent", metavar="A", help="As for an agent of [agents.NAME]."),
        click.option("--session", metavar="S", help="As in this session."),
        click.option("--grant", "grants", multiple=True, metavar="CAP", help="As with this right."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@command.command(epilog="Example: clawhive policy show --json")
@_situation
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show(settings: Settings, *, as_json: bool, **options: Unpack[_Situation]) -> None:
    """Show the rules that a run started now would have, and the protected names."""
    facts = run_async(_rules(settings, options))
    if as_json:
        print_json({"schema": "policy/1", **facts})
        return
    rows = [(each["mode"], each["pattern"], _source(each)) for each in facts["rules"]]
    say(*table(rows, ("MODE", "PATTERN", "FROM")))
    for name in facts["protected"]:
        say(f"protected: {name}")


@command.command(epilog='Example: clawhive policy explain file.read --args \'{"path": "a.md"}\'')
@click.argument("name")
@click.option("--args", "arguments", default="{}", metavar="JSON", help="The input, as JSON.")
@_situation
@click.option("--step", metavar="NAME", help="As in this step of the task type.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def explain(
    settings: Settings,
    name: str,
    arguments: str,
    step: str | None,
    *,
    as_json: bool,
    **options: Unpack[_Situation],
) -> None:
    """Explain what would be decided about a call, rule by rule, and what would allow it."""
    facts = run_async(_explain(settings, name, json_object(arguments), step, options))
    if as_json:
        print_json({"schema": "policy-explain/1", **facts})
    else:
        _print(facts)


async def _rules(settings: Settings, options: _Situation) -> dict[str, Any]:
    from clawhive_core.runs.requests import RunOptions

    chosen = RunOptions(
        session=options["session"], grants=options["grants"], agent=options["agent"]
    )
    async with settings.hive() as hive:
        for line in hive.notes:
            note(f"note: {line}")
        return hive.rules(chosen, options["task"])


async def _explain(
    settings: Settings,
    name: str,
    arguments: Mapping[str, Any],
    step: str | None,
    options: _Situation,
) -> dict[str, Any]:
    from clawhive_core.runs.requests import RunOptions

    chosen = RunOptions(
        session=options["session"],
        grants=options["grants"],
        agent=options["agent"],
        command=_words(settings, name, arguments, options),
    )
    async with settings.hive() as hive:
        return await hive.explain(name, arguments, chosen, task=options["task"], step=step)


def _words(settings: Settings, name: str, arguments: Mapping[str, Any], options: _Situation) -> str:
    """Return the command line that makes the call, or that starts its task type."""
    import shlex

    from clawhive_core.model.canonical import canonical_text

    words = ["tools", "call", name, "--args", canonical_text(arguments)]
    if options["task"] is not None:
        words = ["run", "--task", options["task"]]
    elif options["agent"] is not None:
        words = ["run", "PROMPT"]
    if options["agent"] is not None:
        words += ["--agent", options["agent"]]
    words += [word for grant in options["grants"] for word in ("--grant", grant)]
    return shlex.join([*settings.command(), *words])


def _print(facts: Mapping[str, Any]) -> None:
    say(f"{facts['verdict']}: {facts['tool']} of {facts['provider_id']}")
    for each in facts["capabilities"]:
        by = f" by {each['pattern']} ({each['issuer']})" if each["pattern"] else ""
        say(f"  {each['verdict']:5} {each['capability']}{by}: {each['rule']}")
        for near in each["unmet"]:
            say(f"        {near['pattern']}: not so: {', '.join(near['constraints'])}")
    for grant in facts["suspended"]:
        say(f"  suspended: {short(grant)} counts no longer, as the tool changed")
    if facts["floor"] == "ask":
        raised = f": {facts['raised']}" if facts["raised"] else ""
        say(f"  ask   the tool's risk is {facts['risk']}{raised}")
    for check in facts["checks"]:
        say(f"  {check['verdict']:5} {check['rule']}")
    say(*lines_of_text(facts["message"]))
    if (line := next_line(facts)) is not None:
        say(f"  fix: {line}")


def _source(rule: Mapping[str, Any]) -> str:
    until = f", until {rule['expires_at'][:10]}" if rule["expires_at"] else ""
    parent = f" {short(rule['grant_id'])}" if rule["grant_id"] else ""
    uses = f", {rule['uses']} uses" if rule["uses"] is not None else ""
    face = rule.get("delegate", rule["pattern"])
    kept = "" if face == rule["pattern"] else f", children: {face or 'nothing'}"
    suspended = ", suspended: its tool changed" if rule["suspended"] else ""
    step = f", step {rule['step']}" if rule["step"] is not None else ""
    return f"{rule['issuer']}{parent}{step}{until}{uses}{kept}{suspended}"


@command.command("test", epilog="Example: clawhive policy test policy.yaml")
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
)
@format_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def test(settings: Settings, files: Sequence[Path], output: str, *, as_json: bool) -> int:
    """Test this project's policy with the calls in each FILE. Nothing is executed.

    Exits with 1 where a call is decided otherwise than its FILE says, with 2 where a FILE cannot
    be read.
    """
    from clawhive_core.diagnostics.reports import render

    render((), output)  # an unknown form is refused before the work
    variables = _variables(settings)
    cases, unreadable = _read(files, variables)
    decided = [] if unreadable else run_async(_decided(settings, cases, variables["run"]))
    problems = [case.problem(outcome) for case, outcome in decided]
    findings = unreadable or [each for each in problems if each is not None]
    if as_json or output == "json":
        print_json(_document(decided, problems, findings))
    else:
        hand_over(render(findings, output) + "\n")
        note(
            f"{len(decided)} calls decided, {len(decided) - len(findings)} as the table says"
            if decided
            else "nothing was decided"
        )
    return 2 if unreadable else int(bool(findings))


def _variables(settings: Settings) -> dict[str, str]:
    config = settings.config()
    return {
        "workspace": str(config.root),
        "run": str(config.root / config.get("run.out") / _OUT),
        "home": config.home,
    }


def _read(files: Sequence[Path], variables: dict[str, str]) -> tuple[list[Case], list[Finding]]:
    from clawhive_core.policy.cases import CaseReader, as_unreadable, open_table
    from clawhive_core.skills.documents.place import InvalidSkill

    cases: list[Case] = []
    findings: list[Finding] = []
    for file in files:
        try:
            reader = CaseReader(open_table(file), variables)
        except InvalidSkill as error:
            findings.append(as_unreadable(error.finding))
            continue
        cases += reader.read()
        findings += reader.findings
    return cases, findings


async def _decided(
    settings: Settings, cases: Sequence[Case], out: str
) -> list[tuple[Case, Outcome]]:
    async with settings.hive() as hive:
        for line in hive.notes:
            note(f"note: {line}")
        return [(case, await _outcome(hive, case, out)) for case in cases]


async def _outcome(hive: Hive, case: Case, out: str) -> Outcome:
    from clawhive_core.errors import ToolError, UnknownId, UsageError
    from clawhive_core.policy.cases import Outcome
    from clawhive_core.runs.requests import RunOptions

    where = case.where
    options = RunOptions(
        session=where.get("session"),
        agent=where.get("agent"),
        grants=case.grants,
        words=None if case.words is None else (case.words,),
        out=Path(out),
    )
    task, step = where.get("task"), where.get("step")
    try:
        facts = await hive.explain(case.tool, case.input, options, task=task, step=step)
        return Outcome.of(facts)
    except UnknownId as error:
        if hive.catalog.current.find(case.tool) is None or "agent" not in where:
            return Outcome.undecided(error)
        return Outcome.unseen(where["agent"])
    except (UsageError, ToolError) as error:
        return Outcome.undecided(error)


def _document(
    decided: Sequence[tuple[Case, Outcome]],
    problems: Sequence[Finding | None],
    findings: Sequence[Finding],
) -> dict[str, Any]:
    failed = sum(1 for each in problems if each is not None)
    return {
        "schema": "policy-test/1",
        "ok": not findings,
        "summary": {"calls": len(decided), "failed": failed},
        "calls": [
            {**case.to_dict(), **outcome.to_dict(), "ok": problem is None}
            for (case, outcome), problem in zip(decided, problems, strict=True)
        ],
        "findings": [finding.to_dict() for finding in findings],
    }
