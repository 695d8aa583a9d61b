"""The options that every command takes, before its name or after it, and what they open."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import click

from clawhive_core.errors import UnknownId
from clawhive_core.model.late import dataclass

if TYPE_CHECKING:
    from clawhive_core.config import Config
    from clawhive_core.hive.hive import Hive
    from clawhive_core.plugins.manager import PluginManager
    from clawhive_core.protocols.ledger import Ledger

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that every command shares."""

    root: str | None = None
    skills: tuple[str, ...] = ()
    """Folders of skills to look in first, relative to the current directory."""
    user: str | None = None
    """The user whose subscriptions, quotas and values count, over the configured `user.id`."""
    no_plugins: str | None = None
    """`*` for all, else ids joined by commas."""
    strict: bool = False
    quiet: bool = False
    verbose: bool = False
    debug: bool = False

    @property
    def flags(self) -> dict[str, Any]:
        """The configuration values that these options stand for."""
        flags: dict[str, Any] = {}
        if self.skills:
            from pathlib import Path

            flags["skills.paths"] = [str(Path(folder).absolute()) for folder in self.skills]
        if self.user is not None:
            flags["user.id"] = self.user
        if self.no_plugins not in {None, "*"}:
            flags["plugins.disabled"] = [each for each in str(self.no_plugins).split(",") if each]
        if self.strict:
            flags["plugins.strict"] = True
        return flags

    def command(self) -> list[str]:
        """Return the start of a command line that opens the same project in the same way."""
        words = ["clawhive"]
        if self.root is not None:
            words += ["--root", self.root]
        for folder in self.skills:
            words += ["--skills", folder]
        if self.user is not None:
            words += ["--user", self.user]
        if self.no_plugins is not None:
            words += [
                "--no-plugins" if self.no_plugins == "*" else f"--no-plugins={self.no_plugins}"
            ]
        return words

    def config(self) -> Config:
        """Return the project's configuration."""
        from clawhive_core.config.load import open_config

        return open_config(self.root, self.flags, os.environ)

    def has_log(self) -> bool:
        """Whether anything was ever recorded in this project; looking makes no log."""
        config = self.config()
        if config.get("storage.url") == "sqlite:":  # asked by nearly every command
            return not _is_missing(f"{config.root}/.clawhive/hive.db")
        from clawhive_core.hive.project_log import has_log

        return has_log(config, self.plugins)

    def log(self) -> Ledger:
        """Open the project's log, without plugins or tools.

        Raises:
            UnknownId: There is none yet: a command that reads makes none.
        """
        from clawhive_core.hive.project_log import open_log

        config = self.config()
        if not self.has_log():
            raise UnknownId(
                "no run is recorded here",
                place=str(config.root),
                fix="go to the project's folder, or name it: clawhive --root DIR ...",
            )
        return open_log(config, self.plugins)

    def hive(self) -> AbstractAsyncContextManager[Hive]:
        """Open the project."""
        from clawhive_core.hive.hive import Hive

        self._ask_for_lost()
        return Hive.open(self.root, flags=self.flags, plugins=self.load_plugins)

    def _ask_for_lost(self) -> None:
        """Ask whether to go on without what was trusted to tighten; opening refuses it else."""
        import sys

        from clawhive_core.cli.output import confirm, is_terminal, say

        if not is_terminal(sys.stdin, sys.stderr) or os.environ.get("CLAWHIVE_RUN"):
            return
        config = self.config()
        if not config.lost:
            return
        from clawhive_core.config import revoke_trust

        for file, texts in config.lost.items():
            for text in texts:
                say(f"{file} no longer says: {text}", err=True)
        confirm("You trusted this. Go on without it, and trust the file no longer?", abort=True)
        for file in config.lost:
            revoke_trust(file, user_dir=config.user_dir, env=os.environ)

    def plugins(self) -> PluginManager:
        """Return the installed plugins, imported by nobody."""
        return self.load_plugins(self.config(), os.environ)

    def load_plugins(self, config: Config, env: Mapping[str, str]) -> PluginManager:
        """Return the installed plugins as configuration and options switch them."""
        from clawhive_core.plugins.manager import open_plugins

        return open_plugins(config, env, none=self.no_plugins == "*")


def _is_missing(path: str) -> bool:
    """Whether a file is surely not there; one that cannot be looked at is opened and reported."""
    try:
        os.stat(path)  # noqa: PTH116 - pathlib is not needed to start
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


@cache
def shared_options(*, hidden: bool = False) -> Sequence[click.Option]:
    """Return the options; hidden ones work and are not listed a second time."""
    return (
        _option("--root", "The project root, instead of the one around here.", hidden, "DIR"),
        _option("--skills", "A folder of skills to look in first.", hidden, "DIR"),
        _option("--user", "Who you are to skills: their subscriptions and quotas.", hidden, "U"),
        _option("--no-plugins", "Switch all plugins off, or these.", hidden, "[=a,b]"),
        _option("--strict", "Turn a failed plugin into an error.", hidden),
        _option("--quiet,-q", "Print results and errors only.", hidden),
        _option("--verbose,-v", "Print more on stderr.", hidden),
        _option("--debug", "Show tracebacks of unexpected errors.", hidden),
    )


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
