from dataclasses import dataclass
from pathlib import Path

import pytest

from clawhive_core.config import load_config, trust_project


@dataclass
class Place:
    """A project and a user's directory, both empty, and what is loaded from them."""

    root: Path
    home: Path
    env: dict

    @property
    def project(self):
        return self.root / "clawhive.toml"

    @property
    def user(self):
        return self.home / "clawhive" / "config.toml"

    @property
    def user_dir(self):
        return self.home / "clawhive"

    def write(self, text, *, user="", trust=False):
        self.project.write_bytes(text if isinstance(text, bytes) else text.encode())
        if user:
            self.user_dir.mkdir(exist_ok=True)
            self.user.write_text(user, encoding="utf-8")
        if trust:
            trust_project(self.project, user_dir=self.user_dir, env={})
        return self

    def load(self, env=None, flags=None):
        return load_config(
            root=self.root, env={**self.env, **(env or {})}, flags=flags, cwd=self.root
        )


@pytest.fixture
def place(tmp_path):
    root, home = tmp_path / "project", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    return Place(root, home, {"XDG_CONFIG_HOME": str(home)})
