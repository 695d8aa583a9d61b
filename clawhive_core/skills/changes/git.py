"""A git repository, read through the `git` program: no hooks, no filters, no network.

Plumbing commands only, since they neither page nor sign nor run what a repository's configuration
names; objects are read as they are stored.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from io import BufferedWriter
from pathlib import Path

from clawhive_core.errors import UsageError
from clawhive_core.model.late import dataclass
from clawhive_core.skills.contracts.manifest import MANIFESTS
from clawhive_core.skills.documents.document import MAX_BYTES
from clawhive_core.skills.documents.text import TEXT_FILE

SECONDS = 60
"""The seconds that one call of git may take."""

_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_BATCH_BYTES = 16 * 1024 * 1024
_BATCH_FILES = 1000
_LINK = "120000"


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of a tree."""

    path: str
    """From the root of the repository on, with `/` between its parts."""
    name: str
    """The id of the object."""
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository with a work tree."""

    root: Path
    """The top of the work tree, without links."""

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """Return the repository that a folder lies in.

        Raises:
            UsageError: `git_failed`: there is none, or no git.
        """
        asked = _git(folder, "rev-parse", "--show-toplevel")
        if asked.returncode:
            fix = "run it inside of a git repository with a work tree, or name two paths"
            raise _failed(f"{folder} is in no git work tree", asked, fix)
        return cls(Path(os.path.realpath(os.fsdecode(asked.stdout).removesuffix("\n"))))

    def path_of(self, path: Path) -> str | None:
        """Return a path on disk from the root on, empty for the root; None for one outside."""
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self.root):
            return None
        return "" if real == self.root else real.relative_to(self.root).as_posix()

    def commit(self, ref: str) -> str:
        """Return the id of the commit that a name means; `REF...` is where HEAD left REF.

        Raises:
            UsageError: `unknown_revision`: it means none here.
        """
        found = self._resolved(ref.removesuffix("...") or "HEAD")
        if not ref.endswith("..."):
            return found
        asked = self._run("merge-base", "--end-of-options", found, "HEAD")
        if asked.returncode:
            fix = "fetch the history: git fetch --unshallow"
            raise _failed(f"`{ref}`: no commit is common to it and HEAD", asked, fix)
        return os.fsdecode(asked.stdout).strip()

    def _resolved(self, ref: str) -> str:
        asked = self._run("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
        if asked.returncode == 0:
            return os.fsdecode(asked.stdout).strip()
        remote, _, branch = ref.partition("/")
        fix = "list what there is: git branch --all; git tag"
        if branch:
            fix = f"fetch it: git fetch {remote} {branch}:refs/remotes/{ref}"
        if self._is_shallow():
            fix = f"{fix}; this clone is shallow (actions/checkout: `fetch-depth: 0`)"
        raise UsageError(
            f"`{ref}` names no commit of {self.root}",
            code="unknown_revision",
            place=f"git:{ref}",
            fix=fix,
        )

    def _is_shallow(self) -> bool:
        return self._run("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"

    def files(self, commit: str, path: str) -> Iterator[Blob]:
        """Yield the files and links of a commit, below a path or at it; submodules are not read.

        Raises:
            UsageError: `git_failed`.
        """
        below = ["--", path] if path else []
        asked = self._done("ls-tree", "-r", "-z", "--full-tree", commit, *below)
        for entry in asked.split(b"\0"):
            facts, tab, name = entry.partition(b"\t")
            if not tab:
                continue
            mode, kind, blob = os.fsdecode(facts).split()
            if kind == "blob":
                yield Blob(os.fsdecode(name), blob, is_link=mode == _LINK)

    def sizes(self, blobs: Sequence[Blob]) -> list[int]:
        """Return how many bytes each file has.

        Raises:
            UsageError: `git_failed`: an object is not there.
        """
        answer = self._done("cat-file", "--batch-check", "--buffer", given=_names(blobs))
        lines = answer.splitlines()
        return [_size(each, line) for each, line in zip(blobs, lines, strict=True)]

    def contents(self, blobs: Sequence[tuple[Blob, int]]) -> Iterator[tuple[Blob, bytes]]:
        """Yield files, given with their sizes, with what is stored of them.

        Raises:
            UsageError: `git_failed`: an object is not there.
        """
        for batch in _batches(blobs):
            answer = self._done("cat-file", "--batch", "--buffer", given=_names(batch))
            at = 0
            for each in batch:
                end = answer.find(b"\n", at)
                begin = end + 1
                at = begin + _size(each, answer[at:end]) + 1
                yield each, answer[begin : at - 1]

    def day(self, commit: str) -> date:
        """Return the day of a commit, in UTC."""
        return next(day for _, day in self.history(commit, "", 1))

    def history(self, commit: str, path: str, most: int) -> Iterator[tuple[str, date]]:
        """Yield the commits that changed a path, the latest first, with their days."""
        below = ["--", path] if path else ["--"]
        words = ("rev-list", "--timestamp", f"--max-count={most}", commit, *below)
        for line in os.fsdecode(self._done(*words)).splitlines():
            seconds, _, name = line.partition(" ")
            yield name, datetime.fromtimestamp(int(seconds), UTC).date()

    def _done(self, *words: str, given: bytes = b"") -> bytes:
        asked = self._run(*words, given=given)
        if asked.returncode:
            fix = "fetch what is missing: git fetch; then try it again"
            raise _failed(f"git {words[0]} failed in {self.root}", asked, fix)
        return asked.stdout

    def _run(self, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return _git(self.root, *words, given=given)


def _git(folder: Path, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("git")
    if program is None:
        fix = "install git, or name two folders"
        raise UsageError("the program git is not there", code="git_failed", fix=fix)
    try:
        return subprocess.run(
            [program, "--no-pager", *words],
            cwd=folder,
            env={**os.environ, **_ENVIRONMENT},
            input=given,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except OSError as error:
        message = f"git cannot be run in {folder}: {error.strerror}"
        raise UsageError(message, code="git_failed", fix="name a folder that is there") from None
    except subprocess.TimeoutExpired:
        message = f"git {words[0]} did not end within {SECONDS} seconds"
        raise UsageError(message, code="git_failed", place=str(folder)) from None


def _batches(blobs: Iterable[tuple[Blob, int]]) -> Iterator[list[Blob]]:
    batch: list[Blob] = []
    held = 0
    for each, size in blobs:
        if batch and (held + size > _BATCH_BYTES or len(batch) == _BATCH_FILES):
            yield batch
            batch, held = [], 0
        batch.append(each)
        held += size
    if batch:
        yield batch


def _names(blobs: Iterable[Blob]) -> bytes:
    return "".join(f"{each.name}\n" for each in blobs).encode()


def _size(blob: Blob, header: bytes) -> int:
    """Return the size that `NAME blob SIZE` states."""
    words = header.split()
    if words[1:2] == [b"blob"]:
        return int(words[2])
    raise UsageError(
        f"the content of {blob.path} is not in this clone",
        code="git_failed",
        place=blob.path,
        fix="fetch it: git fetch --refetch (a partial clone leaves contents out)",
    )


def _failed(message: str, asked: subprocess.CompletedProcess[bytes], fix: str) -> UsageError:
    said = os.fsdecode(asked.stderr).strip().splitlines()
    why = said[0].removeprefix("fatal: ") if said else f"exit {asked.returncode}"
    return UsageError(f"{message}: {why}", code="git_failed", fix=fix)


NAMED = frozenset({TEXT_FILE, *MANIFESTS})
"""The names of a contract's files in a skill's folder."""

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
