"""What the log leaves out of a run, and what that means for going on with it."""

import pytest

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
EDIT = ("run", "--task", "edit_docs", "--input", "path=a.md", "--input", "find=two")


def everything(clawhive):
    folder = clawhive.root / ".clawhive"
    return b"".join(path.read_bytes() for path in folder.glob("hive.db*"))


@pytest.mark.parametrize("command", ["snippet", "prompt"])
def test_a_token_that_a_program_prints_or_a_person_types_is_not_in_the_log(clawhive, command):
    if command == "snippet":
        assert clawhive.snippet(f"print('{TOKEN}')").out == "[redacted]\n"
    else:
        clawhive("run", f"use {TOKEN}", "--model", "scripted:demo")
    assert TOKEN.encode() not in everything(clawhive)
    assert b"[redacted]" in everything(clawhive)
    assert clawhive("runs", "replay", "last").code == 0
    assert clawhive("audit", "verify").code == 0


def test_an_edit_that_waits_with_a_token_in_it_is_refused_and_never_half_applied(clawhive):
    file = clawhive.root / "a.md"
    file.write_text(f"one\ntwo {TOKEN}\n", "utf-8")
    assert clawhive(*EDIT, "--input", "replace=2").code == 3
    assert clawhive("approvals", "approve", "last").code == 0
    done = clawhive("runs", "resume", "last")
    assert done.code == 1
    assert file.read_text("utf-8") == f"one\ntwo {TOKEN}\n"
    assert TOKEN.encode() not in everything(clawhive)


PHRASE = "correct-horse-battery-staple-77"
UNLOADED = '[plugin]\nid = "vault"\nhook_api = 1\nhooks = []\nenv = ["VAULT_WORDS"]\n'


@pytest.mark.parametrize("named_by", ["nothing", "manifest", "setting", "server"])
def test_what_only_an_unloaded_plugin_would_read_is_not_in_the_log(
    clawhive, site, monkeypatch, named_by
):
    variable = "VAULT_KEY" if named_by == "server" else "VAULT_WORDS"
    monkeypatch.setenv(variable, PHRASE)
    config = {
        "manifest": '[plugins]\ndisabled = ["vault"]\n',
        "setting": '[plugins.vault]\nphrase_env = "VAULT_WORDS"\n',
        "server": '[mcp.servers.vault]\ncommand = "x"\ndisabled = true\nenv.A = "${VAULT_KEY}"\n',
    }
    if named_by == "manifest":
        site.plugin("vault", "raise SystemExit", manifest=UNLOADED)
    own = clawhive.home / ".config" / "clawhive" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(config.get(named_by, ""), "utf-8")
    clawhive.snippet(f"print('it is {PHRASE}')")
    assert (PHRASE.encode() in everything(clawhive)) is (named_by == "nothing")
    assert b"it is" in everything(clawhive)
