"""What looks like a secret is not written, and what does not is."""

import json
import random
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.events.redaction import MARK, Redactor
from clawhive_core.events.token_forms import may_hold_token
from clawhive_core.model.events import Blob, Event

_DICE = random.Random(7)


def some(length, alphabet=string.ascii_letters + string.digits):
    return "".join(_DICE.choice(alphabet) for _ in range(length))


def hexadecimal(length):
    return some(length, "0123456789abcdef")


PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(some(64) for _ in range(5))
TOKENS = {
    "GitHub": f"ghp_{some(36)}",
    "GitHub, fine-grained": f"github_pat_{some(22)}_{some(59)}",
    "GitLab": f"glpat-{some(20)}",
    "Slack": f"xoxb-{some(12, string.digits)}-{some(12, string.digits)}-{some(24)}",
    "Slack webhook": f"https://hooks.slack.com/services/T{some(8)}/B{some(8)}/{some(24)}",
    "OpenAI": f"sk-proj-{some(40)}_{some(40)}",
    "OpenAI, old": f"sk-{some(48)}",
    "Anthropic": f"sk-ant-api03-{some(80)}-AA",
    "OpenRouter": f"sk-or-v1-{hexadecimal(64)}",
    "AWS key id": "AKIA" + some(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    "Google": f"AIza{some(35)}",
    "Google OAuth": f"ya29.{some(60)}",
    "Stripe": f"sk_live_{some(24)}",
    "Hugging Face": f"hf_{some(34)}",
    "npm": f"npm_{some(36)}",
    "PyPI": f"pypi-AgEIcHlwaS5vcmc{some(60)}",
    "SendGrid": f"SG.{some(22)}.{some(43)}",
    "DigitalOcean": f"dop_v1_{hexadecimal(64)}",
    "Shopify": f"shpat_{hexadecimal(32)}",
    "Docker": f"dckr_pat_{some(27)}",
    "Vault": f"hvs.{some(90)}",
    "Databricks": f"dapi{hexadecimal(32)}",
    "Groq": f"gsk_{some(52)}",
    "Telegram": f"{some(9, '123456789')}:AA{some(33)}",
    "JWT": f"eyJ{some(30)}.eyJ{some(60)}.{some(43)}",
    "private key": f"{PEM}\n-----END RSA PRIVATE KEY-----",
    "private key, cut": PEM,
}
PARTS = {
    "bearer": ("Authorization: Bearer ", f"a1{some(30)}", ""),
    "basic": ('"Authorization": "Basic ', some(20) + "=", '"'),
    "header": ("X-API-Key: ", f"z9{some(30)}", ""),
    "parameter": ("https://x.org/?a=1&access_token=", f"q2{some(30)}", "&b=2"),
    "AWS secret": ("aws_secret_access_key = ", some(40), ""),
    "Azure": ("AccountName=x;AccountKey=", some(86) + "==", ";"),
    "address": ("postgresql://ana:", "hunter22!", "@db.example.org:5432/x"),
}
AROUND = [
    *[("", ""), ("before ", " after"), ("\n", "\n"), ("key=", ""), ('"', '"')],
    *[("\x1b[32m", "\x1b[0m"), ("(", ")"), ("a: ", ", b")],
]
CLEAN = [
    "task-" + "a" * 40,
    "risk-averse sk-learn-like-pipelines-with-many-words",
    "https://example.org:8080/path@v2/x?key=value",
    "git@github.com:ana/project.git",
    "postgres://user:password@localhost/db",
    "postgres://user:$PASSWORD@localhost/db",
    "https://user:{password}@host and https://user:<pass>@host",
    "Authorization: Bearer YOUR_ACCESS_TOKEN_HERE",
    "Authorization: Basic authentication is used",
    "bearer of bad news",
    "sk_live_xxxxxxxxxxxxxxxxxxxxxxxx",
    f"sha256:{hexadecimal(64)} run_{hexadecimal(16)} {hexadecimal(40)}",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    "the eyJ prefix, the ghp_ prefix and AKIA are what to look for",
    "def sk_test_helper(): pass",
    "a=1&sig=abc&apikey=short",
    "12:30:AA and 2026-11-22T03:25:42Z",
]


@pytest.fixture
def redactor():
    return Redactor(by_form=True)


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_a_token_is_replaced_wherever_it_stands(redactor, token):
    for before, after in AROUND:
        text = before + token + after
        cleaned = redactor.text(text)
        assert MARK in cleaned
        assert token[-12:] not in cleaned
        assert token[8:20] not in cleaned
        assert cleaned.startswith(before)
        for encoded in (text, json.dumps(text), json.dumps(json.dumps(text))):
            assert may_hold_token(encoded.encode())


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_what_stands_around_a_password_stays(redactor, part):
    before, secret, after = part
    assert redactor.text(before + secret + after) in {
        before + MARK + after,
        before.removesuffix("Basic ") + MARK + after,
    }
    assert may_hold_token(json.dumps(before + secret + after).encode())


@pytest.mark.parametrize("text", CLEAN)
def test_what_only_resembles_a_token_stays(redactor, text):
    assert redactor.text(text) == text


@pytest.mark.promise("P-089")
def test_no_token_reaches_the_log_in_columns_bodies_previews_or_blobs(open_log):
    log = open_log(redactor=Redactor(by_form=True))
    for token in TOKENS.values():
        body = {
            "text": token,
            "deep": [{f"k {token}": token}],
            "short": Blob({token: [token]}),
            "long": Blob({token: [token] * 50}, preview=token),
            "text blob": Blob(f"{token}\n" * 20, preview=token[:60]),
            "bytes": Blob(b"\xff\x00" + token.encode() + b"\xfe"),
        }
        log.append_now(Event("a", body, tool=token, principal=token))
    written = repr([tuple(row) for row in log.read("SELECT * FROM events")])
    written += repr([bytes(row[0]) for row in log.read("SELECT data FROM blobs")])
    for token in TOKENS.values():
        assert token[-16:-4].replace("\n", "\\n") not in written
    assert MARK in written
    blob = next(log.events()).event.body["bytes"]
    assert log.load(blob) == b"\xff\x00" + MARK.encode() + b"\xfe"


def test_a_known_secret_and_a_form_are_both_replaced(redactor):
    redactor.add("hunter22")
    assert redactor.text(f"hunter22 {TOKENS['GitHub']}") == f"{MARK} {MARK}"


def test_an_event_without_tokens_is_written_as_it_is(open_log):
    log = open_log(redactor=Redactor(by_form=True))
    log.append_now(Event("a", {"texts": CLEAN, "long": Blob("\n".join(CLEAN))}))
    (event,) = log.events()
    assert event.event.body["texts"] == CLEAN
    assert log.load(event.event.body["long"]) == "\n".join(CLEAN)


def test_replacing_twice_changes_nothing(redactor):
    for text in (*TOKENS.values(), *("".join(part) for part in PARTS.values())):
        once = redactor.text(text)
        assert redactor.text(once) == once


@given(st.text(), st.sampled_from(sorted(TOKENS)), st.text())
def test_no_surroundings_hide_a_distinctive_token_from_the_first_look(before, name, after):
    text = f"{before} {TOKENS[name]} {after}"
    assert may_hold_token(text.encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=2000))
def test_bytes_without_tokens_stay_byte_for_byte(data):
    assert Redactor(by_form=True).data(data) == data


def test_bytes_are_looked_at_as_the_characters_that_they_spell(redactor):
    short, long = "https://ana:\u00e9x@a.example", "https://ana:\u00e9xyz@a.example"
    assert redactor.text(short) == short
    assert redactor.data(short.encode()) == short.encode()
    assert redactor.data(long.encode()) == redactor.text(long).encode() != long.encode()


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN RSA PRIVATE KEY-----" + "-" * 30_000,
        "-----BEGIN RSA PRIVATE KEY-----" * 2_000,
        "eyJ" + "a" * 30_000 + ".eyJ",
        "://" + "a" * 30_000 + ":",
        "://a:b" * 10_000,
        "bearer " + "a" * 30_000,
        "sk-" * 20_000,
    ],
    ids=range(7),
)
def test_hostile_texts_are_read_in_linear_steps(redactor, text):
    import signal

    signal.setitimer(signal.ITIMER_VIRTUAL, 5)  # of CPU; quadratic steps would take minutes
    try:
        redactor.text(text)
        may_hold_token(text.encode())
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def test_the_skills_that_we_ship_hold_no_token(redactor):
    files = Path(__file__).parents[2].glob("skills/**/*.*")
    for path in [each for each in files if each.suffix != ".pyc"]:
        text = path.read_text("utf-8")
        assert redactor.text(text) == text
