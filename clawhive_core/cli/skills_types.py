"""`clawhive skills types`: types of Python for what skills export and import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clawhive_core.cli.output import note, print_json, say
from clawhive_core.cli.settings import Settings
from clawhive_core.cli.skills_check import load
from clawhive_core.diagnostics.shown import shown_path

if TYPE_CHECKING:
    from clawhive_core.skills.finding.skill_set import SkillSet
    from clawhive_core.skills.typed.folder import TypesPackage

_OWN = ("flag", "config", "project")
_DONE = {"new": "written", "changed": "written", "stale": "removed"}
_DIFFERS = {"new": "missing", "changed": "differs", "stale": "no longer needed"}


@click.command("types", epilog="Example: clawhive skills types jungastro --out typings")
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
def command(
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
    own = [name for name, skill in known.items() if skill.source in _OWN]
    folder = out or settings.config().root / "typings"
    package = types_package(names or own, known, folder, whole=not names)
    if not check:
        package.write()
    code = 1 if check and package.outdated else 0
    if as_json:
        _print(package, folder, ok=not code)
        return code
    for each in package.outdated:
        done = (_DIFFERS if check else _DONE)[each.state]
        say(f"{done}: {shown_path(each.path)}")
    _note(package, found, names)
    if code:
        note("write them: clawhive skills types")
    return code


def _print(package: TypesPackage, folder: Path, *, ok: bool) -> None:
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


def _note(package: TypesPackage, found: SkillSet, names: Sequence[str]) -> None:
    for name in package.untyped:
        note(f"{name} is `Any`: its schema says more than types can")
    if not package.outdated:
        note(f"{len(package.files)} files are as they should be")
    invalid = {each.skill.id for each in found.by_state("invalid")} & {*names}
    for name in sorted(invalid):
        note(f"the skill `{name}` is invalid, its types may lack something: clawhive skills check")
