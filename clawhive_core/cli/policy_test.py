"""`clawhive policy test`: calls and the verdicts that they should get, for CI."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clawhive_core.cli.output import format_option, hand_over, note, print_json
from clawhive_core.cli.settings import Settings, run_async

if TYPE_CHECKING:
    from clawhive_core.diagnostics.finding import Finding
    from clawhive_core.hive.hive import Hive
    from clawhive_core.policy.cases import Case, Outcome

_OUT = "policy-test"
"""What stands for the id of the run that is only thought of, in `${run}`."""


@click.command("test", epilog="Example: clawhive policy test policy.yaml")
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
)
@format_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(settings: Settings, files: Sequence[Path], output: str, *, as_json: bool) -> int:
    """Hold this project's policy against the calls in each FILE. Nothing is executed.

    Exits with 1 where a call is decided otherwise than its FILE says, with 2 where a FILE cannot
    be read.
    """
    from clawhive_core.diagnostics.reports import render

    render((), output)  # an unknown form is refused before the work
    variables = _variables(settings)
    cases, unreadable = _read(files, variables)
    held = [] if unreadable else run_async(_hold(settings, cases, variables["run"]))
    problems = [case.problem(outcome) for case, outcome in held]
    findings = unreadable or [each for each in problems if each is not None]
    if as_json or output == "json":
        print_json(_document(held, problems, findings))
    else:
        hand_over(render(findings, output) + "\n")
        note(
            f"{len(held)} calls decided, {len(held) - len(findings)} as the table says"
            if held
            else "nothing was decided"
        )
    return 2 if unreadable else int(bool(findings))


def _variables(settings: Settings) -> dict[str, str]:
    config = settings.config()
    return {
        "workspace": str(config.root),
        "run": str(config.root / config.get("run.out") / _OUT),
        "home": os.environ.get("HOME") or str(Path.home()),
    }


def _read(files: Sequence[Path], variables: dict[str, str]) -> tuple[list[Case], list[Finding]]:
    from clawhive_core.policy.cases import CaseReader, as_unreadable
    from clawhive_core.policy.table import open_table
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


async def _hold(settings: Settings, cases: Sequence[Case], out: str) -> list[tuple[Case, Outcome]]:
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
    place = {"task": where.get("task"), "step": where.get("step")}
    try:
        return Outcome.of(await hive.explain(case.tool, case.input, options, **place))
    except UnknownId as error:
        if hive.catalog.current.find(case.tool) is None or "agent" not in where:
            return Outcome.undecided(error)
        return Outcome.unseen(where["agent"])
    except (UsageError, ToolError) as error:
        return Outcome.undecided(error)


def _document(
    held: Sequence[tuple[Case, Outcome]],
    problems: Sequence[Finding | None],
    findings: Sequence[Finding],
) -> dict[str, Any]:
    failed = sum(1 for each in problems if each is not None)
    return {
        "schema": "policy-test/1",
        "ok": not findings,
        "summary": {"calls": len(held), "failed": failed},
        "calls": [
            {**case.to_dict(), **outcome.to_dict(), "ok": problem is None}
            for (case, outcome), problem in zip(held, problems, strict=True)
        ],
        "findings": [finding.to_dict() for finding in findings],
    }
