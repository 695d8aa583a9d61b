"""What a report is made of: passages, their scores, patterns, and what must never happen."""

import hashlib
import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.research.conftest import HANDLERS, RESEARCH

LETTERS = st.sampled_from(
    "abcdee srt  \n\n\n\r\n\t.!?-*#|`<>[]1日本語のがテスト。😀é\u2028\u200d\x1b\x00"
)
WORDS = st.sampled_from(
    [
        "approval",
        "parks",
        "the",
        "\n\n",
        "\r\n\r\n",
        "\n- ",
        "\n# ",
        "日本語",
        "😀",
        ". ",
        " ",
        "x" * 300,
    ]
)
TEXTS = st.lists(WORDS | LETTERS, max_size=120).map("".join)
QUERIES = st.sampled_from(["approvals parked", "日本語", "the", "???", "x 😀", "é approval"])


def items_of(made):
    return json.loads(made["evidence"])["items"]


@pytest.mark.promise("P-066")
@given(st.lists(TEXTS, max_size=6), QUERIES, st.integers(1, 4), st.sampled_from(["quick", "deep"]))
@example(["approval\r\n\r\nparks 😀 日本語"], "approval", 1, "deep")
def test_each_snippet_is_exactly_what_stands_at_its_span(texts, query, max_sources, depth):
    sources = [RESEARCH.source_of(f"d{n}.md", text) for n, text in enumerate(texts)]
    made = RESEARCH.compose(query, sources, [], {"max_sources": max_sources, "depth": depth})
    evidence = json.loads(made["evidence"])
    assert len(evidence["sources"]) <= max_sources
    per_source = {}
    for item in evidence["items"]:
        source = evidence["sources"][item["source_index"] - 1]
        text = texts[int(re.sub(r"\D", "", source["url"]))]
        start, end = item["span"]["start"], item["span"]["end"]
        assert 0 <= start < end <= len(text)
        assert item["snippet"] == text[start:end]
        assert item["sha256"] == hashlib.sha256(text.encode()).hexdigest() == source["sha256"]
        assert (item["url"], item["retrieved_at"]) == (source["url"], source["retrieved_at"])
        per_source[item["source_index"]] = per_source.get(item["source_index"], 0) + 1
    assert max(per_source.values(), default=0) <= RESEARCH.PASSAGES[depth]
    assert made["passages"] == len(evidence["items"])


@given(TEXTS)
def test_the_passages_of_a_text_hold_every_word_once_but_headings(text):
    passages = RESEARCH.passages_of(text)
    before = 0
    for passage in passages:
        start, end = passage["start"], passage["end"]
        assert before <= start < end <= len(text)
        assert end - start <= RESEARCH.MAX_PASSAGE
        assert text[start:end].strip() == text[start:end]
        between = text[before:start]
        assert all(RESEARCH.HEADING.match(line) for line in lines_with_words(between))
        before = end
    assert all(RESEARCH.HEADING.match(line) for line in lines_with_words(text[before:]))


def lines_with_words(text):
    return [line.strip() for line in text.split("\n") if RESEARCH.WORD.search(line)]


@given(st.lists(TEXTS, max_size=4), QUERIES)
def test_nothing_in_a_report_steers_a_terminal(texts, query):
    sources = [RESEARCH.source_of(f"d{n}.md", text) for n, text in enumerate(texts)]
    report = RESEARCH.compose(query, sources, [], {})["report"]
    odd = {c for c in report if not c.isprintable() and c not in "\n\t\u200d"}
    assert odd == set()


@given(TEXTS, QUERIES)
def test_a_report_is_the_same_each_time(text, query):
    source = RESEARCH.source_of("a.md", text)
    made = [RESEARCH.compose(query, [dict(source)], [], {}) for _ in range(2)]
    assert made[0] == made[1]


@pytest.fixture(scope="module")
def monty():
    from pydantic_monty import Monty

    with Monty(min_processes=1, max_processes=1) as pool, pool.checkout() as session:
        session.feed_run(HANDLERS.read_text("utf-8"))
        yield session


@given(st.lists(TEXTS, max_size=4), QUERIES)
def test_the_sandbox_engine_comes_to_the_same_report(monty, texts, query):
    sources = [RESEARCH.source_of(f"d{n}.md", text) for n, text in enumerate(texts)]
    inputs = {"sources": [dict(each) for each in sources], "query": query}
    theirs = monty.feed_run("compose(query, sources, [], {})", inputs=inputs)
    assert theirs == RESEARCH.compose(query, sources, [], {})


def test_the_passage_that_holds_more_words_of_the_query_comes_first(write):
    text = "One approval.\n\nHere an approval is parked for long.\n\nParked cars.\n\nNothing."
    made = write("Are approvals parked?", {"a.md": text}, depth="deep")
    assert [item["snippet"] for item in items_of(made)] == [
        "Here an approval is parked for long.",
        "One approval.",
        "Parked cars.",
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("approvals", "approval"),
        ("parked", "parking"),
        ("policies", "policy"),
        ("resumed", "resume"),
        ("planned", "plan"),
        ("boxes", "box"),
        ("\uff26\uff35\uff2c\uff2c", "full"),
        ("Straße", "STRASSE"),
    ],
)
def test_forms_of_a_word_are_one_word(research, one, other):
    assert research.words(one) == research.words(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("process", "proces"), ("string", "str"), ("need", "ne"), ("bed", "b"), ("日本", "本日")],
)
def test_other_words_stay_apart(research, one, other):
    assert research.words(one) != research.words(other)


def test_a_script_without_spaces_is_found_by_its_pairs_of_letters(write):
    text = "関係のない段落。\n\n承認は保留されます。再開すると続きます。\n\n他の話。"
    made = write("承認の再開", {"a.md": text}, depth="quick")
    assert [item["snippet"] for item in items_of(made)] == [
        "承認は保留されます。再開すると続きます。"
    ]


def test_a_long_paragraph_is_cut_at_its_sentences(research):
    text = "A sentence of some length. " * 60
    passages = research.passages_of(text)
    assert len(passages) > 2
    assert all(text[each["start"] : each["end"]].endswith(".") for each in passages)


def test_items_of_a_list_are_passages_of_their_own_under_their_heading(research):
    text = "# Rules\n\n- first rule\n- second rule\n  goes on\n\n| a | b |\n| c | d |\n"
    passages = research.passages_of(text)
    assert [text[each["start"] : each["end"]] for each in passages] == [
        "- first rule",
        "- second rule\n  goes on",
        "| a | b |",
        "| c | d |",
    ]
    assert {each["section"] for each in passages} == {"Rules"}


def test_made_up_sources_come_last_and_only_where_there_is_room(research):
    sources = [research.source_of(f"d{n}.md", f"approval {n}") for n in range(3)]
    stub = {**research.source_of("https://example.com", "approval approval"), "kind": "web"}
    stub["made_up"] = True
    for count, made_up in ((3, []), (4, [False, False, False, True])):
        made = research.compose("approval", [stub, *sources], [], {"max_sources": count})
        shown = [each["made_up"] for each in made["sources"]]
        assert shown == (made_up or [False] * 3)
        assert ("made up by the stub" in made["report"]) == bool(made_up)


def test_without_a_source_the_report_says_so(write):
    made = write("zebra", {"a.md": "Nothing of that kind."})
    assert "No source was found." in made["report"]
    assert (made["sources"], made["passages"]) == ([], 0)


def test_a_quotation_brings_no_html_and_a_title_no_markdown(research, write):
    text = "# A [link](x) `code`\n\nAn approval <script>alert(1)</script> of 1 < 2.\n"
    report = write("approval", {"a.md": text})["report"]
    assert re.search(r"(?<!\\)<script>", report) is None
    assert "1 < 2" in report
    assert r"A \[link\](x) \`code\`" in report
    assert research.link("https://e.com/a b<c>") == "<https://e.com/a%20b%3Cc%3E>"


@pytest.mark.parametrize(
    ("pattern", "folder", "name", "fitting", "other"),
    [
        ("docs/*.md", "docs", "*.md", ["docs/a.md"], ["docs/x/a.md", "a.md", "docs/a.txt"]),
        (
            "docs/**/*.md",
            "docs",
            "*.md",
            ["docs/a.md", "docs/x/y/a.md"],
            ["src/a.md", "docs/a.mdx"],
        ),
        ("**/*.md", ".", "*.md", ["a.md", "x/y/a.md"], ["a.txt"]),
        ("docs/**", "docs", "*", ["docs/a", "docs/x/y.txt"], ["doc/a", "docs"]),
        ("*.md", ".", "*.md", ["a.md"], ["x/a.md"]),
        ("a[12]?.md", ".", "a[12]?.md", ["a1x.md", "a2y.md"], ["a3x.md", "a1.md"]),
        ("a[!1].md", ".", "a[!1].md", ["a2.md"], ["a1.md"]),
        ("a[.md", ".", "a[.md", ["a[.md"], ["a.md"]),
        ("x+(1)/*.md", "x+(1)", "*.md", ["x+(1)/a.md"], ["xx1/a.md"]),
        ("/srv/*/a.md", "/srv", "a.md", ["/srv/x/a.md"], ["/srv/a.md", "srv/x/a.md"]),
    ],
)
def test_patterns_are_those_of_the_shell(research, pattern, folder, name, fitting, other):
    where, called, fits = research.read_pattern(pattern)
    assert (where, called) == (folder, name)
    assert [path for path in (*fitting, *other) if fits.fullmatch(path)] == fitting


@given(st.text("ab/*?[]!^\\.-&|~", max_size=12).filter(RESEARCH.is_pattern))
def test_every_pattern_can_be_read_and_fits_the_same_in_the_sandbox_engine(monty, pattern):
    _, _, fits = RESEARCH.read_pattern(pattern)
    paths = ["a", "b", "a/b", "ab", "a.b", "-", "[", "a/a/b", "^", "\\"]
    asked = "[read_pattern(pattern)[2].fullmatch(path) is not None for path in paths]"
    theirs = monty.feed_run(asked, inputs={"pattern": pattern, "paths": paths})
    assert theirs == [fits.fullmatch(path) is not None for path in paths]


# Of ranges that run backwards the standard library makes something else in each version.
CLASSES = st.lists(st.sampled_from(["a", "b", "!", "a-b"]), min_size=1, max_size=4).map("".join)


@given(CLASSES, st.sampled_from("ab-!c"))
def test_a_class_of_letters_fits_what_the_standard_library_says(inside, letter):
    from fnmatch import fnmatchcase

    _, _, fits = RESEARCH.read_pattern(f"[{inside}]")
    assert (fits.fullmatch(letter) is not None) == fnmatchcase(letter, f"[{inside}]")


@pytest.mark.parametrize(
    ("given_", "paths"),
    [
        (None, []),
        ("docs", ["docs"]),
        ("./a.md", ["a.md"]),
        ('["a.md", "b.md", "./a.md", ""]', ["a.md", "b.md"]),
        ("[ab].md", ["[ab].md"]),
        (["a.md", " b.md "], ["a.md", "b.md"]),
        (".", ["."]),
    ],
)
def test_documents_are_a_text_or_a_list(research, given_, paths):
    assert research.named(given_) == paths
