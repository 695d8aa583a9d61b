"""`clawhive skills check --watch`: the check again after each change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from clawhive_core.cli.output import note
from clawhive_core.errors import ClawHiveError, UsageError
from clawhive_core.model.late import dataclass

if TYPE_CHECKING:
    from clawhive_core.skills.checks.profiles import Profile
    from clawhive_core.skills.mending.mending import KnownEdits
    from clawhive_core.skills.report import SkillReport
    from clawhive_core.skills.watched import WatchedSkills

_QUIET_MS = 20
"""How long nothing must change before what changed is checked."""
_LOOK_MS = 500
"""How often it is looked whether a folder came or went as a whole."""
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})
_INTERRUPTED = 130

Watcher = Callable[[Sequence[str]], Iterator[set[str]]]
"""Yields the paths that changed below folders, none where nothing did for a while."""


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
