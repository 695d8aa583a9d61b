"""`clawhive audit`: read and verify the event log."""

from __future__ import annotations

import click

from clawhive_core.cli.output import print_json
from clawhive_core.cli.settings import Settings, run_async

INTERRUPTED = 130


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
    from shutil import get_terminal_size

    from clawhive_core.audit.tail import follow as following
    from clawhive_core.audit.tail import line, tail
    from clawhive_core.model.canonical import canonical_text
    from clawhive_core.model.events import StoredEvent
    from clawhive_core.runs.view import find_run

    if run is None and not settings.has_log():
        return 0
    log = settings.log()
    run_id = None if run is None else find_run(log, run)
    width = max(80, get_terminal_size((160, 24)).columns)

    def show(stored: StoredEvent) -> None:
        row = {"schema": "event/1", **stored.to_dict()} if jsonl else None
        click.echo(line(stored, width) if row is None else canonical_text(row))

    async def all_of_it() -> None:
        last = 0
        for stored in tail(log, count, run_id=run_id):
            show(stored)
            last = stored.seq
        if follow:
            async for stored in following(log, since=last, run_id=run_id):
                show(stored)

    try:
        run_async(all_of_it())
    except KeyboardInterrupt:  # the usual way to end following: nothing went wrong
        return INTERRUPTED
    finally:
        log.close()
    return 0


@command.command(epilog="Example: clawhive audit verify --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def verify(settings: Settings, *, as_json: bool) -> int:
    """Check every row, blob and checkpoint; exit 1 at any mismatch."""
    from clawhive_core.audit.verify import verify as check

    config = settings.config()
    report = check(config.root / ".clawhive" / "hive.db", config.user_dir)
    if as_json:
        print_json(report.to_dict())
    else:
        click.echo("\n".join(report.lines()))
    return 0 if report.ok else 1
