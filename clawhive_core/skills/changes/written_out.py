"""The files of contracts in a commit, written into a folder where they are read as any other."""

from __future__ import annotations

from io import BufferedWriter
from pathlib import Path

from clawhive_core.errors import UsageError
from clawhive_core.skills.changes.git import Blob, Repository
from clawhive_core.skills.contracts.manifest import MANIFESTS
from clawhive_core.skills.documents.document import MAX_BYTES
from clawhive_core.skills.documents.text import TEXT_FILE

NAMED = frozenset({TEXT_FILE, *MANIFESTS})
"""What the files of a contract are called in a skill's folder."""

MAX_TOTAL_BYTES = 512 * 1024 * 1024

_LFS = b"version https://git-lfs.github.com/spec/"


def write_out(repository: Repository, blobs: list[Blob], top: Path) -> None:
    """Write files into a folder; links are left out.

    Raises:
        UsageError: They are too large together, or cannot be written.
    """
    files = [each for each in blobs if not each.is_link]
    sizes = list(zip(files, repository.sizes(files), strict=True))
    if sum(size for _, size in sizes if size <= MAX_BYTES) > MAX_TOTAL_BYTES:
        raise UsageError(
            f"the contracts have more than {MAX_TOTAL_BYTES} bytes together",
            code="git_failed",
            fix="compare a folder at a time: git:REF:PATH",
        )
    try:
        for each, size in sizes:
            if size > MAX_BYTES:  # as large as it need be to be told so
                with _opened(top / each.path) as stream:
                    stream.truncate(MAX_BYTES + 1)
        for each, data in repository.contents([pair for pair in sizes if pair[1] <= MAX_BYTES]):
            if data.startswith(_LFS):
                raise _lies_elsewhere(each)
            with _opened(top / each.path) as stream:
                stream.write(data)
    except OSError as error:
        message = f"the files of the revision cannot be written: {error.strerror}"
        raise UsageError(message, code="git_failed", place=str(error.filename)) from None


def _opened(path: Path) -> BufferedWriter:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("xb")


def _lies_elsewhere(blob: Blob) -> UsageError:
    return UsageError(
        f"{blob.path} lies in Git LFS, not in the repository",
        code="git_failed",
        place=blob.path,
        fix="keep contracts in git itself: git lfs untrack; or compare two folders",
    )
