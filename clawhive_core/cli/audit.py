"""`clawhive audit`: read and verify the event log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

import click

from clawhive_core.cli.loop import run_async
from clawhive_core.cli.output import hand_over, print_json, print_json_line, say
from clawhive_core.cli.settings import Settings
from clawhive_core.errors import UsageError
from clawhive_core.model.texts import set_off

if TYPE_CHECKING:
    from clawhive_core.audit.export import Format
    from clawhive_core.model.events import StoredEvent
    from clawhive_core.protocols.ledger import EventsWhere, Ledger

INTERRUPTED = 130


class _Wanted(TypedDict):
    """The words of one `clawhive audit query` that choose events."""

    run: str | None
    trace: str | None
    parent_run: str | None
    task: str | None
    step: str | None
    tool: str | None
    decision: str | None
    principal: str | None
    kind: str | None
    status: str | None
    since: str | None
    until: str | None
    text: str | None


@click.group(epilog="Example: clawhive audit verify")
def command() -> None:
    """Read and verify the event log."""


@command.command(epilog="Example: clawhive audit tail -n 50 --follow")
@click.option("-n", "count", type=click.IntRange(0), default=20, show_default=True)
@click.option("--follow", "-f", is_flag=True, help="Go on with events as they are committed.")
@click.option("--run", metavar="RUN", help="Only events of this run.")
@click.option("--jsonl", is_flag=True, help="Print one JSON object a line.")
@click.pass_obj
def tail(settings: Settings, count: int, run: str | None, *, follow: bool, jsonl: bool) -> int:
    """Print the log's last events."""
    from clawhive_core.audit.query import tail
    from clawhive_core.runs.record.view import find_run

    if run is None and not settings.has_log():
        return 0
    log = settings.log()
    run_id = None if run is None else find_run(log, run)

    async def all_of_it() -> None:
        last = 0
        for stored in tail(log, count, run_id=run_id):
            _print_event(stored, jsonl=jsonl)
            last = stored.seq
        if follow:
            async for stored in log.follow(last, run_id=run_id):
                _print_event(stored, jsonl=jsonl)

    try:
        run_async(all_of_it())
    except KeyboardInterrupt:  # the usual way to end following: nothing went wrong
        return INTERRUPTED
    finally:
        log.close()
    return 0


@command.command(epilog="Example: clawhive audit query --run last --decision deny")
@click.option("--run", metavar="RUN", help="Of this run: an id, a part of its start, or `last`.")
@click.option("--trace", metavar="TRACE", help="Of this trace, written likewise.")
@click.option("--parent-run", metavar="RUN", help="Of the sub-agents that this run started.")
@click.option("--task", metavar="TASK", help="Of this task, written likewise.")
@click.option("--step", metavar="STEP", help="Of this step; with --run, without the run's id.")
@click.option("--tool", metavar="TOOL", help="Of this tool, by its whole name.")
@click.option("--decision", type=click.Choice(["allow", "ask", "deny"]), help="So decided.")
@click.option("--principal", metavar="P", help="Of who acted, such as agent:default.")
@click.option("--kind", metavar="KIND", help="Of this kind; `approval` stands for all of them.")
@click.option("--status", metavar="STATUS", help="With this status, such as refused.")
@click.option("--since", metavar="TIME", help="From then on: a time, a day, or 2h ago.")
@click.option("--until", metavar="TIME", help="Before then.")
@click.option("--text", metavar="TEXT", help="With this text in previews or bodies, in any case.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="The newest.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--jsonl", is_flag=True, help="Print one JSON object a line.")
@click.pass_obj
def query(
    settings: Settings, *, limit: int, as_json: bool, jsonl: bool, **wanted: Unpack[_Wanted]
) -> None:
    """Find events. Several options must all hold; times without an offset are UTC."""
    from clawhive_core.audit.query import Found
    from clawhive_core.audit.query import query as find
    from clawhive_core.cli.output import note

    found, given = Found((), truncated=False), _storable(wanted)
    now = datetime.now(UTC)
    since, until = _moment(given["since"], "--since", now), _moment(given["until"], "--until", now)
    has_log = settings.has_log()
    if not has_log:
        _require_kind(given["kind"])
    if has_log or any(_ids(given).values()):
        log = settings.log()
        try:
            _require_kind(given["kind"], log)
            found = find(log, _filter(log, given, since, until), limit, text=given["text"])
        finally:
            log.close()
    if as_json:
        print_json(found.to_dict())
        return
    for stored in found.events:
        _print_event(stored, jsonl=jsonl)
    if found.truncated:
        note(f"these are the newest {limit}; there are older ones: --limit N, --until TIME")


@command.command(epilog="Example: clawhive audit verify --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def verify(settings: Settings, *, as_json: bool) -> int:
    """Check every row, blob and checkpoint; exit 1 at any mismatch."""
    from clawhive_core.hive.project_log import verify_log

    config = settings.config()
    report = verify_log(config, plugins=settings.plugins)
    if as_json:
        print_json(report.to_dict())
    else:
        say(*report.lines())
    return 0 if report.ok else 1


@command.command(epilog="Example: clawhive audit rebuild --check")
@click.option("--check", is_flag=True, help="Only compare; exit 1 at a difference.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def rebuild(settings: Settings, *, check: bool, as_json: bool) -> int:
    """Make the tables of runs, grants and approvals anew from the log; print how they differed."""
    import os

    from clawhive_core.config.trust import refuse_inside_run
    from clawhive_core.hive.project_log import claims_of

    if not check:
        refuse_inside_run(os.environ, "the log's tables")
    log = settings.log()
    try:
        found = log.compare() if check else log.rebuild()
        others = claims_of(log) if check and not found else []
    finally:
        log.close()
    if as_json:
        rows = [each.to_dict() for each in found]
        facts = {"rebuilt": not check, "differences": rows, "others": others}
        print_json({"schema": "audit-rebuild/1", **facts})
    for each in () if as_json else found:
        say(f"{each.table}: rows too many {each.extra}, lacking {each.missing}")
    if not as_json:
        done = "differ from the log" if check else "differed and were made anew"
        say(f"tables that {done}: {len(found)}" if found else "the tables are what the log says")
        for line in others:
            say(f"others wrote it, and it counts nothing: {set_off(line)}")
    return 1 if check and found else 0


@command.command(epilog="Example: clawhive audit prune --before 90d --dry-run")
@click.option("--before", metavar="TIME", required=True, help="A time, a day, or 90d ago.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--vacuum", is_flag=True, help="Give the space back to the disk; writers wait.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def prune(settings: Settings, before: str, *, dry_run: bool, vacuum: bool, as_json: bool) -> None:
    """Remove bodies of runs that ended before TIME. Digests stay, and the log still verifies.

    Such runs can be listed and shown, but not replayed.
    """
    import os

    from clawhive_core.config.trust import refuse_inside_run

    refuse_inside_run(os.environ, "the log's bodies")
    moment = _moment(before, "--before", datetime.now(UTC))
    log = settings.log()
    try:
        done = log.prune(str(moment), dry_run=dry_run)
        free = log.free_bytes()
        if vacuum and not dry_run:
            log.compact()
            free = 0
    finally:
        log.close()
    if as_json:
        print_json({"schema": "audit-prune/1", **done.to_dict(), "free_bytes": free})
        return
    say(f"{done.bodies} bodies, {done.bytes} bytes {'would go' if dry_run else 'pruned'}")
    if done.waiting_runs:
        say(f"runs that have not ended keep theirs: {done.waiting_runs}")
    if free and not dry_run:
        say(f"{free} bytes of the file are free for new rows; --vacuum gives them back")


@command.command(epilog="Example: clawhive audit export --format otel --run last --output run.json")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "otel", "ocsf"]),
    default="jsonl",
    show_default=True,
    help="Events as they are; spans in OTLP/JSON; or events of OCSF.",
)
@click.option("--run", metavar="RUN", help="Of this run: an id, a part of its start, or `last`.")
@click.option("--trace", metavar="TRACE", help="Of this trace: a run with its sub-agents.")
@click.option("--since", metavar="TIME", help="From then on: a time, a day, or 2h ago.")
@click.option("--until", metavar="TIME", help="Before then.")
@click.option("--bodies", is_flag=True, help="With the values that are kept outside the rows.")
@click.option("--output", metavar="F", help="A file; it appears whole. Without it: stdout.")
@click.pass_obj
def export(
    settings: Settings,
    form: Format,
    run: str | None,
    trace: str | None,
    since: str | None,
    until: str | None,
    output: str | None,
    *,
    bodies: bool,
) -> None:
    """Write the log, or a part of it, for other systems, one JSON object a line.

    With --format otel a line holds spans of one run; a time chooses the runs that began in it.
    """
    from pathlib import Path

    from clawhive_core.audit.export import lines, write_file
    from clawhive_core.audit.query import find_ids
    from clawhive_core.cli.output import note
    from clawhive_core.protocols.ledger import EventsWhere

    now = datetime.now(UTC)
    first, end = _moment(since, "--since", now), _moment(until, "--until", now)
    log = settings.log()
    try:
        ids = find_ids(log, {"run_id": run, "trace_id": trace})
        wanted = EventsWhere(ids["run_id"], ids["trace_id"], since=first, until=end)
        content = lines(log, form, wanted, bodies=bodies)
        if output is None:
            for each in content:
                hand_over(f"{each}\n")
        else:
            note(f"{write_file(Path(output), content)} lines in {output}")
    finally:
        log.close()


@command.group(epilog="Example: clawhive audit key show")
def key() -> None:
    """Show and replace the key that signs checkpoints."""


@key.command(epilog="Example: clawhive audit key show --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show(settings: Settings, *, as_json: bool) -> None:
    """Print the public key, for whoever checks the log elsewhere; made where there is none."""
    _print_key(settings, as_json=as_json)


@key.command(epilog="Example: clawhive audit key rotate")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def rotate(settings: Settings, *, as_json: bool) -> None:
    """Replace the key. The old one signs the new one's id, and what it signed still verifies."""
    import os

    from clawhive_core.config.trust import refuse_inside_run

    refuse_inside_run(os.environ, "the log's key")
    _print_key(settings, rotated=True, as_json=as_json)


def _print_key(settings: Settings, *, rotated: bool = False, as_json: bool) -> None:
    from clawhive_core.audit.keys import Keys
    from clawhive_core.storage.folders import file_error

    keys = Keys(settings.config().user_dir)
    try:
        if rotated:
            keys.rotate()
        key_id, public, retired = keys.key_id(), keys.public(), keys.retired()
    except OSError as error:
        raise file_error(error, keys.path) from error
    if as_json:
        old = [
            {"key": each.key, "public_key": each.public, "until": each.until, "next": each.next}
            for each in retired
        ]
        facts = {"scheme": keys.scheme, "key": key_id, "public_key": public}
        print_json({"schema": "audit-key/1", **facts, "path": str(keys.path), "retired": old})
        return
    say(f"{keys.scheme} {key_id} {public or ''}".rstrip())
    for each in retired:
        say(f"until {each.until} {each.key} {each.public}")


def _print_event(stored: StoredEvent, *, jsonl: bool) -> None:
    from shutil import get_terminal_size

    from clawhive_core.audit.query import line
    from clawhive_core.model.canonical import canonical_text

    if jsonl:
        print_json_line(canonical_text({"schema": "event/1", **stored.to_dict()}))
    else:
        say(line(stored, max(80, get_terminal_size((160, 24)).columns)))


def _storable(wanted: _Wanted) -> _Wanted:
    """Return options without what no text in a database can hold, such as half a character."""
    storable = {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in wanted.items()
    }
    return cast("_Wanted", storable)


def _ids(given: _Wanted) -> dict[str, str | None]:
    return {
        "run_id": given["run"],
        "trace_id": given["trace"],
        "parent_run_id": given["parent_run"],
        "task_id": given["task"],
        "step_id": given["step"],
    }


def _filter(log: Ledger, given: _Wanted, since: str | None, until: str | None) -> EventsWhere:
    from clawhive_core.audit.query import find_ids
    from clawhive_core.protocols.ledger import EventsWhere

    ids = find_ids(log, _ids(given))
    return EventsWhere(
        run_id=ids["run_id"],
        trace_id=ids["trace_id"],
        task_id=ids["task_id"],
        step_id=ids["step_id"],
        parent_run_id=ids.get("parent_run_id"),
        tool=given["tool"],
        principal=given["principal"],
        kind=given["kind"],
        status=given["status"],
        decision=given["decision"],
        since=since,
        until=until,
    )


def _require_kind(kind: str | None, log: Ledger | None = None) -> None:
    """Refuse a kind of event that is neither known nor, as a plugin's may be, in the log.

    Raises:
        UsageError: It is none.
    """
    from clawhive_core.diagnostics.suggestions import nearest_words
    from clawhive_core.events.kinds import KINDS
    from clawhive_core.protocols.ledger import EventsWhere, Window

    known = {*KINDS, *(name.partition(".")[0] for name in KINDS)}
    if kind is None or kind in known:
        return
    if log is not None and log.find(EventsWhere(kind=kind), Window(1)).items:
        return
    near = nearest_words(kind, known) or sorted(name for name in known if "." not in name)
    raise UsageError(
        f"no event is of the kind `{kind}`",
        place="--kind",
        fix=f"try one of: {', '.join(near)}; docs/reference/log.md lists them all",
    )


def _moment(text: str | None, place: str, now: datetime) -> str | None:
    """Return a moment in the one form in which the log writes times, so that texts compare.

    Args:
        text: RFC 3339 (`2026-11-22T08:00:00Z`), a day, or a duration before now such as `2h`.
            Without an offset it is UTC, as the log prints times.
        place: The option, for the error.
        now: The present.

    Returns:
        The moment; None for no text.

    Raises:
        UsageError: It is neither.
    """
    from clawhive_core.policy.grants import duration
    from clawhive_core.policy.terms import written

    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        return written(found if found.tzinfo is not None else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        pass
    try:
        return written(now - duration(text))
    except UsageError:
        raise UsageError(
            f"{text!r} is neither a time nor a duration",
            place=place,
            fix="write 2026-11-22, 2026-11-22T08:00:00Z, or how long ago: 30m, 2h, 10d, 1w",
        ) from None
