"""What `clawhive --help` and `clawhive plugins` cost, as whole processes.

Run `python benchmarks/cli_start.py [--smoke]`. With 0, 10 and 100 dummy plugins on the path
(metadata, package and manifest each; importing one would end the process), beside a bare program
that imports click and pluggy, and beside a click program that prints a help page of ten commands.
Goal: `--help` without further plugins costs at most 1.5 times the bare program's CPU.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from measure import ROOT, Sample, alternate, arguments, child, costs, finish, millis, start

COUNTS = (0, 10, 100)
GOAL = 1.5
BARE = "import click, pluggy"
CLAWHIVE = "import sys; from clawhive_core.cli import main; main(sys.argv[1:])"
CLICK_HELP = """
import click, pluggy
group = click.Group("peer", help="A program with ten commands.")
for number in range(10):
    group.add_command(click.Command(f"command{number}", help="Do one of ten things."))
group.main(["--help"])
"""
MANIFEST = """
[plugin]
id = "bench_{number}"
hook_api = 1
hooks = {hooks}
{commands}
[[tools]]
name = "bench_{number}.read"
description = "Read a text file of the project."
capability_level = "L0"
risk = "safe"
effects = {{path = "fs.read"}}
input_schema = '''
{{"type": "object", "properties": {{"path": {{"type": "string"}}}}, "required": ["path"]}}
'''

[[tools]]
name = "bench_{number}.count"
description = "Count the words of a text."
capability_level = "L0"
risk = "safe"
input_schema = '''
{{"type": "object", "properties": {{"text": {{"type": "string"}}}}, "required": ["text"]}}
'''
"""
COMMAND = """
[[commands]]
name = "bench-{number}"
help = "Do what plugin {number} does."
"""


def write_plugins(folder: Path, count: int) -> None:
    """Write plugins as pip would install them; every tenth adds a command."""
    folder.mkdir()
    for number in range(count):
        name = f"bench_{number}"
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n\n{'text ' * 800}\n"
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        entry = f"[clawhive.plugins]\n{name} = {name}\n"
        (info / "entry_points.txt").write_text(entry, encoding="utf-8")
        package = folder / name
        package.mkdir()
        source = f"raise SystemExit('plugin {name} was imported')\n"
        (package / "__init__.py").write_text(source, encoding="utf-8")
        (package / "clawhive-plugin.toml").write_text(manifest(number), encoding="utf-8")


def manifest(number: int) -> str:
    """Return the manifest of one plugin."""
    if number % 10:
        return MANIFEST.format(number=number, hooks="[]", commands="")
    commands = COMMAND.format(number=number)
    return MANIFEST.format(number=number, hooks='["clawhive_commands"]', commands=commands)


def cases(folder: Path) -> dict[str, Callable[[], Sample]]:
    """Return the programs to run."""
    (folder / "project").mkdir()
    found: dict[str, Callable[[], Sample]] = {
        "bare: import click, pluggy": program(folder, 0, BARE),
        "a click help page": program(folder, 0, CLICK_HELP),
    }
    for count in COUNTS:
        write_plugins(folder / str(count), count)
    for word in ("--help", "plugins"):
        for count in COUNTS:
            found[f"clawhive {word}, {count} plugins"] = program(folder, count, CLAWHIVE, word)
    return found


def program(folder: Path, plugins: int, source: str, *words: str) -> Callable[[], Sample]:
    """Return what runs one program in an empty project with so many plugins."""
    # The first, uncounted round writes the bytecode, as an installer does.
    mine = ("CLAWHIVE", "PYTHONDONTWRITEBYTECODE")
    env: Mapping[str, str] = {
        **{name: value for name, value in os.environ.items() if not name.startswith(mine)},
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "PYTHONPATH": os.pathsep.join([str(folder / str(plugins)), str(ROOT)]),
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    argv = [sys.executable, "-c", source, *words]
    return partial(child, argv, env=env, cwd=folder / "project")


def main() -> None:
    """Measure and print."""
    smoke = arguments(__doc__).smoke
    with tempfile.TemporaryDirectory() as name:
        found = alternate(cases(Path(name)), rounds=3 if smoke else 15)
    bare, *_ = found.values()
    costs(found.values(), bare, millis, "ms")
    ratios = {case: round(series.ratio(bare), 2) for case, series in found.items()}
    reached = ratios["clawhive --help, 0 plugins"]
    print(f"clawhive --help beside the bare program: {reached} (goal: {GOAL} or less)")
    finish("cli_start", {"cpu_ratio_to_bare": ratios, "goal": GOAL})


if __name__ == "__main__":
    start(main)
