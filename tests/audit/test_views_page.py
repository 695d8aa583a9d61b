"""The views of the log's page, as a stranger's sqlite3 sees them."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from clawhive_core.config.load import open_config
from clawhive_core.hive.project_log import open_log

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "log.md").read_text("utf-8")
VIEWS = (
    "v_runs",
    "v_steps",
    "v_invocations",
    "v_approvals",
    "v_grants",
    "v_quotas",
    "v_subscriptions",
)
PROGRAM = """
import json, sqlite3, sys
log = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
rows = log.execute(f"SELECT * FROM {sys.argv[2]}")
print(json.dumps([[column[0] for column in rows.description], len(rows.fetchall())]))
"""


@pytest.fixture
def path(tmp_path):
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    root = tmp_path / "project"
    root.mkdir()
    log = open_log(open_config(str(root), {}, env))
    yield log.path
    log.close()


def documented(view):
    """Return the columns that the page lists: the names in the first sentence after the colon."""
    (text,) = re.findall(rf"^- `{view}`:(.*?)(?=^- `v_|^```|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    listed = text.partition(": ")[2].partition("`.")[0] + "`"
    return re.findall(r"`([a-z_]+)`", listed)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.promise("P-088")
def test_a_view_has_the_columns_that_the_page_lists(path, view):
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as other:
        columns = [row[1] for row in other.execute(f"PRAGMA table_info({view})")]
    assert columns == documented(view)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_read_by_a_program_that_knows_nothing_of_clawhive(path, view):
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM, str(path), view],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f'[["{documented(view)[0]}"')


def test_the_page_lists_every_view(path):
    with closing(sqlite3.connect(path)) as other:
        names = {
            row[0] for row in other.execute("SELECT name FROM sqlite_master WHERE type='view'")
        }
    assert names == set(VIEWS)
