"""`clawhive policy`: which rules are in force, why a call is decided so, and whether it should."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from clawhive_core.cli.inputs import json_object
from clawhive_core.cli.output import next_line, note, print_json, say, short, table
from clawhive_core.cli.policy_test import command as test
from clawhive_core.cli.settings import Settings, run_async


@click.group(epilog="Example: clawhive policy show")
def command() -> None:
    """Show the rules in force, explain a decision, test a table. Nothing is executed."""


command.add_command(test)


def _situation(command: Any) -> Any:
    """Give a command the options that say in which run a call is thought to be made."""
    options = (
        click.option("--task", metavar="TASK", help="As in a run of this task type."),
        click.option("--agent", metavar="A", help="As for an agent of [agents.NAME]."),
        click.option("--session", metavar="S", help="As in this session."),
        click.option("--grant", "grants", multiple=True, metavar="CAP", help="As with this right."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@command.command(epilog="Example: clawhive policy show --json")
@_situation
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show(settings: Settings, *, as_json: bool, **options: Any) -> None:
    """Show the rules that a run started now would have, and the protected names."""
    facts = run_async(_rules(settings, options))
    if as_json:
        print_json({"schema": "policy/1", **facts})
        return
    rows = [(each["mode"], each["pattern"], _source(each)) for each in facts["rules"]]
    say(*table(rows, ("MODE", "PATTERN", "FROM")))
    for name in facts["protected"]:
        say(f"protected: {name}")


@command.command(epilog='Example: clawhive policy explain file.read --args \'{"path": "a.md"}\'')
@click.argument("name")
@click.option("--args", "arguments", default="{}", metavar="JSON", help="The input, as JSON.")
@_situation
@click.option("--step", metavar="NAME", help="As in this step of the task type.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def explain(settings: Settings, name: str, *, as_json: bool, **options: Any) -> None:
    """Explain what would be decided about a call, rule by rule, and what would allow it."""
    facts = run_async(_explain(settings, name, options))
    if as_json:
        print_json({"schema": "policy-explain/1", **facts})
    else:
        _print(facts)


async def _rules(settings: Settings, options: Mapping[str, Any]) -> dict[str, Any]:
    from clawhive_core.runs.requests import RunOptions

    chosen = RunOptions(**{key: options[key] for key in ("session", "grants", "agent")})
    async with settings.hive() as hive:
        for line in hive.notes:
            note(f"note: {line}")
        return hive.rules(chosen, options["task"])


async def _explain(settings: Settings, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    from clawhive_core.runs.requests import RunOptions

    arguments = json_object(options["arguments"])
    chosen = RunOptions(
        session=options["session"],
        grants=options["grants"],
        agent=options["agent"],
        command=_words(settings, name, arguments, options),
    )
    async with settings.hive() as hive:
        where = {key: options[key] for key in ("task", "step")}
        return await hive.explain(name, arguments, chosen, **where)


def _words(
    settings: Settings, name: str, arguments: Mapping[str, Any], options: Mapping[str, Any]
) -> str:
    """Return the command line that makes the call, or that starts its task type."""
    import shlex

    from clawhive_core.model.canonical import canonical_text

    words = ["tools", "call", name, "--args", canonical_text(arguments)]
    if options["task"] is not None:
        words = ["run", "--task", options["task"]]
    elif options["agent"] is not None:
        words = ["run", "PROMPT"]
    if options["agent"] is not None:
        words += ["--agent", options["agent"]]
    words += [word for grant in options["grants"] for word in ("--grant", grant)]
    return shlex.join([*settings.command(), *words])


def _print(facts: Mapping[str, Any]) -> None:
    say(f"{facts['verdict']}: {facts['tool']} of {facts['provider_id']}")
    for each in facts["capabilities"]:
        by = f" by {each['pattern']} ({each['issuer']})" if each["pattern"] else ""
        say(f"  {each['verdict']:5} {each['capability']}{by}: {each['rule']}")
        for near in each["unmet"]:
            say(f"        {near['pattern']}: not so: {', '.join(near['constraints'])}")
    for grant in facts["suspended"]:
        say(f"  suspended: {short(grant)} counts no longer, as the tool changed")
    if facts["floor"] == "ask":
        raised = f": {facts['raised']}" if facts["raised"] else ""
        say(f"  ask   the tool's risk is {facts['risk']}{raised}")
    for check in facts["checks"]:
        say(f"  {check['verdict']:5} {check['rule']}")
    say(*facts["message"].split("\n"))
    if (line := next_line(facts)) is not None:
        say(f"  fix: {line}")


def _source(rule: Mapping[str, Any]) -> str:
    until = f", until {rule['expires_at'][:10]}" if rule["expires_at"] else ""
    parent = f" {short(rule['grant_id'])}" if rule["grant_id"] else ""
    uses = f", {rule['uses']} uses" if rule["uses"] is not None else ""
    face = rule.get("delegate", rule["pattern"])
    kept = "" if face == rule["pattern"] else f", children: {face or 'nothing'}"
    suspended = ", suspended: its tool changed" if rule["suspended"] else ""
    step = f", step {rule['step']}" if rule["step"] is not None else ""
    return f"{rule['issuer']}{parent}{step}{until}{uses}{kept}{suspended}"
