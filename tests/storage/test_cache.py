"""A cache in SQLite: whatever is wrong with its file, nobody hears of it."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from clawhive_core.protocols.cache import Cache
from clawhive_core.storage.sqlite.cache import MAX_BYTES, VERSION, SqliteCache, user_cache

ROWS = {b"a": b"one", b"b": b"two" * 1000, b"\x00\xff": b""}


@pytest.fixture
def file(tmp_path):
    """Return where a cache lies that holds `ROWS`."""
    file = tmp_path / "cache" / "c.db"
    with closing(SqliteCache(file)) as cache:
        cache.put_many(ROWS)
    return file


def held(file, *keys):
    """Return what a new process would find."""
    with closing(SqliteCache(file)) as cache:
        return cache.get_many(list(keys or ROWS))


def works_again(file):
    """Whether a cache takes rows and gives them."""
    with closing(SqliteCache(file)) as cache:
        cache.put_many({b"new": b"row"})
    return held(file, b"new") == {b"new": b"row"}


def test_what_was_put_is_there_for_the_next_process_and_nothing_else(file):
    cache: Cache = SqliteCache(file)
    with closing(cache):
        assert cache.get_many([*ROWS, b"unknown"]) == ROWS
        cache.put_many({b"a": b"changed"})
    assert held(file) == {**ROWS, b"a": b"changed"}
    assert held(file, b"b") == {b"b": ROWS[b"b"]}


def test_many_keys_are_asked_for_at_once(tmp_path):
    rows = {b"%d" % each: b"x" for each in range(25_000)}
    with closing(SqliteCache(tmp_path / "c.db")) as cache:
        cache.put_many(rows)
        assert cache.get_many([b"none", *rows]) == rows


def test_the_rows_that_were_put_last_are_kept(tmp_path):
    with closing(SqliteCache(tmp_path / "c.db", max_rows=3)) as cache:
        for number in range(6):
            cache.put_many({b"%d" % number: b"x"})
        cache.put_many({b"4": b"again"})
        assert set(cache.get_many([b"%d" % each for each in range(6)])) == {b"4", b"5"}


def test_a_value_that_is_very_large_is_not_kept(tmp_path):
    with closing(SqliteCache(tmp_path / "c.db")) as cache:
        cache.put_many({b"large": b"x" * (MAX_BYTES + 1), b"small": b"x"})
        assert cache.get_many([b"large", b"small"]) == {b"small": b"x"}


def test_a_cache_that_nobody_filled_makes_no_file(tmp_path):
    file = tmp_path / "cache" / "c.db"
    assert held(file, b"a") == {}
    assert not file.parent.exists()


DAMAGES = {
    "empty": lambda data: b"",
    "no database": lambda data: b"[1, 2, 3]\n" * 1000,
    "head only": lambda data: data[:100],
    "cut": lambda data: data[: len(data) // 2],
    "zeros": lambda data: b"\x00" * len(data),
    "pages of zeros": lambda data: data[:4096] + b"\x00" * (len(data) - 4096),
    "another value": lambda data: data.replace(b"twotwo", b"owtowt"),
    "noise": lambda data: data[:100] + bytes(reversed(data[100:])),
}


@pytest.mark.promise("P-224")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_gives_nothing_wrong_and_is_made_anew(file, damage):
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    found = held(file)
    assert found.items() <= ROWS.items()
    with closing(SqliteCache(file)) as cache:
        cache.put_many({b"new": b"row"})
    assert works_again(file)


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE entries",
        "ALTER TABLE entries RENAME COLUMN value TO other",
        "UPDATE entries SET value = 'text'",
        "UPDATE entries SET sum = 'text'",
    ],
)
def test_another_form_of_the_same_version_gives_nothing(file, change):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(change)
    assert held(file) == {}
    assert works_again(file)


@pytest.mark.promise("P-224")
def test_a_file_of_a_newer_version_is_left_as_it_is(file):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = file.read_bytes()
    assert held(file) == {}
    assert not works_again(file)
    assert file.read_bytes() == before


def test_a_locked_file_is_gone_without_and_left_as_it_is(file):
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert held(file) == {}
        assert not works_again(file)
        other.execute("ROLLBACK")
    assert held(file) == ROWS
    assert works_again(file)


@pytest.mark.skipif(os.name == "nt", reason="no such rights")
@pytest.mark.parametrize("kind", ["folder", "pipe", "below a file", "read-only"])
def test_a_place_that_takes_no_file_has_no_cache(tmp_path, kind):
    file = tmp_path / "place" / "c.db"
    file.parent.mkdir()
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "below a file":
        file.parent.rmdir()
        file.parent.write_text("")
    else:
        file.parent.chmod(0o500)
        if os.access(file.parent, os.W_OK):
            pytest.skip("rights do not bind this user")
    assert held(file) == {}
    assert not works_again(file)


WRITER = """
import sys
from pathlib import Path
from clawhive_core.storage.sqlite.cache import SqliteCache
cache = SqliteCache(Path(sys.argv[1]))
for number in range(20):
    cache.put_many({f"{sys.argv[2]} {number}".encode(): b"x" * 500})
"""


def test_processes_that_write_at_once_leave_a_whole_file(tmp_path):
    file = tmp_path / "c.db"
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(file), str(each)]) for each in range(4)
    ]
    assert [each.wait() for each in running] == [0] * 4
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert works_again(file)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/clawhive/c.db"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/clawhive/c.db"),
        ({}, f"{os.devnull}/.cache/clawhive/c.db"),
    ],
)
def test_the_file_lies_in_the_users_own_directory(env, expected):
    assert str(user_cache(env, "c.db").file) == expected
