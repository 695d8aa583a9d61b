"""Samples of types: each literal and each kind of a union is in one of them."""

from __future__ import annotations

import datetime as dt
import enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, Field

from clawhive_core.testing import wire_kinds, wire_misfits, wire_samples


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Leaf(BaseModel):
    type: Literal["leaf"]
    colour: Colour | None = None


class Node(BaseModel):
    type: Literal["node"]
    full_name: str = Field(alias="fullName")
    inside: list[Leaf | Node] = []


class Table(TypedDict):
    size: int
    at: NotRequired[dt.datetime]


Either = Annotated[Leaf | Node, Field(discriminator="type")]


def test_the_kinds_of_a_union_are_its_types_without_none():
    assert wire_kinds(Either | None) == [Leaf, Node]


def test_every_literal_and_every_kind_is_in_a_sample():
    assert wire_samples(Leaf) == [
        {"type": "leaf", "colour": "red"},
        {"type": "leaf", "colour": "blue"},
        {"type": "leaf"},
    ]
    assert wire_samples(Literal["a", "b"]) == ["a", "b"]
    assert wire_samples(Table) == [{"size": 3, "at": "2026-01-02T03:04:05Z"}, {"size": 3}]


def test_samples_of_a_type_that_holds_itself_end_and_are_of_the_type():
    samples = wire_samples(Node)
    assert {"type": "node", "fullName": "some_full_name"} in [
        {**sample, "fullName": "some_full_name"} for sample in samples if "inside" not in sample
    ]
    for sample in samples:
        Node.model_validate(sample)


@pytest.mark.parametrize(
    ("kind", "sample"),
    [
        (dict[str, int], {"key": 3}),
        (list[str], ["some_value"]),
        (Any, {"any": "thing"}),
        (bool, True),
    ],
)
def test_containers_and_plain_types_have_a_sample(kind, sample):
    assert wire_samples(kind) == [sample]


def test_a_sample_fits_its_own_type():
    for kind in (Leaf, Node, Table, Either, Literal["a", "b"], dict[str, int], list[str], float):
        assert [wire_misfits(sample, kind) for sample in wire_samples(kind)] == [
            [] for _ in wire_samples(kind)
        ]


@pytest.mark.parametrize(
    ("value", "kind", "places"),
    [
        ({"type": "leaf", "colour": "green"}, Literal["leaf"], 1),
        ({"type": "leaf", "more": 1}, Either, [".more is unknown"]),
        ({"type": "node"}, Either, [".fullName is missing"]),
        ({"type": "node", "fullName": "a", "inside": [{"type": "x"}]}, Either, None),
        ({"type": "node", "fullName": 3}, Either, [".fullName is 3, no str"]),
        ("c", Literal["a", "b"], [" is 'c', none of ('a', 'b')"]),
        ({"size": 3}, list[Table], [" is no list"]),
        ([{"size": 3}, {"at": "x"}], list[Table], ["[1].size is missing"]),
        (None, str, []),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(value, kind, places):
    found = wire_misfits(value, kind)
    assert found == places if isinstance(places, list) else found
