"""The line about a running run: on a terminal only, out of everybody's way, gone at the end."""

import io
import os
import pty
import re
import subprocess
import sys
from contextlib import contextmanager, redirect_stderr

import pytest

from clawhive_core.cli import progress
from clawhive_core.cli.progress import ProgressLine, progress_line
from clawhive_core.cli.settings import Settings
from clawhive_core.execution.scope import Signal

_CONTROL = re.compile(r"\x1b\[(\d*)([A-Za-z])|\r|\n|[^\x1b]")
CODE = (
    "import sys\nprint('half', end='', file=sys.stderr)\nprint(' whole', file=sys.stderr)\nprint(7)"
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def screen(text):
    """Return the lines that a terminal shows after `text`, without trailing empty ones."""
    lines, row, column = [""], 0, 0
    for match in _CONTROL.finditer(text):
        count, code = int(match[1] or 1), match[2]
        if code == "A":
            row = max(0, row - count)
        elif code == "K":
            lines[row] = ""
        elif code is not None:
            assert code == "m", f"an escape that is not expected: {match[0]!r}"
        elif match[0] == "\r":
            column = 0
        elif match[0] == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        else:
            old = lines[row].ljust(column)
            lines[row] = old[:column] + match[0] + old[column + 1 :]
            column += 1
    return "\n".join(line.rstrip() for line in lines).rstrip("\n")


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "20")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


@contextmanager
def line_on(stream, *, shown=True):
    with redirect_stderr(stream), ProgressLine(shown=shown) as line:
        yield line


def step(name, done, total=None, tool="demo.tool"):
    return Signal("step", "run_1/s", tool, done=done, total=total, text=name)


def drawn(line, terminal):
    """Return what the terminal shows once the line is drawn, however long that took."""
    line._draw()
    line._live.refresh()
    return screen(terminal.getvalue())


def test_the_line_says_how_many_steps_have_ended_and_which_one_runs(terminal):
    with line_on(terminal) as line:
        line.take(step("fetch", 2, 5))
        line.take(Signal("progress", "run_1/s", "web.fetch", done=3, total=9))
        shown = drawn(line, terminal)
    assert "2/5" in shown
    assert "fetch web.fetch: 3/9" in shown
    assert screen(terminal.getvalue()) == ""


def test_a_loop_has_no_total(terminal):
    with line_on(terminal) as line:
        line.take(step("scripted:demo", 1))
        shown = drawn(line, terminal)
    assert shown.endswith("scripted:demo")
    assert "/" not in shown


def test_a_step_that_ended_keeps_the_name_of_the_one_that_runs(terminal):
    with line_on(terminal) as line:
        line.take(step("first", 0, 2))
        line.take(step("", 1, 2))
        shown = drawn(line, terminal)
    assert "1/2 first" in shown


@pytest.mark.parametrize("text", ["\x1b[2J\x1b[31mred", "a\nb\rc", "[bold]x[/bold]", "長" * 80])
def test_a_tools_text_stays_in_its_line(terminal, text):
    with line_on(terminal) as line:
        line.take(step("s", 0, 2))
        line.take(Signal("progress", "run_1/s", "demo.tool", text=text))
        shown = drawn(line, terminal)
    assert "\n" not in shown
    assert "\x1b[2J" not in terminal.getvalue()
    assert screen(terminal.getvalue()) == ""


def test_what_a_program_says_is_printed_whole_and_above(terminal):
    with line_on(terminal) as line:
        line.take(step("exec", 0, 1))
        drawn(line, terminal)
        line.write("half")
        line._draw()  # an unfinished line is left alone
        assert screen(terminal.getvalue()) == "  | half"
        line.write(" whole\n")
        shown = drawn(line, terminal)
        assert shown.splitlines()[0] == "  | half whole"
        assert "exec" in shown.splitlines()[1]
    assert screen(terminal.getvalue()) == "  | half whole"


def test_nothing_is_drawn_while_somebody_is_asked(terminal):
    with line_on(terminal) as line:
        line.take(step("apply", 0, 1))
        drawn(line, terminal)
        with line.hidden():
            assert screen(terminal.getvalue()) == ""
            line._draw()
            line.take(step("apply", 1, 1))
            assert screen(terminal.getvalue()) == ""
        assert "1/1" in drawn(line, terminal)


def test_a_killed_process_leaves_the_cursor_visible(terminal):
    with line_on(terminal) as line:
        line.take(step("s", 0, 1))
        drawn(line, terminal)
    assert "\x1b[?25l" not in terminal.getvalue()


def test_a_line_that_is_not_wanted_is_never_drawn(terminal):
    with line_on(terminal, shown=False) as line:
        line.begin()
        line.take(step("s", 0, 1))
        line._draw()
        line.write("said\n")
    assert terminal.getvalue() == "  | said\n"


@pytest.mark.parametrize(
    ("settings", "as_json", "term"),
    [
        (Settings(), True, "xterm"),
        (Settings(quiet=True), False, "xterm"),
        (Settings(), False, "dumb"),
    ],
)
def test_there_is_no_line_for_programs_and_people_who_want_none(
    terminal, monkeypatch, settings, as_json, term
):
    monkeypatch.setenv("TERM", term)
    with redirect_stderr(terminal), progress_line(settings, as_json=as_json) as line:
        line.begin()
        line._draw()
    assert terminal.getvalue() == ""


def test_without_a_terminal_there_is_no_line(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(stream), progress_line(Settings(), as_json=False) as line:
        line._draw()
    assert stream.getvalue() == ""


def test_a_run_tells_each_step_as_it_begins_and_ends(clawhive, monkeypatch):
    told = []
    monkeypatch.setattr(progress.ProgressLine, "take", lambda _, signal: told.append(signal))
    assert clawhive.snippet("print(1)").code == 0
    steps = [(each.text, each.done, each.total) for each in told if each.kind == "step"]
    assert steps == [
        ("write_files", 0, 3),
        ("", 1, 3),
        ("exec", 1, 3),
        ("", 2, 3),
        ("collect_outputs", 2, 3),
        ("", 3, 3),
    ]


def on_a_terminal(clawhive, words, typed=(), **streams):
    """Run `clawhive` with its stderr (and stdin) on a real terminal; the line comes at once."""
    ours, theirs = pty.openpty()
    code = "from clawhive_core.cli import main, progress; progress.DELAY_SECONDS = 0; main()"
    environ = {**os.environ, "HOME": str(clawhive.home), "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        **{"stdin": theirs, "stdout": theirs, **streams},
        stderr=theirs,
        cwd=clawhive.root,
        env=environ,
    )
    os.close(theirs)
    shown, answers = b"", list(typed)
    while part := _part(ours):
        shown += part
        if answers and shown.endswith(b"n no > "):
            os.write(ours, answers.pop(0).encode())
    os.close(ours)
    out, _ = process.communicate()
    return process.returncode, shown.decode(), out


def _part(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


@pytest.mark.slow
@pytest.mark.promise("P-064")
def test_on_a_terminal_a_run_shows_its_steps_and_leaves_only_what_it_said(clawhive):
    words = ("run", "--task", "run_code_snippet", "--input", "language=python")
    code, shown, _ = on_a_terminal(clawhive, (*words, "--input", f"code={CODE}"))
    assert code == 0
    assert "/3" in shown
    lines = screen(shown).splitlines()
    assert lines[2:4] == ["  | half whole", "7"]
    assert lines[-1].startswith("succeeded: ")
    assert not [line for line in lines if "/3" in line]


@pytest.mark.slow
def test_output_that_goes_elsewhere_holds_no_line(clawhive):
    words = ("run", "--task", "run_code_snippet", "--input", "language=python")
    words = (*words, "--input", f"code={CODE}")
    code, shown, out = on_a_terminal(clawhive, words, stdout=subprocess.PIPE)
    assert (code, out) == (0, b"7\n")
    assert "/3" in shown


@pytest.mark.slow
def test_a_question_is_not_garbled_by_the_line(clawhive):
    clawhive.root.joinpath("a.md").write_text("one\ntwo\n", "utf-8")
    words = ("run", "--task", "edit_docs", "--input", "path=a.md", "--input", "find=two")
    code, shown, _ = on_a_terminal(clawhive, (*words, "--input", "replace=2"), ["y\n"])
    assert code == 0
    lines = screen(shown).splitlines()
    asked = lines.index(
        "y yes, once   s step   t task   c conversation   a always   e edit   n no > y"
    )
    assert lines[asked - 1] == "+2"
    assert not [line for line in lines if "/2" in line]


@pytest.mark.slow
def test_json_on_a_terminal_is_json_alone(clawhive):
    words = ("run", "--task", "run_code_snippet", "--input", "language=python", "--json")
    code, shown, _ = on_a_terminal(clawhive, (*words, "--input", "code=print(7)"))
    assert code == 0
    assert "\x1b" not in shown
