"""`audit prune`: what is left of a run without its bodies."""

import pytest

LONG = ("run", "look " * 300, "--model", "scripted:demo")
EDIT = ("run", "--task", "edit_docs", "--input", "path=a.md", "--input", "find=two")
ALL = ("audit", "prune", "--before", "2099-01-01")


@pytest.mark.promise("P-086")
def test_a_pruned_run_is_listed_shown_and_verified_but_not_replayed(clawhive):
    clawhive(*LONG)
    assert clawhive("runs", "replay", "last").code == 0
    said = clawhive(*ALL)
    assert said.code == 0
    assert "bytes pruned" in said.out
    assert clawhive("runs", "list").code == 0
    assert clawhive("runs", "show", "last").code == 0
    verified = clawhive("audit", "verify")
    assert verified.code == 0
    assert "pruned: only the digests are left" in verified.out
    replayed = clawhive("runs", "replay", "last")
    assert replayed.code == 1
    assert "error[not_replayable]" in replayed.err
    assert "were pruned; only their digests are left" in replayed.err
    assert clawhive(*LONG).code == 0
    assert clawhive("runs", "replay", "last").code == 0


def test_a_long_output_that_was_pruned_is_said_to_be(clawhive):
    clawhive.snippet("print('x' * 5000)")
    assert len(clawhive("runs", "show", "last", "--json").json["output"]) > 4000
    clawhive(*ALL)
    shown = clawhive("runs", "show", "last", "--json").json
    assert (shown["output"], shown["output_pruned"]) == (None, True)
    assert "output   pruned" in clawhive("runs", "show", "last").out


def test_a_run_that_waits_keeps_everything_and_goes_on(clawhive):
    clawhive.root.joinpath("a.md").write_text("one\ntwo\n" + "more\n" * 500, "utf-8")
    assert clawhive(*EDIT, "--input", "replace=2").code == 3
    done = clawhive(*ALL, "--json").json
    assert (done["bodies"], done["waiting_runs"]) == (0, 1)
    clawhive("approvals", "approve", "last")
    assert clawhive("runs", "resume", "last").code == 0


def test_the_space_goes_back_to_the_disk_when_asked(clawhive):
    for _ in range(3):
        clawhive.snippet("print('x' * 100_000)")
    told = clawhive(*ALL)
    assert "--vacuum gives them back" in told.out
    assert clawhive(*ALL, "--vacuum", "--json").json["free_bytes"] == 0
    assert clawhive("audit", "verify").code == 0


def test_a_dry_run_removes_nothing(clawhive):
    clawhive(*LONG)
    assert "would go" in clawhive(*ALL, "--dry-run").out
    assert clawhive("runs", "replay", "last").code == 0


def test_nothing_that_a_run_started_prunes(clawhive, monkeypatch):
    clawhive(*LONG)
    monkeypatch.setenv("CLAWHIVE_RUN", "run_1")
    refused = clawhive(*ALL)
    assert refused.code == 2
    assert "inside_run" in refused.err


def test_without_a_log_there_is_nothing_to_prune(clawhive):
    assert clawhive(*ALL).code == 2
    assert not (clawhive.root / ".clawhive").exists()
