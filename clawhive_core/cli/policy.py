"""`clawhive policy`: which rules are in force, and why a call would be decided as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from clawhive_core.cli.inputs import json_object
from clawhive_core.cli.output import next_line, note, print_json, short, table
from clawhive_core.cli.settings import Settings, run_async


@click.group(epilog="Example: clawhive policy show")
def command() -> None:
    """Show the rules in force, and explain a decision. Nothing is executed."""


@command.command(epilog="Example: clawhive policy show --json")
@click.option("--session", metavar="S", help="As a run of this session would have them.")
@click.option("--grant", "grants", multiple=True, metavar="CAP", help="As with this right.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show(
    settings: Settings, session: str | None, grants: tuple[str, ...], *, as_json: bool
) -> None:
    """Show the rules that a run started now would have, and the protected names."""
    facts = run_async(_rules(settings, session, grants))
    if as_json:
        print_json({"schema": "policy/1", **facts})
        return
    rows = [(each["mode"], each["pattern"], _source(each)) for each in facts["rules"]]
    click.echo(table(rows, ("MODE", "PATTERN", "FROM")))
    for name in facts["protected"]:
        click.echo(f"protected: {name}")


@command.command(epilog='Example: clawhive policy explain file.read --args \'{"path": "a.md"}\'')
@click.argument("name")
@click.option("--args", "arguments", default="{}", metavar="JSON", help="The input, as JSON.")
@click.option("--session", metavar="S", help="As a call in this session.")
@click.option("--grant", "grants", multiple=True, metavar="CAP", help="As with this right.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def explain(settings: Settings, name: str, *, as_json: bool, **options: Any) -> None:
    """Explain what would be decided about a call, rule by rule, and what would allow it."""
    facts = run_async(_explain(settings, name, options))
    if as_json:
        print_json({"schema": "policy-explain/1", **facts})
    else:
        _print(facts)


async def _rules(
    settings: Settings, session: str | None, grants: tuple[str, ...]
) -> dict[str, Any]:
    from clawhive_core.runs.requests import RunOptions

    async with settings.hive() as hive:
        for line in hive.notes:
            note(f"note: {line}")
        return hive.rules(RunOptions(session=session, grants=grants))


async def _explain(settings: Settings, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    import shlex

    from clawhive_core.model.canonical import canonical_text
    from clawhive_core.runs.requests import RunOptions

    arguments = json_object(options["arguments"])
    grants: tuple[str, ...] = options["grants"]
    words = shlex.join(
        [*settings.command(), "tools", "call", name, "--args", canonical_text(arguments)]
        + [word for grant in grants for word in ("--grant", grant)]
    )
    chosen = RunOptions(session=options["session"], grants=grants, command=words)
    async with settings.hive() as hive:
        return await hive.explain(name, arguments, chosen)


def _print(facts: Mapping[str, Any]) -> None:
    click.echo(f"{facts['verdict']}: {facts['tool']} of {facts['provider_id']}")
    for each in facts["capabilities"]:
        by = f" by {each['pattern']} ({each['issuer']})" if each["pattern"] else ""
        click.echo(f"  {each['verdict']:5} {each['capability']}{by}: {each['rule']}")
        for near in each["unmet"]:
            click.echo(f"        {near['pattern']}: not so: {', '.join(near['constraints'])}")
    for grant in facts["suspended"]:
        click.echo(f"  suspended: {short(grant)} counts no longer, as the tool changed")
    if facts["floor"] == "ask":
        click.echo(f"  ask   the tool's risk is {facts['risk']}")
    for check in facts["checks"]:
        click.echo(f"  {check['verdict']:5} {check['rule']}")
    click.echo(facts["message"])
    if (line := next_line(facts)) is not None:
        click.echo(f"  fix: {line}")


def _source(rule: Mapping[str, Any]) -> str:
    until = f", until {rule['expires_at'][:10]}" if rule["expires_at"] else ""
    parent = f" {short(rule['grant_id'])}" if rule["grant_id"] else ""
    uses = f", {rule['uses']} uses" if rule["uses"] is not None else ""
    face = rule.get("delegate", rule["pattern"])
    kept = "" if face == rule["pattern"] else f", children: {face or 'nothing'}"
    suspended = ", suspended: its tool changed" if rule["suspended"] else ""
    return f"{rule['issuer']}{parent}{until}{uses}{kept}{suspended}"
