"""Vectors of texts: one length, one precision, one form in the log."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Sequence
from dataclasses import field
from typing import Any, cast

from clawhive_core.errors import InvalidInput
from clawhive_core.model.failures import model_failure
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import Usage

MAX_TEXTS = 2_048
"""The number of texts that one request may hold."""
MAX_CHARACTERS = 8_000_000
"""The number of characters that all of them may have together."""
MAX_DIMENSION = 16_384


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Vectors of one model, one a text, in order; those of two models never mix."""

    model: str
    """The model that made them, as its provider names it."""
    vectors: tuple[tuple[float, ...], ...]
    usage: Usage = field(default_factory=Usage)

    @property
    def dimension(self) -> int:
        """The length of each vector; 0 where there is none."""
        return len(self.vectors[0]) if self.vectors else 0


def checked_texts(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of a request.

    Raises:
        InvalidInput: One is no text or is empty, or they are too many or too long.
    """
    if isinstance(texts, str):
        raise InvalidInput("embed takes a list of texts", place="texts", fix="embed([text])")
    asked = tuple(texts)
    for index, text in enumerate(cast("tuple[Any, ...]", asked)):
        if not isinstance(text, str) or not text:
            what = "an empty text" if text == "" else f"a {type(text).__name__}"
            raise InvalidInput(f"{what} has no vector", place=f"texts/{index}", fix="leave it out")
    if len(asked) > MAX_TEXTS or sum(map(len, asked)) > MAX_CHARACTERS:
        raise InvalidInput(
            f"one request takes {MAX_TEXTS} texts of {MAX_CHARACTERS} characters in all",
            place="texts",
            fix="send them in several requests",
        )
    return asked


def unit_vectors(answer: Any, texts: Sequence[str], called: str) -> Embeddings:
    """Return an embedder's answer with vectors of length 1, as exact as the log keeps them.

    Raises:
        ModelError: `invalid_response`: it is no answer to these texts.
    """
    if not isinstance(answer, Embeddings):
        raise _invalid(called, f"answered {type(answer).__name__}, no Embeddings")
    if len(answer.vectors) != len(texts):
        raise _invalid(called, f"made {len(answer.vectors)} vectors of {len(texts)} texts")
    dimension = answer.dimension
    if texts and not 0 < dimension <= MAX_DIMENSION:
        raise _invalid(called, f"made vectors of {dimension} numbers")
    vectors = tuple(_unit(vector, dimension, called) for vector in answer.vectors)
    return Embeddings(str(answer.model), vectors, answer.usage)


def packed(vectors: Sequence[Sequence[float]]) -> bytes:
    """Return vectors one after another as 32-bit floats, little-endian."""
    found = array("f", (number for vector in vectors for number in vector))
    if sys.byteorder == "big":
        found.byteswap()
    return found.tobytes()


def unpacked(data: bytes, dimension: int) -> tuple[tuple[float, ...], ...]:
    """Return the vectors that `packed` wrote."""
    found = array("f", data)
    if sys.byteorder == "big":
        found.byteswap()
    size = max(dimension, 1)
    return tuple(tuple(found[at : at + size]) for at in range(0, len(found), size))


def _unit(vector: Sequence[float], dimension: int, called: str) -> tuple[float, ...]:
    try:
        if len(vector) == dimension and 0 < (length := math.hypot(*vector)) < math.inf:
            return tuple(array("f", [number / length for number in vector]))
    except (TypeError, OverflowError):
        pass
    raise _invalid(called, f"made a vector that is not {dimension} numbers, one of them not 0")


def _invalid(called: str, what: str) -> Exception:
    return model_failure("invalid_response", f"the embedder of `{called}` {what}")
