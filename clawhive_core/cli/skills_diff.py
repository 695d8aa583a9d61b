"""`clawhive skills diff`: what changed of contracts, and the bump that it needs."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clawhive_core.cli.output import format_option, hand_over, note, print_json, say
from clawhive_core.cli.settings import Settings
from clawhive_core.diagnostics.finding import lines_of, summary
from clawhive_core.diagnostics.reports import render
from clawhive_core.errors import UsageError
from clawhive_core.model.late import dataclass
from clawhive_core.model.texts import counted, set_off

if TYPE_CHECKING:
    from clawhive_core.skills.changes import SetDiff, Side
    from clawhive_core.skills.changes.git import Repository
    from clawhive_core.skills.changes.revision import Revision


@click.command("diff", epilog="Example: clawhive skills diff git:origin/main")
@click.argument("old")
@click.argument("new", required=False)
@format_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@click.pass_obj
def command(
    settings: Settings, old: str, new: str | None, output: str, *, as_json: bool, strict: bool
) -> int:
    """Say what changed of the contracts from OLD to NEW, and the bump of api_version it needs.

    OLD and NEW are each a skill's folder, a folder of skills, a manifest, or git:REF[:PATH]. PATH
    begins at the root of the repository, or with ./ here; without it git:REF means the place of
    the other side, else the current folder. Without NEW the files on disk are compared.
    git:REF... is the commit where the current branch left REF. Exits with 1 where a bump is too
    small, or a tool or skill is gone without notice.
    """
    from clawhive_core.skills.changes import compare_sides

    render((), output)  # an unknown form is refused before the work
    strict = strict or settings.strict
    with _sides(old, new) as (before, after):
        diff = compare_sides(before, after)
    if as_json or output == "json":
        print_json(diff.to_dict())
    elif output == "text":
        say(*_text(diff))
    else:
        hand_over(render(diff.findings, output, strict=strict) + "\n")
        note(_summary(diff))
    return 0 if diff.passes(strict=strict) else 1


@contextmanager
def _sides(old: str, new: str | None) -> Generator[tuple[Side, Side]]:
    """Give both sides, read; the files of revisions are there until it ends."""
    from clawhive_core.skills.changes.revision import Revision

    before, after = Revision.read(old), None if new is None else Revision.read(new)
    if new is None and before is None:
        fix = f"name the other side, such as: clawhive skills diff git:HEAD {old}"
        raise UsageError("there is nothing to compare it with", place=old, fix=fix)
    with ExitStack() as stack:
        if before is None and after is None:
            yield _of_path(old), _of_path(str(new))
            return
        where = _Where.of(old if before is None else new if after is None else None, before, after)
        yield where.side(stack, before, old), where.side(stack, after, new)


@dataclass(frozen=True, slots=True)
class _Where:
    """The repository that revisions are of, and the path that is meant where none is written."""

    repository: Repository
    path: str
    is_named: bool
    """Whether somebody wrote the path."""

    @classmethod
    def of(cls, on_disk: str | None, *revisions: Revision | None) -> _Where:
        """Return where a path on disk lies, or what the revisions name, or this folder."""
        from clawhive_core.skills.changes.git import Repository

        here = Path.cwd()
        try:
            repository = Repository.around(here)
        except UsageError:
            if on_disk is None:
                raise
            repository = Repository.around(_folder(Path(on_disk)))
        if on_disk is not None:
            path = repository.path_of(Path(on_disk))
            if path is None:
                repository = Repository.around(_folder(Path(on_disk)))
                path = repository.path_of(Path(on_disk))
            return cls(repository, path or "", is_named=True)
        named = [each.path_in(repository) for each in revisions if each is not None]
        written = next((path for path in named if path is not None), None)
        if written is None:
            return cls(repository, repository.path_of(here) or "", is_named=False)
        return cls(repository, written, is_named=True)

    def side(self, stack: ExitStack, revision: Revision | None, text: str | None) -> Side:
        """Return a side: of a revision, of a path, or of the files on disk at the same path."""
        from clawhive_core.skills.changes.revision import side_of_revision

        if revision is not None:
            path = revision.path_in(self.repository)
            where = self.path if path is None else path
            side = side_of_revision(self.repository, revision, where, strays=self.is_named)
            return stack.enter_context(side)
        if text is not None:
            return _of_path(text)
        from clawhive_core.skills.changes import Side, side_of

        path, today = Path(os.path.relpath(self.repository.root / self.path)), _today()
        if path.exists():
            return side_of(path, today, strays=self.is_named)
        return Side(str(path), path, (), today)


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _of_path(text: str) -> Side:
    from clawhive_core.skills.changes import side_of

    return side_of(Path(text), _today())


def _today() -> date:
    return datetime.now(UTC).date()


def _text(diff: SetDiff) -> Sequence[str]:
    """Return a line for each skill, and below it what changed."""
    lines: list[str] = []
    for finding in (*diff.old.findings, *diff.new.findings):
        lines += lines_of(finding)
    for each in diff.diffs:
        lines.append(set_off(each.headline))
        for finding in each.findings:
            lines += [f"  {line}" for line in lines_of(diff.told(finding))]
        lines += [set_off(f"  {change.message}") for change in each.quiet]
    return [*lines, _summary(diff)]


def _summary(diff: SetDiff) -> str:
    numbers = diff.to_dict()["summary"]
    names = ("changed", "added", "gone", "unreadable")
    told = [f"{numbers[name]} {name}" for name in names if numbers[name]]
    found = f"; {summary(diff.findings)}" if diff.findings else ""
    compared = counted(diff.compared, "skill")
    return f"{compared} compared: {', '.join(told) or 'no contract changed'}{found}"
