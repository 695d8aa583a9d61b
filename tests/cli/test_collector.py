"""Looking for cycles of objects: seldom in a command's own process, as ever in anybody else's."""

import gc
import subprocess
import sys

import pytest

from clawhive_core.cli.skills_check import uncollected

PROGRAM = """
import atexit, gc, sys
from clawhive_core.cli import main
before = gc.get_threshold()
atexit.register(lambda: print(before == gc.get_threshold(), gc.isenabled()))
main(*eval(sys.argv[1]))
"""
SOURCE = """
import gc
from pathlib import Path
from clawhive_core import hookimpl

class Team:
    name = "team"

    def folders(self):
        Path(__file__).with_name("seen").write_text(str(gc.get_threshold()[0]))
        return []

@hookimpl
def clawhive_skill_sources(ctx):
    return [Team()]
"""


@pytest.mark.parametrize(("given", "same"), [("()", False), ("(['--version'],)", True)])
def test_only_a_process_that_is_a_command_s_own_looks_seldom(given, same):
    words = [sys.executable, "-c", PROGRAM, given]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == f"{same} True"


def test_a_check_does_not_look_and_others_do_after_it_as_before(clawhive, site):
    folder = site.plugin("team", SOURCE)
    before = gc.get_threshold()
    assert clawhive("skills", "list").code == 0
    (seen,) = folder.rglob("seen")
    assert seen.read_text() == str(before[0])
    assert clawhive("skills", "check").code == 0
    assert (seen.read_text(), gc.get_threshold()) == ("0", before)


def test_what_fails_uncollected_leaves_the_collector_as_it_was():
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="enough"), uncollected():
        raise ValueError("enough")
    assert gc.get_threshold() == before
