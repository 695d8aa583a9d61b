"""Recorded exchanges with model APIs, for conformance tests of adapters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clawhive_core.model.late import dataclass


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request to a model's API and its response, as recorded."""

    path: str
    """The URL's path."""
    request: Any
    """The request's JSON body."""
    status: int
    response: Any
    """A JSON value, or a text: the event stream as received."""

    @property
    def streamed(self) -> bool:
        """Whether the response came as an event stream."""
        return isinstance(self.response, str)


@dataclass(frozen=True, slots=True)
class Recording:
    """The exchanges of one conversation, in order."""

    name: str
    exchanges: tuple[Exchange, ...]


def read_recordings(file: str | Path) -> Iterator[Recording]:
    """Yield the recordings of a JSON Lines file.

    A line is `{"path", "interactions": [{"request": {"path", "body"}, "response": {"status",
    "body"}}]}`.

    Raises:
        ValueError: A line is no such object; the message names it.
    """
    with Path(file).open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                value = json.loads(line)
                yield Recording(value["path"], tuple(map(_exchange, value["interactions"])))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{file}:{number}: no recording: {error!r}") from error


def _exchange(value: Any) -> Exchange:
    request, response = value["request"], value["response"]
    return Exchange(request["path"], request["body"], response["status"], response["body"])
