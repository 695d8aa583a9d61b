"""How results and errors look: one JSON object on stdout, or lines for people."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from clawhive_core.cli.settings import Settings
from clawhive_core.errors import ClawHiveError

format_option = click.option(
    "--format",
    "output",
    metavar="FORM",
    default="text",
    help="`text`, `json`, `sarif`, `github`, `gitlab` or `junit`.",
)
"""How findings are written; `diagnostics.outputs.render` knows the forms."""


def visible(line: str) -> str:
    """Show what would steer the terminal, or turn the line around, as its code."""
    return "".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in line)


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` stands among the arguments, before a `--`."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object, and nothing else, on stdout."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=2, default=list)
    click.echo(text.encode("utf-8", "replace").decode("utf-8"))


def print_error(error: ClawHiveError, *, as_json: bool) -> None:
    """Print an error: code, what happened, where, what to do."""
    if as_json:
        print_json(error.to_dict())
        return
    click.echo(f"{style('error', 'red')}[{error.code}]: {error.message}", err=True)
    if error.place:
        click.echo(f"  at:  {error.place}", err=True)
    if error.fix:
        click.echo(f"  fix: {error.fix}", err=True)


def next_line(error: Mapping[str, Any]) -> str | None:
    """Return what to do about an error or refusal: its fix, or the command or hint of `next`."""
    step: Mapping[str, Any] = error.get("next") or {}
    return error.get("fix") or step.get("command") or step.get("hint")


def note(text: str) -> None:
    """Print a line for people on stderr, unless they want it quiet."""
    context = click.get_current_context(silent=True)
    settings = None if context is None else context.find_object(Settings)
    if settings is None or not settings.quiet:
        click.echo(text, err=True)


def style(text: str, color: str) -> str:
    """Return the text in colour on a terminal that wants it."""
    import os

    wanted = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return click.style(text, fg=color) if wanted else text


def table(rows: Iterable[Sequence[str]], header: Sequence[str]) -> str:
    """Return rows as aligned columns under a header."""
    cells = [tuple(header), *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def short(identifier: str) -> str:
    """Return an id as people read it: its first eight characters after the kind."""
    kind, _, rest = identifier.partition("_")
    return rest[:8] if rest else kind
