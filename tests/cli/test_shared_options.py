"""Options that every command takes, exit codes, colour, plugins on and off."""

import os
import sys

import pytest


def test_the_version_and_help_are_printed(clawhive):
    assert clawhive("--version").out == "clawhive, version 0.1.0\n"
    shown = clawhive("--help")
    assert shown.code == 0
    for name in ("run ", "runs ", "tools ", "plugins ", "audit ", "doctor ", "explain "):
        assert f"\n  {name}" in shown.out
    assert clawhive("-h").out == shown.out


def test_shared_options_may_stand_before_or_after_the_command(clawhive, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    clawhive.snippet("print(1)", "--root", str(other))
    assert clawhive("runs", "list", "--json").json["runs"] == []
    before = clawhive("--root", str(other), "runs", "list", "--json").json["runs"]
    after = clawhive("runs", "list", "--json", "--root", str(other)).json["runs"]
    assert before == after
    assert len(after) == 1


@pytest.mark.parametrize("flag", ["--quiet", "-q"])
def test_quiet_prints_results_and_errors_only(clawhive, flag):
    done = clawhive.snippet("print(1)", flag)
    assert (done.out, done.err) == ("1\n", "")
    failed = clawhive.snippet("raise ValueError('x')", flag)
    assert "error[program_failed]" in failed.err
    assert "policy:" not in failed.err


def test_verbose_lists_the_grants_of_a_run(clawhive):
    done = clawhive.snippet("print(1)", "-v")
    assert "sandbox.exec" in done.err
    assert "(starter)" in done.err or "(skill)" in done.err


def test_no_colour_where_there_is_no_terminal(clawhive):
    assert "\x1b" not in clawhive("run", "--task", "none").err


def test_colour_on_a_terminal_unless_it_is_not_wanted(monkeypatch, capsys):
    from clawhive_core.cli.output import say

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    say(": x", label=("failed", "red"), err=True)
    assert capsys.readouterr().err == "\x1b[31mfailed\x1b[0m: x\n"
    monkeypatch.setenv("NO_COLOR", "1")
    say(": x", label=("failed", "red"), err=True)
    assert capsys.readouterr().err == "failed: x\n"


def test_without_plugins_only_the_core_is_there(clawhive):
    tools = clawhive("--no-plugins", "tools", "list", "--json").json["tools"]
    providers = {tool["provider_id"] for tool in tools}
    assert "sandbox" in providers
    assert all(each in {"sandbox", "core"} or each.startswith("skill_") for each in providers)
    rows = clawhive("plugins", "--json", "--no-plugins").json["plugins"]
    assert {(row["status"], row["enabled"]) for row in rows} == {("disabled", False)}


def test_one_plugin_is_switched_off_by_name(clawhive, bad_tools):
    tools = clawhive("tools", "list", "--json", "--no-plugins=builtin").json["tools"]
    providers = {tool["provider_id"] for tool in tools}
    assert "bad" in providers
    assert providers.isdisjoint({"builtin", "stub"})
    done = clawhive("run", "x", "--model", "scripted:demo", "--no-plugins=builtin")
    assert done.code == 2
    assert "scripted:NAME" not in done.err


def test_a_switched_off_plugin_is_not_even_imported(clawhive, site):
    site.plugin("loud", "raise SystemExit('imported')", manifest=MANIFEST.format("loud"))
    assert clawhive("run", "x", "--model", "scripted:demo", "--no-plugins=loud").code == 0
    assert "site_loud" not in sys.modules


def test_a_plugin_switched_off_by_configuration_stays_off(clawhive, bad_tools):
    folder = clawhive.home / ".config" / "clawhive"
    folder.mkdir(parents=True)
    folder.joinpath("config.toml").write_text('[plugins]\ndisabled = ["bad"]\n')
    rows = clawhive("plugins", "--json", "--no-plugins=builtin").json["plugins"]
    off = {row["id"] for row in rows if row["status"] == "disabled"}
    assert off == {"bad", "builtin"}


def test_an_unknown_name_to_switch_off_is_noticed(clawhive):
    done = clawhive("plugins", "--no-plugins=bultin")
    assert "did you mean `builtin`?" in done.err


MANIFEST = '[plugin]\nid = "{}"\nhook_api = 1\nhooks = ["clawhive_llm_adapters"]\n'


@pytest.mark.promise("P-034")
def test_a_broken_plugin_is_shown_and_does_not_stop_the_others(clawhive, site):
    site.plugin("broken", "raise SystemExit(5)", manifest=MANIFEST.format("broken"))
    done = clawhive("run", "look", "--model", "scripted:demo")
    assert done.code == 0
    assert clawhive("plugins").code == 0


@pytest.mark.promise("P-034")
def test_strict_turns_a_broken_plugin_into_an_error(clawhive, site):
    site.plugin("one", "raise SystemExit(5)", manifest=MANIFEST.format("one"))
    done = clawhive("run", "look", "--model", "scripted:demo", "--strict")
    assert done.code == 1
    assert "error[" in done.err
    assert "internal_error" not in done.err
    site.plugin("two", "", manifest="[")
    done = clawhive("tools", "list", "--strict", "--json")
    assert done.code == 1
    assert done.json["schema"] == "error/1"
    assert clawhive("plugins", "--strict").code == 1


def test_a_plugin_without_a_manifest_says_what_writes_it(clawhive, site):
    folder = site.plugin("bare", "", manifest="")
    folder.joinpath("clawhive-plugin.toml").unlink()
    done = clawhive("plugins")
    assert "failed: bare" in done.out
    assert "clawhive plugins sync" in done.out


def test_a_command_of_a_plugin_is_listed_and_runs(clawhive, site):
    source = """
import click
from clawhive_core import hookimpl

@click.command()
@click.option("--json", "as_json", is_flag=True)
def shout(as_json):
    "Shout."
    click.echo("HELLO")

@hookimpl
def clawhive_commands(ctx):
    return [shout]
"""
    site.plugin("shouter", source)
    assert "Commands of plugins" in clawhive("--help").out
    assert "site_shouter" not in sys.modules
    assert clawhive("shout").out == "HELLO\n"


@pytest.mark.promise("P-019")
def test_inside_a_run_rights_cannot_be_changed(clawhive, monkeypatch):
    clawhive.root.joinpath("clawhive.toml").write_text('[policy]\nallow = ["fs.read:/**"]\n')
    monkeypatch.setenv("CLAWHIVE_RUN", "run_1")
    done = clawhive("trust", "--yes")
    assert done.code != 0
    assert not (clawhive.home / ".config").exists() or "trusted" not in done.out


@pytest.mark.promise("P-018")
def test_a_projects_allow_counts_only_once_it_is_trusted(clawhive):
    clawhive.root.joinpath("clawhive.toml").write_text(
        '[policy]\nallow = ["fs.read:/etc/hostname"]\n'
    )
    words = ("tools", "call", "file.read", "--args", '{"path": "/etc/hostname"}', "--json")
    assert clawhive(*words).json["error"] == "denied"
    assert clawhive("trust", "--yes").code == 0
    assert clawhive(*words).json["schema"] == "tool-result/1"
    assert clawhive("trust", "revoke").code == 0
    assert clawhive(*words).json["error"] == "denied"


def test_trust_without_a_terminal_and_without_yes_changes_nothing(clawhive):
    clawhive.root.joinpath("clawhive.toml").write_text('[policy]\nallow = ["fs.read:/x"]\n')
    done = clawhive("trust")
    assert (done.code, done.out) == (2, "")
    assert "error[usage]: nobody can be asked here" in done.err
    assert "fix: add --yes" in done.err
    shown = clawhive("trust", "show")
    assert (shown.code, shown.err) == (0, "no project's configuration is trusted\n")


def test_doctor_says_what_is_there_and_what_can_be_done_about_what_is_not(clawhive):
    done = clawhive("doctor", "--no-plugins=sandbox")
    assert done.code == 0
    assert "plugin builtin" in done.out
    assert "monty" in done.out
    assert "no engine here runs node" in done.out
    assert "skill handlers" in done.out


@pytest.mark.parametrize("unfenced", ["run", "refuse"])
def test_doctor_says_what_the_fence_of_handlers_lacks(clawhive, monkeypatch, unfenced):
    monkeypatch.setattr("clawhive_core.execution.handlers.child.lacking", lambda: ["a", "b"])
    monkeypatch.setenv("CLAWHIVE_SANDBOX_UNFENCED", unfenced)
    done = clawhive("doctor")
    assert "the fence lacks a; b" in done.out
    assert ('unfenced = "refuse"' in done.out) is (unfenced == "run")


def test_a_new_plugin_is_made_and_never_over_another(clawhive):
    made = clawhive("plugins", "new", "hello")
    assert made.code == 0
    assert (clawhive.root / "hello" / "pyproject.toml").is_file()
    again = clawhive("plugins", "new", "hello")
    assert again.code != 0
    assert "error[" in again.err


def test_a_closed_pipe_ends_quietly(clawhive, tmp_path):
    import subprocess

    command = [sys.executable, "-c", "from clawhive_core.cli import main; main(['config', 'show'])"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ.copy()
    ) as process:
        process.stdout.close()
        err = process.stderr.read()
        process.wait()
    assert process.returncode in {0, 1, 141}
    assert b"Traceback" not in err
