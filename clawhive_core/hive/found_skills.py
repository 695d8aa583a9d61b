"""The skills of a project that is not opened, as every start finds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from clawhive_core.config.config import Config
from clawhive_core.hive.known_tools import listed_tools
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.protocols.stores import SkillSource
from clawhive_core.skills.changes.history import WorkTreeDates
from clawhive_core.skills.checks.required import KnownTools
from clawhive_core.skills.discovery.reading import Reader
from clawhive_core.skills.discovery.skill_set import SkillSet
from clawhive_core.skills.load import FoundSkills
from clawhive_core.skills.locking.relock import Relock
from clawhive_core.skills.watched import WatchedSkills


def found_skills(
    config: Config,
    plugins: PluginManager,
    paths: Sequence[Path] = (),
    tools: KnownTools | None = None,
    reader: Reader | None = None,
) -> SkillSet:
    """Return the skills, checked against the tools that manifests list; no plugin is imported.

    Args:
        config: The project.
        plugins: What is installed.
        paths: What is to be checked; findings are then of these only.
        tools: What skills may require instead.
        reader: What reads their files; without it, each is read anew.

    Raises:
        UsageError: One of `paths` does not exist.
        StorageError: The list of skills that are off cannot be used.
    """
    known = listed_tools(config, plugins) if tools is None else tools
    found = FoundSkills(config, reader or Reader(), seen_by_git=WorkTreeDates())
    found.collect(paths, _sources(plugins))
    return found.result(known)


def watched_skills(
    config: Config,
    plugins: PluginManager,
    paths: Sequence[Path] = (),
    tools: KnownTools | None = None,
) -> WatchedSkills:
    """Return the same skills, to be checked again and again; see `found_skills`."""
    known = listed_tools(config, plugins) if tools is None else tools
    return WatchedSkills(config, _sources(plugins), paths, known)


def _sources(plugins: PluginManager) -> list[SkillSource]:
    return [each.value for each in plugins.contributions("clawhive_skill_sources")]


def tools_by_lock(config: Config, plugins: PluginManager) -> KnownTools:
    """Return the tools that manifests list; those of plugins that are not here, the lock knows."""
    return replace(listed_tools(config, plugins), by_lock=True)


def relocked(config: Config, plugins: PluginManager) -> Relock:
    """Return the lock that the project's skills would have now; nothing is written.

    Raises:
        StorageError: The list of skills that are off cannot be used.
    """
    known = tools_by_lock(config, plugins)
    return Relock.of(found_skills(config, plugins, tools=known), config.root, known)
