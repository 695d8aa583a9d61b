import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.events.redaction import MARK, Redactor
from clawhive_core.model.canonical import canonical
from clawhive_core.model.events import Blob, Event
from clawhive_core.storage.sqlite.schema import SELECT

SECRET = 'p@ss/w+rd="ü\\ 1'

FORMS = {
    "plain": SECRET,
    "json": json.dumps(SECRET)[1:-1],
    "json unescaped": json.dumps(SECRET, ensure_ascii=False)[1:-1],
    "json in json": json.dumps(json.dumps({"a": SECRET})),
    "url path": quote(SECRET),
    "url component": quote(SECRET, safe=""),
    "url form": quote_plus(SECRET),
    "url mixed case": quote(SECRET, safe="").replace("%2F", "%2f").replace("%C3%BC", "%c3%bc"),
    "slashes escaped": SECRET.replace("\\", "\\\\").replace("/", "\\/").replace('"', '\\"'),
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 url": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "basic auth": base64.b64encode(f"ana:{SECRET}".encode()).decode(),
    "inside base64": base64.b64encode(f"x{SECRET}yz".encode()).decode(),
    "inside base64, shifted": base64.b64encode(f"xy{SECRET}z".encode()).decode(),
}


def redactor(*secrets):
    made = Redactor()
    for secret in secrets:
        made.add(secret)
    return made


def everything(log):
    rows = [tuple(row) for row in log.read(SELECT)]
    blobs = [bytes(row[0]) for row in log.read("SELECT data FROM blobs")]
    return repr(rows) + repr([blob.decode("utf-8", "replace") for blob in blobs])


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_secret_is_replaced_in_every_form(form):
    cleaned = redactor(SECRET).text(f"before {form} after")
    assert MARK in cleaned
    assert form not in cleaned
    assert cleaned.startswith("before ")
    assert cleaned.endswith(" after")


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_form_of_a_secret_reaches_columns_bodies_previews_or_blobs(open_log, form):
    log = open_log(redactor=redactor(SECRET))
    log.append_now(
        Event(
            "a",
            {
                "text": form,
                "deep": [{"key " + form: form}],
                "short": Blob({form: [form]}),
                "long": Blob({form: [form] * 200}, preview=form),
                "long text": Blob(form * 200, preview=form),
                "bytes": Blob(form.encode() * 200),
            },
            tool=form,
            principal=form,
            conversation_id=form,
        )
    )
    written = everything(log)
    assert form not in written
    assert repr(form)[1:-1] not in written
    assert MARK in written


def test_a_secret_is_found_inside_a_nested_value_before_it_is_escaped(open_log):
    log = open_log(redactor=redactor('a"b\nc'))
    log.append_now(Event("a", {"text": 'x a"b\nc y'}))
    (event,) = log.events()
    assert event.event.body == {"text": f"x {MARK} y"}


def test_bodies_stay_json_when_a_secret_looks_like_json(open_log):
    log = open_log(redactor=redactor('","', "true", "null", "1234", "input", "name"))
    log.append_now(
        Event(
            "invocation.start",
            {
                "tool_call": {"name": "t", "input": Blob({"n": 1234, "m": 51234, "ok": True})},
                "input_preview": 'true","x',
                "none": None,
            },
            status="intended",
        )
    )
    (event,) = log.events()
    assert event.event.status == "intended"
    assert event.event.body == {
        "tool_call": {
            "name": "t",
            "input": {"$value": {"n": MARK, "m": 51234, "ok": True}},
        },
        "input_preview": f'{MARK}","x',
        "none": None,
    }


def test_a_pattern_of_backslashes_is_searched_in_linear_steps():
    made = redactor("\\" * 20 + '"' + "\\" * 20)
    text = "\\" * 50_000
    assert made.text(text + "x") == MARK * 0 + text + "x"


def test_the_longest_secret_wins(open_log):
    cleaned = redactor("abcd", "abcdefgh").text("abcdefgh abcd")
    assert cleaned == f"{MARK} {MARK}"


def test_all_forms_of_a_secret_at_once_are_replaced(open_log):
    raw = SECRET.encode()
    encoders = (base64.b64encode, base64.urlsafe_b64encode)
    aligned = [encode(b"x" * n + raw + b"yz").decode() for n in range(3) for encode in encoders]
    forms = [*FORMS.values(), *aligned]
    everywhere = " ".join(forms)
    log = open_log(redactor=redactor(SECRET))
    log.append_now(Event("a", {"text": everywhere, "bytes": Blob(everywhere.encode())}))
    written = everything(log)
    for form in forms:
        assert form not in written
        assert form not in log.redactor.text(everywhere)
        assert form.encode() not in log.redactor.data(everywhere.encode())


@pytest.mark.parametrize(
    "escape",
    [
        lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
        lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
        lambda text: "".join(f"\\u{ord(each):04x}" for each in text),
        lambda text: "".join(f"\\u{ord(each):04X}" for each in text),
    ],
    ids=["quoted", "quoted in small letters", "escaped", "escaped in capitals"],
)
def test_a_secret_of_mostly_signs_is_found_where_every_character_is_escaped(escape):
    secret = 'p@ss/w+rd="ü 1'
    assert redactor(secret).text(f"<{escape(secret)}>") == f"<{MARK}>"


@pytest.mark.parametrize("secret", ["abcd", "päss", "a/bc", "ab cd"])
def test_what_stands_beside_a_secret_is_kept_to_the_character(secret):
    beside = "\\" * 9 + " / " + "\\\\u00e4 %2F a b"
    assert redactor(secret).text(f"{secret} {beside}") == f"{MARK} {beside}"


def test_truth_values_and_nothing_are_no_secrets_whatever_a_secret_is_called():
    made = redactor("True", "False", "None", "1234", "12.5")
    assert made.value([True, False, None]) == [True, False, None]
    assert made.value([1234, 12.5, 12345]) == [MARK, MARK, 12345]
    assert made.value("True") == MARK


def test_a_trailing_newline_of_a_secret_file_does_not_matter():
    assert "hunter22" not in redactor("hunter22\n").text("it is hunter22.")


@pytest.mark.parametrize("length", [0, 100])
def test_a_lone_surrogate_hides_no_secret_and_stops_no_append(log, length):
    log.redactor.add(SECRET)
    beside = "x" * length + "\ud800"
    assert log.redactor.text(beside) == beside
    assert log.redactor.text(f"{beside} {SECRET}") == f"{beside} {MARK}"
    log.append_now(
        Event("a", {"text": f"{beside} {SECRET}", "blob": Blob([f"{beside} {SECRET}" * 20])})
    )
    written = everything(log)
    assert SECRET not in written
    assert written.count(MARK) == 1 + 20


@pytest.mark.parametrize("times", [1, 200], ids=["short", "long"])
@pytest.mark.parametrize("prechecked", [True, False])
def test_a_secret_is_replaced_in_what_came_encoded_too(log, times, prechecked):
    log.redactor.add("hunter22")
    value = {"output": "it is hunter22" * times}
    log.append_now(
        Event("a", {"output": Blob(value, encoded=canonical(value))}, prechecked=prechecked)
    )
    assert "hunter22" not in everything(log)
    (event,) = log.events()
    assert log.load(event.event.body["output"]) == {"output": f"it is {MARK}" * times}


def test_very_short_values_are_no_secrets():
    made = redactor("abc", "")
    assert not made.active
    assert made.text("abc") == "abc"


def test_nothing_is_done_without_a_secret():
    value = {"a": ["b"]}
    made = Redactor()
    assert made.text("text") == "text"
    assert made.data(b"data") == b"data"
    assert made.value(value) == value


def test_a_secret_that_is_added_later_counts_from_then_on(log):
    log.append_now(Event("a", {"text": "hunter22"}))
    log.redactor.add("hunter22")
    log.append_now(Event("a", {"text": "hunter22"}))
    assert [s.event.body["text"] for s in log.events()] == ["hunter22", MARK]


@pytest.mark.parametrize("length", [600, 70_000])
def test_a_text_that_comes_again_is_looked_at_again_once_there_are_more_secrets(log, length):
    log.redactor.add("another secret")
    text = "later-secret " + "a" * length
    event = Event("model.start", {"system": Blob(text)})
    for _ in range(3):
        log.append_now(event)
    log.redactor.add("later-secret")
    log.append_now(event)
    *before, after = [each.event.body["system"] for each in log.events()]
    assert [log.load(each) for each in before] == [text] * 3
    assert "later-secret" not in log.load(after)
    assert log.load(after).startswith(MARK)


def test_no_more_contents_are_remembered_than_few(log):
    log.redactor.add("another secret")
    for number in range(200):
        log.append_now(Event("model.start", {"system": Blob(f"{number} " + "a" * 600)}))
    assert 0 < len(log.redactor.clear) <= 64


@given(st.text(min_size=4), st.text(), st.text())
def test_no_text_keeps_a_secret(secret, before, after):
    made = redactor(secret)
    if secret in MARK or not made.active:
        return
    cleaned = made.text(before + secret + after)
    assert not any(secret in part for part in cleaned.split(MARK))


@given(st.binary(min_size=6), st.binary(max_size=5), st.binary(max_size=5))
def test_base64_of_a_text_with_a_secret_inside_does_not_keep_it(raw, before, after):
    secret = base64.b32encode(raw).decode().strip("=")
    encoded = base64.b64encode(before + secret.encode() + after).decode()
    cleaned = redactor(secret).text(encoded)
    assert MARK in cleaned
