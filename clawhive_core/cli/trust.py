"""`clawhive trust`: let a project's configuration count in full, as it is now."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from clawhive_core.cli.output import note, print_json, require_yes, say
from clawhive_core.cli.settings import Settings
from clawhive_core.errors import ConfigError, UsageError
from clawhive_core.model.texts import set_off

if TYPE_CHECKING:
    from clawhive_core.config import Config


@click.group(invoke_without_command=True, epilog="Example: clawhive trust")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--database", metavar="ID", help="Adopt this database instead: what it gives counts.")
@click.option("--fresh", is_flag=True, help="Set the project's database aside, and begin anew.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; never asks.")
@click.pass_context
def command(
    ctx: click.Context, *, yes: bool, database: str | None, fresh: bool, as_json: bool
) -> None:
    """Trust this project's configuration file, as it is now; a change ends it.

    With --database it is a database that somebody else made, or wrote into: it is shown what it
    would give.
    """
    if ctx.invoked_subcommand is not None:
        return
    from clawhive_core.config import refuse_inside_run

    settings = ctx.find_object(Settings) or Settings()
    refuse_inside_run(os.environ)
    if fresh and database is not None:
        raise UsageError("a database is adopted or set aside", place="--fresh", fix="leave one out")
    if fresh:
        _set_aside(settings, as_json=as_json)
    elif database is not None:
        _adopt(settings, database, yes=yes, as_json=as_json)
    else:
        _trust_file(settings.config(), yes=yes, as_json=as_json)


def _trust_file(config: Config, *, yes: bool, as_json: bool) -> None:
    from clawhive_core.config import revoke_trust, trust_project

    if config.project_file is None:
        raise ConfigError(
            "this project has no configuration file",
            place=str(config.root),
            fix="there is nothing to trust until it has one",
        )
    for texts in config.lost.values():
        for text in texts:
            note(f"would no longer count: {text}")
    for key in config.ignored:
        note(f"would count: {key}")
    require_yes(f"Trust {config.project_file} as it is now?", yes=yes, as_json=as_json)
    trusted = trust_project(config.project_file, user_dir=config.user_dir, env=os.environ)
    for gone in config.lost.keys() - {config.project_file}:
        revoke_trust(gone, user_dir=config.user_dir, env=os.environ)
    if as_json:
        _print_json(config)
    else:
        say(f"trusted: {trusted.path}")


def _set_aside(settings: Settings, *, as_json: bool) -> None:
    from clawhive_core.hive.databases import Databases

    databases = Databases(settings.config())
    is_there = os.path.lexists(databases.path)
    moved = databases.set_aside() if is_there else databases.path
    if as_json:
        print_json({"schema": "trust-database/1", "path": str(moved), "adopted": False})
    elif is_there:
        say(f"set aside: {moved}", "the next run begins a fresh database")
    else:
        say("there is no database to set aside", "the next run begins a fresh one")


def _adopt(settings: Settings, database: str, *, yes: bool, as_json: bool) -> None:
    """Show what a database would give, and adopt it where the user says so."""
    from clawhive_core.hive.databases import Databases

    databases = Databases(settings.config())
    found = databases.find(database)
    gives = found.claims.to_dict()
    given = any(gives.values())
    whose = "it is yours, others wrote into it" if given else "it is yours, as it lies here"
    whose = "nobody of yours made it" if found.is_foreign else whose
    note(f"{found.path}: {found.id}, {whose}")
    for kind, lines in gives.items():
        for line in lines:
            note(f"would count, of its {kind}: {line}")
    if not given and found.is_foreign:
        note("it would give no right; its runs could be continued as a history")
    elif not given:
        note("what was revoked, used or answered since would count again: clawhive grants list")
    require_yes(f"Adopt {found.id}, with all of this?", yes=yes, as_json=as_json)
    databases.adopt(found)
    if as_json:
        facts = {"database_id": found.id, "path": str(databases.path), "adopted": True}
        print_json({"schema": "trust-database/1", **facts, "gives": gives})
    else:
        say(f"adopted: {databases.path}")


@command.command(epilog="Example: clawhive trust show")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show(settings: Settings, *, as_json: bool) -> None:
    """List the files that are trusted."""
    from clawhive_core.config import list_trust

    if as_json:
        _print_json(settings.config())
        return
    entries = list_trust(settings.config().user_dir).entries
    for entry in entries:
        say(f"{set_off(str(entry.path))}  since {entry.trusted_at}")
    if not entries:
        note("no project's configuration is trusted")


@command.command(epilog="Example: clawhive trust revoke")
@click.option("--database", metavar="ID", help="Let nothing count that this database holds now.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def revoke(settings: Settings, database: str | None, *, as_json: bool) -> int:
    """Trust this project's file no longer."""
    from clawhive_core.config import refuse_inside_run, revoke_trust

    config = settings.config()
    if database is not None:
        from clawhive_core.config.database_keys import DatabaseKeys
        from clawhive_core.hive.databases import Databases

        refuse_inside_run(os.environ)
        found = Databases(config).find(database)
        done = DatabaseKeys(config.user_dir).replace(found.id)
        if as_json:
            facts = {"database_id": found.id, "path": str(found.path), "adopted": False}
            print_json({"schema": "trust-database/1", **facts})
        else:
            say(f"nothing of it counts any more: {found.id}" if done else "it was not yours")
        return 0
    file = config.project_file or config.root / "clawhive.toml"
    files = dict.fromkeys((file, *config.lost))
    done = [revoke_trust(each, user_dir=config.user_dir, env=os.environ) for each in files]
    if as_json:
        _print_json(config)
    else:
        say(f"no longer trusted: {file}" if any(done) else f"was not trusted: {file}")
    return 0


def _print_json(config: Config) -> None:
    """Print the files that are trusted now, by whichever command made it so."""
    from clawhive_core.config import list_trust

    files = [
        {"path": str(entry.path), "trusted_at": entry.trusted_at}
        for entry in list_trust(config.user_dir).entries
    ]
    print_json({"schema": "trust/1", "files": files})
