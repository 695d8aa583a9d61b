import re
import subprocess
import sys
from pathlib import Path

import pytest

from clawhive_core.capabilities import HOST_FAMILY, VERBS, normalise, parse
from clawhive_core.errors import CapabilityError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "capabilities.md"
TEXT = PAGE.read_text(encoding="utf-8")
HERE = {"workspace": "/srv/project", "run": "/srv/project/clawhive-out/r1", "home": "/home/u"}


def rows(heading):
    """Return the cells of the first table below a heading, without its two head lines."""
    lines = TEXT.split(f"## {heading}\n", 1)[1].splitlines()
    table = [line for line in lines[: _end(lines)] if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def _end(lines):
    return next((i for i, line in enumerate(lines) if line.startswith("## ")), len(lines))


def code(cell):
    return re.fullmatch(r"`(.*)`", cell)[1]


def test_the_table_of_verbs_says_what_the_code_says():
    expected = [
        [f"`{v.name}`", v.kind, v.level, v.default, f"`{v.example}`", v.text]
        for v in (*VERBS.values(), HOST_FAMILY)
    ]
    assert rows("Verbs") == expected


@pytest.mark.parametrize("row", rows("One spelling"), ids=lambda row: row[0])
def test_each_spelling_of_the_page_becomes_what_the_page_says(row):
    assert normalise(code(row[0]), HERE) == code(row[1])


@pytest.mark.parametrize("row", rows("What is refused"), ids=lambda row: row[0])
def test_each_refusal_of_the_page_is_one_and_its_replacement_works(row):
    with pytest.raises(CapabilityError):
        parse(code(row[0]), HERE)
    for line in re.findall(r"`([^`]+)`", row[1]):
        assert parse(line, HERE)


def test_the_room_loads_nothing_heavy():
    program = (
        "import sys, clawhive_core.capabilities as c; c.parse('fs.read:/a/**');print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    heavy = {"asyncio", "anyio", "difflib", "ipaddress", "encodings.idna", "pydantic", "rfc8785"}
    assert heavy.isdisjoint(done.stdout.split())
