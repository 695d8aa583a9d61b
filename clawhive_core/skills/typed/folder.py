"""The package of types in a folder: written, or compared with what stands there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from clawhive_core.diagnostics.files import file_errors, replace_file, shown_path
from clawhive_core.errors import UsageError
from clawhive_core.model.late import dataclass
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.typed.module import CONTEXT, MARK, PACKAGE, module_names, module_of

State = Literal["same", "new", "changed", "stale"]

_BASE = Path(__file__).resolve().parents[2] / "data" / "types" / f"{CONTEXT}.py"
_INIT = f'"""The types of what skills export."""\n\n{MARK}\n'


@dataclass(frozen=True, slots=True)
class TypesFile:
    """One file of the package, and how what stands in the folder differs from it."""

    path: Path
    text: str
    state: State
    """`stale`: written once for a skill that is gone, and no longer part of the package."""


@dataclass(frozen=True, slots=True)
class TypesPackage:
    """The types of some skills and of all that they import from."""

    files: tuple[TypesFile, ...]
    untyped: tuple[str, ...] = ()
    """Inputs and outputs, as MODULE.NAME, that are `Any` because nothing could type them."""

    @property
    def outdated(self) -> list[TypesFile]:
        """The files that differ from what stands in the folder."""
        return [each for each in self.files if each.state != "same"]

    def write(self) -> None:
        """Bring the folder to what the contracts say; a file of other origin is left alone.

        Raises:
            UsageError: `io_error`.
        """
        fix = "name a folder that you may write to: --out DIR"
        for each in self.outdated:
            with file_errors("the types cannot be written", each.path, fix):
                if each.state == "stale":
                    each.path.unlink()
                    continue
                each.path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(each.path, each.text.encode())


def types_package(
    names: Iterable[str], known: Mapping[str, Skill], folder: Path, *, whole: bool
) -> TypesPackage:
    """Return the package of types, compared with the folder.

    A file's text depends on the contracts alone, not on which skills are asked for.

    Args:
        names: The ids of the skills; those that they import from are added.
        known: All skills by id.
        folder: Where the package is or will be.
        whole: Whether these are all skills, so that other modules in the folder are stale.

    Raises:
        UsageError: `missing_package`, or a file in the way that nothing of this wrote.
    """
    wanted = _with_providers(names, known)
    modules = module_names(list(known))
    texts = {"__init__": _INIT, CONTEXT: _BASE.read_text(encoding="utf-8")}
    untyped: list[str] = []
    for name in wanted:
        made = module_of(known[name], known, modules)
        texts[modules[name]] = made.text
        untyped += [f"{modules[name]}.{each}" for each in made.untyped]
    package = folder / PACKAGE
    files = [_compared(package / f"{name}.py", text) for name, text in sorted(texts.items())]
    there = sorted(package.glob("*.py")) if whole else []
    files += [
        TypesFile(path, "", "stale") for path in there if path.stem not in texts and _is_ours(path)
    ]
    return TypesPackage(tuple(files), tuple(untyped))


def _with_providers(names: Iterable[str], known: Mapping[str, Skill]) -> Sequence[str]:
    found = dict.fromkeys(names)
    waiting = list(found)
    while waiting:
        for each in known[waiting.pop()].imports:
            if each.skill in known and each.skill not in found:
                found[each.skill] = None
                waiting.append(each.skill)
    return [name for name in sorted(found) if known[name].exports.tools]


def _compared(path: Path, text: str) -> TypesFile:
    with file_errors("the types cannot be read", path, "name another folder: --out DIR"):
        try:
            there = path.read_bytes()
        except FileNotFoundError:
            return TypesFile(path, text, "new")
    if there == text.encode():
        return TypesFile(path, text, "same")
    if there.strip() and MARK.encode() not in there:
        raise UsageError(
            f"{shown_path(path)} was not written by `clawhive skills types`",
            place=shown_path(path),
            fix="remove it yourself, or name another folder: --out DIR",
            code="already_exists",
        )
    return TypesFile(path, text, "changed")


def _is_ours(path: Path) -> bool:
    try:
        return MARK.encode() in path.read_bytes()
    except OSError:
        return False
