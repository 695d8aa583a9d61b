"""Commands that are imported when they run, so that help costs nothing of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import click

from clawhive_core.cli.shared import take_shared
from clawhive_core.model.late import dataclass


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command lives, and its line in the list of commands."""

    module: str
    """A module of this room, or a full name; the command is its attribute `command`."""
    help: str


class LazyGroup(click.Group):
    """A group that knows its commands by table and imports one at a time."""

    def __init__(
        self,
        *args: object,
        lazy: Mapping[str, Lazy] | None = None,
        more: Callable[[], Mapping[str, tuple[str, Callable[[], click.Command]]]] | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(*args, **kwargs)  # pyright: ignore[reportArgumentType] - click's own signature
        self._lazy = dict(lazy or {})
        self._more = more

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, our own first, then those of plugins."""
        return [*super().list_commands(ctx), *self._lazy, *self._contributed()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        entry = self._lazy.get(cmd_name)
        if entry is not None:
            from importlib import import_module

            name = entry.module if "." in entry.module else f"clawhive_core.cli.{entry.module}"
            return take_shared(import_module(name).command)
        contributed = self._contributed().get(cmd_name)
        return None if contributed is None else contributed[1]()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table alone."""
        rows = [(name, entry.help) for name, entry in self._lazy.items()]
        for name in super().list_commands(ctx):
            command = super().get_command(ctx, name)
            if command is not None:
                rows.append((name, command.get_short_help_str(80)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)
        plugins = [(name, entry[0]) for name, entry in self._contributed().items()]
        if plugins:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(plugins)

    def _contributed(self) -> Mapping[str, tuple[str, Callable[[], click.Command]]]:
        if self._more is None:
            return {}
        return {name: entry for name, entry in self._more().items() if name not in self._lazy}
