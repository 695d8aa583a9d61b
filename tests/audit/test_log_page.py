import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from clawhive_core.audit import verify as verify_module
from clawhive_core.events.chain import COLUMNS
from clawhive_core.events.kinds import KINDS
from clawhive_core.model.events import Blob, Event
from clawhive_core.storage.sqlite.log import EventLog

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "log.md").read_text(encoding="utf-8")
(*_, PROGRAM) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "hive.db"
    log = EventLog.open(path)
    for text in ("plain", 'ü "quoted" \\ \n\x00\x7f', "\U0001f41d \u2028 漢字"):
        body = {"text": text, "n": [0.5, 2**60, float("nan")], "output": Blob(text * 500)}
        log.append_now(Event("kind", body, tool=text, run_id="run_1"))
    log.close()
    return path


def check(path):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def change(path, statement):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER events_refuse_update")
        connection.execute("DROP TRIGGER blobs_refuse_update")
        connection.execute(statement)


def test_the_program_on_the_page_accepts_a_log(path):
    done = check(path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("3 rows, tip ")


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE events SET tool = 'x' WHERE seq = 2", "row 2 is not as it was written"),
        ("UPDATE blobs SET data = x'00'", "is not as it was written"),
    ],
)
def test_the_program_on_the_page_finds_a_change(path, statement, says):
    change(path, statement)
    done = check(path)
    assert done.returncode == 1
    assert says in done.stderr


def test_the_program_on_the_page_is_about_twenty_lines_long():
    assert len(PROGRAM.strip().splitlines()) <= 20


def test_the_page_names_every_column_kind_and_problem():
    source = Path(verify_module.__file__).read_text(encoding="utf-8")
    codes = set(re.findall(r'_found\(\s*"([a-z_]+)"', source))
    assert len(codes) == 11
    named = set(re.findall(r"`([a-z_.]+)`", PAGE))
    assert {*COLUMNS, *KINDS, *codes} <= named
