"""`skills check` reads again what has changed, and only that; a start reads everything."""

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.diagnostics.finding import Edit, Finding, Fix
from clawhive_core.skills.discovery import read_cache
from clawhive_core.skills.discovery.read_cache import NoJson, ReadCache, packed, unpack
from clawhive_core.skills.discovery.reading import Location, Reader, ReadSkill, read_skill
from clawhive_core.skills.discovery.shipped import shipped_folder
from clawhive_core.skills.load import FoundSkills
from clawhive_core.storage.sqlite.cache import SqliteCache

TEXT = "---\nname: {0}\ndescription: Does {0}.\n---\nbody\n"
EXPORTS = (
    'exports:\n  api_version: "1.0"\n  tools:\n    - {name: look, description: Look.,'
    " input_schema: {type: object}, output_schema: {type: object}}\n"
    '  deprecated: [{tool: look, removal_date: "2999-01-01"}]\n  access: {rate_limit: 5/day}\n'
)


class Counting(ReadCache):
    """A cache that tells what it read from files."""

    def __init__(self, kept):
        super().__init__(kept)
        self.anew = []

    def read(self, location, source):
        known = self.known(location.path)
        if known is None:
            self.anew.append(Path(location.path).name)
        return super().read(location, source)


def loaded(place, reader):
    """Return the set of a project as a reader reads it."""
    found = FoundSkills(place.config(), reader, place.env)
    found.collect((), ())
    return found.result(None)


@pytest.fixture
def later(monkeypatch):
    """Let an hour pass between what the tests write and what is read."""
    monkeypatch.setattr(read_cache, "_now", lambda: time.time_ns() + 3_600_000_000_000)


@pytest.fixture
def check(place, tmp_path, later):
    """Check the project as the command does; answer its set and what was read anew."""

    def run():
        with closing(SqliteCache(tmp_path / "cache" / "reads.db")) as kept:
            cache = Counting(kept)
            found = loaded(place, cache)
            cache.save()
        return found, cache.anew

    return run


@pytest.mark.promise("P-224")
def test_what_is_unchanged_is_read_once_and_found_alike(place, check):
    place.text("one", "name: one\ndescription: x\nmetadata: {deep: [1, {a: null}]}\nodd: y")
    place.skill("two", f"{EXPORTS}\nunknown: 1\n", handlers="def look(input, ctx): ...\n")
    place.write("skills/alone.yaml", "id: alone\ntasks: {}\nbad: 1\n")
    place.text("three", "description: ''")
    first, anew = check()
    assert {"one", "two", "alone.yaml", "three"} < set(anew)
    second, anew = check()
    assert not anew
    assert second == first == place.load()


CHANGES = {
    "text": lambda place: place.text("one", "name: one\ndescription: changed"),
    "manifest added": lambda place: place.write("skills/one/clawhive.yaml", "tasks: {}"),
    "handlers": lambda place: place.write("skills/two/handlers.py", "def other(a, ctx): ...\n"),
    "code": lambda place: place.write("skills/two/lib/more.py", "from skills.one import x\n"),
    "code added": lambda place: place.write("skills/two/new.py", "from skills.one import x\n"),
    "text gone": lambda place: (place.root / "skills/one/SKILL.md").unlink(),
    "handlers gone": lambda place: (place.root / "skills/two/handlers.py").unlink(),
    "renamed": lambda place: (place.root / "skills/one").rename(place.root / "skills/other"),
    "added": lambda place: place.text("newer", "name: newer\ndescription: x"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_a_file_is_seen(place, check, change):
    place.text("one", "name: one\ndescription: before!")
    place.skill("two", EXPORTS, handlers="def look(input, ctx): ...\n")
    place.write("skills/two/lib/more.py", "x = 1\n")
    check()
    CHANGES[change](place)
    found, _ = check()
    assert found == place.load()


def test_a_change_that_keeps_size_and_mtime_is_seen(place, check):
    file = place.text("one", "name: one\ndescription: aaaa")
    times = file.stat()
    check()
    place.text("one", "name: one\ndescription: bbbb")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    found, _ = check()
    assert found.find("one").skill.description == "bbbb"


def test_what_was_changed_a_moment_before_is_read_again(place, tmp_path, monkeypatch):
    file = place.text("one", "name: one\ndescription: x")
    born = file.stat().st_ctime_ns
    monkeypatch.setattr(read_cache, "_now", lambda: born + read_cache.RACY_NS - 1)
    for _ in range(2):
        with closing(SqliteCache(tmp_path / "reads.db")) as kept:
            cache = Counting(kept)
            loaded(place, cache)
            cache.save()
        assert "one" in cache.anew


def test_a_link_is_read_each_time_for_where_it_leads_may_change(place, check):
    place.write("skills/one/text.md", TEXT.format("one"))
    (place.root / "skills/one/SKILL.md").symlink_to("text.md")
    check()
    _, anew = check()
    assert anew == ["one"]


@pytest.mark.promise("P-224")
@pytest.mark.parametrize("row", [b"", b"x", b"[1]", b"{}", b"null"])
def test_a_row_that_cannot_be_read_is_as_none(place, later, row):
    class Broken:
        def get_many(self, keys):
            return dict.fromkeys(keys, row)

    place.text("one", "name: one\ndescription: Does it.")
    cache = Counting(Broken())
    assert loaded(place, cache) == place.load()
    assert "one" in cache.anew


@pytest.mark.promise("P-224")
def test_a_damaged_file_is_as_none_and_is_replaced(place, check, tmp_path):
    place.text("one", "name: one\ndescription: Does it.")
    whole, _ = check()
    file = tmp_path / "cache" / "reads.db"
    file.write_bytes(b"no database" * 100)
    found, anew = check()
    assert "one" in anew
    assert found == whole
    assert check()[1] == []


def test_a_cache_of_another_program_is_not_used(place, check, monkeypatch):
    place.text("one", "name: one\ndescription: x")
    check()
    monkeypatch.setattr(read_cache, "_program", lambda: "another")
    assert "one" in check()[1]


@pytest.mark.promise("P-224")
def test_a_place_that_cannot_be_written_has_no_cache_and_no_error(place, tmp_path, later):
    place.text("one", "name: one\ndescription: x")
    (tmp_path / "file").write_text("no folder")
    with closing(SqliteCache(tmp_path / "file" / "reads.db")) as kept:
        cache = ReadCache(kept)
        found = loaded(place, cache)
        cache.save()
    assert found == place.load()


def test_rows_are_asked_for_by_the_skills_that_are_looked_at(place, tmp_path, later):
    asked = []

    class Asking(SqliteCache):
        def get_many(self, keys):
            asked.append(len(keys))
            return super().get_many(keys)

    for name in ("one", "two", "three"):
        place.text(name, f"name: {name}\ndescription: x")
    with closing(SqliteCache(tmp_path / "reads.db")) as kept:
        cache = ReadCache(kept)
        loaded(place, cache)
        cache.save()
    with closing(Asking(tmp_path / "reads.db")) as kept:
        cache = Counting(kept)
        cache.read(Location.of(place.root / "skills/two"), "project")
    assert (asked, cache.anew) == ([1], [])


@pytest.mark.promise("P-226")
def test_a_start_reads_every_file_whatever_a_cache_says(place, check, monkeypatch):
    place.text("one", "name: one\ndescription: x")
    check()
    monkeypatch.setattr(ReadCache, "read", None)
    monkeypatch.setattr(SqliteCache, "get_many", None)
    assert place.load().find("one").skill.description == "x"
    assert Reader().known(str(place.root / "skills/one")) is None


@pytest.mark.parametrize("folder", sorted(each.name for each in shipped_folder().iterdir()))
def test_a_skill_comes_back_from_the_cache_as_it_was_read(folder):
    read = read_skill(shipped_folder() / folder, "shipped")
    assert unpack(ReadSkill)(json.loads(json.dumps(packed(read)))) == read


TEXTS = st.text(max_size=5)
NUMBERS = st.none() | st.integers(1, 9)
FINDINGS = st.builds(
    Finding,
    code=TEXTS,
    severity=st.sampled_from(["error", "note"]),
    message=TEXTS,
    file=st.none() | TEXTS,
    line=NUMBERS,
    fix=st.none()
    | st.builds(
        Fix, TEXTS, st.tuples() | st.tuples(st.builds(Edit, st.just(1), st.just(2), TEXTS))
    ),
)


@given(st.lists(FINDINGS, max_size=3).map(tuple))
def test_findings_come_back_as_they_were(findings):
    kind = tuple[Finding, ...]
    assert unpack(kind)(json.loads(json.dumps(packed(findings)))) == findings


@pytest.mark.parametrize(
    "value", [1 << 60, float("nan"), float("inf"), {1: 2}, b"x", {"a": {3}}, 1j]
)
def test_what_json_would_change_is_not_packed(value):
    with pytest.raises(NoJson):
        packed(value)


READS = """
import json, os, sys
opened = set()
sys.addaudithook(lambda name, args: opened.add(args[0]) if name == "open" else None)
from pathlib import Path
from clawhive_core.skills.discovery.read_cache import _read_from
from clawhive_core.skills.discovery.reading import read_skill
from clawhive_core.skills.discovery.reading import Location
location = Location.of(Path(sys.argv[1]))
read_skill(location, "project")
opened.clear()
read = read_skill(location, "project")
files = {str(each) for each in opened}
print(json.dumps(sorted(files - {location.path + each for each in _read_from(location, read)})))
"""


def test_every_file_that_a_reading_opens_is_one_that_the_cache_looks_at(place):
    place.text("one", "name: one\ndescription: x", handlers="def look(input, ctx): ...\n")
    place.skill("one", f"{EXPORTS}imports: [{{from: b, tools: [t]}}]\n")
    place.write("skills/one/lib/more.py", "import skills.b\n")
    command = [sys.executable, "-c", READS, str(place.root / "skills/one")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_places_of_findings_depend_on_the_directory_so_each_has_its_rows(
    place, tmp_path, monkeypatch, later
):
    place.text("one", "name: one\ndescription: x")
    kept = SqliteCache(tmp_path / "reads.db")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        cache = Counting(kept)
        loaded(place, cache)
        cache.save()
        assert "one" in cache.anew
    kept.close()
