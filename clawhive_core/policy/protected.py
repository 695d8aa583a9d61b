"""Files that no grant of a folder opens: ClawHive's own, git's, and what runs by itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, cast

from clawhive_core.capabilities import Capability
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern

Protection = Literal["own", "closed", "sensitive", "asks"]
"""`own`: no tool touches it. `closed`: no tool changes it. `sensitive`: it is open to a right
that a person gave to exactly this file. `asks`: without such a right, a change asks."""


@dataclass(frozen=True, slots=True)
class Protected:
    """Names at any depth, with all that lies below them, and what is held for them."""

    kind: Protection
    names: tuple[str, ...]
    """Case is ignored; `*` stands for anything in a name, `**` for folders, none too."""
    why: str
    is_last: bool = False
    """Whether the name counts as that of the file itself only, not of a folder above it."""


TABLE = (
    Protected("own", (".clawhive", "clawhive.toml", "clawhive.lock"), "ClawHive's own files"),
    Protected(
        "own",
        tuple(f".git/**/{name}" for name in ("config", "config.worktree", "hooks", "credentials")),
        "what git executes, and what names it or holds passwords",
    ),
    Protected(
        "closed",
        (".git",),
        "git takes from it, be it a folder or a file, where its configuration lies",
    ),
    Protected(
        "closed", ("HEAD",), "git takes a folder with such a file for a repository", is_last=True
    ),
    Protected(
        "closed",
        (".gitconfig", ".config/git", ".githooks", ".husky"),
        "git's next command runs what they say",
    ),
    Protected("closed", (".envrc", ".direnv"), "direnv runs it when a shell enters the folder"),
    Protected(
        "closed",
        ("mise.toml", ".mise.toml", "mise.local.toml", ".mise.local.toml", ".mise", ".config/mise"),
        "mise runs its hooks when a shell enters the folder",
    ),
    Protected(
        "closed",
        (".vscode", "*.code-workspace", ".idea", ".zed", ".fleet"),
        "editors run the tasks and programs that it names when they open the folder",
    ),
    Protected(
        "closed",
        (".devcontainer", ".devcontainer.json"),
        "editors run its commands, also outside the container, when they open the folder",
    ),
    Protected(
        "closed",
        (".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".config/nvim", ".dir-locals.el", ".emacs*"),
        "editors run it when they open a file beside it",
    ),
    Protected(
        "closed",
        (".claude/settings*.json", ".claude/hooks", ".mcp.json", ".cursor/*.json"),
        "other agents start the hooks and servers that it names",
    ),
    Protected(
        "closed",
        ("sitecustomize.py", "usercustomize.py", "*.pth"),
        "each Python that starts runs it",
    ),
    Protected(
        "closed",
        (
            *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases"),
            *(".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".inputrc"),
            *(".config/fish", ".tmux.conf", ".config/tmux", ".xprofile", ".xinitrc", ".xsessionrc"),
        ),
        "each shell, terminal or session that starts runs it",
    ),
    Protected(
        "closed",
        (".config/autostart", ".config/systemd", ".local/share/systemd", "Library/LaunchAgents"),
        "each session that starts runs it",
    ),
    Protected(
        "closed",
        (".ssh",),
        "it says who may log in, and what connections run",
    ),
    Protected(
        "sensitive",
        (".env*", "*.pem", "id_*", ".netrc", ".git-credentials"),
        "such names usually hold secrets",
    ),
    Protected(
        "asks",
        ("pyproject.toml",),
        "it may hold ClawHive's settings; a change of `[tool.clawhive]` is denied",
    ),
    Protected(
        "asks",
        (".pre-commit-config.y*ml", "lefthook*.y*ml", ".lefthook*.y*ml", ".lintstagedrc*"),
        "where its hooks are installed, the next commit runs what it names",
    ),
    Protected(
        "asks",
        (
            ".npmrc",
            ".yarnrc*",
            ".yarn/releases",
            ".yarn/plugins",
            ".pnpmfile.cjs",
            ".pypirc",
            "pip.conf",
            "uv.toml",
        ),
        "it says from where packages come, and what their installation runs",
    ),
    Protected(
        "asks",
        (".cargo/config*", "rust-toolchain*", ".mvn", "gradle/wrapper", ".tool-versions"),
        "it says which compilers and wrappers the next build runs",
    ),
    Protected(
        "asks",
        (".github/workflows", ".github/actions", ".gitlab-ci.yml", ".circleci", "Jenkinsfile"),
        "a server runs it after the next push, with the secrets that it keeps",
    ),
    Protected(
        "asks",
        (".claude/commands", ".claude/agents", ".claude/skills", ".cursor/rules"),
        "other agents take it for their instructions",
    ),
)
"""All that is protected by its name. What a person runs by name (`Makefile`, `package.json`,
`conftest.py`, scripts) is theirs, and not in it."""

FENCED = (".clawhive", "clawhive.toml", "clawhive.lock", ".git")
"""The paths that a fenced process cannot open at all, below the project's folder."""

_STRICTEST: tuple[Protection, ...] = ("own", "closed", "sensitive", "asks")
_READING: tuple[Protection, ...] = ("own", "sensitive")
_TEXTS: Mapping[Protection, str] = {
    "own": "fs.*:{}",
    "closed": "fs.write|delete|exec:{}",
    "sensitive": "fs.*:{}",
    "asks": "fs.write|delete|exec:{} (asks)",
}

_GIT = r"(?:\.git|git~\d)[ .]*(?::[^\x00]*)?"
"""The spellings by which some disks lead to `.git`."""
_IGNORED = pattern("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
"""Characters that some disks leave out of names."""


def _segment(name: str) -> str:
    if name == "**":
        return r"(?:[^\x00]+\x00)*"
    if name == ".git":
        return rf"{_GIT}\x00"
    return re.escape(name.casefold()).replace(r"\*", r"[^\x00]*") + r"\x00"


def _any_of(kind: Protection) -> re.Pattern[str]:
    """Return what finds a name of this kind as whole segments, NUL before and after each."""
    parts = (
        "".join(map(_segment, name.split("/"))) + (r"\Z" if row.is_last else "")
        for row in TABLE
        if row.kind == kind
        for name in row.names
    )
    return pattern(rf"\x00(?:{'|'.join(parts)})")


_firsts = {name.casefold().split("/")[0]: None for row in TABLE for name in row.names}
_FIRST = frozenset(each for each in _firsts if "*" not in each)
"""The literal beginnings of protected names: few paths hold any, and a set tells at once."""
_wild = pattern(
    rf"\x00(?:{'|'.join(_segment(each) for each in _firsts if '*' in each or each == '.git')})"
)
_of = {kind: _any_of(kind) for kind in _STRICTEST}


def protection_of(segments: tuple[str, ...], *, reading: bool = False) -> Protection | None:
    """Return how a path is protected, None where it is not; the strictest of all that fits."""
    # NUL, which no name holds, stands before and after each segment.
    joined = f"\0{chr(0).join(segments).casefold()}\0"
    if "%" in joined:  # as capabilities write what is no literal character
        from urllib.parse import unquote

        joined = _IGNORED.sub("", unquote(joined, errors="surrogateescape")).casefold()
    if _FIRST.isdisjoint(joined.split("\0")) and _wild.search(joined) is None:
        return None
    for kind in _READING if reading else _STRICTEST:
        if _of[kind].search(joined) is not None:
            return kind
    return None


def is_protected(path: str) -> bool:
    """Whether an absolute path is protected in any way."""
    return protection_of(tuple(path[1:].split("/"))) is not None


def protection_in(capability: Capability) -> Protection | None:
    """Return how a capability's file is protected, None for all that is no file."""
    verb = capability.verb
    if not verb.startswith("fs."):
        return None
    return protection_of(capability.parts[0], reading=verb == "fs.read")


def changes_settings(before: bytes, after: bytes) -> bool:
    """Whether a `pyproject.toml` would say other things to ClawHive than it does.

    One that cannot be read counts as changed, where it may speak of ClawHive at all.
    """
    if b"clawhive" not in before and b"clawhive" not in after:
        return False
    old, new = _settings(before), _settings(after)
    return new is _UNREADABLE or old != new


_UNREADABLE = object()


def _settings(data: bytes) -> object:
    from clawhive_core.config.tomlfile import load_toml

    try:
        document = load_toml(data.decode("utf-8"))
    except ValueError:
        return _UNREADABLE
    tools = document.get("tool")
    return cast("dict[str, Any]", tools).get("clawhive") if isinstance(tools, dict) else None


@cache
def as_rules() -> tuple[str, ...]:
    """Return the protected names as a person reads them."""
    return tuple(
        text.format(name if row.is_last or row.kind == "sensitive" else f"{name}/**")
        for row in TABLE
        for text in (_TEXTS[row.kind],)
        for name in row.names
    )
