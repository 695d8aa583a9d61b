"""`clawhive config`: the configuration and where each value comes from."""

from __future__ import annotations

from typing import Any

import click

from clawhive_core.cli.output import note, print_json, say
from clawhive_core.cli.settings import Settings
from clawhive_core.errors import UnknownId
from clawhive_core.model.texts import set_off


@click.group(epilog="Example: clawhive config show --origin")
def command() -> None:
    """Show the configuration and where each value comes from."""


@command.command(epilog="Example: clawhive config show routing --origin")
@click.argument("prefix", required=False)
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show(settings: Settings, prefix: str | None, *, origin: bool, as_json: bool) -> None:
    """Print the values in force, those below PREFIX only where it is given."""
    config = settings.config()
    shown = [row for row in config.shown() if _is_below(row[0], prefix)]
    if not shown:
        raise _unknown(str(prefix), [key for key, _, _ in config.shown()])
    if as_json:
        values = [{"key": key, "value": value, "origin": where} for key, value, where in shown]
        print_json({**config.to_dict(), "values": values})
        return
    for key, value, where in shown:
        say(f"{key} = {_toml(value)}" + (f"  # {where}" if origin else ""))
    for key in config.ignored:
        note(f"ignored: {key}: the project's configuration is not trusted (clawhive trust)")
    for finding in config.findings:
        place = "" if finding.place is None else f"{finding.place}: "
        note(f"{set_off(place)}{finding.severity}[{finding.code}]: {finding.message}")


def _is_below(key: str, prefix: str | None) -> bool:
    return prefix is None or key == prefix or key.startswith(f"{prefix}.")


def _unknown(prefix: str, keys: list[str]) -> UnknownId:
    from clawhive_core.diagnostics.suggestions import did_you_mean

    tables = {key.rpartition(".")[0] for key in keys} - {""}
    fix = did_you_mean(prefix, [*keys, *tables]) or "clawhive config show"
    return UnknownId(f"no setting is called `{prefix}`", place=prefix, fix=fix)


def _toml(value: Any) -> str:
    """Return a value as it may stand in clawhive.toml; what is not set is `(none)`."""
    import json

    return "(none)" if value is None else json.dumps(value, ensure_ascii=False, default=list)
