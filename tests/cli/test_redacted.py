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
