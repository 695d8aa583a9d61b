"""The generated pages are what the code says, and every command explains itself."""

import pytest

from clawhive_core.cli import cli
from clawhive_core.cli.reference import every_command, render, render_codes
from clawhive_core.diagnostics.codes import all_codes, explain
from tests.docs.conftest import ROOT

REFERENCE = ROOT / "docs" / "reference"
WRITE = (
    "write it anew: python -c 'import clawhive_core.cli.reference as r; print(r.{}(), end=\"\")'"
)
COMMANDS = {" ".join(words): command for words, command in every_command()}


@pytest.mark.parametrize(
    ("page", "function"), [("cli.md", render), ("codes.md", render_codes)], ids=["cli", "codes"]
)
def test_the_page_on_disk_is_what_the_code_says(page, function):
    written = REFERENCE.joinpath(page).read_text("utf-8")
    assert written == function(), WRITE.format(function.__name__)


def test_every_code_has_a_section():
    page = render_codes()
    assert [code for code in all_codes() if page.count(f"### `{code}`\n") != 1] == []


def test_explain_names_a_place_of_the_page_for_every_code():
    anchors = {line[5:-1].lower() for line in render_codes().split("\n") if line[:4] == "### "}
    for code in all_codes():
        page, _, anchor = explain(code).page.partition("#")
        assert ROOT.joinpath(page).is_file()
        assert anchor in anchors


def test_every_command_has_a_section():
    page = render()
    assert [name for name in COMMANDS if page.count(f"# `clawhive {name}`\n") != 1] == []


@pytest.mark.promise("P-038")
def test_every_command_has_help_with_one_worked_example(terminal):
    said = {name: terminal.clawhive(*name.split(), "--help") for name in COMMANDS}
    assert [name for name, (code, text) in said.items() if code or not has_example(text)] == []


def has_example(text):
    return text.count("Example: clawhive ") == 1


def test_every_example_is_a_command_line_that_parses():
    import shlex

    import click

    context = click.Context(cli, info_name="clawhive")
    for each in COMMANDS.values():
        epilog = each.epilog or ""
        words = shlex.split(epilog.removeprefix("Example: ").partition(" && ")[0])
        assert words[0] == "clawhive"
        command, rest = cli, words[1:]
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            command, rest = command.get_command(context, rest[0]), rest[1:]
            assert command is not None, epilog
        assert command.make_context(command.name, rest, parent=context) is not None, epilog


def test_every_option_says_what_it_does():
    lines = [line for line in render().splitlines() if line.startswith("| `")]
    assert [line for line in lines if line.endswith("|  |")] == []
