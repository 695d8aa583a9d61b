import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.capabilities import below, concrete, contains, matches, normalise, parse
from clawhive_core.errors import CapabilityError


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("tool.call:mcp.git.*", "tool.call:mcp.git.*"),
        ("tool.enable:web.**", "tool.enable:web.**"),
        ("tool.call:read", "tool.call:read"),
        ("tool.call:**", "tool.call:**"),
        ("env.read:LANG", "env.read:LANG"),
        ("secret.use:github/token", "secret.use:github/token"),
        ("mem.read:agent:default/n%6ftes", "mem.read:agent:default/notes"),
        ("model.call:openrouter/meta/llama-3:free", "model.call:openrouter/meta/llama-3:free"),
        ("agent.spawn:*", "agent.spawn:*"),
        (
            "host.gmail.read:https://www.googleapis.com/auth/gmail.readonly",
            "host.gmail.read:https://www.googleapis.com/auth/gmail.readonly",
        ),
        ("host.gmail.read:https://www.googleapis.com/auth/*",) * 2,
        ("host.calendar.add:a%2Ab", "host.calendar.add:a%2Ab"),
        ("sandbox.exec:python", "sandbox.exec:python"),
        ("sandbox.exec:**", "sandbox.exec:**"),
        ("sandbox.exec:/usr//bin/./python", "sandbox.exec:/usr/bin/python"),
        ("sandbox.exec:bin/tool", "sandbox.exec:./bin/tool"),
        ("sandbox.exec:./tool", "sandbox.exec:./tool"),
        ("sandbox.exec:/usr/bin/**", "sandbox.exec:/usr/bin/**"),
    ],
)
def test_words_and_names_have_one_spelling(written, canonical):
    assert normalise(written) == canonical
    assert normalise(canonical) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "mem.read:/a",
        "mem.read:a/",
        "mem.read:a//b",
        "mem.read:a/../b",
        "mem.read:./a",
        "mem.read:%2E%2E",
        "mem.read:a%2Fb",
        "mem.read:a%00",
        "mem.read:a%",
        "host.gmail.read:https://",
        "host.gmail.read:https://*",
        "sandbox.exec:/",
        "sandbox.exec:.",
        "sandbox.exec:..",
        "sandbox.exec:/bin/../sh",
        "tool.call:mcp..git",
        "tool.call:mcp.git.",
        "tool.call:mcp/git",
        "tool.call:mcp.gît",
        "tool.call:mcp%2Egit",
        "tool.call:mcp.git\n",
    ],
)
def test_what_cannot_be_a_word_or_name_is_refused(text):
    with pytest.raises(CapabilityError) as caught:
        parse(text)
    assert caught.value.fix


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_a_value_is_concrete_and_reads_back_whatever_it_holds(value):
    for verb in ("mem.read", "secret.use", "host.gmail.read", "sandbox.exec"):
        try:
            capability = concrete(verb, value)
        except CapabilityError:
            continue
        assert capability.is_concrete
        assert capability.text.isprintable()
        assert parse(capability.text) == capability


@given(st.text("ab:/.*?% ", min_size=1, max_size=8), st.text("ab:/.*?% ", min_size=1, max_size=8))
def test_two_values_are_never_confused(one, other):
    try:
        mine, theirs = concrete("mem.read", one), concrete("mem.read", other)
    except CapabilityError:
        return
    assert (mine == theirs) == (one == other)
    assert matches(mine, theirs) == (one == other)


def test_a_tool_is_named_and_never_matched_by_its_own_stars():
    assert concrete("tool.call", "mcp.git.push").is_concrete
    with pytest.raises(CapabilityError, match="no segment of a tool's name"):
        concrete("tool.call", "mcp.git.*")


def test_a_provider_is_asked_with_or_without_a_model():
    every = parse("model.call:anthropic/**")
    assert matches(every, concrete("model.call", "anthropic"))
    assert matches(every, concrete("model.call", "anthropic/some-model"))
    assert not matches(parse("model.call:anthropic"), concrete("model.call", "anthropic/x"))


def test_a_program_found_by_name_is_not_one_at_a_path():
    by_name = parse("sandbox.exec:*")
    assert matches(by_name, concrete("sandbox.exec", "python"))
    assert not matches(by_name, concrete("sandbox.exec", "./python"))
    assert not matches(parse("sandbox.exec:python"), concrete("sandbox.exec", "/tmp/python"))
    for program in ("python", "./python", "/usr/bin/python"):
        assert matches(parse("sandbox.exec:**"), concrete("sandbox.exec", program))


def test_an_api_scope_is_one_exact_string():
    granted = parse("host.gmail.read:https://www.googleapis.com/auth/gmail.readonly")
    assert granted == concrete("host.gmail.read", "https://www.googleapis.com/auth/gmail.readonly")
    assert not matches(granted, concrete("host.gmail.read", "https://mail.google.com"))
    assert contains(parse("host.gmail.read:https://www.googleapis.com/**"), granted)


def test_a_right_to_one_host_capability_is_none_to_another():
    assert not matches(parse("host.gmail.read:**"), parse("host.gmail.send:SCOPE"))


def test_below_a_word_lie_the_words_under_it():
    assert below(concrete("mem.read", "shared")).text == "mem.read:shared/**"
    assert below(parse("net.http:example.com/v1")).text == "net.http:https://example.com/v1/**"
    with pytest.raises(CapabilityError, match="Nothing lies below a host"):
        below(parse("net.connect:example.com:1"))
