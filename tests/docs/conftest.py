"""What the pages show, run in process: a project below a home, and plugins without pip."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clawhive_core.cli import main

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELL = {"touch", "rm", "echo", "python3", "sed"}


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    text: str

    def commands(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each command and the output that the page shows below it."""
        command, shown = None, []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                if command is not None:
                    yield command, shown
                command, shown = line[2:], []
            else:
                shown.append(line)
        if command is not None:
            yield command, shown


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page, by its path from the repository's root."""
    return [Block(*match) for match in _FENCE.findall(ROOT.joinpath(page).read_text("utf-8"))]


def block(page: str, language: str, number: int = 0) -> str:
    """Return the text of one block of a page."""
    return [each.text for each in blocks(page) if each.language == language][number]


def masked(text: str) -> str:
    """Return a line without what differs from run to run: ids, numbers, widths of columns."""
    text = re.sub(r"\b[0-9a-f]{8}(?:[0-9a-f]{8})?\b", "ID", text)
    return re.sub(r"\s+", " ", re.sub(r"\d+", "N", text)).strip()


def is_shown(shown: list[str], lines: list[str]) -> str | None:
    """Return the first shown line that the real lines lack, in order; `...` stands for anything."""
    rest = iter([masked(line) for line in lines])
    for line in shown:
        pattern = ".*".join(re.escape(masked(part)) for part in line.split("..."))
        pattern = re.sub(r"(?<=\.\*)(?=.)|(?=\.\*)", r"\\s*", pattern)
        if line.strip() and not any(re.fullmatch(pattern, real) for real in rest):
            return line
    return None


class Terminal:
    """Types what a page shows, and compares."""

    def __init__(self, folder: Path, site: Path) -> None:
        self.folder = folder
        self.project = folder / "home" / "ana" / "project"
        self.site = site
        self.packages: set[str] = set()

    def run(self, block: Block) -> None:
        for command, shown in block.commands():
            code, output = self.type(command)
            missing = is_shown(shown, output.splitlines())
            assert missing is None, f"$ {command}\nshown:  {missing}\nreal:\n{output}"
            assert code == 0 or shown, f"$ {command} ended with {code}:\n{output}"

    def type(self, command: str) -> tuple[int, str]:
        words = shlex.split(command)
        if words[0] == ".":
            return 0, ""
        if words[:3] == ["pip", "install", "-e"]:
            return self.install(self.project / words[3])
        if words[0] in _SHELL:
            return self.shell(command)
        assert words[0] == "clawhive", f"the test cannot type this: {command}"
        return self.clawhive(*words[1:])

    def clawhive(self, *words: str) -> tuple[int, str]:
        """Run the command line as a new process would, output and notes in one stream."""
        self.forget()
        stream = io.StringIO()
        with (
            contextlib.redirect_stdout(stream),
            contextlib.redirect_stderr(stream),
            pytest.raises(SystemExit) as ended,
        ):
            main(list(words))
        return int(ended.value.code or 0), stream.getvalue().replace(str(self.folder), "")

    def json(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Run a command with `--json`; notes on stderr do not count."""
        self.forget()
        stream = io.StringIO()
        with (
            contextlib.redirect_stdout(stream),
            contextlib.redirect_stderr(io.StringIO()),
            pytest.raises(SystemExit) as ended,
        ):
            main([*words, "--json"])
        return int(ended.value.code or 0), json.loads(stream.getvalue())

    def plugin(self, id: str, source: str) -> Path:
        """Install a plugin of this source, with its manifest."""
        from clawhive_core.plugins.template import new_plugin

        new_plugin(id, self.project)
        module = self.project / id / f"clawhive_{id}" / "__init__.py"
        module.write_text(source, "utf-8")
        self.install(self.project / id)
        assert self.clawhive("plugins", "sync", f"./{id}")[0] == 0
        return module

    def shell(self, command: str) -> tuple[int, str]:
        command = re.sub(r"^python3\b", shlex.quote(sys.executable), command)
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    def install(self, folder: Path) -> tuple[int, str]:
        """Do what `pip install -e` does: metadata in a site folder, the source on the path."""
        project = tomllib.loads(folder.joinpath("pyproject.toml").read_text("utf-8"))["project"]
        points = project["entry-points"]["clawhive.plugins"]
        info = self.site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir()
        info.joinpath("METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        )
        lines = "".join(f"{name} = {value}\n" for name, value in points.items())
        info.joinpath("entry_points.txt").write_text(f"[clawhive.plugins]\n{lines}")
        self.packages |= set(points.values())
        sys.path.insert(0, str(folder))
        self.forget()
        return 0, ""

    def forget(self) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] in self.packages]:
            del sys.modules[name]
        importlib.invalidate_caches()


@pytest.fixture
def terminal(tmp_path, monkeypatch):
    site = tmp_path / "site"
    site.mkdir()
    made = Terminal(tmp_path, site)
    made.project.mkdir(parents=True)
    home = made.project.parent
    monkeypatch.chdir(made.project)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("CLAWHIVE_RUN", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield made
    made.forget()
