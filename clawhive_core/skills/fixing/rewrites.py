"""Edits that write a value or a part of the frontmatter in another way, the meaning unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, cast

from clawhive_core.diagnostics.finding import Edit, Finding
from clawhive_core.diagnostics.suggestions import is_typo, suggested_word
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.documents.source import CONTROL, HIDDEN, Source, title_of

_WORD = pattern(
    r"([\"']?)(?P<old>[^\"'\s,\[\]{}#:][^\"',\[\]{}#:]*?)\1"
    r"(?=[ \t]*(?:$|[,\]}]|:(?:[ \t]|$))|[ \t]+#)"
)
_WRITE = pattern(r"write `([\w./-]+)`")
_SAFE = pattern(r"[A-Za-z_][\w./-]*|\d+/[a-z]+|\d{4}-\d\d-\d\d", re.ASCII)
_DIGITS = pattern(r"\d+")
_ITEM = pattern(r"[ ]*- +([\"']?)[\w.-]+\1[ \t]*(?:#.*)?")
_TOOL = r"[\w.:*()/@-]+"
_LISTED = pattern(rf"([\"']?)(?P<old>{_TOOL}(?:[ \t]*,[ \t]*{_TOOL})+)\1(?=[ \t]*(?:$|[ \t]#))")
_COMMA = pattern(r"[ \t]*,[ \t]*")
_BRACKETS = pattern(r"\[([^\[\]{}#&|>\"']*)\](?=[ \t]*(?:$|[ \t]#))")
_TOOL_ITEM = pattern(rf"[ ]*- +({_TOOL})[ \t]*")
_FENCE = pattern(r"---[ \t]*")
_ENTRY = pattern(r"[A-Za-z_][\w.-]*:(?:[ \t].*)?|[ \t]+\S.*|#.*")
_EARLIEST = pattern(r"write `removal_date: (\d{4}-\d\d-\d\d)` or later")
_DAY = pattern(r"([\"']?)(?P<old>\d{4}-\d\d-\d\d)\1(?=[ \t]*(?:$|[,\]}]|[ \t]#))")
_VERB = pattern(r"[\"']?(?P<old>[a-z]+\.[a-z_.]+)(?=[:\"'\s,\]]|$)")
_CR_LF, _LF, _CR = pattern(r"\r\n"), pattern(r"(?<!\r)\n"), pattern(r"\r(?!\n)")
_GROUP = pattern(r"\(\?P<(?=[A-Za-z_]\w*>)", re.ASCII)


def rewritten(
    finding: Finding,
    source: Source,
    form: re.Pattern[str],
    write: Callable[[re.Match[str]], str | None],
) -> tuple[Edit, ...]:
    """Return the edit of what stands at a finding: its group `old`, else all of it, in another way.

    Args:
        finding: Where it stands.
        source: The text.
        form: What it must be, else there is no edit.
        write: Returns what to write for it, None for no edit.
    """
    start, rest = source.rest(finding)
    match = form.match(rest)
    text = None if match is None else write(match)
    if match is None or text is None:
        return ()
    old = "old" if "old" in form.groupindex else 0
    return (Edit(start + match.start(old), start + match.end(old), text),)


def write_word(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Write the word that a title suggests for a misspelt one, or gives in its place."""
    given = _WRITE.fullmatch(title_of(finding))
    word = suggested_word(title_of(finding)) if given is None else given[1]
    if word is None or _SAFE.fullmatch(word) is None:
        return ()
    return rewritten(
        finding,
        source,
        _WORD,
        lambda match: word if given is not None or _is_slip(match["old"], word) else None,
    )


def _is_slip(there: str, word: str) -> bool:
    """Whether a word may be a misspelling: `v1` is none of `v2`, numbers mean something."""
    same = _DIGITS.findall(there) == _DIGITS.findall(word)
    return same and is_typo(there.lower(), word.lower())


def cut_item(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Cut an item out of a list that holds another one beside it."""
    start, rest = source.rest(finding)
    number, match = finding.line or 1, _WORD.match(rest)
    line = source.line(number)
    if match is None:
        return ()
    before = line[: (finding.column or 1) - 1]
    if before.rstrip().endswith(","):
        return (Edit(start - len(before) + before.rindex(","), start + len(match[0]), ""),)
    neighbours = [source.line(each) for each in (number - 1, number + 1)]
    if _ITEM.fullmatch(line) and any(
        _ITEM.fullmatch(each) and each.index("-") == line.index("-") for each in neighbours
    ):
        return (Edit(source.offset(number), source.end(number), ""),)
    return ()


def write_group(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Write a named group of a regular expression as ECMA-262 has it."""
    start, rest = source.rest(finding)
    if "(?P<" not in finding.message:
        return ()
    ends = (match.start() for match in _GROUP.finditer(rest))
    return tuple(Edit(start + at, start + at + 4, "(?<") for at in ends)


def write_date(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Write the first day on which a tool may go."""
    day = _EARLIEST.fullmatch(title_of(finding))
    return () if day is None else rewritten(finding, source, _DAY, lambda _: day[1])


def write_verb(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Write the verb that a title suggests at the beginning of a permission."""
    verb = suggested_word(title_of(finding))
    if verb is None:
        return ()
    return rewritten(
        finding, source, _VERB, lambda match: verb if _is_slip(match["old"], verb) else None
    )


def end_lines_as_most(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """End lines like most others of the file, where some end otherwise."""
    text = source.text
    if text.count("\r\n") in {0, text.count("\n")}:
        return ()
    windows, others = [*_CR_LF.finditer(text)], [*_LF.finditer(text)]
    if _CR.search(text) or str(finding.file).endswith(".py"):
        return ()
    few, end = (windows, "\n") if len(windows) <= len(others) else (others, "\r\n")
    return tuple(Edit(each.start(), each.end(), end) for each in few)


def cut_controls(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Cut the control characters of a text; in code they may be meant."""
    if str(finding.file).endswith(".py"):
        return ()
    return tuple(Edit(each.start(), each.end(), "") for each in CONTROL.finditer(source.text))


def cut_unseen(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Cut spaces of no width between ASCII letters: other scripts break their lines at them."""
    if str(finding.file).endswith(".py") or finding.severity == "error":
        return ()
    text = source.text
    return tuple(
        Edit(each.start(), each.end(), "")
        for each in HIDDEN.finditer(text)
        if each.start() and text[each.start() - 1].isascii() and text[each.end() :][:1].isascii()
    )


def join_tools(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Write tools that stand with commas, or in a list, as one text with spaces between them."""
    start, rest = source.rest(finding)
    brackets = _BRACKETS.match(rest)
    if _LISTED.match(rest) is not None:
        return rewritten(finding, source, _LISTED, lambda match: _COMMA.sub(" ", match["old"]))
    if brackets is not None:
        tools = [each.strip() for each in brackets[1].split(",") if each.strip()]
        if not tools or any(re.fullmatch(_TOOL, each) is None for each in tools):
            return ()
        return (Edit(start, start + len(brackets[0]), " ".join(tools)),)
    return _join_lines(finding.line or 1, source)


def _join_lines(first: int, source: Source) -> tuple[Edit, ...]:
    """Write a list in lines below its key, when nothing but another key or the end follows."""
    key, number = source.line(first - 1).rstrip(), first
    tools: list[str] = []
    while match := _TOOL_ITEM.fullmatch(source.line(number)):
        tools.append(match[1])
        number += 1
    following = source.line(number)
    ends = _FENCE.fullmatch(following) or following[:1] not in {" ", "-", "#"}
    if not tools or key != "allowed-tools:" or not ends:
        return ()
    start = source.offset(first - 1, len(key) + 1)
    last = source.offset(number - 1, len(source.line(number - 1)) + 1)
    return (Edit(start, last, f" {' '.join(tools)}"),)


def write_in_lines(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Write a list or mapping in brackets, which stands on one line after its key, in lines."""
    start, rest = source.rest(finding)
    line = source.line(finding.line or 1)
    head = re.fullmatch(r"([ ]*)[\w.-]+:([ \t]+)", line[: (finding.column or 1) - 1])
    node = _composed(rest) if head is not None else None
    if head is None or node is None:
        return ()
    lines = list(_lines(node, rest, len(head[1]) + 2))
    if not lines:
        return ()
    end = source.line_end()
    return (Edit(start - len(head[2]), start + node.end_mark.index, end + end.join(lines)),)


def _composed(text: str) -> Any:
    """Return the node in brackets, None where it is not whole or has anchors, tags or blocks."""
    import yaml

    try:
        node = cast("Any", yaml.compose(text, Loader=yaml.CSafeLoader))  # pyright: ignore[reportUnknownMemberType] - untyped
    except yaml.YAMLError:
        return None
    after = text[node.end_mark.index :].strip()
    is_literal = not re.search(r"[&*!|>]", text[: node.end_mark.index])
    return node if is_literal and (not after or after.startswith("#")) else None


def _lines(node: Any, text: str, indent: int) -> Iterator[str]:
    """Yield the lines of a collection; none where a part of it has no form in lines."""
    found: list[str] = []
    entries = node.value if node.id == "mapping" else [(None, each) for each in node.value]
    for key, value in entries:
        head = " " * indent + ("-" if key is None else f"{_raw(key, text)}:")
        if value.id == "scalar":
            found.append(f"{head} {_raw(value, text)}")
            continue
        below = list(_lines(value, text, indent + 2))
        if not below or key is None:
            return
        found += [head, *below]
    yield from found


def _raw(node: Any, text: str) -> str:
    return text[node.start_mark.index : node.end_mark.index]


def indent_by_spaces(_: Finding, source: Source) -> tuple[Edit, ...]:
    """Write two spaces for each tab in the indentation of the YAML, where it is none otherwise."""
    last = source.number(len(source.text))
    fences = [each for each in range(1, last + 1) if _FENCE.fullmatch(source.line(each))][:2]
    fenced = len(fences) > 1 and not any(source.line(each).strip() for each in range(1, fences[0]))
    first, end = (fences[0] + 1, fences[1]) if fenced else (1, last + 1)
    edits: list[Edit] = []
    lines: list[str] = []
    for number in range(first, end):
        line = source.line(number)
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        spaces = indent.replace("\t", "  ")
        lines.append(spaces + line[len(indent) :])
        if spaces != indent:
            start = source.offset(number)
            edits.append(Edit(start, start + len(indent), spaces))
    return tuple(edits) if _is_yaml("\n".join(lines)) else ()


def _is_yaml(text: str) -> bool:
    import yaml

    try:
        node = cast("Any", yaml.compose(text, Loader=yaml.CSafeLoader))  # pyright: ignore[reportUnknownMemberType] - untyped
    except (yaml.YAMLError, ValueError):
        return False
    return node is not None and node.id == "mapping"


def close_front(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Write the second fence after the last key, where an empty line and then text follow."""
    number = finding.line or 1
    keys: list[str] = []
    while _ENTRY.fullmatch(line := source.line(number + 1)):
        keys.append(line)
        number += 1
    empty, text = source.line(number + 1), source.line(number + 2)
    whole = all(any(each.startswith(key) for each in keys) for key in ("name:", "description:"))
    begins = text.startswith("#") or (text.strip() and not _ENTRY.match(text))
    if empty.strip() or not whole or not begins or not _is_yaml("\n".join(keys)):
        return ()
    at = source.end(number)
    return (Edit(at, at, f"---{source.line_end()}"),)
