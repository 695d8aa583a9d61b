"""A pytest plugin: with `--clawhive-skills`, every skill is a test of its text and its contract.

It does nothing unless it is asked, by the option or the ini key `clawhive_skills`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from clawhive_core.diagnostics.finding import Finding

_PROFILES = ("lenient", "strict", "portable")
_FILES = ("SKILL.md", "clawhive.yaml", "clawhive.json")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and the ini keys that stand for them."""
    group = parser.getgroup("clawhive", "skills of ClawHive")
    group.addoption(
        "--clawhive-skills", action="store_true", help="Check every skill as a test of its own."
    )
    group.addoption(
        "--clawhive-profile",
        choices=_PROFILES,
        help="What is an error in a skill: lenient (the default), strict or portable.",
    )
    parser.addini(
        "clawhive_skills", "Check every skill as a test of its own.", "bool", default=False
    )
    parser.addini("clawhive_profile", "What is an error in a skill.", default="lenient")


def pytest_configure(config: pytest.Config) -> None:
    """Switch the collection of skills on, where it is asked for."""
    if not (config.getoption("--clawhive-skills") or config.getini("clawhive_skills")):
        return
    profile = config.getoption("--clawhive-profile") or config.getini("clawhive_profile")
    if profile not in _PROFILES:
        message = f"clawhive_profile is {', '.join(_PROFILES[:-1])} or {_PROFILES[-1]}"
        raise pytest.UsageError(f"{message}, not {profile!r}")
    config.pluginmanager.register(_Collector(_Check(profile)), "clawhive-skills")


class _Check:
    """One check of all skills that were collected, when the first of them is tested."""

    def __init__(self, profile: Any) -> None:
        self._profile = profile
        self._folders: list[Path] = []
        self._found: dict[Path, list[Finding]] | None = None

    def add(self, folder: Path) -> None:
        """Let a folder take part."""
        self._folders.append(folder)

    def findings(self, folder: Path) -> list[Finding]:
        """Return what is wrong with the skill of a folder."""
        if self._found is None:
            self._found = self._all()
        return self._found[folder]

    def _all(self) -> dict[Path, list[Finding]]:
        import os

        from clawhive_core.config.load import open_config
        from clawhive_core.hive.found_skills import found_skills
        from clawhive_core.plugins.manager import open_plugins
        from clawhive_core.skills.report import SkillReport

        config = open_config(None, {}, os.environ)
        plugins = open_plugins(config, os.environ, none=False)
        report = SkillReport.of(lambda: found_skills(config, plugins, self._folders), self._profile)
        found: dict[Path, list[Finding]] = {folder: [] for folder in self._folders}
        for finding in report.findings:
            file = Path(finding.file or "").absolute()
            for folder in (each for each in file.parents if each in found):
                found[folder].append(finding)
                break
        return found


class _Collector:
    """Collects one file of each skill's folder."""

    def __init__(self, check: _Check) -> None:
        self._check = check

    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> pytest.Collector | None:
        """Return a skill, for the first of its files that there are."""
        if file_path.name not in _FILES:
            return None
        first = next(name for name in _FILES if file_path.with_name(name).is_file())
        if file_path.name != first:
            return None
        made: SkillFile = SkillFile.from_parent(parent, path=file_path)  # pyright: ignore[reportUnknownMemberType] - pytest's own signature
        made.check = self._check
        self._check.add(file_path.parent)
        return made


class SkillFile(pytest.File):
    """The text or the manifest of a skill."""

    check: _Check

    def collect(self) -> Iterator[pytest.Item]:
        """Yield its one test."""
        made: SkillItem = SkillItem.from_parent(self, name=self.path.parent.name)  # pyright: ignore[reportUnknownMemberType] - pytest's own signature
        made.check = self.check
        yield made


class SkillItem(pytest.Item):
    """The test that nothing is wrong with a skill; warnings and notes are in its report."""

    check: _Check

    def runtest(self) -> None:
        """Check the skill together with all others.

        Raises:
            SkillProblem: There is an error.
        """
        from clawhive_core.diagnostics.finding import count
        from clawhive_core.diagnostics.reports import render

        found = self.check.findings(self.path.parent)
        text = render(found)
        if count(found)["errors"]:
            raise SkillProblem(text)
        if found:
            self.add_report_section("call", "findings", text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the findings, without a traceback."""
        if isinstance(excinfo.value, SkillProblem):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the place and the name of the test."""
        return self.path, 0, f"skill {self.name}"


class SkillProblem(Exception):
    """Something is wrong with a skill; the message holds the findings."""
