"""Whether a turn that is sent back carries what a recorded client carried of the same answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

_SAYS_NOTHING: tuple[Any, ...] = (None, "", [], {})
_HISTORIES = ("messages", "contents", "input")
_NOT_HISTORY = frozenset({"system", "developer"})
_MOVES = frozenset({"cache_control"})
"""The fields that clients move through a conversation as it grows."""
_IDS = frozenset({"id", "call_id", "tool_use_id", "tool_call_id"})
_UNFINISHED = frozenset({"failed", "queued", "in_progress", "cancelled"})
_LAST = 2
"""The number of a stream's last values that may say that it failed."""
_ALIASES = {
    **dict.fromkeys(("content", "thinking", "reasoning_content", "reasoning", "output"), "text"),
    "partial_json": "input",
}
"""Names under which APIs, and clients of them, have the same."""
_TAGS = frozenset({"type", "role", "status", "object"})
"""Fields whose words are the API's own, whoever uses them."""

Names = tuple[str, ...]
"""The names of the fields in which something is, outermost first."""


class Heard:
    """The values of an answer, and of a stream those that its pieces make.

    Args:
        response: The JSON value, or the text of the event stream.
    """

    def __init__(self, response: Any) -> None:
        self._values: set[Any] = set()
        self._said: set[tuple[str, str, Any]] = set()
        self._pieces: dict[tuple[str, str], list[str]] = {}
        streamed = isinstance(response, str)
        for value in _events(response) if streamed else (response,):
            self._take(value, streamed=streamed)
        self._joined = {place: "".join(pieces) for place, pieces in self._pieces.items()}
        for place, text in self._joined.items():
            self._read(text, place)

    def says(self, place: Names, value: Any) -> bool:
        """Return whether a text, number or truth value was said in such a field of such a one."""
        parent, name = _last(place)
        if (parent or "*", name, value) in self._said:
            return True
        return isinstance(value, str) and value in self._joined.get((parent or "*", name), "")

    def __contains__(self, value: Any) -> bool:
        """Whether a text, number or truth value was said anywhere."""
        if value in self._values:
            return True
        return isinstance(value, str) and any(value in text for text in self._joined.values())

    def _take(self, value: Any, *, streamed: bool) -> None:
        for place, leaf in _leaves(value, ()):
            self._add(place, leaf)
            if isinstance(leaf, str):
                self._read(leaf, place)
                if streamed:
                    parent, name = _last(place)
                    self._pieces.setdefault((parent, name), []).append(leaf)
                    self._pieces.setdefault(("*", name), []).append(leaf)

    def _read(self, text: str, place: Names) -> None:
        """Take what is in a text that is JSON, as arguments are."""
        for value in _values(text):
            for inner, leaf in _leaves(value, place):
                self._add(inner, leaf)

    def _add(self, place: Names, leaf: Any) -> None:
        parent, name = _last(place)
        self._values.add(leaf)
        self._said.update({(parent, name, leaf), ("*", name, leaf)})


def lack(sent: Any, recorded: Any, heard: Heard) -> str | None:
    """Return what a turn that is sent back lacks or adds; None where it is as it should be.

    Of what the recorded client sent, all that the answer had said must be sent too, at the same
    place and in the same order. What the client made up by itself (ids of its own, words between
    tags) nobody can ask of another; and an adapter may send more than the client did, provided
    that the answer said it.

    Args:
        sent: The turn, as `Wire.turns` has it.
        recorded: The same turn of the recorded client.
        heard: What the answer said.
    """
    missing = next(_missing(_normalised(sent), _normalised(recorded), heard, ()), None)
    if missing is not None:
        return missing
    known = {leaf for _, leaf in _leaves(_normalised(recorded), ())}
    for place, leaf in _leaves(_normalised(sent), ()):
        own = leaf in known or leaf in heard or _last(place)[1] in _TAGS | _IDS
        if not own and leaf not in {"", True, False}:
            return f"`{'.'.join(place)}`: {leaf!r} is sent, which nobody said"
    return None


def continues(later: Any, earlier: Any) -> bool:
    """Return whether a request goes on where another one was: it begins with the same history.

    Requests whose history is under none of the known names (`messages`, `contents`, `input`) are
    taken to go on.
    """
    before, after = _history(earlier), _history(later)
    if before is None or after is None:
        return True
    return len(after) >= len(before) and all(map(_same, after, before))


def says_failure(response: Any) -> bool:
    """Return whether an answer with a good HTTP status says that it failed, or is not finished."""
    values = list(_events(response)) if isinstance(response, str) else [response]
    ends: list[Any] = [each for each in values[-_LAST:] if isinstance(each, dict)]
    ends += [each["response"] for each in ends if isinstance(each.get("response"), dict)]
    return any(
        each.get("error") or each.get("type") == "error" or each.get("status") in _UNFINISHED
        for each in ends
    )


def _history(body: Any) -> list[Any] | None:
    if not isinstance(body, Mapping):
        return None
    fields = cast("Mapping[str, Any]", body)
    found: Any = next((fields[name] for name in _HISTORIES if name in fields), None)
    if not isinstance(found, list):
        return None if found is None else [found]
    return [each for each in cast("list[Any]", found) if not _is_instruction(each)]


def _is_instruction(item: Any) -> bool:
    return isinstance(item, Mapping) and cast("Any", item).get("role") in _NOT_HISTORY


def _same(after: Any, before: Any) -> bool:
    """Return whether a message is the one from before, though more may follow in it."""
    said = [leaf for _, leaf in _leaves(_normalised(before), ())]
    now = [leaf for _, leaf in _leaves(_normalised(after), ())]
    return now[: len(said)] == said


def _normalised(value: Any) -> Any:
    """Return a value without what says nothing or moves, and with JSON texts read."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        kept = {key: _normalised(each) for key, each in fields.items() if key not in _MOVES}
        return {key: each for key, each in kept.items() if each not in _SAYS_NOTHING}
    if isinstance(value, list):
        return [_normalised(each) for each in cast("list[Any]", value)]
    if not isinstance(value, str):
        return value
    if value[:1] == "{":
        with suppress(ValueError, RecursionError):
            return _normalised(json.loads(value))
    return value if value.strip() else ""  # some APIs answer such text, and none takes it back


def _missing(sent: Any, recorded: Any, heard: Heard, place: Names) -> Iterator[str]:
    """Yield what was said, that the recorded value has and the sent one has not."""
    if isinstance(recorded, dict):
        fields = cast("dict[str, Any]", recorded)
        mine = cast("dict[str, Any]", sent) if isinstance(sent, dict) else {}
        for key, value in fields.items():
            yield from _missing(mine.get(key), value, heard, (*place, key))
    elif isinstance(recorded, list):
        mine = cast("list[Any]", sent) if isinstance(sent, list) else []
        yield from _missing_items(mine, cast("list[Any]", recorded), heard, place)
    elif recorded not in _SAYS_NOTHING and sent != recorded and heard.says(place, recorded):
        yield f"`{'.'.join(place)}` is {sent!r}, recorded {recorded!r}"


def _missing_items(
    sent: Sequence[Any], recorded: Sequence[Any], heard: Heard, place: Names
) -> Iterator[str]:
    """Yield the recorded items that no sent one covers, each behind the one before."""
    left = list(sent)
    for item in recorded:
        if not _is_said(item, heard, place):
            continue
        found = (at for at, mine in enumerate(left) if not _differs(mine, item, heard, place))
        at = next(found, None)
        if at is None:
            near = next(_missing(left[0] if left else None, item, heard, place), "")
            yield f"nothing that is sent there covers {item!r}: {near}"
            return
        del left[: at + 1]


def _differs(sent: Any, recorded: Any, heard: Heard, place: Names) -> bool:
    return next(_missing(sent, recorded, heard, place), None) is not None


def _is_said(item: Any, heard: Heard, place: Names) -> bool:
    """Return whether an item of a recorded turn comes from the answer: more than its tags do."""
    return any(
        _last(inner)[1] not in _TAGS and heard.says(inner, leaf)
        for inner, leaf in _leaves(item, place)
        if leaf not in _SAYS_NOTHING
    )


def _leaves(value: Any, place: Names) -> Iterator[tuple[Names, Any]]:
    """Yield each text, number and truth value within a JSON value, and the fields it is in."""
    if isinstance(value, Mapping):
        for name, each in cast("Mapping[str, Any]", value).items():
            yield from _leaves(each, (*place, name))
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _leaves(each, place)
    elif value is not None:
        yield place, value


def _last(place: Names) -> tuple[str, str]:
    """Return the names of a field and of the one that it is in, as all APIs would say."""
    parent, name = ("", "", *place)[-2:]
    return _ALIASES.get(parent, parent), _ALIASES.get(name, name)


def _events(stream: str) -> Iterator[Any]:
    """Yield the JSON values of an event stream's data lines."""
    for line in stream.splitlines():
        if line.startswith("data:"):
            with suppress(ValueError):
                yield json.loads(line.removeprefix("data:"))


def _values(text: str) -> Iterator[Any]:
    """Yield the JSON objects that a text is, one behind the other."""
    read = json.JSONDecoder().raw_decode
    at = 0
    with suppress(ValueError, RecursionError):
        while text[at : at + 1] == "{":
            value, at = read(text, at)
            yield value
