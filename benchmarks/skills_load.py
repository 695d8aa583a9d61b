"""What loading skills at a start costs beside reading and parsing their files.

Run `python benchmarks/skills_load.py [--smoke]`. 100 and 1,000 generated skills: half of them a
SKILL.md alone, half with a contract that exports tools with schemas and imports from the one
before. Loading reads and checks every file, checks imports against exports and required tools
against the catalog, and gives each skill its state. The floor reads the bytes of the same files and
loads each frontmatter and manifest with PyYAML's loader in C, and parses the handlers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from measure import (
    CannotRun,
    Sample,
    Series,
    alternate,
    arguments,
    clock,
    costs,
    finish,
    millis,
    start,
)

from clawhive_core.config.config import Config
from clawhive_core.config.load import open_config
from clawhive_core.skills.checks.required import KnownTools
from clawhive_core.skills.load import load_skills

COUNTS = (100, 1_000)
TOOLS = KnownTools(frozenset({"web.search", "file.read", "file.search"}))
GOAL = 3.0

_TEXT = """\
---
name: skill-{number}
description: Does the work of case {number}. Use it when somebody asks for the work of that case, \
or for anything near it.
license: Apache-2.0
metadata:
  author: somebody
  version: "1.0"
---

# Case {number}

"""
_BODY = "A line of what a model should know of this case, about as long as lines are.\n" * 70
_CONTRACT = """\
id: skill-{number}
version: 1.0.0
exports:
  api_version: "1.2"
  tools:
    - name: look_up
      description: Look something up.
      input_schema:
        type: object
        additionalProperties: false
        required: [query]
        properties:
          query: {{type: string, description: What to look for.}}
          limit: {{type: integer, minimum: 1, maximum: 100, default: 10}}
      output_schema: {{type: object, properties: {{items: {{type: array}}}}}}
    - name: sum_up
      description: Sum up what was found.
      input_schema: {{type: object, properties: {{items: {{type: array}}}}}}
      output_schema: {{type: string}}
requires: {{tools: [web.search, file.read]}}
permissions: ["fs.read:${{workspace}}/**"]
"""
_IMPORTS = """\
imports:
  - {{from: skill-{before}, tools: [look_up, sum_up], min_version: "1.0"}}
"""


_HANDLERS = """\
async def look_up(input, ctx):
    found = await ctx.call("web.search", {"query": input["query"]})
    return {"items": found["items"][: input.get("limit", 10)]}


def sum_up(input, ctx):
    return " ".join(str(each) for each in input.get("items", []))
"""


def make(root: Path, count: int) -> list[Path]:
    """Write skills, every second one with a contract; return their files."""
    files: list[Path] = []
    for number in range(count):
        folder = root / "skills" / f"skill-{number}"
        folder.mkdir(parents=True)
        files.append(folder / "SKILL.md")
        files[-1].write_text(_TEXT.format(number=number) + _BODY, "utf-8")
        if number % 2:
            text = _CONTRACT.format(number=number)
            text += _IMPORTS.format(before=number - 2) if number > 1 else ""
            files.append(folder / "clawhive.yaml")
            files[-1].write_text(text, "utf-8")
            files.append(folder / "handlers.py")
            files[-1].write_text(_HANDLERS, "utf-8")
    return files


def floor(files: Sequence[Path]) -> Sample:
    """Read each file and load its YAML, or parse its Python."""
    import ast

    import yaml

    def work() -> list[object]:
        found: list[object] = []
        for file in files:
            text = file.read_bytes().decode()
            if file.suffix == ".py":
                found.append(ast.parse(text))
                continue
            if file.suffix == ".md":
                text = text.split("---\n", 2)[1]
            found.append(yaml.load(text, Loader=yaml.CSafeLoader))
        return found

    return clock(work)


def ours(config: Config, count: int) -> Sample:
    """Load the skills as a start does."""

    def work() -> None:
        found = load_skills(config, env={"PATH": "/usr/bin"}, tools=TOOLS)
        mine = [skill for skill in found.loaded if skill.source == "project"]
        wrong = [each for each in found.findings if each.severity != "note"]
        if len(mine) != count or wrong:
            raise CannotRun(f"{len(mine)} of {count} are loaded: {wrong[:3]}")

    return clock(work)


def measured(count: int, rounds: int) -> dict[str, Series]:
    """Compare loading `count` skills with the floor, in a project of their own."""
    with TemporaryDirectory(prefix="clawhive-") as folder:
        root = Path(folder, "project")
        files = make(root, count)
        config = open_config(root, {}, {"HOME": folder})
        cases = {
            f"floor: read and parse {count:,}": partial(floor, files),
            f"load {count:,} skills": partial(ours, config, count),
        }
        return alternate(cases, rounds)


def main() -> None:
    """Measure and print."""
    smoke = arguments(__doc__).smoke
    ratios: dict[str, float] = {}
    for count in COUNTS:
        found = measured(count, (2 if smoke else 11) if count > COUNTS[0] else 5 if smoke else 31)
        base, loading = found.values()
        costs(found.values(), base, millis, "ms")
        ratios[str(count)] = round(loading.ratio(base), 2)
    print(f"goal: at most {GOAL:g} times the floor")
    finish("skills_load", {"cpu_ratio_to_floor": ratios, "goal": GOAL})


if __name__ == "__main__":
    start(main)
