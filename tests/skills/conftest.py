"""A project and a user of the test's own, with skills in them."""

import keyword
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from clawhive_core.config.load import open_config
from clawhive_core.skills.discovery.shipped import shipped_folder
from clawhive_core.skills.load import load_skills


@dataclass(frozen=True)
class Place:
    """Where skills are written to and loaded from."""

    root: Path
    home: Path

    @property
    def env(self):
        return {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}

    @property
    def user_dir(self):
        return self.home / ".config" / "clawhive"

    def write(self, path, text=""):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    def skill(self, name, manifest="", base="skills", handlers=None):
        self.write(f"{base}/{name}/handlers.py", stand_ins(manifest, handlers))
        return self.write(f"{base}/{name}/clawhive.yaml", manifest)

    def text(self, name, front, body="", base="skills", handlers=None):
        self.write(f"{base}/{name}/handlers.py", stand_ins(front, handlers))
        return self.write(f"{base}/{name}/SKILL.md", f"---\n{front}\n---\n{body}")

    def config(self):
        return open_config(self.root, {}, self.env)

    def load(self, sources=(), env=None, **more):
        return load_skills(self.config(), sources, env=env or self.env, **more)

    def own(self, **more):
        """Return the entries that are not shipped, by id."""
        entries = self.load(**more).entries
        return {each.skill.id: each for each in entries if each.skill.source != "shipped"}

    def findings(self, **more):
        """Return the findings that are not of shipped skills."""
        shipped = str(shipped_folder())
        return [each for each in self.load(**more).findings if not each.file.startswith(shipped)]

    def codes(self, **more):
        return [finding.code for finding in self.findings(**more)]


def stand_ins(contract, handlers):
    """Return handlers, else a function of each name in a contract, so that no handler lacks."""
    if handlers is not None:
        return handlers
    names = sorted(set(re.findall(r"[A-Za-z_]\w*", contract)) - set(keyword.kwlist))
    return "".join(f"def {name}(input, ctx): ...\n" for name in names)


@pytest.fixture
def place(tmp_path, monkeypatch):
    root, home = tmp_path / "project", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    monkeypatch.delenv("CLAWHIVE_RUN", raising=False)
    return Place(root, home)
