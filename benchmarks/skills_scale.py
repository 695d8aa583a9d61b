"""What `skills check` costs for 10,000 skills: cold, warm, after one edit, contracts and cycles.

Run `CLAWHIVE_REAL_SKILLS=FOLDER taskset -c 1 python benchmarks/skills_scale.py [--smoke]`. The
skills are copies of the SKILL.md files below that folder, under new names, their paragraphs in
another order; without it, of those that ClawHive ships, which is a small set and is said so. One
core is used; pin it with taskset, as above.

- cold: finding, reading and checking in process, beside a floor that only reads the same files and
  composes their frontmatter with PyYAML's parser in C, and keeps nothing;
- linear: the cost of a skill at the larger count by that at the smaller;
- warm: the whole command, a process of its own, on unchanged files;
- edit: what `--watch` does when the tools of one skill changed, printing included, in a set with
  two imports a skill;
- contracts: all checks between skills of that set, with its 20,000 imports;
- peers: other validators on the same files, as whole commands, where they are on the PATH. Some
  take one skill a call, or more than a minute for 1,000 skills, so they get fewer of them.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import skills_corpus
from measure import (
    ROOT,
    CannotRun,
    Sample,
    Series,
    alternate,
    arguments,
    child,
    clock,
    costs,
    finish,
    millis,
    start,
    table,
)

from clawhive_core.config.config import Config
from clawhive_core.config.load import open_config
from clawhive_core.diagnostics.reports import render
from clawhive_core.hive.known_tools import CORE_TOOLS
from clawhive_core.skills.checks.required import KnownTools
from clawhive_core.skills.checks.resolve import check_contracts
from clawhive_core.skills.load import load_skills
from clawhive_core.skills.report import SkillReport
from clawhive_core.skills.watched import WatchedSkills

GOALS = {
    "cold_ratio": 2.6,
    "linear": 1.1,
    "warm_seconds": 0.6,
    "edit_seconds": 0.05,
    "contracts_seconds": 0.5,
}
PEERS = {
    "skills-ref, npm": (["skills-ref", "validate"], 10),
    "skills-ref, PyPI": (["agentskills", "validate"], 10),
    "agnix": (["agnix"], 300),
    "skillsaw": (["skillsaw", "lint"], 300),
    "skill-check": (["skill-check", "check"], 1_000),
}
"""The command of each, and how many skills it gets; one that gets few is called for each."""
_FEW = 20

_PLUGINS = ("web.search", "web.fetch", "file.read", "file.search", "file.write", "shell.exec")
TOOLS = KnownTools(frozenset({*CORE_TOOLS, *_PLUGINS}), complete=False)


def floor(files: Sequence[Path]) -> Sample:
    """Read each file and compose its frontmatter."""
    import yaml

    def work() -> None:
        for file in files:
            parts = file.read_bytes().decode("utf-8", "replace").split("---", 2)
            if len(parts) == 3:
                try:
                    yaml.compose(parts[1], Loader=yaml.CSafeLoader)
                except yaml.YAMLError:
                    continue

    return clock(work)


def cold(config: Config, folder: Path, count: int) -> Sample:
    """Check the skills in this process, as the command does without a cache."""

    def work() -> None:
        gc.disable()
        check = partial(load_skills, config, paths=[folder], tools=TOOLS)
        report = SkillReport.of(check)
        render(report.findings)
        gc.enable()
        if len(report.skills.entries) != count:
            raise CannotRun(f"{len(report.skills.entries)} of {count} skills were found")

    return clock(work)


def measured_cold(sources: Sequence[Path], count: int, rounds: int) -> list[Series]:
    """Compare checking `count` skills with the floor."""
    with TemporaryDirectory(prefix="clawhive-") as folder:
        root = Path(folder)
        files = skills_corpus.write(sources, root / "skills", count)
        config = open_config(root, {}, {"HOME": folder})
        cases = {
            f"floor: read and compose {count:,}": partial(floor, files),
            f"check {count:,} skills, cold": partial(cold, config, root / "skills", count),
        }
        return list(alternate(cases, rounds).values())


def command(root: Path, *words: str) -> Sample:
    """Run the command in a project; findings are no failure of it."""
    program = "import sys; from clawhive_core.cli import main\ntry: main()\nexcept SystemExit: pass"
    env = {**os.environ, "HOME": str(root), "XDG_CACHE_HOME": str(root / "cache")}
    return child([sys.executable, "-c", program, *words], env=env, cwd=root)


def measured_warm(sources: Sequence[Path], count: int, rounds: int) -> list[Series]:
    """Measure the whole command: first, unchanged, without skills; and the peers."""
    with TemporaryDirectory(prefix="clawhive-") as folder:
        root = Path(folder)
        skills_corpus.write(sources, root / "skills", count)
        _settle(root)
        first = command(root, "skills", "check", "skills")
        (root / "none").mkdir()
        cases = {
            "command without skills": partial(command, root / "none", "skills", "check"),
            f"command, {count:,} unchanged": partial(command, root, "skills", "check", "skills"),
        }
        found = alternate(cases, rounds)
        return [Series(f"command, {count:,} for the first time", [first]), *found.values()]


def _settle(root: Path) -> None:
    """Wait until the files are older than the cache's bound for what may change unseen."""
    import time

    from clawhive_core.skills.discovery.read_cache import RACY_NS

    time.sleep(RACY_NS / 1e9 + 0.1)
    if not root.is_dir():
        raise CannotRun("the skills are gone")


def contract(number: int, providers: Sequence[int]) -> tuple[str, str]:
    """Return a manifest and its handlers: two tools, which call those of two others."""
    tools = "".join(
        f"    - name: {kind}_{number}\n      description: {kind.title()} something.\n"
        "      input_schema: {type: object, properties: {query: {type: string}}}\n"
        "      output_schema: {type: object, properties: {items: {type: array}}}\n"
        for kind in ("look", "find")
    )
    imports = "".join(
        f'  - {{from: skill-{each:05}, tools: [look_{each}, find_{each}], min_version: "1.0"}}\n'
        for each in providers
    )
    text = f'exports:\n  api_version: "1.2"\n  tools:\n{tools}'
    handlers = "".join(
        f"async def {kind}_{number}(input, ctx):\n"
        + "".join(
            f'    await ctx.call("skill-{each:05}.{kind}_{each}", input)\n' for each in providers
        )
        + "    return {}\n\n\n"
        for kind in ("look", "find")
    )
    return text + (f"imports:\n{imports}" if imports else ""), handlers


def with_contracts(root: Path, count: int) -> None:
    """Write skills that import from two earlier ones each."""
    chance = random.Random(3)
    for number in range(count):
        folder = root / "skills" / f"skill-{number:05}"
        folder.mkdir(parents=True)
        providers = chance.sample(range(number), 2) if number > 1 else []
        manifest, handlers = contract(number, providers)
        text = f"---\nname: {folder.name}\ndescription: Does {number}.\n---\n"
        for name, each in (
            ("SKILL.md", text),
            ("clawhive.yaml", manifest),
            ("handlers.py", handlers),
        ):
            folder.joinpath(name).write_text(each, "utf-8")


def measured_edits(count: int, rounds: int) -> list[Series]:
    """Measure an edit that reaches others, and the whole check between skills."""
    with TemporaryDirectory(prefix="clawhive-") as folder:
        root = Path(folder)
        with_contracts(root, count)
        config = open_config(root, {}, {"HOME": folder})
        watched = WatchedSkills(config, (), [root / "skills"], TOOLS)
        found = watched.check()
        mine = [each.skill for each in found.entries]
        if len(found.loaded) != count:
            raise CannotRun(f"{len(found.loaded)} of {count} are loaded: {found.findings[:3]}")
        gc.collect()
        gc.freeze()
        file = root / "skills" / f"skill-{count // 2:05}" / "clawhive.yaml"
        texts = [file.read_text("utf-8")]
        texts.append(texts[0].replace(f"name: find_{count // 2}", "name: renamed"))
        turn = 0
        edits: dict[str, Any] = {}

        def edit() -> Sample:
            nonlocal turn
            turn += 1
            file.write_text(texts[turn % 2], "utf-8")

            def work() -> None:
                report = SkillReport.of(lambda: watched.check({str(file)}), "lenient", edits)
                render(report.findings)
                if bool(report.findings) != bool(turn % 2):
                    raise CannotRun(f"the edit was not seen: {len(report.findings)} findings")

            return clock(work)

        today = datetime.now(UTC).date()
        cases = {
            f"edit of one in {count:,}": edit,
            f"contracts and cycles of {count:,}": lambda: clock(
                lambda: check_contracts(mine, frozenset(), today)
            ),
        }
        return list(alternate(cases, rounds).values())


def peers(sources: Sequence[Path], *, smoke: bool) -> dict[str, float | None]:
    """Return the wall milliseconds a skill of other validators; None where one is missing."""
    found: dict[str, float | None] = {}
    for name, (words, most) in PEERS.items():
        count = min(most, 5) if smoke else most
        found[name] = None if shutil.which(words[0]) is None else _peer(sources, words, count)
    return found


def _peer(sources: Sequence[Path], words: Sequence[str], count: int) -> float:
    with TemporaryDirectory(prefix="clawhive-") as folder:
        files = skills_corpus.write(sources, Path(folder, "skills"), count)
        targets = [str(file.parent) for file in files] if count <= _FEW else [f"{folder}/skills"]
        seconds = 0.0
        for target in targets:
            line = " ".join([*words, target])
            seconds += child(["sh", "-c", f"{line} || true"], cwd=Path(folder)).wall
        return seconds / count * 1000


def show_peers(found: Mapping[str, float | None]) -> None:
    """Print what others cost."""
    rows = [(name, "missing" if ms is None else f"{ms:.2f}") for name, ms in found.items()]
    table(("validator", "wall ms a skill"), rows)


def main() -> None:
    """Measure and print."""
    smoke = arguments(__doc__).smoke
    real = skills_corpus.real_skills()
    sources = real or skills_corpus.shipped_skills(ROOT)
    kind = "real" if real else "shipped, because CLAWHIVE_REAL_SKILLS names none"
    print(f"# copies of {len(sources)} skills: {kind}")
    counts = (50, 200) if smoke else (1_000, 10_000)
    rounds = 2 if smoke else 5
    colds = [measured_cold(sources, count, rounds) for count in counts]
    for base, checked in colds:
        costs((base, checked), base, millis, "ms")
    warm = measured_warm(sources, counts[-1], rounds)
    edits = measured_edits(counts[-1], rounds * 2)
    rows = [*warm, *edits]
    table(
        ("case", "cpu ms", "min", "wall ms"),
        [(each.name, *map(millis, (each.cpu(), each.cpu_min(), each.wall()))) for each in rows],
    )
    found = peers(sources, smoke=smoke)
    show_peers(found)
    each = [series[1].cpu_min() / count for series, count in zip(colds, counts, strict=True)]
    figures = {
        "cold_ratio": colds[-1][1].ratio_min(colds[-1][0]),
        "linear": max(after / before for before, after in pairwise(each)),
        "warm_seconds": warm[-1].cpu_min(),
        "edit_seconds": edits[0].cpu_min(),
        "contracts_seconds": edits[1].cpu_min(),
    }
    for name, value in figures.items():
        print(f"{name}: {value:.3f}, goal at most {GOALS[name]:g}")
    rounded = {name: round(value, 4) for name, value in figures.items()}
    finish("skills_scale", {"skills": counts[-1], "sources": kind, **rounded, "peers_ms": found})


if __name__ == "__main__":
    start(main)
