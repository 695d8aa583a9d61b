"""`clawhive plugins`: list, check, sync, make and choose plugins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clawhive_core.cli.output import confirm, hand_over, note, print_json, say, table
from clawhive_core.cli.settings import Settings
from clawhive_core.errors import UsageError
from clawhive_core.model.texts import set_off

if TYPE_CHECKING:
    from clawhive_core.plugins.sync import SyncReport


@click.group(invoke_without_command=True, epilog="Example: clawhive plugins new hello")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(ctx: click.Context, *, as_json: bool) -> int:
    """List, check, sync, make and choose plugins."""
    if ctx.invoked_subcommand is not None:
        return 0
    return _list(ctx.find_object(Settings) or Settings(), as_json=as_json)


@command.command("list", epilog="Example: clawhive plugins list --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def list_(settings: Settings, *, as_json: bool) -> int:
    """List the installed plugins, read from their manifests; nothing is imported."""
    return _list(settings, as_json=as_json)


def _list(settings: Settings, *, as_json: bool) -> int:
    manager = settings.plugins()
    records = manager.records()
    granted = _granted(settings, manager.manifest_tools())
    if as_json:
        rows = [record.to_dict(granted=record.id in granted) for record in records]
        print_json({"schema": "plugins/1", "plugins": rows})
    else:
        _print(records, granted, verbose=settings.verbose)
    for finding in manager.unknown_ids():
        fix = "" if finding.fix is None else f"; {finding.fix.title}"
        note(f"{finding.severity}[{finding.code}]: {finding.message}{fix}")
    failed = any(record.status in {"failed", "incompatible"} for record in records)
    return 1 if settings.strict and failed else 0


def _granted(settings: Settings, tools: Any) -> set[str]:
    """Return the plugins of which at least one tool has rights out of the box or by config."""
    from clawhive_core.policy.starter import granted_verbs

    verbs = granted_verbs(settings.config().get("policy.allow"))
    return {
        meta.provider_id
        for meta in tools
        if all(text.partition(":")[0] in verbs for text in _effects(meta.effects))
    }


def _effects(effects: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for value in effects.values():
        found.extend([value] if isinstance(value, str) else value)
    return found


def _print(records: Any, granted: set[str], *, verbose: bool) -> None:
    rows = [
        (
            record.id,
            f"{record.distribution} {record.version}",
            record.status,
            "yes" if record.imported else "no",
            "yes" if record.enabled else "no",
            "yes" if record.id in granted else "no",
            str(len(record.tools)),
            str(len(record.hooks)),
        )
        for record in records
    ]
    header = (
        "PLUGIN",
        "DISTRIBUTION",
        "STATUS",
        "IMPORTED",
        "ENABLED",
        "GRANTED",
        "TOOLS",
        "HOOKS",
    )
    say(*table(rows, header))
    for record in records:
        if record.error is not None:
            say(f": {record.id}: {record.error.message}", label=("failed", "red"))
            if record.error.place:
                say(f"  at:  {record.error.place}")
            if record.error.fix:
                say(f"  fix: {record.error.fix}")
        for line in record.notes:
            say(f"note: {record.id}: {line}")
        if verbose:
            told = f"{record.id}: {record.source}; tools: {', '.join(record.tools) or 'none'}"
            say(set_off(told))


@command.command(epilog="Example: clawhive plugins check hello")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(name: str, *, as_json: bool) -> int:
    """Import everything of the plugin NAME and compare it with its manifest."""
    from clawhive_core.diagnostics.reports import render
    from clawhive_core.plugins.check import check as check_plugin

    findings = check_plugin(name)
    if as_json:
        print_json({"schema": "findings/1", "findings": [each.to_dict() for each in findings]})
    else:
        hand_over(render(findings) + "\n")
    return 1 if any(each.severity == "error" for each in findings) else 0


@command.command(epilog="Example: clawhive plugins sync ./hello")
@click.argument("target", default=".")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def sync(target: str, *, as_json: bool) -> None:
    """Write the manifest of the plugin in TARGET, a folder or a module, from its code."""
    from clawhive_core.plugins.sync import sync as write

    reports = write(target)
    if as_json:
        print_json({"schema": "plugins-sync/1", "manifests": [_synced(each) for each in reports]})
        return
    for report in reports:
        for difference in report.differences:
            say(f"  {difference}")
        what = "wrote" if report.created else "updated" if report.changed else "unchanged"
        say(f"{what}: {report.path} ({len(report.tools)} tools, {len(report.hooks)} hooks)")


def _synced(report: SyncReport) -> dict[str, Any]:
    return {
        "path": str(report.path),
        "created": report.created,
        "changed": report.changed,
        "tools": list(report.tools),
        "hooks": list(report.hooks),
        "differences": [str(each) for each in report.differences],
    }


@command.command(epilog="Example: clawhive plugins new hello && pip install -e ./hello")
@click.argument("name")
@click.option("--into", type=click.Path(path_type=Path), default=Path(), help="Where to make it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def new(name: str, into: Path, *, as_json: bool) -> None:
    """Make a plugin called NAME: a tool, its manifest, a test, ready to install."""
    from clawhive_core.plugins.template import new_plugin

    files = [str(path) for path in new_plugin(name, into)]
    folder = into / name
    if as_json:
        print_json({"schema": "plugins-new/1", "folder": str(folder), "files": files})
        return
    for path in files:
        say(f"  {path}")
    note(
        f"try it: pip install -e ./{folder} && clawhive tools call {name}.greet --args "
        '\'{"name": "you"}\''
    )


@command.command(epilog="Example: clawhive plugins trust hello --distribution clawhive-hello")
@click.argument("name", metavar="ID")
@click.option("--distribution", metavar="NAME", required=True, help="The one that is to count.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; never asks.")
@click.pass_obj
def trust(settings: Settings, name: str, distribution: str, *, yes: bool, as_json: bool) -> None:
    """Choose the distribution that counts for the plugin ID; others that claim it stay off."""
    from clawhive_core.config import refuse_inside_run
    from clawhive_core.plugins.choices import PluginChoices
    from clawhive_core.plugins.discovery import discover

    refuse_inside_run(os.environ, "which distribution counts")
    claims = [each for each in discover() if each.id == name]
    for each in claims:
        note(f"{each.distribution} {each.version} claims it: {each.source}")
    if as_json and not yes:
        raise UsageError("nobody is asked with --json", place="--json", fix="add --yes")
    if not yes:
        confirm(f"Let {distribution} count for {name}?", abort=True)
    PluginChoices(settings.config().user_dir).choose(name, distribution, claims, os.environ)
    if as_json:
        print_json({"schema": "plugins-trust/1", "id": name, "distribution": distribution})
    else:
        say(f"chosen: {distribution} for {name}")
