"""The index of patterns against asking each pattern by itself."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.capabilities import PatternIndex, contains, overlaps, parse
from tests.capabilities.test_algebra import paths, programs, urls


def same_verb(each):
    return st.tuples(st.lists(each, max_size=8), each)


cases = st.one_of(same_verb(paths), same_verb(urls), same_verb(programs))


def index_of(patterns):
    index = PatternIndex()
    for number, pattern in enumerate(patterns):
        index.add(pattern, number)
    return index


@given(cases)
def test_the_index_finds_exactly_the_patterns_that_contain_what_is_asked_for(case):
    patterns, asked = case
    found = index_of(patterns).covering(asked)
    assert sorted(number for _, number in found) == [
        number for number, each in enumerate(patterns) if contains(each, asked)
    ]
    assert all(patterns[number] == pattern for pattern, number in found)


@given(cases)
def test_the_index_finds_exactly_the_patterns_that_share_something_with_what_is_asked_for(case):
    patterns, asked = case
    assert sorted(number for _, number in index_of(patterns).meeting(asked)) == [
        number for number, each in enumerate(patterns) if overlaps(each, asked)
    ]


@given(cases)
def test_a_pattern_added_later_is_found_beside_the_others(case):
    patterns, asked = case
    index = index_of(patterns)
    before = [number for _, number in index.covering(asked)]
    index.add(asked, -1)
    assert sorted(number for _, number in index.covering(asked)) == [-1, *sorted(before)]


def test_threads_that_ask_while_patterns_are_added_always_find_all_that_were_there():
    index, everything = PatternIndex(), parse("fs.read:/a/b")
    missing = []

    def ask():
        for _ in range(200):
            there = added
            found = {number for _, number in index.covering(everything)}
            missing.extend(set(range(there)) - found)

    added = 0
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(200):
        index.add(parse("fs.read:/**" if number % 2 else "fs.read:/a/*"), number)
        added = number + 1
    for thread in threads:
        thread.join()
    assert missing == []
