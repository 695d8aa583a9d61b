"""The options that every command takes, before its name or after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from clawhive_core.cli.settings import Settings


def shared_options(*, hidden: bool = False) -> list[click.Option]:
    """Return the options; hidden ones work and are not listed a second time."""
    return [
        _option("--root", "The project root, instead of the one around here.", hidden, "DIR"),
        _option("--skills", "A folder of skills to look in first.", hidden, "DIR"),
        _option("--user", "Who you are to skills: their subscriptions and quotas.", hidden, "U"),
        _option("--no-plugins", "Switch all plugins off, or these.", hidden, "[=a,b]"),
        _option("--strict", "Turn a failed plugin into an error.", hidden),
        _option("--quiet,-q", "Print results and errors only.", hidden),
        _option("--verbose,-v", "Print more on stderr.", hidden),
        _option("--debug", "Show tracebacks of unexpected errors.", hidden),
    ]


def take_shared(command: click.Command) -> click.Command:
    """Let a command, and those below it, take the shared options that it has no own of."""
    own = {name for param in command.params for name in param.opts}
    for option in shared_options(hidden=True):
        if own.isdisjoint(option.opts):
            command.params.append(option)
    if isinstance(command, click.Group):
        for each in command.commands.values():
            take_shared(each)
    return command


def _option(names: str, text: str, hidden: bool, metavar: str | None = None) -> click.Option:
    return click.Option(
        names.split(","),
        is_flag=metavar is None,
        metavar=metavar,
        multiple=names == "--skills",
        help=text,
        hidden=hidden,
        expose_value=False,
        is_eager=True,
        callback=_keep,
    )


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Put a value that was given into the settings; one that was not changes nothing.

    What may be repeated is added to what stands before the command.
    """
    if value:
        settings, name = ctx.find_object(Settings) or Settings(), str(param.name)
        if param.multiple:
            value = (*getattr(settings, name), *value)
        ctx.obj = replace(settings, **{name: value})
