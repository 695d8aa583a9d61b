"""A YAML or JSON text with the place of each of its values, read by PyYAML."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding, Severity
from clawhive_core.skills.documents.place import InvalidSkill, KeyPath, Place, dotted
from clawhive_core.skills.documents.source import BOM, odd_characters

MERGE_TAG = "tag:yaml.org,2002:merge"
TEXT_TAG = "tag:yaml.org,2002:str"
TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
)
"""The tags of JSON's types."""

MAX_DEPTH = 64
"""The levels that collections may be nested: composing them recurses in C, which has no bound."""


class TooDeep(Exception):
    """A text is nested deeper than `MAX_DEPTH`."""


class _Odd(Exception):
    """A node needs PyYAML's own constructor, or a finding."""


def compose(text: str) -> tuple[Any, Any, bool]:
    """Return the root node of a text, its value, and whether nothing about its nodes is odd.

    Nothing is odd: no key stands twice or is no text, there are JSON's types only, and no alias.

    Raises:
        yaml.YAMLError: It is no YAML.
        TooDeep: It is nested deeper than `MAX_DEPTH`.
    """
    loader = _loader()(text)
    try:
        node = loader.get_single_node()
        try:
            return node, _value(node, loader, set()), True
        except _Odd:
            return node, None if node is None else loader.construct_document(node), False
    finally:
        loader.dispose()


_composed = lru_cache(maxsize=32)(compose)
"""The same of a text that was read before: a project may be opened many times in a process."""


def _value(node: Any, loader: Any, seen: set[int]) -> Any:
    """Return what a node stands for, where no alias repeats it.

    PyYAML's own constructor does the same through a table of generators.

    Args:
        node: The node.
        loader: What it was read by.
        seen: The collections so far, by identity.
    """
    if node is None:
        raise _Odd
    tag, kind = node.tag, node.id
    if kind == "scalar":
        return node.value if tag == TEXT_TAG else _scalar(node, loader)
    if id(node) in seen:
        raise _Odd
    seen.add(id(node))
    if kind == "mapping" and tag == "tag:yaml.org,2002:map":
        entries = cast("list[tuple[Any, Any]]", node.value)
        made: dict[str, Any] = {}
        for key, value in entries:
            if key.tag != TEXT_TAG or key.id != "scalar":
                raise _Odd
            made[key.value] = _value(value, loader, seen)
        if len(made) < len(entries):
            raise _Odd
        return made
    if kind == "sequence" and tag == "tag:yaml.org,2002:seq":
        return [_value(each, loader, seen) for each in node.value]
    raise _Odd


def _scalar(node: Any, loader: Any) -> Any:
    try:
        return getattr(loader, _SCALARS[node.tag])(node)
    except _MISREAD:
        raise _Odd from None


_SCALARS = {
    f"tag:yaml.org,2002:{name}": f"construct_yaml_{name}"
    for name in ("int", "float", "bool", "null")
}


def _loader() -> Any:
    """Return the safe loader in C, without its reading of dates."""
    if not _LOADERS:
        _LOADERS.append(_made_loader())
    return _LOADERS[0]


_LOADERS: list[Any] = []


_DEEPER_THAN_LIBYAML_READS = "exceeded maximum nesting depth"
"""The problem that libyaml's scanner names from PyYAML 6.0.4 on; before, it went on."""

_MISREAD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The errors that PyYAML's constructors raise for a value that is not what its tag says."""


def _construct(base: Any) -> Any:
    """Return `construct_object` of a loader, with a place for whatever a constructor raises."""

    def construct(self: Any, node: Any, deep: bool = False) -> Any:
        """Return what a node stands for."""
        try:
            return base.construct_object(self, node, deep=deep)
        except _MISREAD:
            import yaml

            problem = f"{_tag(node)} stands before another value"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None

    return construct


def _tag(node: Any) -> str:
    return f"`{str(node.tag).replace('tag:yaml.org,2002:', '!!')}`"


def _made_loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    dates = "tag:yaml.org,2002:timestamp"
    resolvers = {
        first: [(tag, pattern) for tag, pattern in rules if tag != dates]
        for first, rules in base.yaml_implicit_resolvers.items()
    }
    scalar: Any = yaml.ScalarNode
    tags = {
        scalar: TEXT_TAG,
        yaml.SequenceNode: base.DEFAULT_SEQUENCE_TAG,
        yaml.MappingNode: base.DEFAULT_MAPPING_TAG,
    }

    def resolve(self: Any, kind: Any, value: Any, implicit: Any) -> str:
        """Return a node's tag: what PyYAML finds, which looks for paths of nodes too."""
        if kind is scalar:
            if implicit[0]:
                for tag, pattern in resolvers.get(value[:1], ()):
                    if pattern.match(value):
                        return tag
        elif self.depth > MAX_DEPTH:
            raise TooDeep
        return tags[kind]

    def descend(self: Any, _parent: Any, _index: Any) -> None:
        """Count a node more around the next one."""
        self.depth += 1
        if self.depth > MAX_DEPTH + 1:
            raise TooDeep

    def ascend(self: Any) -> None:
        """Count a node less."""
        self.depth -= 1

    members = {
        "depth": 0,
        "construct_object": _construct(base),
        "yaml_implicit_resolvers": resolvers,
        "resolve": resolve,
        "descend_resolver": descend,
        "ascend_resolver": ascend,
    }
    return type("Loader", (base,), members)


MAX_BYTES = 1024 * 1024
MAX_VALUES = 100_000
"""The most values of a document, those that aliases repeat included."""

_READ_TAGS = TAGS | {MERGE_TAG}
MAX_SAID = 100
"""The most findings of one kind in a document: who mends that many looks again."""

_WIDE = 32
_CHUNK = 16 * 1024


class Document:
    """One parsed text: its value, where each part of it stands, what is odd about it.

    Args:
        text: YAML 1.1, of which JSON is read as a part; dates stay texts.
        file: The file as messages name it.
        first_line: How many lines of the file stand before the text.
        what: What messages call the text.

    Raises:
        InvalidSkill: It is no YAML, nested too deep or too large.
    """

    def __init__(
        self, text: str, file: str, *, first_line: int = 0, what: str = "manifest"
    ) -> None:
        self.file = file
        self._first_line = first_line
        self._what = what
        self._indexes: dict[int, dict[Any, tuple[Any, Any]]] = {}
        """The entries of wide mappings by their keys, so that looking up each is no square."""
        self.problems: list[Finding] = []
        """Duplicate keys, keys that are no text, and tags beyond JSON's types."""
        self._root, self.value, usual = self._parse(text)
        if not usual or len(text) > MAX_VALUES:
            self._inspect()

    @classmethod
    def load(cls, path: Path, what: str = "manifest") -> Document:
        """Read a file; one called `*.json` must be JSON."""
        raw, file = read_text(path, what), shown_path(path)
        text = raw.removeprefix(BOM)
        if path.suffix == ".json":
            _check_json(text, file, what)
            text = text.replace("\t", " ")  # JSON has them between values only, YAML nowhere
        document = cls(text, file, what=what)
        document.problems.extend(odd_characters(raw, file))
        return document

    def place(self, path: KeyPath, *, key: bool = False) -> Place:
        """Return where a value stands, or its key; the nearest one above it where it is missing."""
        node = self._root
        for index, part in enumerate(path):
            found = self._child(node, part)
            if found is None:
                break
            node = found[0] if key and index == len(path) - 1 else found[1]
        return self._at(None if node is None else node.start_mark)

    def _child(self, node: Any, part: str | int) -> tuple[Any, Any] | None:
        if node is None or node.id != "mapping" or len(node.value) < _WIDE:
            return _child(node, part)
        if id(node) not in self._indexes:
            self._indexes[id(node)] = {
                key.value: (key, value) for key, value in node.value if isinstance(key.value, str)
            }
        return self._indexes[id(node)].get(part)

    def finding(
        self, code: str, path: KeyPath, message: str, fix: str | None = None, *, key: bool = False
    ) -> Finding:
        """Return an error at the place of a value."""
        return self.place(path, key=key).finding(code, "error", message, fix)

    def fail(self, path: KeyPath, message: str, fix: str | None = None) -> InvalidSkill:
        """Return the exception for a value that is not what it must be."""
        name = dotted(path) or f"the {self._what}"
        return InvalidSkill(self.finding("CH0305", path, f"{name}: {message}", fix))

    def flow_styled(self) -> Iterator[Place]:
        """Yield where lists and mappings stand that are written in brackets."""
        waiting: list[Any] = [self._root]
        while waiting:
            node = waiting.pop()
            if getattr(node, "flow_style", False):
                yield self._at(node.start_mark)
            elif node is not None:
                waiting += _below(node)

    def _at(self, mark: Any) -> Place:
        line, column = (0, 0) if mark is None else (mark.line, mark.column)
        return Place(self.file, line + self._first_line + 1, column + 1)

    def _parse(self, text: str) -> tuple[Any, Any, bool]:
        import yaml

        try:
            return _composed(text)
        except yaml.constructor.ConstructorError as error:
            place = self._at(error.problem_mark or error.context_mark)
            message = f"holds what JSON has not: {error.problem}"
            raise self._unreadable(place, "CH0230", message) from None
        except yaml.MarkedYAMLError as error:
            if error.problem == _DEEPER_THAN_LIBYAML_READS:
                raise self._too_deep() from None
            raise self._no_yaml(text, error) from None
        except yaml.reader.ReaderError as error:
            place = self._at_offset(text, error)
            raise self._unreadable(place, "CH0224", f"is no YAML: {error.reason}") from None
        except TooDeep:
            raise self._too_deep() from None
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise self._unreadable(Place(self.file), "CH0224", f"is no YAML: {reason}") from None

    def _too_deep(self) -> InvalidSkill:
        message = f"is nested deeper than {MAX_DEPTH} levels"
        return self._unreadable(Place(self.file), "CH0229", message)

    def _no_yaml(self, text: str, error: Any) -> InvalidSkill:
        """Return the error of the parser at its place, or at the tab that is the reason."""
        mark = error.problem_mark or error.context_mark
        tab = None if mark is None else _indented_by_tab(text, mark.line)
        if tab is None:
            return self._unreadable(self._at(mark), "CH0224", f"is no YAML: {error.problem}")
        place = Place(self.file, tab[0] + self._first_line + 1, tab[1] + 1)
        message = f"the {self._what} is indented by a tab, which YAML does not have"
        return InvalidSkill(place.finding("CH0232", "error", message, "indent it by spaces"))

    def _at_offset(self, text: str, error: Any) -> Place:
        """Return the place of a character that YAML does not have; its offset counts bytes."""
        before = text.encode()[: error.position].decode(errors="ignore")
        line = before.count("\n")
        return Place(self.file, line + self._first_line + 1, len(before) - before.rfind("\n"))

    def _unreadable(self, place: Place, code: str, message: str) -> InvalidSkill:
        return InvalidSkill(place.finding(code, "error", f"the {self._what} {message}"))

    def _inspect(self) -> None:
        """Look at each value once for every time that it is used, so that aliases count."""
        waiting: list[Any] = [self._root]
        seen: set[int] = set()
        for _ in range(MAX_VALUES):
            if not waiting:
                return
            node = waiting.pop()
            if node is None:
                continue
            if id(node) not in seen:
                seen.add(id(node))
                self._inspect_one(node)
            waiting += _below(node)
        raise self._unreadable(
            Place(self.file), "CH0229", f"holds more than {MAX_VALUES} values, aliases included"
        )

    def _inspect_one(self, node: Any) -> None:
        if node.tag not in _READ_TAGS:
            self._note(
                node, "CH0230", f"{_tag(node)} is no type of JSON", "write a text or a number"
            )
        if node.id == "mapping":
            self._inspect_keys([key for key, _ in node.value])

    def _inspect_keys(self, keys: list[Any]) -> None:
        first: dict[str, Any] = {}
        for key in keys:
            if key.tag not in {TEXT_TAG, MERGE_TAG} or key.id != "scalar":
                name = key.value if isinstance(key.value, str) else "it"
                self._note(key, "CH0231", f"`{name}` is no text, as a key of a mapping must be")
            elif key.value in first:
                before = first[key.value].start_mark.line + self._first_line + 1
                message = f"`{key.value}` stands twice; it was set in line {before} before"
                self._note(key, "CH0227", message, "keep one of them")
            else:
                first[key.value] = key

    def _note(self, node: Any, code: str, message: str, fix: str | None = None) -> None:
        fix = fix or "put it in quotes"
        if len(self.problems) < MAX_SAID:
            self.problems.append(self._at(node.start_mark).finding(code, "error", message, fix))


def read_text(path: Path | str, what: str) -> str:
    """Return the text of a file, with its byte order mark.

    Raises:
        InvalidSkill: As `read_bytes`, or it is not UTF-8.
    """
    return decoded(read_bytes(path, what), path, what)


def read_bytes(path: Path | str, what: str) -> bytes:
    """Return the bytes of a file.

    Raises:
        InvalidSkill: It cannot be read, is too large, or is a link that leads out of the folder
            which the skill's own stands in.
    """
    data = _no_link(os.fspath(path))
    if data is None:
        data = _looked_at(path, what)
    if len(data) > MAX_BYTES:
        raise _refused(path, "CH0006", f"the {what} is larger than {MAX_BYTES} bytes")
    return data


def _no_link(file: str) -> bytes | None:
    """Return the bytes of a file; None for a link, where it fails, or where it cannot be told."""
    if not NO_LINK:
        return None
    try:
        return _bytes(file, _HOW | NO_LINK)
    except OSError:
        return None


def _looked_at(path: Path | str, what: str) -> bytes:
    """Return the bytes of a file, or of what a link leads to that may be followed."""
    file = os.fspath(path)
    if os.path.islink(file) and not _stays(path):  # noqa: PTH114 - a Path costs more than the call
        message = f"the {what} is a link that leads out of the folder of skills"
        raise _refused(path, "CH0007", message, "put the file itself there")
    try:
        return _bytes(file, _HOW)
    except OSError as error:
        raise _refused(path, "CH0002", f"the {what} cannot be read: {error.strerror}") from None


def decoded(data: bytes, path: Path | str, what: str) -> str:
    """Return the text that the bytes of a file are.

    Raises:
        InvalidSkill: It is not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        before = data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode()
        message = f"the {what} is not UTF-8: {error.reason} at byte {error.start}"
        there = Place(shown_path(path), line, len(before.removeprefix(BOM)) + 1)
        raise InvalidSkill(there.finding("CH0001", "error", message, "save it as UTF-8")) from None


def _refused(path: Path | str, code: str, message: str, fix: str | None = None) -> InvalidSkill:
    return InvalidSkill(Place(shown_path(path)).finding(code, "error", message, fix))


def _bytes(file: str, how: int) -> bytes:
    """Return a file's bytes, one more than may be where there are too many."""
    handle = os.open(file, how)
    try:
        data = os.read(handle, _CHUNK)  # asking for all at once would make room for all
        while 0 < len(data) <= MAX_BYTES and (more := os.read(handle, MAX_BYTES + 1 - len(data))):
            data += more
    finally:
        os.close(handle)
    return data


NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""Opens a file only where it is no link; 0 where the system cannot."""
_HOW = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def _stays(link: Path | str) -> bool:
    """Whether a link leads to a file below the folder that the skill's folder stands in."""
    root = os.path.realpath(Path(link).parent.parent)
    return os.path.realpath(link).startswith(os.path.join(root, ""))  # noqa: PTH118 - of texts


def with_severity(finding: Finding, severity: Severity) -> Finding:
    """Return a finding that weighs differently."""
    from dataclasses import replace

    return replace(finding, severity=severity)


def _indented_by_tab(text: str, near: int) -> tuple[int, int] | None:
    """Return line and column, from 0, of a tab in the indentation of a line or the one before."""
    lines = text.splitlines()
    for number in (near - 1, near):
        line = lines[number] if 0 <= number < len(lines) else ""
        column = line.find("\t")
        if column >= 0 and not line[:column].strip(" "):
            return number, column
    return None


def _check_json(text: str, file: str, what: str) -> None:
    import json

    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        place = Place(file, error.lineno, error.colno)
        message = f"the {what} is no JSON: {error.msg}"
        raise InvalidSkill(place.finding("CH0224", "error", message)) from None
    except RecursionError:
        message = f"the {what} is nested deeper than {MAX_DEPTH} levels"
        raise InvalidSkill(Place(file).finding("CH0229", "error", message)) from None
    except ValueError as error:  # a number of more digits than Python converts
        message = f"the {what} cannot be read as JSON: {error}"
        raise InvalidSkill(Place(file).finding("CH0224", "error", message)) from None


def _child(node: Any, part: str | int) -> tuple[Any, Any] | None:
    """Return key and value of an entry, the item twice in a list."""
    if node is None or not isinstance(node.value, list):
        return None
    entries = cast("list[Any]", node.value)
    if node.id == "mapping":
        # of two equal keys YAML keeps the last
        return next(((key, value) for key, value in reversed(entries) if key.value == part), None)
    if isinstance(part, int) and part < len(entries):
        return entries[part], entries[part]
    return None


def _below(node: Any) -> list[Any]:
    if not isinstance(node.value, list):
        return []
    entries = cast("list[Any]", node.value)
    return [value for _, value in entries] if node.id == "mapping" else entries
