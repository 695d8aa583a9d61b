"""`clawhive skills check`: skills and their contracts, for people, editors and CI."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, Unpack, cast

import click

from clawhive_core.cli.output import format_option, hand_over, note, print_json
from clawhive_core.cli.settings import Settings
from clawhive_core.errors import ClawHiveError, UsageError
from clawhive_core.model.late import dataclass
from clawhive_core.model.texts import set_off

if TYPE_CHECKING:
    from clawhive_core.config.config import Config
    from clawhive_core.plugins.manager import PluginManager
    from clawhive_core.skills.checks.profiles import Profile
    from clawhive_core.skills.checks.required import KnownTools
    from clawhive_core.skills.discovery.skill_set import SkillSet
    from clawhive_core.skills.fixing.files import KnownEdits
    from clawhive_core.skills.report import SkillReport
    from clawhive_core.skills.watched import WatchedSkills

_MAX_LISTING = 64 * 1024 * 1024
_QUIET_MS = 20
"""The time without changes before what changed is checked."""
_LOOK_MS = 500
"""The time between two looks whether a folder came or went as a whole."""
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})
_INTERRUPTED = 130

Watcher = Callable[[Sequence[str]], Iterator[set[str]]]
"""Yields the paths that changed below folders, none where nothing did for a while."""


class _Given(TypedDict):
    """The words of one `clawhive skills check`."""

    profile: Profile
    output: str
    as_json: bool
    strict: bool
    fix: bool
    baseline: Path | None
    write_baseline: bool
    listing: Path | None
    watch: bool
    no_cache: bool


@click.command("check", epilog="Example: clawhive skills check skills")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@click.option(
    "--profile",
    type=click.Choice(["lenient", "strict", "portable"]),
    default="lenient",
    help="What is an error: only what keeps a skill from working here, what the public standard "
    "forbids too, or also what other known tools refuse.",
)
@format_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@click.option("--fix", is_flag=True, help="Mend what is certain; change nothing else.")
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Leave out the findings that FILE knows.",
)
@click.option("--write-baseline", is_flag=True, help="Write what is found into the baseline.")
@click.option(
    "--tools",
    "listing",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The tools that skills may require, as `tools list --json` prints them.",
)
@click.option("--watch", is_flag=True, help="Check again whenever a file changes.")
@click.option("--no-cache", is_flag=True, help="Read every file, the unchanged ones too.")
@click.pass_obj
def command(settings: Settings, paths: Sequence[Path], **options: Unpack[_Given]) -> int:
    """Check the skills below each PATH, or all that are found, and resolve their contracts.

    Required tools are looked up in the manifests of the installed plugins and in clawhive.lock, or
    in FILE. Exits with 1 where there is an error.
    """
    from clawhive_core.diagnostics.reports import render

    render((), options["output"])  # an unknown form is refused before the work
    if options["watch"]:
        return _watch(settings, paths, options)
    with uncollected():
        return _once(settings, paths, options)


@contextmanager
def uncollected() -> Generator[None]:
    """Switch the garbage collector off for work that makes many objects and no cycles.

    Whatever is still referenced at the end would be looked through, so all must be gone by then.
    """
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _once(settings: Settings, paths: Sequence[Path], options: _Given) -> int:
    """Check, mend and print, and return the exit code."""
    report = _checked(settings, paths, options)
    fixed = _fix(settings, paths, options, report) if options["fix"] else None
    if fixed:
        report = _checked(settings, paths, options)
    if options["baseline"] or options["write_baseline"]:
        report = _with_baseline(report, options)
    return _show(settings, options, report, fixed)


def _show(
    settings: Settings, options: _Given, report: SkillReport, fixed: int | None = None
) -> int:
    """Print a report, and return the exit code that it means."""
    from clawhive_core.diagnostics.reports import render

    strict = bool(options["strict"] or settings.strict)
    if options["as_json"] or options["output"] == "json":
        document = report.to_dict()
        if fixed is not None:
            document["summary"]["fixed"] = fixed
        print_json(document)
    else:
        hand_over(render(report.findings, options["output"], strict=strict) + "\n")
        _note_summary(report, fixed)
    return 0 if report.passes(strict=strict) else 1


def _watch(settings: Settings, paths: Sequence[Path], options: _Given) -> int:
    from clawhive_core.hive.found_skills import watched_skills

    for name in ("fix", "write_baseline"):
        if options[name]:
            raise UsageError(
                f"--watch only looks, so --{name.replace('_', '-')} cannot go with it",
                place="--watch",
                fix="leave one of them out",
            )
    config, plugins = settings.config(), settings.plugins()
    skills = watched_skills(config, plugins, paths, _tools(config, plugins, options))

    def show(report: SkillReport) -> None:
        known = _with_baseline(report, options) if options["baseline"] else report
        _show(settings, options, known)

    return Watch(skills, options["profile"], show).run(system_watcher())


def load(settings: Settings) -> SkillSet:
    """Return the skills as every start finds them, checked with the tools that are listed."""
    from clawhive_core.hive.found_skills import found_skills

    return found_skills(settings.config(), settings.plugins())


def _tools(config: Config, plugins: PluginManager, options: _Given) -> KnownTools:
    """Return what may be required; the lock knows what plugins that are not here offer."""
    from clawhive_core.hive.found_skills import tools_by_lock

    if options["listing"] is not None:
        return read_tools(options["listing"])
    return tools_by_lock(config, plugins)


def _checked(settings: Settings, paths: Sequence[Path], options: _Given) -> SkillReport:
    from clawhive_core.hive.found_skills import found_skills
    from clawhive_core.skills.discovery.read_cache import ReadCache
    from clawhive_core.skills.report import SkillReport
    from clawhive_core.storage.sqlite.cache import user_cache

    config, plugins = settings.config(), settings.plugins()
    tools = _tools(config, plugins, options)
    check = partial(found_skills, config, plugins, paths, tools)
    if options["no_cache"]:
        return SkillReport.of(check, options["profile"])
    with closing(user_cache(os.environ, "skills.db")) as cache:
        reader = ReadCache(cache)
        report = SkillReport.of(partial(check, reader), options["profile"])
        reader.save()
    return report


def _fix(settings: Settings, paths: Sequence[Path], options: _Given, report: SkillReport) -> int:
    """Mend what is not known to the baseline, and return how many fixes were made."""
    from clawhive_core.diagnostics.baseline import Baseline
    from clawhive_core.skills.fixing.files import fix_files

    if options["baseline"] and not options["write_baseline"]:
        report = report.without(Baseline.read(options["baseline"]))
    root = settings.config().root
    outside = [path for path in paths if not path.absolute().is_relative_to(root)]
    done = fix_files(report.skills, report.findings, [root, *outside])
    for each in done:
        failed = f"{each.file}: not mended: {each.problem}" if each.problem else ""
        note(set_off(failed) or f"mended: {each.file}")
    return sum(each.fixes for each in done)


def _with_baseline(report: SkillReport, options: _Given) -> SkillReport:
    from clawhive_core.diagnostics.baseline import Baseline, write_baseline

    file = options["baseline"]
    if file is None:
        raise UsageError(
            "there is no file to write to",
            place="--write-baseline",
            fix="name it: --baseline FILE",
        )
    if options["write_baseline"]:
        number = write_baseline(file, report.findings)
        note(f"{number} findings written into {file}")
    baseline = Baseline.read(file)
    gone = baseline.gone(report.findings)
    if gone:
        note(f"{gone} of {file} are mended: --write-baseline takes them out")
    return report.without(baseline)


def _note_summary(report: SkillReport, fixed: int | None) -> None:
    from clawhive_core.model.texts import counted

    number = report.baselined
    known = f", {counted(number, 'finding')} known to the baseline" if number else ""
    done = "" if fixed is None else f", {counted(fixed, 'fix')} made"
    skills = counted(len(report.skills.entries), "skill")
    note(f"{skills} checked{known}{done}")
    if report.fixable and fixed is None:
        note(f"{report.fixable} can be mended: add --fix")


def read_tools(file: Path) -> KnownTools:
    """Return the names and aliases that a listing holds; nothing else is known to exist.

    Raises:
        UsageError: The file cannot be read, or is no such listing.
    """
    from clawhive_core.skills.checks.required import KnownTools

    try:
        with file.open("rb") as stream:
            data = stream.read(_MAX_LISTING + 1)
    except OSError as error:
        _refuse(file, f"it cannot be read: {error.strerror}")
    if len(data) > _MAX_LISTING:
        _refuse(file, f"it is larger than {_MAX_LISTING} bytes")
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        _refuse(file, f"it is no JSON: {error}")
    tools = _mapping(value).get("tools")
    if not isinstance(tools, list):
        _refuse(file, "it is no object with a list `tools`")
    listed = cast("list[Any]", tools)
    names = frozenset(_names(file, listed))
    of_skills = {
        facts.get("name")
        for facts in map(_mapping, listed)
        if str(facts.get("provider_id")).startswith("skill_")
    }
    return KnownTools(names, of_skills=names & of_skills)


def _names(file: Path, tools: list[Any]) -> Iterator[str]:
    for number, tool in enumerate(tools):
        facts = _mapping(tool)
        aliases = facts.get("aliases", [])
        others = cast("list[Any]", aliases) if isinstance(aliases, list) else [None]
        for name in (facts.get("name"), *others):
            if not isinstance(name, str):
                _refuse(file, f"tools/{number} lacks a text `name`, or `aliases` that are texts")
            yield name


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _refuse(file: Path, why: str) -> NoReturn:
    raise UsageError(
        f"the list of tools cannot be used: {why}",
        place=f"--tools {file}",
        fix="make one: clawhive tools list --json > tools.json",
    )


@dataclass(frozen=True, slots=True)
class Watch:
    """Checks skills each time that their files change.

    Args:
        skills: What is checked.
        profile: How findings weigh.
        show: Prints a report.
    """

    skills: WatchedSkills
    profile: Profile
    show: Callable[[SkillReport], object]

    def run(self, watcher: Watcher) -> int:
        """Check until somebody stops it; answer 130, the exit code for that.

        Raises:
            UsageError: What is to be checked was never there.
            ClawHiveError: The system cannot watch the folders.
        """
        edits: KnownEdits = {}
        checked = False
        try:
            for changed in changes(self.skills.folders, watcher):
                try:
                    self._check(changed, edits)
                    checked = True
                except UsageError as error:
                    if not checked:
                        raise
                    note(f"{error.message}; waiting until it is there again")
        except KeyboardInterrupt:
            return _INTERRUPTED
        return 0

    def _check(self, changed: set[str] | None, edits: KnownEdits) -> None:
        from clawhive_core.skills.report import SkillReport

        begin = perf_counter()
        check = partial(self.skills.check, changed)
        self.show(SkillReport.of(check, self.profile, edits))
        took = (perf_counter() - begin) * 1000
        note(f"checked in {took:.0f} ms; waiting for changes, Ctrl-C ends")


def changes(folders: Callable[[], Sequence[str]], watcher: Watcher) -> Iterator[set[str] | None]:
    """Yield what changed; None at first and where a folder came or went, when anything may have.

    Args:
        folders: Returns the folders that are of interest; some may not be there yet.
        watcher: What watches those that are there.
    """
    while True:
        there = _there(folders())
        watched = watcher(list(there))
        next(watched)  # from now on nothing is missed, so all can be read
        yield None
        for changed in watched:
            if _there(folders()) != there:
                break
            if changed:
                yield changed


def _there(folders: Sequence[str]) -> dict[str, int]:
    """Return the folders that there are, each with what tells it from another of its name."""
    found: dict[str, int] = {}
    for folder in folders:
        try:
            found[folder] = os.stat(folder).st_ino  # noqa: PTH116 - as a text
        except OSError:
            continue
    return found


def system_watcher() -> Watcher:
    """Return what the system tells of changes.

    Raises:
        UsageError: The library that listens to it is not installed.
    """
    from importlib.util import find_spec

    if find_spec("watchfiles") is None:
        raise UsageError(
            "the library that watches files is not installed",
            place="--watch",
            code="watch_missing",
            fix="pip install 'clawhive[watch]'",
        )
    return _watched


def _watched(folders: Sequence[str]) -> Iterator[set[str]]:
    from watchfiles import watch

    try:
        for found in watch(
            *folders,
            watch_filter=lambda _, path: _SKIPPED.isdisjoint(Path(path).parts),
            step=_QUIET_MS,
            rust_timeout=_LOOK_MS,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        ):
            yield {path for _, path in found}
    except (OSError, RuntimeError) as error:
        raise ClawHiveError(
            f"the folders cannot be watched: {error}",
            code="watch_failed",
            fix="raise fs.inotify.max_user_watches, or set WATCHFILES_FORCE_POLLING=1",
        ) from None
