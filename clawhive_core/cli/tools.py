"""`clawhive tools`: the catalog, and calls of single tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from clawhive_core.cli import declare
from clawhive_core.cli.asking import approver, connect
from clawhive_core.cli.grants import print_suspended, suspended_of
from clawhive_core.cli.inputs import json_object
from clawhive_core.cli.loop import run_async
from clawhive_core.cli.output import (
    hand_over,
    lines_of_text,
    next_line,
    note,
    print_error,
    print_json,
    put,
    say,
    short,
    table,
)
from clawhive_core.cli.progress import progress_line
from clawhive_core.cli.run import relay
from clawhive_core.cli.settings import Settings
from clawhive_core.errors import ClawHiveError, UnknownId

if TYPE_CHECKING:
    from clawhive_core.catalog.catalog import Catalog
    from clawhive_core.execution.outcomes import Outcome
    from clawhive_core.model.refusal import Refusal
    from clawhive_core.model.tools import ToolMeta
    from clawhive_core.runs.requests import RunOptions


@click.group(epilog='Example: clawhive tools call file.list --args \'{"path": "."}\'')
def command() -> None:
    """List, show, declare and call tools."""


@command.command("list", epilog="Example: clawhive tools list --all")
@click.option("--all", "everything", is_flag=True, help="Also shadowed and dropped tools.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def list_(settings: Settings, *, everything: bool, as_json: bool) -> None:
    """List the catalog."""
    catalog = run_async(_catalog(settings))
    tools = [tool.meta for tool in catalog]
    if as_json:
        print_json(_listing(catalog, everything=everything))
        return
    rows = [
        (meta.name, meta.provider_id, meta.capability_level, meta.risk, _first_line(meta))
        for meta in tools
    ]
    say(*table(rows, ("TOOL", "PROVIDER", "LEVEL", "RISK", "DESCRIPTION")))
    for meta in tools:
        if meta.raised:
            say(f"{meta.risk}: {meta.name}: {meta.raised}")
    if everything:
        for shadow in catalog.shadowed:
            say(f"shadowed: {shadow.name} of {shadow.provider_id}: {shadow.reason}")
        for drop in catalog.dropped:
            say(f"dropped: {drop.name} of {drop.provider_id}: {drop.reason}")


@command.command(epilog="Example: clawhive tools show web.search")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show(settings: Settings, name: str, *, as_json: bool) -> None:
    """Show one tool: its schema, rights and risk, and why its provider serves it."""
    catalog, meta, declaration = run_async(_shown(settings, name))
    facts = {**_tool(meta, catalog), "declaration": declaration}
    if as_json:
        print_json({"schema": "tool/1", "tool": facts})
    else:
        _print_tool(facts)
        declare.print_state(meta.name, declaration)
        for grant in suspended_of(settings, meta):
            print_suspended(grant)


@command.command(epilog='Example: clawhive tools call file.read --args \'{"path": "README.md"}\'')
@click.argument("name")
@click.option("--args", "arguments", default="{}", metavar="JSON", help="The input, as JSON.")
@click.option("--grant", "grants", multiple=True, metavar="CAP", help="Give this call a right.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def call(
    settings: Settings, name: str, arguments: str, grants: tuple[str, ...], *, as_json: bool
) -> int:
    """Call one tool through the executor, as a run of its own."""
    from clawhive_core.runs.requests import RunOptions

    given = json_object(arguments)
    with progress_line(settings, as_json=as_json) as line:
        approve, ask = approver(None, line, as_json=as_json)
        options = RunOptions(
            grants=grants,
            command=_words(settings, name, given, grants),
            on_signal=relay(line),
            approve=approve,
            ask=ask,
        )
        line.begin()
        facts = run_async(_call(settings, name, given, options))
    return _print_outcome(facts, as_json=as_json)


command.add_command(declare.command)


async def _catalog(settings: Settings) -> Catalog:
    async with settings.hive() as hive:
        for line in hive.notes:
            note(f"note: {line}")
        return hive.catalog.current


async def _shown(settings: Settings, name: str) -> tuple[Catalog, ToolMeta, dict[str, Any]]:
    """Return the catalog, a tool of it, and what the user declares of it.

    Raises:
        UnknownId: There is no such tool.
    """
    async with settings.hive() as hive:
        for line in hive.notes:
            note(f"note: {line}")
        catalog = hive.catalog.current
        meta = catalog.meta_of(name)
        if meta is None:
            raise UnknownId(f"there is no tool `{name}`", place=name, fix=_suggest(name, catalog))
        return catalog, meta, declare.state_of(hive, meta)


async def _call(
    settings: Settings, name: str, arguments: Mapping[str, Any], options: RunOptions
) -> dict[str, Any]:
    """Return what came of the call, without the secrets that the log leaves out."""
    async with settings.hive() as hive:
        if (wrong := _wrong_use(hive.catalog.current, name, arguments)) is not None:
            return hive.log.redactor.value({"schema": "refusal/1", **wrong.to_dict()})
        connect(options, hive)
        run_id, outcome = await hive.call(name, arguments, options)
        return hive.log.redactor.value(_facts(run_id, outcome))


def _wrong_use(catalog: Catalog, name: str, arguments: Mapping[str, Any]) -> Refusal | None:
    """Return the refusal of a call that no run need be made for: of nothing, or with bad input."""
    from clawhive_core.catalog.validation import compile_schema
    from clawhive_core.execution.refusals import bad_input, not_found

    tool = catalog.find(name)
    if tool is None:
        return not_found(name, catalog.tools).refusal
    problems = compile_schema(tool.meta.input_schema)(arguments)
    return bad_input(tool.meta.name, problems).refusal if problems else None


def _words(
    settings: Settings, name: str, arguments: Mapping[str, Any], grants: tuple[str, ...]
) -> str:
    """Return the command line, for refusals to extend."""
    import shlex

    from clawhive_core.model.canonical import canonical_text

    words = [*settings.command(), "tools", "call", name, "--args", canonical_text(arguments)]
    return shlex.join([*words, *(word for grant in grants for word in ("--grant", grant))])


def _facts(run_id: str, outcome: Outcome) -> dict[str, Any]:
    from clawhive_core.model.refusal import Refusal

    if isinstance(outcome, Refusal):
        return {"schema": "refusal/1", "run_id": run_id, **outcome.to_dict()}
    return {
        "schema": "tool-result/1",
        "run_id": run_id,
        "tool_call_id": outcome.tool_call_id,
        "output": outcome.output,
        "is_error": outcome.is_error,
        "structured": outcome.structured,
        "artifacts": [each.to_dict() for each in outcome.artifacts],
        "edited": outcome.edited,
    }


def _print_outcome(facts: Mapping[str, Any], *, as_json: bool) -> int:
    is_refused = facts["schema"] == "refusal/1"
    if as_json:
        print_json({name: value for name, value in facts.items() if name != "edited"})
    elif is_refused:
        print_error(_as_error(facts), as_json=False)
    else:
        if facts["edited"]:
            note(facts["edited"])
        _print_result(facts)
        for artifact in facts["artifacts"]:
            note(f"  {artifact['path']}  {artifact['bytes']} bytes")
        note(f"clawhive runs show {short(facts['run_id'])}")
    if is_refused and "run_id" not in facts:
        return 2
    return 1 if is_refused or facts["is_error"] else 0


def _print_result(result: Mapping[str, Any]) -> None:
    value = result["structured"]
    if result["is_error"] and isinstance(value, dict) and isinstance(value.get("error"), str):  # pyright: ignore[reportUnknownMemberType] - JSON
        print_error(_as_error(value), as_json=False)  # pyright: ignore[reportUnknownArgumentType] - JSON
    elif result["is_error"]:
        put(f"{result['output']}\n", err=True)
    else:
        hand_over(f"{result['output']}\n")


def _as_error(value: Mapping[str, Any]) -> ClawHiveError:
    """Return a refusal, or a tool's own failure, as the error that people read."""
    step: Mapping[str, Any] = value.get("next") or {}
    place: str | None = value.get("path") or next(iter(step.get("paths", ())), None)
    return ClawHiveError(
        value["message"], code=value["error"], place=place or None, fix=next_line(value)
    )


def _listing(catalog: Catalog, *, everything: bool) -> dict[str, Any]:
    aliases: dict[str, list[str]] = {}
    for alias, name in sorted(catalog.aliases.items()):
        aliases.setdefault(name, []).append(alias)
    value: dict[str, Any] = {
        "schema": "tools/1",
        "revision": catalog.revision,
        "tools": [
            {**_summary(tool.meta), "aliases": aliases.get(tool.meta.name, [])} for tool in catalog
        ],
    }
    if everything:
        value["shadowed"] = [
            {"name": s.name, "provider_id": s.provider_id, "winner": s.winner, "reason": s.reason}
            for s in catalog.shadowed
        ]
        value["dropped"] = [
            {"name": d.name, "provider_id": d.provider_id, "reason": d.reason}
            for d in catalog.dropped
        ]
    return value


def _summary(meta: ToolMeta) -> dict[str, Any]:
    return {
        "name": meta.name,
        "provider_id": meta.provider_id,
        "category": meta.category,
        "capability_level": meta.capability_level,
        "risk": meta.risk,
        "raised": meta.raised or None,
        "requires_confirm": meta.requires_confirm,
        "description": meta.description,
    }


def _tool(meta: ToolMeta, catalog: Catalog) -> dict[str, Any]:
    return {
        **_summary(meta),
        "aliases": list(meta.aliases),
        "keywords": list(meta.keywords),
        "input_schema": meta.input_schema,
        "output_schema": meta.output_schema,
        "effects": meta.effects,
        "sinks": list(meta.sinks),
        "records": list(meta.records),
        "output_trust": meta.output_trust,
        "side_effects": meta.side_effects,
        "idempotent": meta.idempotent,
        "timeout_ms": meta.timeout_ms,
        "contract_hash": meta.contract_hash,
        "text_hash": meta.text_hash,
        "why": catalog.reasons.get(meta.name, f"only `{meta.provider_id}` offers it"),
        "shadowed": [
            {"provider_id": each.provider_id, "reason": each.reason}
            for each in catalog.shadowed
            if each.name == meta.name
        ],
    }


def _print_tool(tool: Mapping[str, Any]) -> None:
    import json

    say(f"{tool['name']}  {tool['provider_id']}  {tool['capability_level']}  {tool['risk']}")
    say(*lines_of_text(tool["description"]))
    if tool["raised"]:
        say(f"risk:     {tool['raised']}: decided as {tool['risk']}")
    for argument, effect in tool["effects"].items():
        say(f"needs:    {effect}" + (f" of `{argument}`" if argument else ""))
    say(f"served:   {tool['why']}")
    for shadow in tool["shadowed"]:
        say(f"shadowed: {shadow['provider_id']}: {shadow['reason']}")
    schema = json.dumps(tool["input_schema"], indent=2, ensure_ascii=False)
    say(*f"input:    {schema}".split("\n"))


def _suggest(name: str, catalog: Catalog) -> str:
    from clawhive_core.diagnostics.suggestions import did_you_mean

    return did_you_mean(name, [*catalog.tools, *catalog.aliases]) or "clawhive tools list"


def _first_line(meta: ToolMeta) -> str:
    line = meta.description.partition("\n")[0]
    return line if len(line) <= 60 else line[:59] + "…"  # noqa: PLR2004 - a column's width
