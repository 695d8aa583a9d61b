"""Google docstrings, as far as a tool needs them: the description and its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from clawhive_core.model.patterns import pattern

_SECTION = pattern(
    r"(Args|Arguments|Parameters|Attributes|Example|Examples|Keyword Args|Note|Notes|Raises"
    r"|References|Returns|See Also|Todo|Warning|Warnings|Warns|Yields):\s*"
)
_ARGUMENT = pattern(r"\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)")
_ARGUMENT_SECTIONS = frozenset({"Args", "Arguments", "Parameters", "Keyword Args"})


def describe(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return a docstring's text before its first section, and its arguments' descriptions."""
    import inspect

    lines = inspect.cleandoc(docstring or "").splitlines()
    sections = [index for index, line in enumerate(lines) if _SECTION.fullmatch(line)]
    bounds = [*sections, len(lines)]
    arguments: dict[str, str] = {}
    for start, stop in pairwise(bounds):
        if lines[start].rstrip().removesuffix(":") in _ARGUMENT_SECTIONS:
            arguments.update(_arguments(lines[start + 1 : stop]))
    return "\n".join(lines[: bounds[0]]).strip(), arguments


def _arguments(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield name and text of each argument; deeper lines continue the one above."""
    body = [line for line in lines if line.strip()]
    indent = min((_indent(line) for line in body), default=0)
    name, words = "", list[str]()
    for line in body:
        match = _ARGUMENT.fullmatch(line.strip()) if _indent(line) == indent else None
        if match is None:
            words.append(line.strip())
            continue
        if name:
            yield name, " ".join(words)
        name, words = match[1], [match[2]] if match[2] else []
    if name:
        yield name, " ".join(words)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
