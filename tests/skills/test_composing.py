"""Frontmatters as the reader's loader composes them, against what PyYAML's own loaders say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.skills.documents import document
from clawhive_core.skills.documents.document import MAX_DEPTH, TooDeep, compose
from clawhive_core.skills.documents.text import read_skill_text

ROOT = Path(__file__).parents[2]
REAL = sorted(
    [
        *ROOT.glob("skills/*/SKILL.md"),
        *ROOT.parent.joinpath("shared", "data", "skills_dev").rglob("SKILL.md"),
    ]
)

USUAL = [
    ("name: one\n", {"name": "one"}),
    ("name:   one  \nversion: 1.0.0\n", {"name": "one", "version": "1.0.0"}),
    ("a: \"x: y # z\"\nb: 'it''s'\n", {"a": "x: y # z", "b": "it's"}),
    ("a: true\nb: False it is\n", {"a": True, "b": "False it is"}),
    ("a: 2026-05-01\n", {"a": "2026-05-01"}),
    ('a: {"b": [1, "c", null], "d": {}}\n', {"a": {"b": [1, "c", None], "d": {}}}),
    ("a: ['x: y', \"z\" , w]\n", {"a": ["x: y", "z", "w"]}),
    ('a: "say \\"x\\"\\\\"\nb: {"c": "d\\n"}\n', {"a": 'say "x"\\', "b": {"c": "d\n"}}),
    ("a: [one, two words, true]\n", {"a": ["one", "two words", True]}),
    ("a:\n  b: c\n  d:\n    - e\n  f: g\n", {"a": {"b": "c", "d": ["e"], "f": "g"}}),
    ("a:\n- b\n- 'c'\nd: e\n", {"a": ["b", "c"], "d": "e"}),
    ("a: |\n  # one\n  two: x\nb: c\n", {"a": "# one\ntwo: x\n", "b": "c"}),
    ("a: >-\n  one\n  two\n", {"a": "one two"}),
    ("a: |\n  one\n\n    two\n", {"a": "one\n\n  two\n"}),
    ("a:\n  - b: c\n    d: 1.50\n  - e\n", {"a": [{"b": "c", "d": 1.5}, "e"]}),
    ("a: 10\nb: 0.5\n", {"a": 10, "b": 0.5}),
    ("a: Grüße — 日本 🎉\n", {"a": "Grüße — 日本 🎉"}),
]

ODD = ["1: a\n", "yes: a\n", "a: b\na: c\n", "a: &b [c]\nd: *b\n", "a: !!set {b}\n", "<<: {a: b}\n"]


@pytest.mark.parametrize(("text", "value"), USUAL)
def test_a_frontmatter_has_the_value_that_it_says(text, value):
    assert compose(text)[1:] == (value, True)


@pytest.mark.parametrize("text", ODD)
def test_keys_types_and_aliases_that_json_has_not_are_told_apart(text):
    assert compose(text)[2] is False


@pytest.mark.parametrize("nested", ["[{}]", '{{"a": {}}}', "- {}", "[a, {}]"])
def test_nesting_is_bounded_wherever_it_stands(nested):
    text = "x"
    for _ in range(MAX_DEPTH):
        text = nested.format(text)
    compose(text)
    with pytest.raises(TooDeep):
        compose(nested.format(text))
    with pytest.raises(TooDeep):
        compose(f"{'? ' * (MAX_DEPTH + 1)}x")


def without_dates(name: str) -> type:
    """Return one of PyYAML's own loaders, which leaves dates as texts."""
    base = getattr(yaml, name)
    rules = {
        first: [(tag, pattern) for tag, pattern in each if not tag.endswith("timestamp")]
        for first, each in base.yaml_implicit_resolvers.items()
    }
    return type(name, (base,), {"yaml_implicit_resolvers": rules})


LOADERS = ["SafeLoader", *(["CSafeLoader"] if hasattr(yaml, "CSafeLoader") else [])]
OWN = {name: without_dates(name) for name in LOADERS}


@pytest.fixture(scope="module", params=LOADERS)
def own(request):
    """Let the reader build upon one of PyYAML's loaders; answer that loader."""
    before = list(document._LOADERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "CSafeLoader", getattr(yaml, request.param), raising=False)
        document._LOADERS[:] = [document._made_loader()]
        yield OWN[request.param]
    document._LOADERS[:] = before


def agrees(text: str, own: type) -> None:
    """Fail where a text is read otherwise than PyYAML's own loader does, or refused otherwise."""
    try:
        value = yaml.load(text, Loader=own)
    except (yaml.YAMLError, ValueError) as error:
        with pytest.raises(type(error)):
            compose(text)
    else:
        assert repr(compose(text)[1]) == repr(value)


SIGNS = "ab1 -?:,[]{}#&*!|>'\"%@`\\~=<.+_/0x\té—\u2028\x85\ufeff🎉"
WORDS = st.sampled_from(
    [
        *("a", "b c", "name", "yes", "null", "true", "Off", "1.0.0", "1_0", "0o7", "1:30", ".inf"),
        *("'a'", '"a"', "'it''s'", '"a: b"', "''", '""', "[a, b]", "[]", "{}", "[true, n]", "a, b"),
        *('{"a": 1}', '{"a":[{"b":-1}]}', '["a" , 2]', "|", ">", "|-", ">-", "a#b", "a: b", "a #b"),
    ]
)
VALUES = WORDS | st.text(SIGNS, max_size=8)
KEYS = st.sampled_from(["a", "name", "b-c", "on", "N", "x_1"]) | st.text(SIGNS, max_size=4)
LINES = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "", "", "  ", "    ", " "]),
    st.builds("{}: ".format, KEYS) | st.builds("{}:".format, KEYS) | st.sampled_from(["- ", ""]),
    VALUES,
    st.sampled_from(["", "", " "]),
)


@pytest.mark.promise("P-235")
@given(lines=st.lists(LINES, min_size=1, max_size=6))
def test_any_lines_are_read_as_pyyaml_does(own, lines):
    agrees("".join(f"{line}\n" for line in lines), own)


@given(entries=st.dictionaries(st.sampled_from("abcde"), VALUES, min_size=1))
def test_each_value_behind_a_key_is_read_as_pyyaml_does(own, entries):
    agrees("".join(f"{key}: {value}\n" for key, value in entries.items()), own)


CHANGES = st.lists(st.tuples(st.integers(0, 400), st.sampled_from(SIGNS + "\n")), max_size=2)


@pytest.mark.promise("P-235")
@given(texts=st.permutations([text for text, _ in USUAL]), count=st.integers(1, 6), changes=CHANGES)
def test_a_sign_more_is_read_as_pyyaml_does(own, texts, count, changes):
    chosen = enumerate(texts[:count])
    lines = [
        f"{line[:1]}{number}{line[1:]}" if line[0].isalpha() else line
        for number, text in chosen
        for line in text.splitlines(keepends=True)
    ]
    whole = "".join(lines)
    for at, sign in changes:
        whole = f"{whole[: at % len(whole)]}{sign}{whole[at % len(whole) :]}"
    agrees(whole, own)


def front(file: Path) -> str:
    """Return the frontmatter of a file, empty where there is none."""
    text = file.read_bytes().decode("utf-8", "replace")
    end = text.find("\n---\n", 3)
    return text[4 : end + 1] if text.startswith("---\n") and end > 0 else ""


@pytest.mark.promise("P-235")
def test_frontmatters_of_real_skills_are_read_as_pyyaml_does():
    for text in filter(None, map(front, REAL)):
        agrees(text, OWN[LOADERS[-1]])


@pytest.mark.promise("P-235")
def test_the_places_of_a_frontmatter_are_those_in_its_file(tmp_path):
    file = tmp_path / "SKILL.md"
    file.write_text("---\nname: one\nmetadata:\n  a: [b, c]\n---\nText.\n", "utf-8")
    text = read_skill_text(file)
    places = [text.place(*path) for path in ((), ("name",), ("metadata", "a"), ("gone",))]
    assert [(each.line, each.column) for each in places] == [(2, 1), (2, 7), (4, 6), (2, 1)]
    assert text.document is not None
    assert list(text.document.flow_styled()) == [places[2]]
