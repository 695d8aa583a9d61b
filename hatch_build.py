"""The extras: one for each plugin of this repository, and `all`.

Built from a checkout they name the plugins' folders, so that `pip install ".[openai]"` needs no
index that has them; built from a source archive, which holds no plugins, they name distributions.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

AUDIT = ["cryptography>=42"]
"""Ed25519 signatures of checkpoints; HMAC without it."""

ASTROLOGY = ["astronomy-engine>=2.1.19"]
"""MIT, pure Python, works offline: what the skill `zodiac` needs."""

HTTP = ["httpx2>=2.16"]
"""BSD-3, pure Python: what `ctx.http` of a tool sends requests with."""

TYPES = ["datamodel-code-generator>=0.89"]
"""MIT: what `clawhive skills types` writes types with."""

WATCH = ["watchfiles>=1.0"]
"""MIT, with wheels: what tells `skills check --watch` of changes."""

PLUGINS = ("anthropic", "cedar", "gemini", "local", "mcp", "openai", "otel", "sandbox", "web")


class CustomMetadataHook(MetadataHookInterface):
    """Fills in `project.optional-dependencies`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the extras to the metadata."""
        root = Path(self.root)
        extras = {name: [_requirement(root, name)] for name in PLUGINS}
        every = [each for needs in extras.values() for each in needs]
        metadata["optional-dependencies"] = {
            "astrology": ASTROLOGY,
            "audit": AUDIT,
            "http": HTTP,
            "types": TYPES,
            "watch": WATCH,
            **extras,
            "all": [*ASTROLOGY, *AUDIT, *HTTP, *TYPES, *WATCH, *every],
        }


def _requirement(root: Path, name: str) -> str:
    project = root / "plugins" / name / "pyproject.toml"
    if not project.is_file():
        return f"clawhive-{name}"
    distribution = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["name"]
    return f"{distribution} @ {project.parent.resolve().as_uri()}"
