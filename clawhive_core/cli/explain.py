"""`clawhive explain`: what a code means."""

from __future__ import annotations

import click

from clawhive_core.cli.output import print_json, say
from clawhive_core.errors import UnknownId


@click.command(epilog="Example: clawhive explain approval_required")
@click.argument("code")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(code: str, *, as_json: bool) -> None:
    """Explain an error, refusal or finding CODE."""
    from clawhive_core.diagnostics.codes import explain, nearest_code

    found = explain(code)
    if found is None:
        close = nearest_code(code)
        raise UnknownId(
            f"`{code}` is no code of ClawHive",
            place=code,
            fix=f"did you mean `{close}`?" if close else "read the code in the message",
        )
    if as_json:
        print_json(found.to_dict())
    else:
        say(f"{found.code}: {found.title}", "", *found.text.split("\n"), "", f"fix: {found.fix}")
        say(f"page: {found.page}")
