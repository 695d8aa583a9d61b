"""`clawhive schema`: the JSON Schemas of what commands print."""

from __future__ import annotations

from pathlib import Path

import click

from clawhive_core.cli.output import hand_over, say
from clawhive_core.errors import UnknownId

_FOLDER = Path(__file__).resolve().parent.parent / "data" / "schemas"


def schema_names() -> list[str]:
    """Return the names of the schemas that ship."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


@click.command(epilog="Example: clawhive schema run")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Print the JSON Schema called NAME, or the names there are."""
    names = schema_names()
    if name is None:
        say(*names)
        return
    wanted = name.partition("/")[0]
    if wanted not in names:
        from clawhive_core.diagnostics.suggestions import did_you_mean

        fix = did_you_mean(wanted, names) or f"one of {', '.join(names)}"
        raise UnknownId(f"no schema is called `{name}`", place=name, fix=fix)
    hand_over((_FOLDER / f"{wanted}.json").read_text(encoding="utf-8"))
