"""The real skills that are tried where they are at hand; they are no part of the repository."""

from pathlib import Path

import pytest

_INSIDE = Path("shared", "data", "skills_dev")
CORPUS = next(
    (each / _INSIDE for each in Path(__file__).parents if (each / _INSIDE / "files").is_dir()), None
)
needs_corpus = pytest.mark.skipif(CORPUS is None, reason="the corpus of real skills is not here")


def real_files():
    """Return the SKILL.md files of the corpus, sorted."""
    return sorted(CORPUS.joinpath("files").rglob("SKILL.md")) if CORPUS else []
