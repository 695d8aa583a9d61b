"""The edits that fix findings, where it is certain what was meant.

A finding says where something stands; whether that is still so, and can be fixed by changing a
few characters, is looked up in the text. Whatever is not just as expected is left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from clawhive_core.diagnostics.finding import Edit, Finding, Fix
from clawhive_core.diagnostics.suggestions import is_typo, suggested_word
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.documents.fields import LISTED
from clawhive_core.skills.documents.source import BOM, Source, title_of
from clawhive_core.skills.documents.text import unquoted
from clawhive_core.skills.fixing.rewrites import (
    close_front,
    cut_controls,
    cut_item,
    cut_unseen,
    end_lines_as_most,
    indent_by_spaces,
    join_tools,
    rewritten,
    write_date,
    write_group,
    write_in_lines,
    write_verb,
    write_word,
)

QUOTE = "put it in quotes"
"""The title of fixes for a scalar that YAML reads as another type than text."""

_PLAIN = pattern(r"[A-Za-z0-9][\w.+-]*(?=[ \t]*(?:$|[,\]}]|:(?:[ \t]|$))|[ \t]+#)", re.ASCII)
_VERSION = pattern(r"([\"']?)v?(\d{1,9})(\.\d{1,9})?(?:\.\d{1,9})?\1(?=[ \t]*(?:$|[,\]}]|[ \t]#))")
_QUOTED_FLAG = pattern(r"([\"'])(true|false|True|False)\1(?=[ \t]*(?:$|[,\]}]|[ \t]#))")
_ONE_TEXT = pattern(r"(?:[A-Za-z][\w.-]*|\"[^\"\\]+\"|'[^']+')(?=[ \t]*(?:$|[,\]}]|[ \t]#))")
_KEY = pattern(r"([\"']?)(?P<old>[\w.-]+)\1(?=[ \t]*:)")
_ENTRY = pattern(r"([ ]*)([\"']?)[\w.-]+\2:[ \t]+[^\s|>&*!#{\[][^\r\n]*")
_NAMED = pattern(r"write `name: ([^`]+)`")
_OLD_NAME = pattern(r"(?:\"[\w .-]+\"|'[\w .-]+'|[\w.-]+(?: [\w.-]+)*)(?=[ \t]*(?:$|[ \t]#))")
_HAS_NAME = pattern(r"([\"']?)name\1[ \t]*:")

Mender = Callable[[Finding, Source], "tuple[Edit, ...]"]


def with_edits(finding: Finding, source: Source) -> Finding:
    """Return a finding with the edits that fix it in this text, where they are certain."""
    fix = _FIXERS.get(finding.code)
    if fix is None or finding.fix is None or not finding.line or not finding.column:
        return finding
    meant = fix(finding, source)
    edits = tuple(each for each in meant if source.text[each.start : each.end] != each.text)
    return replace(finding, fix=Fix(finding.fix.title, edits)) if edits else finding


def _quote_value(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Quote a value with a colon, as it was read."""
    found = unquoted(source.line(finding.line or 1))
    if found is None:
        return ()
    column, value = found
    start = source.offset(finding.line or 1, column + 1)
    return (Edit(start, start + len(value), json.dumps(value, ensure_ascii=False)),)


def _quote_scalar(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Quote a number or a word that YAML reads as another type, as it is written."""
    if title_of(finding) != QUOTE:
        return ()
    return rewritten(finding, source, _PLAIN, lambda match: f'"{match[0]}"')


def _fix_value(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Quote a value, take the quotes from `true` or `false`, or write what is suggested."""
    title = title_of(finding)
    if title == "write it without quotes":
        return rewritten(finding, source, _QUOTED_FLAG, lambda match: match[2].lower())
    if title == LISTED:
        return rewritten(finding, source, _ONE_TEXT, lambda match: f"[{match[0]}]")
    return write_word(finding, source) if title != QUOTE else _quote_scalar(finding, source)


def _quote_version(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Write MAJOR.MINOR in quotes for a number, for `v1.2` and for a version of three parts."""
    return rewritten(finding, source, _VERSION, lambda match: f'"{match[2]}{match[3] or ".0"}"')


def _rename_key(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Write the suggested key, where it is similar; none is suggested that is there already."""
    word = suggested_word(title_of(finding))
    if word is None:
        return ()
    return rewritten(
        finding, source, _KEY, lambda match: word if is_typo(match["old"], word) else None
    )


def _write_name(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Write the folder's name: as the first key, or in the place of another name or of none."""
    named = _NAMED.fullmatch(title_of(finding))
    if named is None:
        return _rename_key(finding, source)
    name = named[1] if re.fullmatch(r"[a-zA-Z][\w-]{5,}", named[1]) else json.dumps(named[1])
    if finding.code in {"CH0203", "CH0204"}:
        return rewritten(finding, source, _OLD_NAME, lambda _: name)
    fence = _fence(source)
    if fence is None or "is missing" not in finding.message:
        return ()
    line = source.line(finding.line or 1)
    if _HAS_NAME.match(line):  # the key is there, without a value: a second one would be worse
        if line.rstrip(" \t") != "name:":
            return ()
        start = source.offset(finding.line or 1, len("name:") + 1)
        return (Edit(start, start + len(line) - len("name:"), f" {name}"),)
    at = source.end(source.number(fence))
    return (Edit(at, at, f"name: {name}{source.line_end()}"),)


def _cut_mark(_: Finding, source: Source) -> tuple[Edit, ...]:
    return (Edit(0, len(BOM), ""),) if source.text.startswith(BOM) else ()


def _cut_before_fence(_: Finding, source: Source) -> tuple[Edit, ...]:
    fence = _fence(source)
    return (Edit(0, fence, ""),) if fence else ()


def _fence(source: Source) -> int | None:
    match = re.match(r"\ufeff?[\s]*?(?=---[ \t]*(?:\r|\n))", source.text)
    return None if match is None else match.end()


def _cut_repeated(finding: Finding, source: Source) -> tuple[Edit, ...]:
    """Cut a line that repeats an earlier one of its mapping, key and value."""
    number = finding.line or 1
    line = source.line(number)
    entry = _ENTRY.fullmatch(line)
    if entry is None or len(entry[1]) != (finding.column or 1) - 1:
        return ()
    after = source.line(number + 1)
    if after.strip() and _indent(after) > len(entry[1]):
        return ()  # the value goes on
    if not any(_same_mapping(source, earlier, number) for earlier in _equal_lines(source, number)):
        return ()
    return (Edit(source.offset(number), source.end(number), ""),)


def _equal_lines(source: Source, number: int) -> Iterator[int]:
    line = source.line(number)
    return (each for each in range(number - 1, 0, -1) if source.line(each) == line)


def _same_mapping(source: Source, first: int, last: int) -> bool:
    """Whether nothing between two lines stands further left, and the first one's value is whole."""
    indent = _indent(source.line(last))
    between = [line for line in map(source.line, range(first + 1, last)) if line.strip()]
    if any(_indent(line) < indent or line.startswith("---") for line in between):
        return False
    following = source.line(first + 1)
    return not following.strip() or _indent(following) <= indent


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


_FIXERS: Mapping[str, Mender] = {
    "CH0003": end_lines_as_most,
    "CH0004": cut_controls,
    "CH0005": cut_unseen,
    "CH0010": _cut_mark,
    "CH0201": _write_name,
    "CH0205": _rename_key,
    "CH0203": _write_name,
    "CH0204": _write_name,
    "CH0207": _quote_scalar,
    "CH0209": _quote_scalar,
    "CH0210": join_tools,
    "CH0211": _quote_scalar,
    "CH0212": _rename_key,
    "CH0213": write_in_lines,
    "CH0222": close_front,
    "CH0223": _cut_before_fence,
    "CH0225": _quote_value,
    "CH0227": _cut_repeated,
    "CH0231": _quote_scalar,
    "CH0232": indent_by_spaces,
    "CH0305": _fix_value,
    "CH0306": _rename_key,
    "CH0308": write_word,
    "CH0309": write_verb,
    "CH0310": write_word,
    "CH0312": write_word,
    "CH0501": _quote_version,
    "CH0502": write_word,
    "CH0503": write_word,
    "CH0506": write_word,
    "CH0507": write_word,
    "CH0508": write_group,
    "CH0515": write_word,
    "CH0601": write_word,
    "CH0602": write_word,
    "CH0605": _quote_version,
    "CH0606": cut_item,
    "CH0611": write_word,
    "CH0616": cut_item,
    "CH0701": write_date,
    "CH0704": write_word,
    "CH0706": write_word,
}

FIXABLE = frozenset(_FIXERS)
"""The codes of the findings that may have edits."""
