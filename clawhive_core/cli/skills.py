"""`clawhive skills`: list, show, check, lock, make skills, switch and trust them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from clawhive_core.cli.output import (
    format_option,
    hand_over,
    note,
    print_json,
    require_yes,
    say,
    table,
)
from clawhive_core.cli.settings import Settings
from clawhive_core.cli.skills_check import command as check
from clawhive_core.cli.skills_check import load
from clawhive_core.cli.skills_diff import command as diff
from clawhive_core.cli.skills_graph import graph, why
from clawhive_core.diagnostics.files import shown_path
from clawhive_core.errors import UnknownId
from clawhive_core.model.texts import set_off

if TYPE_CHECKING:
    from clawhive_core.skills.contracts.skill import Skill
    from clawhive_core.skills.discovery.skill_set import Entry, SkillSet
    from clawhive_core.skills.locking.relock import Relock
    from clawhive_core.skills.typed.folder import TypesPackage

_COLORS = {"invalid": "red", "gated": "yellow", "disabled": "yellow"}
_OWN_SOURCES = ("flag", "config", "project")
_DONE = {"new": "written", "changed": "written", "stale": "removed"}
_DIFFERS = {"new": "missing", "changed": "differs", "stale": "no longer needed"}


@click.group(invoke_without_command=True, epilog="Example: clawhive skills")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(ctx: click.Context, *, as_json: bool) -> None:
    """List, show, check and make skills, switch them on and off, trust them."""
    if ctx.invoked_subcommand is None:
        _list(ctx.find_object(Settings) or Settings(), as_json=as_json)


for each in (check, diff, graph, why):
    command.add_command(each)


@command.command("list", epilog="Example: clawhive skills list --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def list_(settings: Settings, *, as_json: bool) -> None:
    """List every skill that is found, and whether it is loaded."""
    _list(settings, as_json=as_json)


def _list(settings: Settings, *, as_json: bool) -> None:
    found = load(settings)
    if as_json:
        rows = [entry.to_dict() for entry in found.entries]
        print_json({"schema": "skills/1", "skills": rows})
        return
    rows = [
        (
            entry.skill.id,
            entry.skill.version,
            entry.state,
            entry.skill.source,
            "yes" if entry.skill.trusted else "no",
            ", ".join(entry.skill.tasks) or "-",
        )
        for entry in found.entries
    ]
    say(*table(rows, ("SKILL", "VERSION", "STATE", "SOURCE", "TRUSTED", "TASKS")))
    for entry in found.entries:
        if entry.reason and (entry.state != "shadowed" or settings.verbose):
            label = entry.state, _COLORS.get(entry.state, "cyan")
            say(f": {entry.skill.id}: {entry.reason}", label=label)


@command.command(epilog="Example: clawhive skills show code")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show(settings: Settings, name: str, *, as_json: bool) -> None:
    """Show what the skill NAME says, offers, needs and may do."""
    entry = load(settings).find(name)
    if as_json:
        print_json(_shown(entry))
        return
    skill = entry.skill
    lines = [set_off(f"{skill.id} {skill.version}: {skill.description or 'no description'}")]
    lines.append(f"{entry.state}{f': {entry.reason}' if entry.reason else ''}")
    lines += [f"{title}: {values}" for title, values in _facts(skill)]
    lines += [
        f"{finding.severity} {finding.code} {finding.place}: {finding.message}"
        for finding in entry.findings
    ]
    body = _body(skill).strip()
    text = body.replace("\r\n", "\n").replace("\t", "    ")
    say(*lines, *(["", *map(set_off, text.split("\n"))] if body else []))


@command.command(epilog="Example: clawhive skills disable code")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def disable(settings: Settings, name: str, *, as_json: bool) -> None:
    """Switch the skill NAME off in this project: its task types are refused."""
    from clawhive_core.skills.discovery.decisions import Switches

    load(settings).find(name)
    Switches(settings.config()).disable(name, os.environ)
    _after(settings, name, "disabled", as_json=as_json)


@command.command(epilog="Example: clawhive skills enable code")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def enable(settings: Settings, name: str, *, as_json: bool) -> None:
    """Switch the skill NAME on again."""
    from clawhive_core.skills.discovery.decisions import Switches

    switches = Switches(settings.config())
    try:
        load(settings).find(name)
    except UnknownId:
        if as_json or name not in switches.reasons():
            raise
        note(f"no skill is called {name} any more")
    switches.enable(name, os.environ)
    _after(settings, name, "enabled", as_json=as_json)


@command.command(epilog="Example: clawhive skills trust code")
@click.argument("name")
@click.option("--revoke", is_flag=True, help="Trust it no longer.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; never asks.")
@click.pass_obj
def trust(settings: Settings, name: str, *, revoke: bool, yes: bool, as_json: bool) -> None:
    """Let the skill NAME give its task types what it declares, until one of its files changes."""
    from clawhive_core.config import refuse_inside_run
    from clawhive_core.skills.discovery.decisions import SkillTrust
    from clawhive_core.skills.discovery.shipped import SOURCE as SHIPPED

    refuse_inside_run(os.environ)
    skill = load(settings).find(name).skill
    trusted = SkillTrust(settings.config().user_dir)
    if revoke:
        trusted.revoke(skill, os.environ)
    elif skill.source != SHIPPED or not skill.trusted:
        _trust(trusted, skill, yes=yes, as_json=as_json)
    _after(settings, name, "not trusted" if revoke else "trusted", as_json=as_json)


def _trust(trusted: Any, skill: Skill, *, yes: bool, as_json: bool) -> None:
    from clawhive_core.skills.discovery.decisions import content_digest

    digest = content_digest(skill.content)
    if skill.handlers is not None:
        note(
            "would let its handlers, where no sandbox engine runs them, read what you can read and"
            " use the network"
        )
    for permission in skill.permissions:
        note(f"would give its tasks: {permission}")
    require_yes(f"Trust {skill.content} as it is now?", yes=yes, as_json=as_json)
    trusted.add(skill, digest, os.environ)


@command.command(epilog="Example: clawhive skills new word-count")
@click.argument("name")
@click.option("--into", type=click.Path(path_type=Path), help="Where; else the project's skills/.")
@click.option("--contract", is_flag=True, help="Let it export a tool, with handler and test.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def new(settings: Settings, name: str, into: Path | None, *, contract: bool, as_json: bool) -> None:
    """Make a skill called NAME: its text, its manifest, a task type that runs offline."""
    from clawhive_core.diagnostics.files import shown_path
    from clawhive_core.skills.template import SCHEMA, is_published, new_skill

    folder = into or settings.config().root / "skills"
    files = [shown_path(path) for path in new_skill(name, folder, contract=contract)]
    schema = folder / SCHEMA
    if contract and not is_published("contract", schema):
        note(f"of another version: clawhive skills schema --out {shown_path(schema)}")
    if as_json:
        made = shown_path(folder / name)
        print_json({"schema": "skills-new/1", "folder": made, "files": files})
        return
    for file in files:
        say(f"  {file}")
    note(f'try it: clawhive run --task {name}.count_words --input text="one two three"')


@command.command("schema", epilog="Example: clawhive skills schema frontmatter")
@click.argument("part", default="contract", type=click.Choice(["contract", "frontmatter"]))
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Write it, instead of printing."
)
def schema_(part: Literal["contract", "frontmatter"], out: Path | None) -> None:
    """Print the JSON Schema of a contract, or of a SKILL.md's frontmatter, for editors."""
    from clawhive_core.skills.template import published_schema, write_schema

    if out is None:
        hand_over(published_schema(part))
    else:
        write_schema(part, out)


def _after(settings: Settings, name: str, done: str, *, as_json: bool) -> None:
    if as_json:
        print_json(_shown(load(settings).find(name)))
    else:
        say(f"{done}: {name}")


def _shown(entry: Entry) -> dict[str, Any]:
    from clawhive_core.execution.handlers.handlers import reach_of

    skill = entry.skill
    return {
        "schema": "skill/1",
        **entry.to_dict(),
        "permissions": list(skill.permissions),
        "exports": {
            "api_version": skill.exports.api_version or None,
            "tools": list(skill.exports.names()),
        },
        "imports": [
            {
                "from": each.skill,
                "tools": [tool.name for tool in each.tools],
                "min_version": each.min_version or None,
            }
            for each in skill.imports
        ],
        "requires": {
            key: list(getattr(skill.requires, key))
            for key in ("tools", "bins", "env", "os", "python")
        },
        "works_with": sorted(reach_of(skill).tools),
        "findings": [finding.to_dict() for finding in entry.findings],
        "body": _body(skill),
    }


def _facts(skill: Skill) -> list[tuple[str, str]]:
    from clawhive_core.execution.handlers.handlers import reach_of

    imports = [f"{each.skill}.{tool.name}" for each in skill.imports for tool in each.tools]
    requires = skill.requires
    facts = (
        ("file", [str(skill.file)]),
        ("source", [skill.source]),
        ("trusted", ["yes" if skill.trusted else "no"]),
        ("tasks", [f"{skill.id}.{name}" for name in skill.tasks]),
        ("exports", skill.exports.names()),
        ("imports", imports),
        ("works with", tuple(reach_of(skill).tools)),
        ("requires", (*requires.tools, *requires.bins, *requires.env, *requires.os)),
        ("permissions", skill.permissions),
    )
    return [(title, ", ".join(values)) for title, values in facts if values]


def _body(skill: Skill) -> str:
    from clawhive_core.skills.discovery.reading import skill_text

    return skill_text(skill)


@command.command("lock", epilog="Example: clawhive skills lock --frozen")
@click.option("--frozen", is_flag=True, help="Write nothing; exit with 1 where it would change.")
@format_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def lock(settings: Settings, *, frozen: bool, output: str, as_json: bool) -> int:
    """Write clawhive.lock: what the project's skills are, promise and need.

    What changed since is accepted with it, and shown. Exits with 1 where a skill has an error.
    """
    from clawhive_core.config.trust import refuse_inside_run
    from clawhive_core.diagnostics.reports import render
    from clawhive_core.hive.found_skills import relocked

    render((), output)  # an unknown form is refused before the work
    if not frozen:
        refuse_inside_run(os.environ, "what is accepted of skills")
    made = relocked(settings.config(), settings.plugins())
    made = made.frozen() if frozen else made.write()
    if as_json or output == "json":
        print_json(made.to_dict())
    else:
        if made.findings or output != "text":
            hand_over(render(made.findings, output, strict=frozen) + "\n")
        _note_lock(made)
    return 1 if made.state in {"blocked", "stale"} else 0


def _note_lock(made: Relock) -> None:
    from clawhive_core.model.texts import counted

    name, skills = made.file.path.name, counted(made.skills, "skill")
    note(
        {
            "blocked": "nothing is written: mend this first",
            "current": f"{name} is as it should be: {skills}",
            "stale": f"{name} would change: look at it, then clawhive skills lock",
            "written": f"{skills} written into {name}",
        }[made.state]
    )


@command.command("types", epilog="Example: clawhive skills types jungastro --out typings")
@click.argument("names", nargs=-1, metavar="[SKILL]...")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=None,
    metavar="DIR",
    help="Where the package `clawhive_skills` lies; else the project's `typings`.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 where a file differs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def types(
    settings: Settings, names: Sequence[str], out: Path | None, *, check: bool, as_json: bool
) -> int:
    """Write types for each SKILL and what it imports from, or for all skills of the project.

    Type checkers then know what a handler gets, answers, and may call. Needs the extra `types`.
    """
    from clawhive_core.skills.typed.folder import types_package

    found = load(settings)
    for name in names:
        found.find(name)
    known = {each.skill.id: each.skill for each in found.entries if each.state != "shadowed"}
    own = [name for name, skill in known.items() if skill.source in _OWN_SOURCES]
    folder = out or settings.config().root / "typings"
    package = types_package(names or own, known, folder, whole=not names)
    if not check:
        package.write()
    code = 1 if check and package.outdated else 0
    if as_json:
        _print_types(package, folder, ok=not code)
        return code
    for each in package.outdated:
        done = (_DIFFERS if check else _DONE)[each.state]
        say(f"{done}: {shown_path(each.path)}")
    _note_types(package, found, names)
    if code:
        note("write them: clawhive skills types")
    return code


def _print_types(package: TypesPackage, folder: Path, *, ok: bool) -> None:
    files = [{"path": shown_path(each.path), "state": each.state} for each in package.files]
    print_json(
        {
            "schema": "skills-types/1",
            "ok": ok,
            "folder": shown_path(folder),
            "files": files,
            "untyped": list(package.untyped),
        }
    )


def _note_types(package: TypesPackage, found: SkillSet, names: Sequence[str]) -> None:
    for name in package.untyped:
        note(f"{name} is `Any`: its schema says more than types can")
    if not package.outdated:
        note(f"{len(package.files)} files are as they should be")
    invalid = {each.skill.id for each in found.by_state("invalid")} & {*names}
    for name in sorted(invalid):
        note(f"the skill `{name}` is invalid, its types may lack something: clawhive skills check")
