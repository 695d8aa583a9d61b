"""Many skills made from a few real ones, for the scripts that measure how the check scales.

Each has a folder and a name of its own and a body with its paragraphs in another order, so that no
two files are alike and no cache of a file system or a parser helps.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_NAME = re.compile(r"^name:.*$", re.MULTILINE)


def real_skills() -> list[Path]:
    """Return the folder's SKILL.md files that `CLAWHIVE_REAL_SKILLS` names; none where unset."""
    folder = os.environ.get("CLAWHIVE_REAL_SKILLS", "")
    return sorted(Path(folder).rglob("SKILL.md")) if folder else []


def shipped_skills(root: Path) -> list[Path]:
    """Return the SKILL.md files of a checkout, which stand in where there are no others."""
    return sorted(root.glob("skills/*/SKILL.md"))


def copies(sources: Sequence[Path], count: int, seed: int = 1) -> Iterator[tuple[str, bytes]]:
    """Yield names and texts, as many as asked for, the sources in turn."""
    chance = random.Random(seed)
    texts = [source.read_bytes().decode("utf-8", "surrogateescape") for source in sources]
    for number in range(count):
        name = f"skill-{number:05}"
        text = _renamed(texts[number % len(texts)], name, chance)
        yield name, text.encode("utf-8", "surrogateescape")


def write(sources: Sequence[Path], root: Path, count: int) -> list[Path]:
    """Write skills below a folder and return their files."""
    files: list[Path] = []
    for name, data in copies(sources, count):
        folder = root / name
        folder.mkdir(parents=True)
        files.append(folder / "SKILL.md")
        files[-1].write_bytes(data)
    return files


def _renamed(text: str, name: str, chance: random.Random) -> str:
    """Return a text under another name, the paragraphs of its body in another order."""
    parts = re.split(r"(?m)^---[ \t]*\r?$", text, maxsplit=2)
    if len(parts) != 3:
        return f"{text}\n<!-- {name} -->\n"
    before, front, body = parts
    paragraphs = body.split("\n\n")
    middle = paragraphs[1:]
    chance.shuffle(middle)
    shuffled = "\n\n".join([*paragraphs[:1], *middle])
    return f"{before}---{_NAME.sub(f'name: {name}', front, count=1)}---{shuffled}"
