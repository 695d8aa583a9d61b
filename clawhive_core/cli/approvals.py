"""`clawhive approvals`: what waits for a person, and the person's answers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from clawhive_core.cli.output import note, print_json, short, table
from clawhive_core.cli.settings import Settings

if TYPE_CHECKING:
    from clawhive_core.model.approvals import Approval

SCOPES = ("once", "task", "session")


@click.group(epilog="Example: clawhive approvals approve last")
def command() -> None:
    """Look at calls that wait for a person, and answer them.

    ID is an id, a unique part of its start, or `last`. After the answer, `clawhive runs resume RUN`
    goes on.
    """


@command.command("list", epilog="Example: clawhive approvals list --all --json")
@click.option("--all", "everything", is_flag=True, help="Also those that were answered.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def list_(settings: Settings, *, everything: bool, as_json: bool) -> None:
    """List what waits, oldest first."""
    from clawhive_core.policy.approvals import ApprovalBook

    found: Sequence[Approval] = ()
    if settings.has_log():
        log = settings.log()
        found = ApprovalBook(log).list(None if everything else "pending")
        log.close()
    if as_json:
        _print_json(found)
        return
    rows = [
        (
            short(each.approval_id),
            each.state,
            each.tool,
            each.created_at[:19].replace("T", " "),
            each.preview[:60],
        )
        for each in found
    ]
    click.echo(table(rows, ("APPROVAL", "STATE", "TOOL", "ASKED", "INPUT")))


@command.command(epilog="Example: clawhive approvals show last")
@click.argument("approval", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show(settings: Settings, approval: str, *, as_json: bool) -> None:
    """Print what would be done, with its diff."""
    from clawhive_core.policy.approvals import ApprovalBook

    log = settings.log()
    book = ApprovalBook(log)
    book.expire()
    found = book.find(approval)
    given = book.input_of(found)
    log.close()
    if as_json:
        _print_json([found])
        return
    click.echo(f"approval {found.approval_id}  {found.state}")
    click.echo(describe(found, given))
    click.echo(f"asked    {found.created_at}   expires  {found.expires_at}")
    if found.resolved_by is not None:
        reason = f": {found.reason}" if found.reason else ""
        click.echo(f"answered by {found.resolved_by}{reason}")


@command.command(epilog="Example: clawhive approvals approve last --scope task")
@click.argument("approval", metavar="ID")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="once",
    show_default=True,
    help="This call, or its rights until the task or session ends.",
)
@click.option("--reason", metavar="TEXT", help="Why, for the log.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def approve(settings: Settings, approval: str, **options: Any) -> None:
    """Let a call happen, once, exactly as shown."""
    _answer(settings, approval, "approve", options)


@command.command(epilog='Example: clawhive approvals deny last --reason "wrong file"')
@click.argument("approval", metavar="ID")
@click.option("--reason", metavar="TEXT", help="Why, for the log and for whoever asked.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def deny(settings: Settings, approval: str, **options: Any) -> None:
    """Let a call not happen."""
    _answer(settings, approval, "deny", {"scope": "once", **options})


def _answer(
    settings: Settings, approval: str, answer: Literal["approve", "deny"], options: dict[str, Any]
) -> None:
    from clawhive_core.config import refuse_inside_run
    from clawhive_core.policy.approvals import ApprovalBook

    refuse_inside_run(os.environ, "approvals")
    log = settings.log()
    try:
        found = ApprovalBook(log).resolve(
            approval,
            answer,
            by=f"user:{settings.config().get('user.id')}",
            scope=options["scope"],
            reason=options["reason"],
        )
    finally:
        log.close()
    if options["as_json"]:
        _print_json([found])
        return
    click.echo(f"{found.state}: {found.tool} {found.preview[:60]}")
    note(f"go on: clawhive runs resume {short(found.run_id)}")


def describe(approval: Approval, given: Mapping[str, Any]) -> str:
    """Return what a person must know to answer, as lines for a terminal."""
    lines = [
        f"tool     {approval.tool}  ({approval.risk}) for {approval.principal}",
        *(f"touches  {each}" for each in approval.capabilities),
        *(f"goes to  {name} = {value}" for name, value in approval.sinks.items()),
    ]
    if approval.diff:
        lines += ["", *approval.diff.splitlines()]
    else:
        lines += [line for name, value in given.items() for line in _argument(name, value)]
    return "\n".join(map(_visible, lines))


def _argument(name: str, value: Any) -> list[str]:
    """Return one argument, whole: a person approves nothing unseen."""
    if isinstance(value, str) and "\n" in value:
        return [f"input    {name}:", *(f"  | {line}" for line in value.split("\n"))]
    return [f"input    {name} = {json.dumps(value, ensure_ascii=False)}"]


def _visible(line: str) -> str:
    """Show what would steer the terminal, or turn the line around, as its code."""
    return "".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in line)


def _print_json(found: Sequence[Approval]) -> None:
    print_json({"schema": "approvals/1", "approvals": [each.to_dict() for each in found]})
