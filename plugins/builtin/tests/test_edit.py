"""`edit.propose`, `edit.apply` and `file.write`: what was shown, and nothing else."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_builtin import edit
from clawhive_builtin.edit import edit_apply, edit_propose, file_write
from clawhive_core import ToolError

TEXT = "one\ntwo\nthree\n"


@pytest.fixture
def file(project):
    path = project / "a.md"
    path.write_text(TEXT, "utf-8")
    return path


def propose(call, **given):
    return edit_propose("a.md", call, **given).structured


def refused(function, *given, **more):
    with pytest.raises(ToolError) as caught:
        function(*given, **more)
    return caught.value


def test_a_proposal_is_a_diff_and_writes_nothing(call, file):
    result = edit_propose("a.md", call, find="two", replace="2")
    assert result.output.splitlines()[-4:] == [" one", "-two", "+2", " three"]
    assert result.structured["content"] == "one\n2\nthree\n"
    assert file.read_text("utf-8") == TEXT


def test_the_whole_new_text_can_be_proposed(call, file):
    proposal = propose(call, content="all new\n")
    assert proposal["content"] == "all new\n"
    assert "-one\n-two\n-three\n+all new\n" in proposal["diff"]
    assert propose(call, content="")["content"] == ""
    assert refused(edit_propose, "a.md", call, content=TEXT).code == "nothing_to_do"
    large = "x" * (edit.MAX_BYTES + 1)
    assert refused(edit_propose, "a.md", call, content=large).code == "too_large"


def test_what_was_proposed_is_written_once_and_exactly(call, file):
    proposal = propose(call, find="two", replace="2")
    result = edit_apply("a.md", proposal, call)
    assert file.read_text("utf-8") == proposal["content"]
    before = file.stat().st_ino
    assert edit_apply("a.md", proposal, call).structured == result.structured
    assert file.stat().st_ino == before


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"find": "four", "replace": "4"}, "not_found"),
        ({"find": "o", "replace": "0"}, "not_unique"),
        ({"find": "two", "replace": "two"}, "nothing_to_do"),
        ({"find": "", "replace": "x"}, "invalid_input"),
        ({"find": "two"}, "invalid_input"),
        ({"find": "two", "replace": "2", "content": "x"}, "invalid_input"),
        ({"content": "x", "patch": "@@ -1 +1 @@\n-one\n+1\n"}, "invalid_input"),
        ({"replace": "two"}, "invalid_input"),
        ({}, "invalid_input"),
        ({"find": "two", "replace": "2", "patch": "@@ -1 +1 @@\n-one\n+1\n"}, "invalid_input"),
        ({"patch": "no patch"}, "invalid_input"),
        ({"patch": "@@ -1 +1 @@\n-one\n"}, "invalid_input"),
        ({"patch": "@@ -1 +1 @@\n*one\n+1\n"}, "invalid_input"),
        ({"patch": "@@ -1 +1 @@\n-two\n+2\n"}, "patch_failed"),
        ({"patch": "@@ -9 +9 @@\n-one\n+1\n"}, "patch_failed"),
        ({"patch": "@@ -2 +2 @@\n-two\n+2\n@@ -1 +1 @@\n-one\n+1\n"}, "patch_failed"),
    ],
)
def test_what_cannot_be_proposed_is_told_with_its_fix(call, file, given, code):
    error = refused(edit_propose, "a.md", call, **given)
    assert error.code == code
    assert code == "nothing_to_do" or error.fix
    assert file.read_text("utf-8") == TEXT


def test_a_file_that_is_missing_or_no_text_cannot_be_changed(call, project):
    assert refused(edit_propose, "none.md", call, find="a", replace="b").code == "not_found"
    (project / "b.bin").write_bytes(b"\xff\xfe\x00")
    assert refused(edit_propose, "b.bin", call, find="a", replace="b").code == "not_text"
    assert refused(edit_propose, ".env", call, find="a", replace="b").code == "denied"


def test_a_file_that_changed_is_left_alone(call, file):
    proposal = propose(call, find="two", replace="2")
    file.write_text("another\n", "utf-8")
    assert refused(edit_apply, "a.md", proposal, call).code == "drifted"
    assert file.read_text("utf-8") == "another\n"


@pytest.mark.parametrize(
    "change",
    [
        {"content": "evil\n"},
        {"path": "b.md"},
        {"sha256": "0" * 64},
        {"diff": "--- a/a.md\n+++ b/a.md\n@@ -1 +1 @@\n-harmless\n+change\n"},
        {"content": 1},
    ],
)
def test_a_proposal_that_was_tampered_with_is_refused(call, file, change):
    proposal = {**propose(call, find="two", replace="2"), **change}
    assert refused(edit_apply, "a.md", proposal, call).code == "invalid_input"
    assert file.read_text("utf-8") == TEXT


def test_a_diff_that_hides_what_the_content_does_is_refused(call, file):
    honest = propose(call, find="two", replace="2")
    evil = propose(call, find="three", replace="rm -rf")
    assert refused(edit_apply, "a.md", {**evil, "diff": honest["diff"]}, call).code == (
        "invalid_input"
    )
    assert file.read_text("utf-8") == TEXT


def test_a_file_is_written_whole_and_atomically(call, project):
    result = file_write("new/b.md", "text", call)
    assert (project / "new" / "b.md").read_text("utf-8") == "text"
    assert result.structured["bytes"] == 4
    assert refused(file_write, "b.md", "x" * (edit.MAX_BYTES + 1), call).code == "too_large"
    assert refused(file_write, "../b.md", "x", call).code == "denied"


LINES = st.lists(st.sampled_from(["a", "b", "", "+c", "-d", "@@ -1 +1 @@", "é\u2028"]), max_size=12)


def text(lines, end):
    return "\n".join(lines) + ("\n" if end and lines else "")


@given(LINES, LINES, st.booleans(), st.booleans())
def test_a_diff_is_a_patch_that_gives_back_the_change(old, new, old_end, new_end):
    before, after = text(old, old_end), text(new, new_end)
    if before == after:
        return
    diff = edit._diff("f", before, after)
    assert edit._patched(before, diff, "f") == after


@given(st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=9), st.integers(0, 8))
def test_a_patch_for_a_line_that_the_file_does_not_have_fails(lines, at):
    at %= len(lines)
    changed = [*lines[:at], "other", *lines[at + 1 :]]
    diff = edit._diff("f", text(changed, end=True), text([*changed, "more", "x"], end=True))
    patch = edit._diff(
        "f", text(changed, end=True), text([*changed[:at], *changed[at + 1 :]], end=True)
    )
    with pytest.raises(ToolError) as caught:
        edit._patched(text(lines, end=True), patch, "f")
    assert caught.value.code == "patch_failed"
    assert edit._patched(text(changed, end=True), diff, "f").endswith("more\nx\n")


def test_the_patch_of_another_program_fits(call, file, tmp_path):
    other = tmp_path / "other.md"
    other.write_text("one\n2\nthree\nfour", "utf-8")
    made = subprocess.run(
        ["diff", "-u", file, other], capture_output=True, text=True, check=False
    ).stdout
    assert propose(call, patch=made)["content"] == "one\n2\nthree\nfour"
