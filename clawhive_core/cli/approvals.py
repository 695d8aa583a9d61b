"""`clawhive approvals`: what waits for a person, and the person's answers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

import click

from clawhive_core.cli.loop import run_async
from clawhive_core.cli.output import (
    confirm,
    is_terminal,
    note,
    print_error,
    print_json,
    say,
    short,
    table,
    visible,
)
from clawhive_core.cli.settings import Settings
from clawhive_core.errors import ClawHiveError, InvalidInput, RunError, StorageError, UsageError
from clawhive_core.model.texts import set_off

if TYPE_CHECKING:
    from clawhive_core.config import Config
    from clawhive_core.hive.hive import Hive
    from clawhive_core.model.approvals import Approval, ApprovalScope
    from clawhive_core.policy.answers import AnswerOptions, Edited, Verdict
    from clawhive_core.policy.approvals import ApprovalBook

SCOPES = ("once", "step", "task", "session", "always")
_UNTIL = {
    "step": "until this step ends",
    "task": "until this task ends",
    "session": "to this session",
    "always": "in every project, until it expires",
}
_MAX_FILE = 64 * 1024 * 1024


class _Answer(TypedDict):
    """The words of one `clawhive approvals approve`."""

    scope: ApprovalScope
    grants: tuple[str, ...]
    expires: str | None
    edit: bool
    edit_json: str | None
    everything: bool
    reason: str | None
    as_json: bool


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
    found: Sequence[Approval] = ()
    if settings.has_log():
        with _book(settings) as (book, _):
            found = book.list(None if everything else "pending")
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
    say(*table(rows, ("APPROVAL", "STATE", "TOOL", "ASKED", "INPUT")))


@command.command(epilog="Example: clawhive approvals show last")
@click.argument("approval", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show(settings: Settings, approval: str, *, as_json: bool) -> None:
    """Print what would be done, with its diff, and what a wider scope would give."""
    with _book(settings) as (book, _):
        book.expire()
        found = book.find(approval)
        given = book.input_of(found)
        asked = book.asked(found)[0].input
        tool, equal = book.tool_of(found), book.equals(found)
    if as_json:
        _print_json([found])
        return
    say(f"approval {found.approval_id}  {found.state}")
    say(*describe(found, given))
    if found.edited:
        from clawhive_core.model.approvals import edits

        say(f"edited   {visible(edits(asked, given))}")
    if len(equal) > 1:
        names = ", ".join(short(each.approval_id) for each in equal)
        say(f"equal    {len(equal)} equal calls wait ({names}): --all answers them")
    if diff := _changed(settings, found, tool):
        say("changed  the tool is no longer what it was:")
        say(*map(set_off, map(visible, diff.removesuffix("\n").split("\n"))))
    say(f"asked    {found.created_at}   expires  {found.expires_at}")
    if found.state == "pending":
        say(*_wider(found))
    if found.resolved_by is not None:
        reason = f": {found.reason}" if found.reason else ""
        say(f"answered by {found.resolved_by}{reason}")
    _print_grants(found)


def _changed(settings: Settings, approval: Approval, tool: str | None) -> str:
    """Return how an approval's tool changed since it was asked for, where that matters now."""
    from clawhive_core.policy.suspension import suspension

    if tool is None or approval.state not in {"pending", "approved", "drifted"}:
        return ""

    async def diff() -> str:
        async with settings.hive() as hive:
            return suspension(tool, hive.catalog.current.meta_of)

    try:
        return run_async(diff())
    except StorageError as error:
        if error.code != "foreign_database":  # nobody works with it: there are no tools of now
            raise
        return ""


@command.command(epilog="Example: clawhive approvals approve last --scope task")
@click.argument("approval", metavar="ID")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="once",
    show_default=True,
    help="This call alone; or its rights too, until the step, task or session ends, or for good.",
)
@click.option(
    "--grant", "grants", metavar="CAP", multiple=True, help="Give less rights with a wider scope."
)
@click.option("--expires", metavar="TIME", help="End these rights after 30m, 2h, 10d or 1w.")
@click.option("--edit", is_flag=True, help="Change the call's arguments in $VISUAL or $EDITOR.")
@click.option(
    "--edit-json",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Take the call's arguments from a file, or - for stdin.",
)
@click.option("--all", "everything", is_flag=True, help="Also its run's equal calls that wait.")
@click.option("--reason", metavar="TEXT", help="Why, for the log.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def approve(settings: Settings, approval: str, **options: Unpack[_Answer]) -> None:
    """Let a call happen, once, exactly as shown or as you edit it.

    A wider scope than `once` also gives the rights that `show` lists, so that calls like it need no
    further answer. An unsafe tool is approved call by call. The call of a client of `clawhive serve
    mcp` is approved at a terminal only.
    """
    from clawhive_core.config import refuse_inside_run
    from clawhive_core.policy.grants import duration

    refuse_inside_run(os.environ, "approvals")
    approval = _shown_to_person(settings, approval, as_json=options["as_json"])
    if options["everything"]:
        _approve_equal(settings, approval, options)
        return
    life = None if options["expires"] is None else duration(options["expires"])
    more: AnswerOptions = {
        "scope": options["scope"],
        "grants": options["grants"],
        "life": life,
        "reason": options["reason"],
    }
    if options["edit"] or options["edit_json"] is not None:
        found = _approve_edited(settings, approval, options, more)
    else:
        with _book(settings) as (book, config):
            found = book.resolve(approval, "approve", by=_person(config), **more)
    _print_answer(settings, found, as_json=options["as_json"])


@command.command(epilog='Example: clawhive approvals deny last --reason "wrong file"')
@click.argument("approval", metavar="ID")
@click.option("--all", "everything", is_flag=True, help="Also its run's equal calls that wait.")
@click.option("--reason", metavar="TEXT", help="Why, for the log and for whoever asked.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def deny(
    settings: Settings, approval: str, reason: str | None, *, everything: bool, as_json: bool
) -> None:
    """Let a call not happen."""
    from clawhive_core.config import refuse_inside_run

    refuse_inside_run(os.environ, "approvals")
    if everything:
        _print_answers(_answer_equal(settings, approval, "deny", reason), as_json=as_json)
        return
    with _book(settings) as (book, config):
        found = book.resolve(approval, "deny", by=_person(config), reason=reason)
    _print_answer(settings, found, as_json=as_json)


def _shown_to_person(settings: Settings, approval: str, *, as_json: bool) -> str:
    """Return the id to answer; a client's call is shown first, and confirmed by a person.

    A client's agent often has a shell of its own, with the user's rights.

    Raises:
        UsageError: It is a client's, and there is no terminal.
    """
    with _book(settings) as (book, _):
        found = book.find(approval)
        given = book.input_of(found)
    if not found.principal.startswith("client:"):
        return found.approval_id
    if as_json or not is_terminal(sys.stdin, sys.stdout, sys.stderr):
        raise UsageError(
            f"this call is of {found.principal}: a person approves it at a terminal",
            place=found.approval_id,
            fix=f"run `clawhive approvals approve {short(found.approval_id)}` in a terminal",
        )
    say(*describe(found, given))
    confirm("Approve it?", abort=True)
    return found.approval_id


def _approve_equal(settings: Settings, approval: str, options: _Answer) -> None:
    """Approve an approval and those for equal calls, each for its own call."""
    wider = options["scope"] != "once" or options["grants"] or options["expires"] is not None
    if wider or options["edit"] or options["edit_json"] is not None:
        raise UsageError(
            "several calls are approved as they are, each alone",
            place="--all",
            fix="leave out --scope, --grant, --expires, --edit and --edit-json, or --all",
        )
    done = _answer_equal(settings, approval, "approve", options["reason"])
    _print_answers(done, as_json=options["as_json"])
    if not options["as_json"]:
        _print_next(settings, done[0])


def _answer_equal(
    settings: Settings, approval: str, answer: Verdict, reason: str | None
) -> Sequence[Approval]:
    """Answer an approval and those that wait for equal calls; return what this answered."""
    with _book(settings) as (book, config):
        book.expire()
        found = book.find(approval)
        equal = book.equals(found) or [found]
        return book.resolve_each(equal, answer, by=_person(config), reason=reason)


def _print_answers(done: Sequence[Approval], *, as_json: bool) -> None:
    if as_json:
        _print_json(done)
        return
    first = done[0]
    say(f"{first.state}: {len(done)} x {first.tool} {visible(first.preview[:60])}")


@contextmanager
def _book(settings: Settings) -> Generator[tuple[ApprovalBook, Config]]:
    from clawhive_core.hive.project_log import approval_book

    log = settings.log()
    try:
        config = settings.config()
        yield approval_book(log, config), config
    finally:
        log.close()


def _person(config: Config) -> str:
    return f"user:{config.get('user.id')}"


def _approve_edited(
    settings: Settings, approval: str, options: _Answer, more: AnswerOptions
) -> Approval:
    """Approve a call with the arguments of a file, or those that the person writes."""
    given = None
    if options["edit"] and options["edit_json"] is not None:
        raise UsageError("both edit the call", place="--edit, --edit-json", fix="give one of them")
    if options["edit_json"] is not None:
        given = read_arguments(read_file(options["edit_json"]), options["edit_json"])
    elif options["as_json"] or not is_terminal(sys.stdin, sys.stderr):
        raise UsageError(
            "no editor can be opened here", place="--edit", fix="give them: --edit-json FILE"
        )
    settings.log().close()

    async def answer() -> Approval:
        async with settings.hive() as hive:
            found = hive.approvals.find(approval)
            if given is not None:
                changed = await hive.edited(found.approval_id, given)
            else:
                changed = await edited_by_hand(hive, found)
            by = _person(hive.config)
            everything: AnswerOptions = {**more, "edited": changed}
            return hive.approvals.resolve(found.approval_id, "approve", by=by, **everything)

    return run_async(answer())


def _print_answer(settings: Settings, found: Approval, *, as_json: bool) -> None:
    if as_json:
        _print_json([found])
        return
    say(f"{found.state}: {found.tool} {visible(found.preview[:60])}")
    if found.edited and found.diff:
        say(*map(set_off, map(visible, found.diff.removesuffix("\n").split("\n"))))
    _print_grants(found)
    for each in found.grants:
        note(f"end it: clawhive grants revoke {short(each['grant_id'])}")
    _print_next(settings, found)


def _print_next(settings: Settings, found: Approval) -> None:
    """Say how to go on: with the run that a person started, where a sub-agent's call waited."""
    from clawhive_core.runs.record.lineage import ancestry

    if found.principal.startswith("client:"):
        note(f"go on: {found.principal} makes the same call again")
        return
    with _book(settings) as (book, _):
        first = next(iter(ancestry(book.log, found.run_id)), (found.run_id, None))[0]
    note(f"go on: clawhive runs resume {short(first)}")


def _print_grants(approval: Approval) -> None:
    for each in approval.grants:
        until = each["expires_at"]
        end = f", until {until[:19].replace('T', ' ')} UTC" if until else ""
        extent = str(approval.scope)
        say(f"granted: {each['capability']} to {each['subject']}, {extent}{end}")


def _wider(approval: Approval) -> list[str]:
    if approval.risk == "unsafe":
        return ["wider    none: the tool is unsafe, so each call of it is approved alone"]
    return [
        "wider    --scope step, task, session or always also gives, or --grant less of it:",
        *(f"         {each}" for each in approval.capabilities),
    ]


def granted_lines(rights: Sequence[str], scope: str) -> list[str]:
    """Return the rights that a wider scope would give, numbered, for a terminal."""
    lines = [f"  {number}  {each}" for number, each in enumerate(rights, 1)]
    return [f"gives, {_UNTIL[scope]}:", *map(visible, lines)]


def describe(
    approval: Approval, given: Mapping[str, Any], edited: Edited | None = None
) -> Sequence[str]:
    """Return what a person must know to answer, as lines for a terminal."""
    now, arguments = (approval, given) if edited is None else (edited, edited.input)
    lines = [
        f"tool     {approval.tool}  ({approval.risk}) for {approval.principal}",
        *(f"touches  {each}" for each in now.capabilities),
        *(f"goes to  {name} = {value}" for name, value in now.sinks.items()),
        *(f"         {_origin(each)}" for each in now.destinations),
    ]
    if now.diff:
        lines += ["", *map(set_off, now.diff.removesuffix("\n").split("\n"))]
    else:
        lines += [line for name, value in arguments.items() for line in _argument(name, value)]
    return [*map(visible, lines)]


def _origin(destination: Mapping[str, Any]) -> str:
    """Return where a value comes from."""
    what = f"{destination['kind']} {destination['value']}"
    if destination["source"] is not None:
        return f"{what}: from {destination['source']}"
    seen = destination["seen_in"]
    if seen is not None:
        step = seen["step_id"].partition("/")[2] or seen["step_id"]
        where = f"first seen in the output of {seen['tool']} (untrusted), step {step}"
        return f"{what}: not in your words; {where}"
    if destination["tainted"]:
        return f"{what}: not in your words; the run's outputs are too long to look all through"
    return f"{what}: not in your words, nor in any output of this run"


def _argument(name: str, value: Any) -> list[str]:
    """Return one argument, whole: a person approves nothing unseen."""
    if isinstance(value, str) and "\n" in value:
        return [f"input    {name}:", *(f"  | {line}" for line in value.split("\n"))]
    return [f"input    {name} = {json.dumps(value, ensure_ascii=False)}"]


def _print_json(found: Sequence[Approval]) -> None:
    print_json({"schema": "approvals/1", "approvals": [each.to_dict() for each in found]})


async def edited_by_hand(
    hive: Hive, approval: Approval, before: Edited | None = None
) -> Edited | None:
    """Let the person change a call's arguments until they can be approved, or give up.

    Returns:
        The changed call; None where nothing was changed.

    Raises:
        UsageError: The editor was closed without saving, or the person gave up.
        RunError: The call waits no more.
    """
    import anyio

    given = hive.approvals.input_of(approval) if before is None else before.input
    text = json.dumps(given, indent=2, ensure_ascii=False) + "\n"
    while True:
        text = await anyio.to_thread.run_sync(_in_editor, text)
        try:
            return await hive.edited(approval.approval_id, read_arguments(text, "--edit"), before)
        except ClawHiveError as error:
            if isinstance(error, RunError) and error.code != "denied":
                raise
            print_error(error, as_json=False)
        await anyio.to_thread.run_sync(_confirm_again)


def _in_editor(text: str) -> str:
    try:
        changed = click.edit(text, extension=".json")
    except click.ClickException as error:
        raise UsageError(
            f"the editor failed, so nothing was answered: {error.format_message()}",
            place="$VISUAL, $EDITOR",
            fix="set EDITOR to an editor that is installed, or use --edit-json FILE",
        ) from None
    if changed is None:
        raise UsageError(
            "the editor was closed without saving, so nothing was answered",
            place="--edit",
            fix="save the file, even as it is; or answer without --edit",
        )
    return changed


def _confirm_again() -> None:
    if not confirm("Edit it again?", default=True):
        raise UsageError("nothing was answered", place="--edit", fix="edit it again, or deny it")


def read_arguments(text: str, place: str) -> Mapping[str, Any]:
    """Return the arguments that a text holds.

    Raises:
        InvalidInput: It is no JSON object; with line and column.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{place}:{error.lineno}:{error.colno}"
        raise InvalidInput(
            f"this is no JSON: {error.msg}", place=where, fix="write one JSON object"
        ) from None
    except RecursionError:
        raise InvalidInput("it is nested too deeply", place=place, fix="nest it less") from None
    if not isinstance(value, dict):
        raise InvalidInput(
            "the arguments are one JSON object", place=place, fix='such as {"path": "a.md"}'
        )
    return cast("dict[str, Any]", value)


def read_file(name: str) -> str:
    """Return what a file holds, or stdin for `-`.

    Raises:
        InvalidInput: It cannot be read, or is no text.
    """
    fix = "name a UTF-8 file with one JSON object, or - for stdin"
    try:
        with click.open_file(name, encoding="utf-8") as file:
            text = file.read(_MAX_FILE)
    except OSError as error:
        message = f"{name} cannot be read: {error.strerror}"
        raise InvalidInput(message, place="--edit-json", fix=fix) from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{name} is no UTF-8 text", place="--edit-json", fix=fix) from None
    if len(text) == _MAX_FILE:
        raise InvalidInput(f"{name} is too large", place="--edit-json", fix=fix)
    return text
