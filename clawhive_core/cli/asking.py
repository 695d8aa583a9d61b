"""Asking the person at the terminal about one call."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from clawhive_core.errors import RunError, UsageError

if TYPE_CHECKING:
    from clawhive_core.cli.settings import Settings
    from clawhive_core.execution.scope import ApproveMode, Ask
    from clawhive_core.model.approvals import Approval

MODES = ("ask", "park", "deny")
_CHOICES = "y yes, this call   t yes, for this task   n no > "
_UNSAFE_CHOICES = "y yes, this call   n no > "


def approve_option(command: Any) -> Any:
    """Give a command the option `--approve`."""
    return click.option(
        "--approve",
        type=click.Choice(MODES),
        help="Calls that a person must answer: ask here, let the run wait, or refuse them. "
        "Without it: ask on a terminal, else park.",
    )(command)


def asking(settings: Settings, mode: str | None) -> dict[str, Any]:
    """Return the fields of RunOptions that say who answers.

    Raises:
        UsageError: `ask` where there is no terminal, or inside a run.
    """
    inside = bool(os.environ.get("CLAWHIVE_RUN"))
    terminal = sys.stdin.isatty() and sys.stderr.isatty() and not inside
    if mode == "ask" and not terminal:
        raise UsageError(
            "nobody can be asked here: no run decides about itself"
            if inside
            else "nobody can be asked here: there is no terminal",
            place="--approve",
            fix="--approve park, then: clawhive approvals approve last",
        )
    chosen: ApproveMode = "ask" if mode == "ask" or (mode is None and terminal) else "park"
    if mode == "deny":
        chosen = "deny"
    return {"approve": chosen, "ask": _prompt(settings) if chosen == "ask" else None}


def _prompt(settings: Settings) -> Ask:
    """Return what shows an approval, reads one key word and resolves it."""
    import anyio

    one_at_a_time = anyio.Lock()

    async def ask(approval: Approval) -> None:
        async with one_at_a_time:
            await _ask(approval, settings)

    return ask


async def _ask(approval: Approval, settings: Settings) -> None:
    import anyio

    from clawhive_core.cli.approvals import describe

    given = await anyio.to_thread.run_sync(_input_of, approval, settings)
    click.echo(f"\nApprove?\n{describe(approval, given)}", err=True)
    unsafe = approval.risk == "unsafe"
    while True:
        click.echo(_UNSAFE_CHOICES if unsafe else _CHOICES, nl=False, err=True)
        # A terminal gives whole lines, so that reading one never blocks the run's other work.
        try:
            await anyio.wait_readable(sys.stdin)
        except anyio.get_cancelled_exc_class():
            click.echo("", err=True)  # somebody answered elsewhere, or the run is cancelled
            raise
        line = sys.stdin.readline()
        if not line:
            click.echo("", err=True)
            return
        answer = line.strip().lower()
        if answer in {"y", "yes", "n", "no"} or (answer == "t" and not unsafe):
            await anyio.to_thread.run_sync(_resolve, approval, settings, answer[0])
            return


def _input_of(approval: Approval, settings: Settings) -> Mapping[str, Any]:
    from clawhive_core.policy.approvals import ApprovalBook

    log = settings.log()
    try:
        return ApprovalBook(log).input_of(approval)
    finally:
        log.close()


def _resolve(approval: Approval, settings: Settings, answer: str) -> None:
    from clawhive_core.policy.approvals import ApprovalBook

    log = settings.log()
    try:
        ApprovalBook(log).resolve(
            approval.approval_id,
            "deny" if answer == "n" else "approve",
            by=f"user:{settings.config().get('user.id')}",
            scope="task" if answer == "t" else "once",
        )
    except RunError as error:
        click.echo(error.message, err=True)  # somebody answered elsewhere
    finally:
        log.close()
