"""Plain frontmatters, read without PyYAML, against what PyYAML's parser in C says of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawhive_core.skills.documents.composing import compose
from clawhive_core.skills.documents.document import Document
from clawhive_core.skills.documents.plain import plain_mapping
from clawhive_core.skills.documents.text import read_skill_text

ROOT = Path(__file__).parents[2]
REAL = sorted(
    [
        *ROOT.glob("skills/*/SKILL.md"),
        *ROOT.parent.joinpath("shared", "data", "skills_dev").rglob("SKILL.md"),
    ]
)

PLAIN = [
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


@pytest.mark.parametrize(("text", "value"), PLAIN)
def test_a_frontmatter_of_plain_lines_is_read_without_the_parser(text, value):
    assert plain_mapping(text) == value


LEFT = (
    *(
        "",
        "\n",
        "a: b",
        "a: 1_0\n",
        "a: 010\n",
        "a: 1.0e+3\n",
        "a: -1\n",
        "a: ~\n",
        "a:\n",
        "a: yes\n",
        "a: 0x1f\n",
    ),
    *("yes: a\n", "1: a\n", "a: b\na: c\n", "a: b: c\n", "a: b #c\n", "a: b:\n", "a: b\n  c\n"),
    *("a: &b c\n", "a: *b\n", "a: !x b\n", "a: @b\n", "a: - b\n", "a: ? b\n", "a:\tb\n", "a: <<\n"),
    *('a: "b\\t"\n', 'a: "b" c\n', "a: 'b' 'c'\n", "a: 'b\n", 'a: "\n', "a: =\n", "a : b\n"),
    *("- a\n", "a: b\n- c\n", "a:\n - b\n  - c\n", "a:\n  b: c\n d: e\n", " a: b\n", "a: b\n\n"),
    *('a: {"b": 1e5}\n', 'a: {"b": 1, "b": 2}\n', "a: {b: c}\n", 'a: {"b": 1} c\n', "a: []]\n"),
    *(
        "a: |\n",
        "a: |\nb: c\n",
        "a: |\n  b\n\n",
        "a: >\n  b\n\n  c\n",
        "a: >\n  b\n   c\n",
        "a: |2\n   b\n",
    ),
    *("a: b\u2028c\n", "a: b\x85c\n", "a: b\ufeffc\n", "a: b\x07c\n", "---\na: b\n", "...\n"),
)


@pytest.mark.parametrize("text", LEFT)
def test_whatever_is_less_plain_is_left_to_the_parser(text):
    assert plain_mapping(text) is None


def agrees(text: str) -> bool:
    """Whether a text is plain; fails where it is and PyYAML reads another value of it."""
    value = plain_mapping(text)
    if value is None:
        return False
    _, composed, nothing_odd = compose(text)
    assert nothing_odd
    assert repr(value) == repr(composed)
    return True


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
@settings(max_examples=1_000)
@given(st.lists(LINES, min_size=1, max_size=6))
def test_what_is_read_plainly_is_what_the_parser_reads(lines):
    agrees("".join(f"{line}\n" for line in lines))


@settings(max_examples=500)
@given(st.dictionaries(st.sampled_from("abcde"), VALUES, min_size=1))
def test_each_value_behind_a_key_is_what_the_parser_reads(entries):
    agrees("".join(f"{key}: {value}\n" for key, value in entries.items()))


CHANGES = st.lists(st.tuples(st.integers(0, 400), st.sampled_from(SIGNS + "\n")), max_size=2)


@pytest.mark.promise("P-235")
@settings(max_examples=1_000)
@given(st.permutations([text for text, _ in PLAIN]), st.integers(1, 6), CHANGES)
def test_a_sign_more_is_read_as_the_parser_does_or_left_to_it(texts, count, changes):
    chosen = enumerate(texts[:count])
    lines = [
        f"{line[:1]}{number}{line[1:]}" if line[0].isalpha() else line
        for number, text in chosen
        for line in text.splitlines(keepends=True)
    ]
    whole = "".join(lines)
    for at, sign in changes:
        whole = f"{whole[: at % len(whole)]}{sign}{whole[at % len(whole) :]}"
    assert agrees(whole) or changes


def front(file: Path) -> str:
    """Return the frontmatter of a file, empty where there is none."""
    text = file.read_bytes().decode("utf-8", "replace")
    end = text.find("\n---\n", 3)
    return text[4 : end + 1] if text.startswith("---\n") and end > 0 else ""


@pytest.mark.promise("P-235")
def test_most_frontmatters_of_real_skills_are_plain_and_read_as_the_parser_does():
    read = [agrees(text) for text in map(front, REAL) if text]
    assert sum(read) > len(read) * 0.7


@pytest.mark.promise("P-235")
def test_the_places_of_a_plain_frontmatter_are_those_of_the_parser(tmp_path):
    file = tmp_path / "SKILL.md"
    file.write_text("---\nname: one\nmetadata:\n  a: [b, c]\n---\nText.\n", "utf-8")
    text = read_skill_text(file)
    places = [text.place(*path) for path in ((), ("name",), ("metadata", "a"), ("gone",))]
    parsed = Document(front(file), places[0].file, first_line=1, what="frontmatter")
    assert places == [parsed.place(path) for path in ((), ("name",), ("metadata", "a"), ("gone",))]
    assert [(each.line, each.column) for each in places] == [(2, 1), (2, 7), (4, 6), (2, 1)]
    assert text.document is not None
    assert list(text.document.flow_styled()) == [places[2]]
