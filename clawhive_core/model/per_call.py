"""Values that are made for every call: frozen for type checkers, cheap for the interpreter."""

from __future__ import annotations

from dataclasses import field
from typing import TypeVar, dataclass_transform

from clawhive_core.model.late import dataclass

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def per_call(cls: type[T]) -> type[T]:
    """Return a slotted dataclass, compared and hashed by its fields, that nobody may write to.

    That is held by type checkers alone: `frozen=True` sets every field through a call of its own,
    and an event with its fourteen fields takes four times as long to make (1.8 us for 0.4). It is
    for what the executor and the loop make at each call and turn, and for nothing else.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
