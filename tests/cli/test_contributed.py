"""Commands of plugins: listed from manifests, imported when they run."""

import sys

import pytest

from clawhive_core.cli import main

CODE = """
import click
from clawhive_core import hookimpl

@click.command("shout", help="Say it loudly.")
@click.argument("word")
def shout(word):
    click.echo(word.upper())

@hookimpl
def clawhive_commands(ctx):
    return [shout]
"""
MANIFEST = """
[plugin]
id = "loud"
hook_api = 1
hooks = ["clawhive_commands"]

[[commands]]
name = "shout"
help = "Say it loudly."
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    site = tmp_path / "site"
    package, info = site / "clawhive_loud", site / "clawhive_loud-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text(CODE, encoding="utf-8")
    (package / "clawhive-plugin.toml").write_text(MANIFEST, encoding="utf-8")
    (info / "entry_points.txt").write_text("[clawhive.plugins]\nloud = clawhive_loud\n", "utf-8")
    (info / "METADATA").write_text("Name: clawhive-loud\nVersion: 1.0\n", encoding="utf-8")
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    yield project
    sys.modules.pop("clawhive_loud", None)


def run(*words):
    with pytest.raises(SystemExit) as exit_:
        main(words)
    return exit_.value.code


def test_help_lists_no_command_of_a_distribution_that_does_not_count_for_its_id(
    plugin, capsys, monkeypatch
):
    site = plugin.parent / "site"
    package, info = site / "clawhive_other", site / "clawhive_other-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text(CODE, encoding="utf-8")
    manifest = MANIFEST.replace('"shout"', '"other"')
    (package / "clawhive-plugin.toml").write_text(manifest, encoding="utf-8")
    (info / "entry_points.txt").write_text("[clawhive.plugins]\nloud = clawhive_other\n", "utf-8")
    (info / "METADATA").write_text("Name: clawhive-other\nVersion: 1.0\n", encoding="utf-8")

    def listed():
        assert run("--help") == 0
        lines = capsys.readouterr().out.splitlines()
        words = {line.split()[0] for line in lines if line.strip()}
        return {"shout", "other"} & words

    assert listed() == set()
    for chosen, shown in (("clawhive-loud", {"shout"}), ("clawhive-other", {"other"})):
        assert run("plugins", "trust", "loud", "--distribution", chosen, "--yes") == 0
        capsys.readouterr()
        assert listed() == shown


def test_help_lists_a_plugins_command_without_importing_the_plugin(plugin, capsys):
    assert run("--help") == 0
    assert "Say it loudly." in capsys.readouterr().out
    assert "clawhive_loud" not in sys.modules


def test_a_plugins_command_runs(plugin, capsys):
    assert run("shout", "word") == 0
    assert capsys.readouterr().out == "WORD\n"


@pytest.mark.parametrize("words", [("--no-plugins",), ("--no-plugins=loud",)])
def test_a_plugin_that_is_switched_off_has_no_command(plugin, capsys, words):
    assert run(*words, "shout", "word") == 2
    assert "No such command" in capsys.readouterr().err


def test_a_plugin_that_the_configuration_switches_off_has_no_command(plugin, capsys):
    (plugin / "clawhive.toml").write_text('[plugins]\ndisabled = ["loud"]\n', encoding="utf-8")
    assert run("--help") == 0
    assert "Say it loudly." not in capsys.readouterr().out


def test_a_configuration_that_cannot_be_read_hides_the_commands_and_breaks_no_help(plugin, capsys):
    (plugin / "clawhive.toml").write_text("[plugins\n", encoding="utf-8")
    assert run("--help") == 0
    assert "Say it loudly." not in capsys.readouterr().out


def test_a_listed_command_that_the_code_does_not_contribute_is_an_error_with_the_fix(
    plugin, capsys
):
    package = plugin.parent / "site" / "clawhive_loud"
    code = CODE.replace("return [shout]", "return []")
    (package / "__init__.py").write_text(code, encoding="utf-8")
    assert run("shout", "word") == 1
    assert "clawhive plugins sync" in capsys.readouterr().err
