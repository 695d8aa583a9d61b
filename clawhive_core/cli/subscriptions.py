"""`clawhive subscriptions`: who may use what skills do not give for free."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from clawhive_core.cli.loop import run_async
from clawhive_core.cli.output import note, print_json, say, table
from clawhive_core.cli.settings import Settings
from clawhive_core.errors import ClawHiveError, PluginError, UnknownId, UsageError

if TYPE_CHECKING:
    from clawhive_core.protocols.stores import Subscription, SubscriptionStore

T = TypeVar("T")

_LONGEST_USER = 200


@click.group(epilog="Example: clawhive subscriptions add zodiac --user local")
def command() -> None:
    """Add, remove and list subscriptions to skills, for the user of `--user` or `user.id`."""


@command.command(epilog="Example: clawhive subscriptions add zodiac")
@click.argument("skill", metavar="SKILL")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def add(settings: Settings, skill: str, *, as_json: bool) -> None:
    """Let a user call what a skill does not give for free."""
    user = _who_changes(settings)
    _require_known(settings, skill)
    is_new, found = _changed(settings, user, lambda store: store.add(user, skill), make=True)
    if as_json:
        _print(found)
    else:
        say(f"subscribed: {user} to {skill}{'' if is_new else ' (already)'}")


@command.command(epilog="Example: clawhive subscriptions remove zodiac")
@click.argument("skill", metavar="SKILL")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def remove(settings: Settings, skill: str, *, as_json: bool) -> None:
    """End a subscription."""
    user = _who_changes(settings)
    was_there, found = _changed(settings, user, lambda store: store.remove(user, skill))
    if not was_there:
        raise UnknownId(
            f"`{user}` has not subscribed to `{skill}`",
            place=skill,
            fix="clawhive subscriptions list",
        )
    if as_json:
        _print(found)
    else:
        say(f"ended: {user} to {skill}")


@command.command("list", epilog="Example: clawhive subscriptions list --json")
@click.argument("skill", metavar="SKILL", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def list_(settings: Settings, skill: str | None, *, as_json: bool) -> None:
    """List the subscriptions to a skill, or to all; with `--user` those of one user."""
    with _store(settings) as store:
        found = _answer_of(lambda: store.list(settings.user, skill))
    if as_json:
        _print(found)
    else:
        rows = [(each.user_id, each.skill_id, each.since[:16].replace("T", " ")) for each in found]
        say(*table(rows, ("USER", "SKILL", "SINCE")))


def _print(found: Sequence[Subscription]) -> None:
    rows = [
        {"user_id": each.user_id, "skill_id": each.skill_id, "since": each.since} for each in found
    ]
    print_json({"schema": "subscriptions/1", "subscriptions": rows})


def _changed(
    settings: Settings,
    user: str,
    change: Callable[[SubscriptionStore], Awaitable[bool]],
    *,
    make: bool = False,
) -> tuple[bool, Sequence[Subscription]]:
    """Return whether a change made a difference, and the user's subscriptions after it."""
    with _store(settings, make=make) as store:
        return _answer_of(lambda: change(store)), _answer_of(lambda: store.list(user))


def _who_changes(settings: Settings) -> str:
    """Return the user whose subscriptions a person changes.

    Raises:
        UsageError: `inside_run`, or it is no name.
    """
    from clawhive_core.config import refuse_inside_run

    refuse_inside_run(os.environ, "subscriptions")
    return _user(settings)


def _user(settings: Settings) -> str:
    """Return the user that `--user` or the configuration names.

    Raises:
        UsageError: It is no name.
    """
    user = str(settings.config().get("user.id"))
    if user.strip() and user.isprintable() and len(user) <= _LONGEST_USER:
        return user
    raise UsageError(
        f"{user[:_LONGEST_USER]!r} names no user",
        place="--user",
        fix=f"use 1 to {_LONGEST_USER} printable characters",
    )


def _require_known(settings: Settings, skill: str) -> None:
    """Look a skill up by its name, and tell where a subscription to it changes nothing."""
    from clawhive_core.skills.load import load_skills

    sources = [each.value for each in settings.plugins().contributions("clawhive_skill_sources")]
    entry = load_skills(settings.config(), sources).find(skill)
    if not entry.skill.exports.access.requires_subscription:
        note(f"note: `{skill}` asks for no subscription: what it exports is free")
    elif entry.state != "loaded":
        note(f"note: `{skill}` is not loaded: {entry.reason}")


@contextmanager
def _store(settings: Settings, *, make: bool = False) -> Generator[SubscriptionStore]:
    """Give who knows the subscribers; looking makes no log."""
    from clawhive_core.hive.contributed import Contributed
    from clawhive_core.hive.project_log import open_log

    log = open_log(settings.config(), settings.plugins) if make or settings.has_log() else None
    try:
        yield Contributed(settings.plugins()).subscriptions(log)
    finally:
        if log is not None:
            log.close()


def _answer_of(ask: Callable[[], Awaitable[T]]) -> T:
    """Return what a store answers.

    Raises:
        PluginError: It raised what is no error of ClawHive's.
    """

    async def answered() -> T:
        try:
            return await ask()
        except ClawHiveError:
            raise
        except Exception as error:
            raise PluginError(
                f"the store of subscriptions failed: {type(error).__name__}: {error}",
                fix="clawhive plugins",
            ) from error

    return run_async(answered())
