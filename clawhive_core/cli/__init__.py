"""The command line: one file a command group; the one room that prints.

Nothing here is imported by another room. A command imports what it needs when it runs.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence

import click

from clawhive_core.cli.output import discard, output_error, print_error, say, wants_json
from clawhive_core.cli.settings import Settings, shared_options, take_shared
from clawhive_core.errors import ClawHiveError
from clawhive_core.model.texts import printable_lines
from clawhive_core.model.version import VERSION

_OBJECTS_BETWEEN_COLLECTIONS = 100_000

COMMANDS: Mapping[str, str] = {
    "run": "Run a task type of a skill, or an agent's loop over a prompt.",
    "runs": "Look at runs, go on with them, cancel and repeat them.",
    "approvals": "Look at calls that wait for a person, and answer them.",
    "tools": "List, show, declare and call tools.",
    "skills": "List, show, check and make skills, switch and trust them.",
    "plugins": "List, check, sync and make plugins.",
    "audit": "Read and verify the event log.",
    "grants": "Issue, list and revoke rights.",
    "subscriptions": "Say who may use what skills do not give for free.",
    "policy": "Show the rules in force, explain a decision, test a table.",
    "trust": "Trust this project's clawhive.toml, as it is now.",
    "config": "Show the configuration and where each value comes from.",
    "doctor": "Say what is installed, what is missing, and what adds it.",
    "explain": "Explain an error, refusal or finding code.",
    "schema": "Print the JSON Schema of a command's output.",
}
"""Each command and its line in help; its module of this room has its name, and a `command`."""


class LazyGroup(click.Group):
    """The commands by table, imported one at a time, so that help costs nothing of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        """Return the names, our own first, then those of plugins."""
        return [*COMMANDS, *_contributed()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's own signature
        """Import one command."""
        if cmd_name in COMMANDS:
            from importlib import import_module

            return take_shared(import_module(f"clawhive_core.cli.{cmd_name}").command)
        contributed = _contributed().get(cmd_name)
        return None if contributed is None else contributed[1]()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's own signature
        """Write the list of commands from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])
        plugins = [(name, entry[0]) for name, entry in _contributed().items()]
        if plugins:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(plugins)


def _contributed() -> Mapping[str, tuple[str, Callable[[], click.Command]]]:
    """Return help line and loader of the commands of plugins, under names that are not taken."""
    from clawhive_core.cli.contributed import contributed_commands

    context = click.get_current_context(silent=True)
    settings = None if context is None else context.find_object(Settings)
    found = contributed_commands(settings or Settings())
    return {name: entry for name, entry in found.items() if name not in COMMANDS}


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: clawhive run --task run_code_snippet --input language=python "
    "--input code=@examples/primes.py",
)
@click.version_option(VERSION, prog_name="clawhive")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Tools and skills for LLM agents: policed, sandboxed, audited, replayable.

    The options below may also stand after the command.
    """
    ctx.obj = ctx.find_object(Settings) or Settings()


cli.params.extend(shared_options())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code.

    Exit codes: 0 done; 1 findings, a failed run or refused call; 2 wrong usage or configuration;
    3 waiting for approval; 130 interrupted.
    """
    given = _given(arguments)
    _fill_gaps()
    as_json = wants_json(given)
    debug = "--debug" in given
    try:
        _require_output()
        code = cli.main(given, prog_name="clawhive", standalone_mode=False)
        sys.stdout.flush()
    except ClawHiveError as error:
        print_error(error, as_json=as_json)
        code = error.exit_code
    except ExceptionGroup as group:
        print_error(_joined(group), as_json=as_json)
        code = 1
    except click.exceptions.Exit as exit_:
        code = exit_.exit_code
    except click.ClickException as error:
        code = _usage(error, as_json=as_json)
    except (KeyboardInterrupt, click.Abort):
        print_error(ClawHiveError("it was interrupted", code="cancelled"), as_json=as_json)
        code = 130
    except BrokenPipeError:
        discard(1)
        code = 0
    except Exception as error:  # the last boundary: a person gets a sentence, not a traceback
        unwritten = _unwritten(error)
        if debug and unwritten is None:
            raise
        print_error(unwritten or _unexpected(error), as_json=as_json)
        code = 1
    status = code if isinstance(code, int) else 0
    loop = sys.modules.get("clawhive_core.cli.loop")  # a command without a loop does not import it
    # The process is ours to end only as the command itself.
    if loop is not None and loop.left_behind and arguments is None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _given(arguments: Sequence[str] | None) -> list[str]:
    """Return the words of the command; without arguments the process is the command's own."""
    if arguments is None:
        # What a command makes at its start stays to its end: looking through it after each 700
        # objects, as by default, was a tenth of what a short command cost.
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
        arguments = sys.argv[1:]
    # A bare `--no-plugins` would swallow the next word as its value.
    return ["--no-plugins=*" if word == "--no-plugins" else word for word in arguments]


def _fill_gaps() -> None:
    """Stand in for a stdin or stderr that is closed: no file may get its number."""
    for name, mode in (("stdin", "r"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - it stays open


def _require_output() -> None:
    """Refuse to begin what nobody could be shown.

    Raises:
        ClawHiveError: `output_failed`: stdout is closed.
    """
    if sys.stdout is None:
        raise output_error("it is closed")


def _unwritten(error: Exception) -> ClawHiveError | None:
    """Return the error of a stdout that did not take what click wrote itself, such as help."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    module = None if at is None else at.tb_frame.f_globals.get("__name__")
    if not isinstance(error, OSError) or module not in {"click.utils", __name__}:
        return None
    discard(1)
    return output_error(error.strerror or str(error))


def _usage(error: click.ClickException, *, as_json: bool) -> int:
    if as_json:
        print_error(ClawHiveError(error.format_message(), code="usage"), as_json=True)
    else:
        from io import StringIO

        shown = StringIO()
        error.show(shown)
        usage = f"\n{shown.getvalue()}".partition("\nError: ")[0]
        message = printable_lines(f"Error: {error.format_message()}")
        say(*usage.split("\n")[1:], *message, err=True)
    return 2 if isinstance(error, click.UsageError) else error.exit_code


def _joined(group: ExceptionGroup[Exception]) -> ClawHiveError:
    """Return several failures as one: the first in full, the others by their sentence."""
    errors = [
        error if isinstance(error, ClawHiveError) else _unexpected(error)
        for error in group.exceptions
    ]
    return ClawHiveError(
        "; ".join(error.message for error in errors),
        code=errors[0].code,
        place=errors[0].place,
        fix=errors[0].fix,
        data={"errors": [error.to_dict() for error in errors]},
    )


def _unexpected(error: Exception) -> ClawHiveError:
    return ClawHiveError(
        f"unexpected {type(error).__name__}: {error}",
        code="internal_error",
        fix="run it again with --debug and report what it prints",
    )
