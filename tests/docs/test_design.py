"""The requirements hold every id once, and what they say stands is there; the map is true."""

import re
from itertools import chain

from tests.docs.conftest import ROOT

PAGE = ROOT / "docs" / "reference" / "requirements.md"
MAP = ROOT / "docs" / "design.md"
SERIES = {
    "A": "1-9 11",
    "B": "1-3 6-13 15-25",
    "C": "1-6 10 12",
    "D": "1-10",
    "E": "1-3 5-27 29-30",
    "F": "1-11",
    "G": "1-5",
    "R": "1-3 5-10 12",
    "H": "1-4 6-11",
    "K": "1-12",
    "L": "2-7 9-23",
    "M": "1 3-14",
    "N": "1-8",
    "P": "1-10",
    "Q": "1-10 12-13",
    "S": "1-4 6-15",
    "T": "1-11",
    "U": "1-25",
    "V": "1-9",
    "W": "1-13",
    "X": "1-10",
    "Z": "1-12",
}
PARTS = {
    *("spine", "contracts", "policy", "loop", "mcp", "sandbox", "routing", "web", "memory"),
    *("embed", "grounding", "later"),
}
PLACES = ("clawhive_core", ".", "docs")
ROWS = re.findall(
    r"^\| ([A-Z]\d+) \| (.+) \| \*\*(.+?)\*\*: (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE
)


def ids():
    for letter, ranges in SERIES.items():
        for first, last in (part.partition("-")[::2] for part in ranges.split()):
            for number in range(int(first), int(last or first) + 1):
                yield f"{letter}{number}"


def test_every_id_has_one_row_and_there_is_no_other():
    assert sorted(row[0] for row in ROWS) == sorted(ids())


def test_every_row_of_the_tables_can_be_read():
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if re.match(r"\| [A-Z]\d", line)]
    assert len(lines) == len(ROWS)


def test_a_state_is_one_of_three():
    assert {row[2] for row in ROWS} == {"stands", "partly", "planned"}


def test_what_stands_names_a_file_that_is_there():
    for row, _, state, text in ROWS:
        if state == "stands":
            (path,) = re.findall(r"`([^`]+)`", text)
            assert any(ROOT.joinpath(place, path).is_file() for place in PLACES), (row, path)


def test_what_does_not_stand_names_the_part_that_brings_it():
    for row, _, state, text in ROWS:
        if state == "partly":
            assert re.search(r"\((\w+)\)$", text)[1] in PARTS, row
        elif state == "planned":
            assert text in PARTS, row


def test_every_room_is_described():
    (table,) = re.findall(r"^\| room \|.*?\n\n", MAP.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    cells = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    named = set(chain(*(re.findall(r"`(\w+)`", cell) for cell in cells)))
    core = ROOT / "clawhive_core"
    rooms = {path.name for path in core.iterdir() if path.is_dir() and path.name[0] not in "._"}
    rooms |= {path.stem for path in core.glob("*.py")} - {"__init__"}
    assert named == rooms - {"data"}


def test_every_folder_of_the_core_is_on_the_map():
    core = ROOT / "clawhive_core"
    rooms = [room for room in core.iterdir() if room.is_dir() and room.name != "data"]
    folders = [file.parent for room in rooms for file in room.glob("*/__init__.py")]
    named = set(re.findall(r"`(\w+/\w+)`", MAP.read_text("utf-8")))
    assert named == {str(folder.relative_to(core)) for folder in folders}
