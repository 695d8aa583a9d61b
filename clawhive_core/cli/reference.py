"""The pages `docs/reference/cli.md` and `codes.md`, made from the commands and the codes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from inspect import cleandoc

import click

from clawhive_core.cli import COMMANDS, cli
from clawhive_core.cli.settings import shared_options
from clawhive_core.diagnostics.codes import Explanation, registry

_COMMANDS_INTRO = """\
# Command line

This page is written by `clawhive_core.cli.reference.render()`; a test compares the two. Plugins may
add commands; `clawhive --help` lists them too.

- **Exit codes**: 0 done; 1 findings, a failed or cancelled run, a refused call; 2 wrong usage or
  configuration; 3 waiting for approval; 130 interrupted.
- **`--json`** prints one JSON object on stdout, with a `schema` key such as `"run/1"`; `clawhive
  schema NAME` prints its JSON Schema. Notes and progress are on stderr.
- **Errors** on stderr are a code, what happened, where, and what to do; `clawhive explain CODE`
  says more ([all codes](codes.md)).
- **RUN** is an id, a unique part of its start, or `last`.
- `NO_COLOR` switches colours off.
"""
_CODES_INTRO = """\
# Codes

Every code of an error, a refusal or a finding. `clawhive explain CODE` prints the same. A fix may
name a command that is planned ([requirements](requirements.md)); `clawhive --help` lists those that
are there. The page is written by `clawhive_core.cli.reference.render_codes()` from
`clawhive_core/data/codes.toml`; a test compares them.
"""
_SHARED_INTRO = "These may stand before the command or after it."
_FAMILIES = (
    ("Errors and refusals", "In `error` of a refusal or error, and in `error[CODE]` on stderr."),
    ("Findings", "`CHnnnn`, each with a severity and a place; the command goes on."),
)


def render() -> str:
    """Return the page of the command line, ending in a newline."""
    shared = ["## Options of every command", _SHARED_INTRO, _options(shared_options())]
    sections = [_section(words, command) for words, command in every_command()]
    return "\n\n".join([_COMMANDS_INTRO.rstrip(), *shared, *sections]) + "\n"


def render_codes() -> str:
    """Return the page of all codes, ending in a newline."""
    findings = [item for item in registry().values() if item.code.startswith("CH")]
    others = [item for item in registry().values() if not item.code.startswith("CH")]
    parts = [_CODES_INTRO.rstrip()]
    for (title, text), items in zip(_FAMILIES, (others, findings), strict=True):
        parts += [f"## {title}", text, *map(_code, items)]
    return "\n\n".join(parts) + "\n"


def every_command() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command of the core with its words, groups before what is below them."""
    context = click.Context(cli, info_name="clawhive")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if command is not None:
            yield from _tree((name,), command)


def _tree(
    words: tuple[str, ...], command: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from _tree((*words, name), below)


def _section(words: Sequence[str], command: click.Command) -> str:
    own = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    parts = [f"{'#' * (len(words) + 1)} `clawhive {' '.join(words)}`", _help(command)]
    if not isinstance(command, click.Group) or command.invoke_without_command:
        parts.append(f"```text\n{_usage(words, command)}\n```")
    if own:
        parts.append(_options(own))
    if command.epilog:
        parts.append(f"Example: `{command.epilog.removeprefix('Example: ')}`")
    return "\n\n".join(parts)


def _help(command: click.Command) -> str:
    return cleandoc(command.help or "").replace("\b\n", "")


def _usage(words: Sequence[str], command: click.Command) -> str:
    """Return the usage line, written here because click's differs from version to version."""
    pieces = ["clawhive", *words]
    if any(isinstance(each, click.Option) and not each.hidden for each in command.params):
        pieces.append("[OPTIONS]")
    for each in command.params:
        if isinstance(each, click.Argument):
            name = (each.metavar or each.name or "").upper()
            many = "..." if each.nargs == -1 else ""
            pieces.append(f"{name}{many}" if each.required else f"[{name}{many}]")
    return " ".join(pieces)


def _options(options: Iterable[click.Option]) -> str:
    rows = [f"| {_spelling(each)} | {_meaning(each)} |" for each in options]
    return "\n".join(["| option | meaning |", "| --- | --- |", *rows])


def _spelling(option: click.Option) -> str:
    value = "" if option.is_flag else f" {_value(option)}"
    glue = "" if value.startswith(" [=") else value
    names = [f"`{name}{glue or value.replace(' ', '')}`" for name in reversed(option.opts)]
    return ", ".join(names)


def _value(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "\\|".join(str(choice) for choice in option.type.choices)
    return {"integer range": "N", "integer": "N"}.get(option.type.name, option.type.name.upper())


def _meaning(option: click.Option) -> str:
    text = (option.help or "").replace("|", "\\|")
    more = ["May be given several times."] if option.multiple else []
    if option.show_default and option.default is not None:
        more.append(f"Default: `{option.default}`.")
    return " ".join(filter(None, (text, *more)))


def _code(item: Explanation) -> str:
    return f"### `{item.code}`\n\n{item.title}. {item.text}\n\nFix: {item.fix}"
