"""Plugins made on the spot: a package and a dist-info in a temporary folder on `sys.path`."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from clawhive_core.plugins.discovery import discover
from clawhive_core.plugins.manager import PluginManager, PluginOptions

GREET = """
from clawhive_core import tool

@tool
def greet(name: str) -> str:
    "Greet someone."
    return f"Hello, {name}!"
"""


class Site:
    """A folder on `sys.path` that distributions can be put into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages: set[str] = set()

    def package(self, name: str, source: str) -> Path:
        file = self.folder / name / "__init__.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(source, "utf-8")
        self.packages.add(name)
        importlib.invalidate_caches()
        return file.parent

    def distribution(self, name: str, entry_points: str, version: str = "1.0") -> Path:
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText\n"
        info.joinpath("METADATA").write_text(metadata, "utf-8")
        info.joinpath("entry_points.txt").write_text(entry_points, "utf-8")
        return info

    def plugin(
        self,
        id: str,
        source: str = GREET,
        *,
        manifest: str | None = None,
        synced: bool = False,
        value: str | None = None,
        distribution: str | None = None,
    ) -> Path:
        """Make a whole plugin; `manifest` is its text, `synced` has it written from the code."""
        package = (value or f"plug_{id}").partition(":")[0].partition(".")[0]
        folder = self.package(package, source)
        name = distribution or f"dist-{id}"
        self.distribution(name, f"[clawhive.plugins]\n{id} = {value or package}\n")
        if manifest is not None:
            folder.joinpath("clawhive-plugin.toml").write_text(manifest, "utf-8")
        if synced:
            self.sync(id)
        return folder

    def sync(self, id: str) -> None:
        from clawhive_core.plugins.sync import sync

        sync(id)
        self.forget()

    def forget(self) -> None:
        """Forget what was imported, as a new process would."""
        for name in [name for name in sys.modules if name.partition(".")[0] in self.packages]:
            del sys.modules[name]
        importlib.invalidate_caches()

    def manager(self, **options) -> PluginManager:
        return PluginManager(discover([str(self.folder)]), PluginOptions(**options))


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
def ctx():
    return SimpleNamespace(tool_call_id="call-1", run_id="run-1")


@pytest.fixture
def read_only(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("the superuser may write anywhere")
    return tmp_path


def manifest(id: str, *, hooks: str = "[]", more: str = "") -> str:
    return f'[plugin]\nid = "{id}"\nhook_api = 1\nhooks = {hooks}\n{more}'
