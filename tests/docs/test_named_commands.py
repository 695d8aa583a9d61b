"""Every command line that a page, a help text or an explanation names is one that there is."""

import re
import shlex

import click
import pytest

from clawhive_core.cli import cli
from clawhive_core.diagnostics.codes import registry
from tests.docs.conftest import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "action.yml",
    *ROOT.joinpath("docs").rglob("*.md"),
    *ROOT.joinpath("examples").rglob("*.md"),
    *ROOT.glob("plugins/*/README.md"),
]
INLINE = re.compile(r"`(clawhive [^`\n]+)`")
LINE = re.compile(r"^\s*(?:\$ |run: )?(clawhive [^\n]+)$", re.MULTILINE)
OF_PLUGINS = {"NAME", "notes", "shout"}
"""The commands of the plugins that pages speak of."""
ENDS = {"&&", "||", "|", ">", ";", "#", "--"}


def problem(line):
    """Return what is wrong with a command line; None where it could be typed."""
    words = shlex.split(line.replace("\\|", "|"))[1:]
    words = words[: next((at for at, word in enumerate(words) if word in ENDS), len(words))]
    group, known, path = cli, options(cli), "clawhive"
    while words:
        word, *words = words
        if word.startswith("-") and word != "-":
            name, equals, _ = word.partition("=")
            if name not in known:
                return f"{path} has no option {name}"
            words = words[0 if known[name].is_flag or equals else 1 :]
        elif isinstance(group, click.Group):
            found = group.get_command(click.Context(group), word)
            if found is None:
                is_word = not word.strip("[]").isupper() and word not in {"...", *OF_PLUGINS}
                return f"{path} has no command {word}" if is_word else None
            group, known, path = found, {**options(found), **options(cli)}, word
    return None


def options(command):
    given = command.get_params(click.Context(command))
    return {name: each for each in given for name in (*each.opts, *each.secondary_opts)}


@pytest.mark.promise("P-270")
def test_every_command_that_the_pages_name_is_there():
    wrong = []
    for page in PAGES:
        text = page.read_text("utf-8")
        lines = dict.fromkeys((*INLINE.findall(text), *LINE.findall(text)))
        wrong += [(page.name, line, why) for line in lines if (why := problem(line)) is not None]
    assert wrong == []


@pytest.mark.promise("P-270")
def test_every_command_that_an_explanation_names_is_there():
    wrong = [
        (each.code, line, why)
        for each in registry().values()
        for line in INLINE.findall(f"{each.text} {each.fix}")
        if (why := problem(line)) is not None
    ]
    assert wrong == []


def test_a_command_that_is_not_there_is_found():
    assert problem("clawhive tools look WORDS") == "tools has no command look"
    assert problem("clawhive runs resume last --grant x") == "resume has no option --grant"
    assert problem("clawhive --root DIR runs replay last --mode tools --grant 'a b'") is None
