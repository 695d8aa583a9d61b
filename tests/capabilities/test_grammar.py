import copy
import dataclasses
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.capabilities import (
    HOST_FAMILY,
    VERBS,
    concrete,
    matches,
    normalise,
    parse,
    verb_of,
)
from clawhive_core.errors import CapabilityError

EVERY_VERB = [*VERBS, "host.gmail.read"]
HERE = {"workspace": "/srv", "run": "/srv/out", "home": "/home/u"}


@pytest.mark.parametrize("verb", EVERY_VERB)
def test_two_stars_are_everything_of_a_verb(verb):
    everything = parse(f"{verb}:**")
    example = parse(f"{verb}:{verb_of(verb).example}", HERE)
    assert matches(everything, example)
    assert parse(everything.text) == everything


@pytest.mark.parametrize("verb", EVERY_VERB)
def test_a_verb_alone_is_answered_with_lines_that_work(verb):
    for text in (verb, f"{verb}:"):
        with pytest.raises(CapabilityError) as caught:
            parse(text)
        assert caught.value.place == f"`{text}`, character {len(text) + 1}"
        lines = re.findall(r"`([^`]+)`", caught.value.fix)
        assert len(lines) == 2
        for line in lines:
            assert parse(line, HERE).verb == verb


@pytest.mark.parametrize("text", ["*:x", "**", "**:**", "fs.*:/a", "*", "host.*:x", "host.**:x"])
def test_a_verb_has_no_wildcard(text):
    with pytest.raises(CapabilityError, match="A verb is written out") as caught:
        parse(text)
    assert ":...`" in caught.value.fix


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("fs.reed:/a", "fs.read"),
        ("FS.READ:/a", "fs.read"),
        ("file.read:/a", "fs.read"),
        ("http://example.com", "net.http"),
        ("net.https:example.com", "net.http"),
        ("fs.list:/a", "fs.read"),
        ("tool:web.search", "tool.call"),
        ("host.Gmail.read:x", "host.gmail.read"),
        ("sandbox.run:python", "sandbox.read"),
    ],
)
def test_an_unknown_verb_is_answered_with_those_that_may_be_meant(text, meant):
    with pytest.raises(CapabilityError, match="There is no verb") as caught:
        parse(text)
    assert f"`{meant}`" in caught.value.fix
    assert caught.value.data == {"capability": text, "column": 1}


@pytest.mark.parametrize(
    "text", ["", ":", ":x", "/srv/a", "host:x", "host.:x", "fs.read /a", "é:x"]
)
def test_a_text_without_a_verb_is_answered_with_the_verbs(text):
    with pytest.raises(CapabilityError, match="There is no verb") as caught:
        parse(text)
    assert "fs.read:/srv/reports/**" in caught.value.fix


@pytest.mark.parametrize(
    ("text", "column", "works"),
    [
        ("fs.read:/srv/*.txt", 14, ["fs.read:/srv/*", "fs.read:/srv/**"]),
        ("fs.read:${workspace}/*.md", 22, ["fs.read:${workspace}/*", "fs.read:${workspace}/**"]),
        ("fs.read:/a/***", 12, ["fs.read:/a/*", "fs.read:/a/**"]),
        ("fs.read:/a/**/b", 12, ["fs.read:/a/**", "fs.read:/a/*/b"]),
        ("net.http:h.com/v*/x", 16, ["net.http:h.com/*", "net.http:h.com/**"]),
        ("tool.call:mcp.git_*", 15, ["tool.call:mcp.*", "tool.call:mcp.**"]),
        ("tool.call:**.git", 11, ["tool.call:**", "tool.call:*.git"]),
        ("mem.read:a*", 10, ["mem.read:*", "mem.read:**"]),
        ("sandbox.exec:/bin/py*", 19, ["sandbox.exec:/bin/*", "sandbox.exec:/bin/**"]),
        ("sandbox.write:out/*.txt", 19, ["sandbox.write:out/*", "sandbox.write:out/**"]),
    ],
)
def test_an_unusable_wildcard_is_answered_with_patterns_that_work(text, column, works):
    with pytest.raises(CapabilityError) as caught:
        parse(text, HERE)
    assert caught.value.place == f"`{text}`, character {column}"
    for line in works:
        assert f"`{line}`" in caught.value.fix
        assert parse(line, HERE)


@pytest.mark.parametrize("verb", EVERY_VERB)
def test_each_verb_takes_a_constraint_on_arguments_after_a_question_mark(verb):
    resource = verb_of(verb).example
    found = parse(f"{verb}:{resource}?amount<=100", HERE)
    assert found.unconstrained == parse(f"{verb}:{resource}", HERE)
    assert found.text == f"{found.unconstrained.text}?amount<=100"
    assert not found.constraints.admit({"amount": 101})
    assert found.constraints.admit({"amount": 100})


@pytest.mark.parametrize("text", ["fs.read: /a", "fs.read:/a ", "mem.read:a\n", "mem.read:\u00a0a"])
def test_white_space_around_a_resource_is_refused_rather_than_kept(text):
    with pytest.raises(CapabilityError, match="white space") as caught:
        parse(text)
    assert "`" + text.replace(" ", "").strip().replace("\u00a0", "") + "`" in caught.value.fix


@pytest.mark.parametrize("value", [None, 3, b"fs.read:/a", ["fs.read:/a"], {}])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(CapabilityError, match="A capability is text, not"):
        parse(value)


def outcome(read, *arguments):
    """Return what reading gives: a capability or the error that refuses it."""
    try:
        return read(*arguments)
    except CapabilityError as error:
        return error


def assert_fixed_point_or_refusal(result):
    if isinstance(result, CapabilityError):
        assert result.code == "invalid_capability"
        assert result.fix
        assert result.place.isprintable()
        assert result.message.isprintable()
        assert result.fix.isprintable()
        return
    assert parse(result.text) == result
    assert str(result) == result.text == normalise(result.text)
    assert result.text.isprintable()


@given(st.text(max_size=30), st.sampled_from(EVERY_VERB))
def test_any_text_is_read_to_a_fixed_point_or_refused_with_a_fix(resource, verb):
    assert_fixed_point_or_refusal(outcome(parse, f"{verb}:{resource}", HERE))


@given(st.text("ab*?%./:2AaEe$ {}@[];", max_size=12), st.sampled_from(EVERY_VERB))
def test_any_text_of_special_characters_is_read_to_a_fixed_point_or_refused(resource, verb):
    assert_fixed_point_or_refusal(outcome(parse, f"{verb}:{resource}", HERE))
    value = outcome(concrete, verb, resource)
    assert_fixed_point_or_refusal(value)
    assert isinstance(value, CapabilityError) or value.is_concrete


@given(st.text(max_size=30))
def test_any_text_without_a_known_verb_is_refused_with_a_fix(text):
    assert_fixed_point_or_refusal(outcome(parse, text, HERE))


def test_a_text_of_a_million_characters_is_read_or_refused_and_not_quoted_whole():
    with pytest.raises(CapabilityError) as caught:
        parse("mem.read:" + "x" * 1_000_000)
    assert len(str(caught.value.to_dict())) < 2_000


def test_a_text_is_read_once_and_no_long_one_is_kept():
    short, long = "fs.read:/srv/a", "fs.read:/srv/" + "a" * 2_000
    assert parse(short) is parse(short)
    assert parse("fs.read:${workspace}/a", HERE) is parse(short)
    assert parse("fs.read:${workspace}/a", {"workspace": "/other"}).text == "fs.read:/other/a"
    assert parse(long) is not parse(long)
    assert parse(long) == parse(long)


def test_no_more_texts_are_kept_than_fit(monkeypatch):
    monkeypatch.setattr("clawhive_core.capabilities.pattern._KNOWN", 3)
    monkeypatch.setattr("clawhive_core.capabilities.pattern._known", kept := {})
    sizes = []
    for number in range(10):
        assert parse(f"fs.read:/srv/{number}").text == f"fs.read:/srv/{number}"
        sizes.append(len(kept))
    assert max(sizes) == 3


def test_a_capability_is_a_value():
    capability = parse("net.http:*.example.com/v1/**")
    assert copy.deepcopy(capability) == capability
    assert pickle.loads(pickle.dumps(capability)) == capability
    assert not hasattr(capability, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        capability.verb = "fs.read"


def test_the_value_of_an_unknown_verb_is_refused():
    with pytest.raises(CapabilityError, match="There is no verb"):
        concrete("fs.list", "/a")
    with pytest.raises(CapabilityError, match="names none"):
        concrete("mem.read", "")


def test_the_table_of_verbs_is_closed_and_each_entry_names_itself():
    assert all(name == verb.name for name, verb in VERBS.items())
    with pytest.raises(TypeError):
        VERBS["fs.list"] = HOST_FAMILY
    assert verb_of("fs.list") is None
    assert verb_of("host") is None
    assert verb_of("host.gmail.read").default == "ask"
    assert {verb.level for verb in VERBS.values()} == {"L0", "L1", "L2"}
