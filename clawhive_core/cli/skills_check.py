"""`clawhive skills check`: skills and their contracts, for people, editors and CI."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clawhive_core.cli.collector import uncollected
from clawhive_core.cli.output import format_option, hand_over, note, print_json
from clawhive_core.cli.settings import Settings
from clawhive_core.errors import UsageError

if TYPE_CHECKING:
    from clawhive_core.config.config import Config
    from clawhive_core.plugins.manager import PluginManager
    from clawhive_core.skills.checks.required import KnownTools
    from clawhive_core.skills.finding.skill_set import SkillSet
    from clawhive_core.skills.report import SkillReport


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
def command(settings: Settings, paths: Sequence[Path], **options: Any) -> int:
    """Check the skills below each PATH, or all that are found, and hold their contracts together.

    Required tools are looked up in the manifests of the installed plugins and in clawhive.lock, or
    in FILE. Exits with 1 where there is an error.
    """
    from clawhive_core.diagnostics.reports import render

    render((), options["output"])  # an unknown form is refused before the work
    if options["watch"]:
        return _watch(settings, paths, options)
    with uncollected():
        return _once(settings, paths, options)


def _once(settings: Settings, paths: Sequence[Path], options: dict[str, Any]) -> int:
    """Check, mend and print, and return the exit code."""
    report = _checked(settings, paths, options)
    fixed = _fix(settings, paths, options, report) if options["fix"] else None
    if fixed:
        report = _checked(settings, paths, options)
    if options["baseline"] or options["write_baseline"]:
        report = _with_baseline(report, options)
    return _show(settings, options, report, fixed)


def _show(
    settings: Settings, options: dict[str, Any], report: SkillReport, fixed: int | None = None
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


def _watch(settings: Settings, paths: Sequence[Path], options: dict[str, Any]) -> int:
    from clawhive_core.cli.skills_watch import Watch, system_watcher
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
    """Return the skills as every start finds them, held against the tools that are listed."""
    from clawhive_core.hive.found_skills import found_skills

    return found_skills(settings.config(), settings.plugins())


def _tools(config: Config, plugins: PluginManager, options: dict[str, Any]) -> KnownTools:
    """Return what may be required; the lock knows what plugins that are not here offer."""
    from clawhive_core.cli.tool_listing import read_tools
    from clawhive_core.hive.found_skills import tools_by_lock

    if options["listing"] is not None:
        return read_tools(options["listing"])
    return tools_by_lock(config, plugins)


def _checked(settings: Settings, paths: Sequence[Path], options: dict[str, Any]) -> SkillReport:
    from clawhive_core.hive.found_skills import found_skills
    from clawhive_core.skills.finding.read_cache import ReadCache
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


def _fix(
    settings: Settings, paths: Sequence[Path], options: dict[str, Any], report: SkillReport
) -> int:
    """Mend what is not known to the baseline, and return how many fixes were made."""
    from clawhive_core.diagnostics.baseline import Baseline
    from clawhive_core.skills.mending.mending import mend

    if options["baseline"] and not options["write_baseline"]:
        report = report.without(Baseline.read(options["baseline"]))
    root = settings.config().root
    outside = [path for path in paths if not path.absolute().is_relative_to(root)]
    done = mend(report.skills, report.findings, [root, *outside])
    for each in done:
        note(f"{each.file}: not mended: {each.problem}" if each.problem else f"mended: {each.file}")
    return sum(each.fixes for each in done)


def _with_baseline(report: SkillReport, options: dict[str, Any]) -> SkillReport:
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
