import re
from threading import Barrier, Thread

import pytest

from clawhive_core.model.patterns import pattern


def test_a_pattern_finds_what_the_compiled_one_finds():
    late, made = (
        pattern(r"([a-z]+)=(\d+)", re.IGNORECASE),
        re.compile(r"([a-z]+)=(\d+)", re.IGNORECASE),
    )
    text = "A=1, b=22; c"
    for name in ("match", "search", "fullmatch", "findall", "split"):
        assert str(getattr(late, name)(text)) == str(getattr(made, name)(text))
    assert late.sub(r"\2", text) == made.sub(r"\2", text)
    assert [each.span() for each in late.finditer(text)] == [
        each.span() for each in made.finditer(text)
    ]
    assert (late.pattern, late.flags, late.groups) == (made.pattern, made.flags, made.groups)


def test_a_pattern_of_bytes_is_one_too():
    assert pattern(rb"\d").sub(b"", b"a1") == b"a"


def test_what_no_pattern_has_is_an_attribute_error():
    with pytest.raises(AttributeError, match="find_all"):
        pattern("a").find_all("a")


def test_a_wrong_pattern_is_refused_when_it_is_used():
    with pytest.raises(re.error, match="unterminated"):
        pattern("(a").match("a")


def test_threads_may_use_a_pattern_first_at_once():
    for _ in range(50):
        late, barrier, found = pattern("a+"), Barrier(4), []

        def work(late=late, barrier=barrier, found=found):
            barrier.wait()
            found.append(late.match("aab").group())

        threads = [Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == ["aa"] * 4
