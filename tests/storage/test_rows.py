import json
from contextlib import suppress
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.errors import ClawHiveError, LogWriteFailed
from clawhive_core.events.chain import link, row_hash
from clawhive_core.events.redaction import Redactor
from clawhive_core.events.rows import DEEPEST, _direct, _walked, decode, encode, revive
from clawhive_core.model.canonical import canonical, digest
from clawhive_core.model.events import Blob, Event

TS = "2026-01-01T00:00:00.000000Z"
SAFE = 2**53 - 1

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.text(st.characters(categories=["Cs", "Lu"]))
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


class Plainish(StrEnum):
    A = "a"


columns = st.none() | st.text() | st.text(st.characters(categories=["Cs", "Lu"]))


def whole(row, seq=7, prev="f" * 64):
    return (seq, *row.columns, prev, link(seq, row.inner, prev))


@given(st.dictionaries(st.text(), values), columns, columns)
def test_the_hash_is_the_digest_of_every_other_column_as_stored(body, tool, principal):
    event = Event("kind", body, tool=tool, principal=principal)
    row = whole(encode(event, TS, Redactor()))
    assert row[-1] == row_hash(row) == digest(list(row[:-1]))


@given(st.dictionaries(st.text(), values))
def test_a_body_is_stored_as_canonical_json(body):
    row = encode(Event("kind", body), TS, Redactor())
    text = row.columns[-1]
    assert canonical(revive(json.loads(text))).decode() == text


bodies = st.dictionaries(
    st.text(),
    st.recursive(
        scalars | (scalars | st.just("x" * 600) | st.binary()).map(Blob),
        lambda inner: (
            st.lists(inner)
            | st.lists(inner).map(tuple)
            | st.dictionaries(st.text() | st.sampled_from(["$blob", "$value", "bytes"]), inner)
        ),
        max_leaves=8,
    ),
    max_size=4,
)


@given(bodies)
def test_a_simple_body_is_written_as_the_walk_writes_it(body):
    direct, (text, blobs) = _direct(Event("kind", body), Redactor()), _walked(body, Redactor())
    # In which order blobs are set aside means nothing: each is a row of its own.
    assert direct is None or (direct[0], set(direct[1])) == (text, set(blobs))


@pytest.mark.parametrize(
    ("body", "is_simple"),
    [
        ({"a": "é", "b": [None, True, {"c": 2**53 - 1}], "d": ("x",), "e": Blob([1.5])}, True),
        ({"a": 2**53}, False),
        ({"a": 1.0}, False),
        ({"a": {"$value": 1}}, False),
        ({"a": Plainish.A}, False),
        ({"\U0001f600": 1, "\uffff": 2}, False),
        ({"a": "\ud800"}, False),
        ({1: "a"}, False),
        ({"a": [[] for _ in range(300)]}, True),
    ],
)
def test_only_what_needs_a_walk_gets_one(body, is_simple):
    assert (_direct(Event("kind", body), Redactor()) is not None) is is_simple


@given(values)
def test_a_blob_keeps_what_canonical_json_can_hold(value):
    row = encode(Event("kind", {"output": Blob([value, "x" * 600])}), TS, Redactor())
    assert canonical(decode(row.blobs[0].data, "json")[0]) == canonical(value)


@given(st.text(st.characters(categories=["Cs", "Lu", "Ll"]), max_size=2000))
def test_a_text_blob_is_kept_to_the_character(text):
    row = encode(Event("kind", {"output": Blob(text)}), TS, Redactor())
    reference = json.loads(row.columns[-1])["output"]
    if "$value" in reference:
        assert reference["$value"] == text
    else:
        assert decode(row.blobs[0].data, row.blobs[0].type) == text


@given(st.integers() | st.floats(allow_nan=False))
def test_numbers_that_json_cannot_hold_come_back(number):
    row = encode(Event("kind", {"output": Blob([number] * 300)}), TS, Redactor())
    reference = json.loads(row.columns[-1])["output"]
    data = row.blobs[0].data if row.blobs else canonical(reference["$value"])
    assert decode(data, "json") == [number] * 300


@given(st.lists(st.integers(0, 16), min_size=2, unique=True))
def test_changing_any_column_changes_the_hash(places):
    event = Event("kind", {"a": 1}, *["x"] * 10)
    row = whole(encode(event, TS, Redactor()))
    for place in places:
        if place == 16:
            continue
        changed = list(row)
        changed[place] = f"{changed[place]}1" if isinstance(changed[place], str) else 99
        assert row_hash(changed) != row[-1]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (1e16, "10000000000000000"),
        (-1e20, "-100000000000000000000"),
        (1e21, "1e+21"),
        (1e-7, "1e-7"),
        (SAFE, "9007199254740991"),
        (-SAFE, "-9007199254740991"),
        (SAFE + 1, '{"$int":"9007199254740992"}'),
        (-SAFE - 1, '{"$int":"-9007199254740992"}'),
        (10**30, '{"$int":"1000000000000000000000000000000"}'),
        (float("-inf"), '{"$float":"-inf"}'),
    ],
)
@pytest.mark.parametrize(
    ("shape", "around"),
    [
        (lambda n: {"n": n}, '{"n":%s}'),
        (lambda n: {"n": [n, "x"]}, '{"n":[%s,"x"]}'),
        (lambda n: {"n": {"m": n, "o": None}}, '{"n":{"m":%s,"o":null}}'),
        (lambda n: {"n": Blob([n])}, '{"n":{"$value":[%s]}}'),
    ],
    ids=["field", "item", "deep field", "blob"],
)
def test_numbers_are_stored_as_rfc_8785_writes_them(number, text, shape, around):
    for secrets in ((), ("hunter22",)):
        redactor = Redactor()
        for secret in secrets:
            redactor.add(secret)
        row = encode(Event("kind", {**shape(number)}), TS, redactor)
        assert row.columns[-1] == around % text


@pytest.mark.parametrize("secret", [None, "none of these", "hunter22"])
def test_keys_that_are_no_text_are_written_alike_with_and_without_a_secret(secret):
    redactor = Redactor()
    if secret is not None:
        redactor.add(secret)
    body = {None: 1, True: 2, 1.5: 3, 7: "hunter22", "deep": {False: 4}}
    text = encode(Event("kind", body), TS, redactor).columns[-1]
    assert set(json.loads(text)) == {"None", "True", "1.5", "7", "deep"}
    assert json.loads(text)["deep"] == {"False": 4}
    assert ("hunter22" in text) == (secret != "hunter22")


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def folded(depth):
    value = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("secret", [None, "hunter22"])
@pytest.mark.parametrize("make", [nested, folded])
def test_a_body_is_as_deep_as_the_bound_and_no_deeper(open_log, make, secret):
    log = open_log()
    if secret is not None:
        log.redactor.add(secret)
    log.append_now(Event("kept", {"s": "hunter22", "a": make(DEEPEST - 1)}))
    with pytest.raises(LogWriteFailed, match="nested too deeply"):
        log.append_now(Event("refused", {"s": "hunter22", "a": make(DEEPEST + 1)}))
    assert [stored.event.kind for stored in log.events()] == ["kept"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"a": nested(2000)}, "nested too deeply"),
        ({"a": {"b": nested(200)}}, "nested too deeply"),
        ({"a": 10**5000}, "digit"),
        ({"a": object()}, "object is no JSON value"),
        ({"a": {1, 2}}, "set is no JSON value"),
        ({"a": Blob(object())}, "not JSON serializable"),
        ({"a": Blob({(1, 2): "a"})}, "not JSON serializable"),
        ({"a": Blob(10**5000)}, "digit"),
    ],
    ids=["deep list", "deep mapping", "huge", "object", "set", "object blob", "keys", "huge blob"],
)
def test_a_body_that_is_no_json_is_refused_with_the_event_and_the_reason(log, body, why):
    with pytest.raises(LogWriteFailed, match=why) as caught:
        log.append_now(Event("bad", body))
    assert caught.value.place == "bad"
    assert caught.value.fix
    assert log.append_now(Event("good", {})) == [1]


def test_a_body_that_is_no_json_cannot_be_posted_and_loses_nothing(log):
    with pytest.raises(LogWriteFailed):
        log.post(Event("bad", {"a": nested(2000)}))
    assert log.append_now(Event("good", {})) == [1]


def test_a_deep_blob_is_kept_or_refused_but_never_kills_the_writer(log):
    with suppress(LogWriteFailed):
        log.append_now(Event("deep", {"output": Blob(nested(2000))}))
    assert log.append_now(Event("good", {}))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"tool": 5}, "the column value 5 is no text"),
        ({"principal": b"x"}, "the column value b'x' is no text"),
        ({"trace_id": "t", "status": False}, "the column value False is no text"),
        ({"version": "1"}, "the version '1' is no whole number"),
        ({"version": True}, "the version True is no whole number"),
    ],
    ids=repr,
)
def test_a_column_of_the_wrong_type_is_refused_and_named(log, fields, why):
    with pytest.raises(LogWriteFailed, match=why):
        log.append_now(Event("bad", {}, **fields))
    assert list(log.events()) == []


def test_a_column_may_be_a_kind_of_text(log):
    class Name(str):
        """What a program calls a tool."""

        __slots__ = ()

    log.append_now(Event("a", {}, tool=Name("demo.echo"), status=None))
    (event,) = log.events()
    assert (event.event.tool, event.event.status) == ("demo.echo", None)


def test_what_no_stores_text_can_hold_is_replaced_in_columns_and_escaped_in_bodies(log):
    log.append_now(Event("a", {"\ud800": "x\udc00\x00"}, tool="t\ud800", status="s\x00"))
    (event,) = log.events()
    assert event.event.tool == "t?"
    assert event.event.status == "s\ufffd"
    assert event.event.body == {"?": "x?\x00"}


def test_ten_megabytes_in_a_body_and_in_a_blob_are_kept(log):
    text = 'x\n"ü' * 2_500_000
    log.append_now(Event("large", {"inline": text, "output": Blob(text)}))
    (event,) = log.events()
    assert event.event.body["inline"] == text
    assert log.load(event.event.body["output"]) == text


@pytest.mark.parametrize("body", [{"a": "x" * 2000}, {"a": Blob("x" * 2000)}], ids=["body", "blob"])
def test_what_is_larger_than_the_bound_is_refused(log, monkeypatch, body):
    monkeypatch.setattr("clawhive_core.events.rows.LARGEST", 1000)
    with pytest.raises(LogWriteFailed, match="larger than 1000 bytes"):
        log.append_now(Event("large", body))


@pytest.mark.parametrize(("data", "kind"), [(b"{", "json"), (b"\xff\xff", "text")])
def test_a_body_that_does_not_fit_its_type_is_an_error_with_a_code(data, kind):
    with pytest.raises(ClawHiveError) as caught:
        decode(data, kind)
    assert caught.value.code == "damaged_body"
