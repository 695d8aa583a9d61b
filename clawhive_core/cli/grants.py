"""`clawhive grants`: rights that a person gives outside a run."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from clawhive_core.cli.loop import run_async
from clawhive_core.cli.output import note, print_json, say, short, table, visible
from clawhive_core.cli.settings import Settings
from clawhive_core.errors import UsageError
from clawhive_core.model.texts import set_off

if TYPE_CHECKING:
    from clawhive_core.config import Config
    from clawhive_core.model.grants import Mode
    from clawhive_core.model.records import RunRecord
    from clawhive_core.model.tools import ToolMeta
    from clawhive_core.policy.grants import GrantBook, Wish
    from clawhive_core.policy.suspension import FindTool
    from clawhive_core.protocols.ledger import Ledger


class _Right(TypedDict):
    """The words of one `clawhive grants issue`."""

    capability: str
    task: str | None
    session: str | None
    always: bool
    subject: str
    expires: str | None
    uses: int | None
    mode: Mode
    delegate: str | None


@click.group(epilog="Example: clawhive grants list")
def command() -> None:
    """Issue, list and revoke rights. ID is an id, a unique part of its start, or `last`."""


@command.command(epilog="Example: clawhive grants issue 'fs.write:${workspace}/docs/**' --always")
@click.argument("capability", metavar="CAP")
@click.option("--task", metavar="T", help="For one task: its id, or its run's id or `last`.")
@click.option("--session", metavar="S", help="For the runs of one session (`run --session S`).")
@click.option("--always", is_flag=True, help="For every run, in every project, until it expires.")
@click.option(
    "--subject", metavar="P", default="agent:default", show_default=True, help="Who gets it."
)
@click.option("--expires", metavar="TIME", help="30m, 2h, 10d or 1w; 90 days with --always.")
@click.option("--uses", type=int, metavar="N", help="For N calls; not with --always.")
@click.option(
    "--mode",
    type=click.Choice(["allow", "ask"]),
    default="allow",
    show_default=True,
    help="Whether the call is made, or a person is asked.",
)
@click.option(
    "--delegate",
    metavar="CAP",
    help="What sub-agents and skills may get of it, `none` for nothing; all but unsafe rights.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def issue(settings: Settings, *, as_json: bool, **options: Unpack[_Right]) -> None:
    """Give a right. An unsafe tool asks all the same, each time."""
    from clawhive_core.config import refuse_inside_run

    refuse_inside_run(os.environ, "rights")
    tool = _identity(settings, options["capability"])
    with _book(settings, make=True) as (book, config, log):
        wish = replace(_wish(options, log), tool=tool)
        given = book.issue(wish, _variables(config, wish, log), datetime.now(UTC))
    if as_json:
        print_json({"schema": "grants/1", "grants": [given]})
        return
    until = given["expires_at"]
    say(f"granted: {given['capability']} to {given['subject']}, {_extent(given)}")
    if given["uses"] is not None:
        note(f"for {_uses(given)} calls")
    note(f"until {until[:19].replace('T', ' ')} UTC" if until else "it has no expiry of its own")
    note(f"end it: clawhive grants revoke {short(given['grant_id'])}")


@command.command("list", epilog="Example: clawhive grants list --json")
@click.option("--all", "everything", is_flag=True, help="Also the rights of tasks that go on.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def list_(settings: Settings, *, everything: bool, as_json: bool) -> None:
    """List the rights that people gave and that are in force, and those of steps that go on.

    One that names a tool is suspended while the tool is not what it was: what changed is shown.
    """
    from clawhive_core.policy.grants import is_given

    with _book(settings) as (book, _, _):
        active = book.active(datetime.now(UTC))
        if (problem := book.problem) is not None:
            note(f"note: {problem}")
    grants = _looked_at(
        settings,
        [each for each in active if everything or is_given(each) or each["scope"] == "step"],
    )
    if as_json:
        print_json({"schema": "grants/1", "grants": grants})
        return
    rows = [
        (
            short(each["grant_id"]),
            each["capability"],
            each["mode"],
            each["subject"],
            _extent(each),
            _uses(each),
            (each["expires_at"] or "-")[:16].replace("T", " "),
        )
        for each in grants
    ]
    say(*table(rows, ("GRANT", "CAPABILITY", "MODE", "SUBJECT", "SCOPE", "USES", "EXPIRES")))
    for each in grants:
        if "suspended" in each:
            print_suspended(each)


@command.command(epilog="Example: clawhive grants resume last")
@click.argument("grant", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def resume(settings: Settings, grant: str, *, as_json: bool) -> None:
    """Give a suspended right anew, for its tool as it is now.

    Look at `clawhive tools show TOOL` before: it prints what changed.
    """
    from clawhive_core.config import refuse_inside_run

    refuse_inside_run(os.environ, "rights")
    now = datetime.now(UTC)
    with _book(settings) as (book, _, _):
        _, old = book.find(grant, now)
    find = _tools(settings)
    with _book(settings) as (book, _, _):
        given = book.resume(old.grant_id, find, now)
    if as_json:
        print_json({"schema": "grants/1", "grants": [given]})
        return
    say(f"granted: {given['capability']} to {given['subject']}, {_extent(given)}")
    note(f"in place of {short(old.grant_id)}, for its tool as it is now")


@command.command(epilog="Example: clawhive grants revoke last")
@click.argument("grant", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def revoke(settings: Settings, grant: str, *, as_json: bool) -> None:
    """End a right, and what tasks took over from it."""
    from clawhive_core.config import refuse_inside_run
    from clawhive_core.policy.grants import is_given

    refuse_inside_run(os.environ, "rights")
    with _book(settings) as (book, _, _):
        now = datetime.now(UTC)
        ended = book.revoke(grant, now)
        left = [each for each in book.active(now) if is_given(each)]
    if as_json:
        print_json({"schema": "grants/1", "grants": left})
    else:
        say(f"revoked: {short(ended)}")


def print_suspended(grant: Mapping[str, Any]) -> None:
    """Print why a grant does not count now, and what would make it count."""
    say(*suspended_lines(grant))
    note(f"give it anew: clawhive grants resume {short(grant['grant_id'])}")


def suspended_lines(grant: Mapping[str, Any]) -> list[str]:
    """Return why a grant does not count now, for a terminal."""
    title = f"suspended: {short(grant['grant_id'])} {grant['capability']}: its tool changed"
    lines = [visible(line) for line in grant["suspended"].removesuffix("\n").split("\n")]
    return ["", visible(title), *map(set_off, lines)]


def suspended_of(settings: Settings, tool: ToolMeta) -> list[dict[str, Any]]:
    """Return the rights that people gave to a tool which is no longer what it was."""
    with _book(settings) as (book, _, _):
        return suspended_rights(book, tool)


def suspended_rights(book: GrantBook, tool: ToolMeta) -> list[dict[str, Any]]:
    """Return what of a book's rights a tool's change suspends, each with how it changed."""
    from clawhive_core.policy.grants import is_given

    rows = [each for each in book.active(datetime.now(UTC)) if is_given(each)]
    looked_at = _with_suspension(rows, {tool.name: tool}.get)
    return [each for each in looked_at if "suspended" in each]


def _looked_at(settings: Settings, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return grants with what changed in their tools; only one that names any needs the catalog."""
    named = any(each["tool"] is not None for each in rows)
    return _with_suspension(rows, _tools(settings)) if named else rows


def _with_suspension(rows: Sequence[Mapping[str, Any]], find: FindTool) -> list[dict[str, Any]]:
    from clawhive_core.policy.suspension import suspension

    diffs = [suspension(each["tool"], find) for each in rows]
    return [
        {**each, **({"suspended": diff} if diff else {})}
        for each, diff in zip(rows, diffs, strict=True)
    ]


def _identity(settings: Settings, capability: str) -> str | None:
    """Return what the tool is that a right names, None where it names none that is there."""
    from clawhive_core.capabilities import normalise
    from clawhive_core.model.identity import ToolIdentity
    from clawhive_core.policy.suspension import named_tool

    name = named_tool(normalise(capability, {})) if capability.startswith("tool.call:") else ""
    tool = _tools(settings)(name) if name else None
    if name and tool is None:
        note(f"note: there is no tool `{name}` now: the right will count whatever it is then")
    return None if tool is None else ToolIdentity.of(tool).text


def _tools(settings: Settings) -> FindTool:
    async def found() -> FindTool:
        async with settings.hive() as hive:
            return hive.catalog.current.meta_of

    return run_async(found())


@contextmanager
def _book(
    settings: Settings, *, make: bool = False
) -> Generator[tuple[GrantBook, Config, Ledger | None]]:
    from clawhive_core.hive.project_log import open_log, sign_changes
    from clawhive_core.policy.grants import GrantBook

    config = settings.config()
    log = open_log(config, settings.plugins) if make or settings.has_log() else None
    before = None if log is None else log.tip()
    try:
        yield GrantBook(config.user_dir, log), config, log
        if log is not None and (problem := sign_changes(log, config.user_dir, before)):
            note(f"note: {problem}")
    finally:
        if log is not None:
            log.close()


def _wish(options: _Right, log: Ledger | None) -> Wish:
    from clawhive_core.policy.grants import Wish, duration

    task, session, always = options["task"], options["session"], options["always"]
    if sum((task is not None, session is not None, always)) != 1:
        raise UsageError(
            "say for how long: one of --task, --session and --always",
            place="--task, --session, --always",
            fix="--session S, as in `clawhive run --session S`",
        )
    given = options["expires"]
    wish = Wish(
        options["capability"],
        "persistent",
        subject=options["subject"],
        life=None if given is None else duration(given),
        uses=options["uses"],
        mode=options["mode"],
        delegate="" if options["delegate"] == "none" else options["delegate"],
    )
    if task is not None:
        return replace(wish, scope="task", scope_id=_task(str(task), log).task_id)
    return wish if always else replace(wish, scope="session", scope_id=_named(str(session)))


def _named(session: str) -> str:
    if not session.strip():
        raise UsageError("the session has no name", place="--session", fix="--session S")
    return session


def _task(text: str, log: Ledger | None) -> RunRecord:
    """Return the run that a task's or a run's id names.

    Raises:
        UnknownId: No run is called so, and no task.
        UsageError: The task has ended, and its rights with it.
    """
    from clawhive_core.errors import UnknownId
    from clawhive_core.model.runs import ENDED
    from clawhive_core.protocols.ledger import RunsWhere, Window
    from clawhive_core.runs.record.view import find_run

    if log is None:
        raise UnknownId("no run is recorded here", place=text, fix="clawhive runs list")
    found = log.find(RunsWhere(task_id=text), Window(1))
    (run,) = found.items or log.find(RunsWhere(run_id=find_run(log, text)))
    if run.status in ENDED:
        raise UsageError(
            f"the task of run {short(run.run_id)} has ended, and its rights with it",
            place="--task",
            fix="give the right with `clawhive run --grant`, or for a session",
        )
    return run


def _variables(config: Config, wish: Wish, log: Ledger | None) -> dict[str, str]:
    found = {"workspace": str(config.root), "home": config.home}
    if wish.scope == "task":
        found["run"] = _task(wish.scope_id, log).artifacts
    return found


def _uses(grant: Mapping[str, Any]) -> str:
    """Return how many calls a right still covers, of how many."""
    left, given = grant["uses_left"], grant["uses"]
    return "-" if given is None else str(given) if left == given else f"{left} of {given}"


def _extent(grant: Mapping[str, Any]) -> str:
    if grant["scope"] == "persistent":
        return "always"
    name = grant["scope_id"]
    if grant["scope"] == "step":
        run, _, step = name.partition("/")
        return f"step {step} of {short(run)}"
    return f"{grant['scope']} {short(name) if grant['scope'] == 'task' else name}"
