"""The command line in process, in a project and a home of the test's own."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from clawhive_core.cli import main

SITE_PLUGIN = """
import threading
from clawhive_core import tool, ToolResult

@tool(timeout_ms=50)
async def hang() -> str:
    "Never answer."
    import asyncio
    await asyncio.Event().wait()

@tool
def crash(text: str = "boom") -> str:
    "Raise."
    raise ValueError(text)

@tool(output_schema={"type": "object", "required": ["n"]})
def wrong() -> dict:
    "Answer another shape than it says."
    return {"m": 1}

@tool
def odd() -> str:
    "Answer what is no JSON."
    return threading.Lock()

@tool(risk="guarded", effects={"path": "fs.write"})
def keep(path: str) -> str:
    "Write a file, on paper."
    return f"kept {path}"

@tool(risk="unsafe")
def wipe() -> str:
    "Delete everything, on paper."
    return "gone"
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


class Cli:
    """Calls `clawhive` as its entry point does."""

    def __init__(self, capfd, root: Path, home: Path) -> None:
        self._capfd = capfd
        self.root = root
        self.home = home

    def __call__(self, *words: str) -> Done:
        self._capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        out, err = self._capfd.readouterr()
        return Done(ended.value.code, out, err)

    def snippet(self, code: str, *more: str) -> Done:
        inputs = ("--input", "language=python", "--input", f"code={code}")
        return self("run", "--task", "run_code_snippet", *inputs, *more)

    def events(self):
        return [
            json.loads(line)
            for line in self("audit", "tail", "-n", "999", "--jsonl").out.splitlines()
        ]


@pytest.fixture
def clawhive(tmp_path, monkeypatch, capfd):
    root, home = tmp_path / "project", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("CLAWHIVE_RUN", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return Cli(capfd, root, home)


class Site:
    """A folder on `sys.path` with real plugins: a package, its metadata, its manifest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages: set[str] = set()

    def plugin(self, id: str, source: str, *, manifest: str | None = None) -> Path:
        package = f"site_{id}"
        folder = self.folder / package
        folder.mkdir()
        folder.joinpath("__init__.py").write_text(source, "utf-8")
        info = self.folder / f"dist_{id}-1.0.dist-info"
        info.mkdir()
        info.joinpath("METADATA").write_text(
            f"Metadata-Version: 2.1\nName: dist-{id}\nVersion: 1.0\n"
        )
        info.joinpath("entry_points.txt").write_text(f"[clawhive.plugins]\n{id} = {package}\n")
        self.packages.add(package)
        importlib.invalidate_caches()
        if manifest is not None:
            folder.joinpath("clawhive-plugin.toml").write_text(manifest, "utf-8")
        else:
            from clawhive_core.plugins.sync import sync

            sync(id)
            self.forget()
        return folder

    def forget(self) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] in self.packages]:
            del sys.modules[name]
        importlib.invalidate_caches()


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = Site(folder)
    yield made
    made.forget()


@pytest.fixture
def bad_tools(site):
    return site.plugin("bad", SITE_PLUGIN)
