"""`clawhive skills check --watch`: again after each change, until somebody stops it."""

import pytest

from clawhive_core.cli import skills_check
from clawhive_core.cli.skills_check import changes

GOOD = "---\nname: one\ndescription: x\n---\n"
BAD = "---\nname: one\n---\n"


@pytest.fixture
def watch(clawhive, monkeypatch):
    """Run the command on a project whose changes are told by hand; Ctrl-C follows the last."""
    folder = clawhive.root / "skills" / "one"
    folder.mkdir(parents=True)
    file = folder / "SKILL.md"
    file.write_text(GOOD)

    def run(*steps, options=("skills",)):
        told = iter(steps)

        def watcher(folders):
            yield set()
            for step in told:
                yield step(file) or set()
            raise KeyboardInterrupt

        monkeypatch.setattr(skills_check, "system_watcher", lambda: watcher)
        return clawhive("skills", "check", "--watch", *options)

    return run


def written(text):
    def step(file):
        file.write_text(text)
        return {str(file)}

    return step


@pytest.mark.promise("P-225")
def test_findings_are_printed_anew_after_each_change(watch):
    done = watch(written(BAD), written(GOOD))
    assert done.code == 130
    assert done.out.split("\n")[0] == "no findings"
    assert done.out.count("CH0205") == 1
    assert done.out.rstrip().endswith("no findings")
    assert done.err.count("waiting for changes") == 3
    assert "Traceback" not in done.err


def test_nothing_that_changed_is_no_check(watch):
    assert watch(lambda file: set()).out.count("no findings") == 1


def test_what_is_checked_may_go_and_come_back(watch):
    def gone(file):
        file.parent.parent.rename(file.parent.parent.with_name("away"))

    def back(file):
        file.parent.parent.with_name("away").rename(file.parent.parent)

    done = watch(gone, back)
    assert done.code == 130
    assert "there is no skills; waiting until it is there again" in done.err
    assert done.out.count("no findings") == 2


def test_what_was_never_there_is_an_error_at_once(watch):
    assert watch(options=("nowhere",)).code == 2


@pytest.mark.parametrize("option", ["--fix", "--write-baseline"])
def test_watching_changes_no_file(watch, option):
    done = watch(options=("skills", option))
    assert done.code == 2
    assert f"so {option} cannot go with it" in done.err


def test_without_the_library_the_error_names_what_installs_it(clawhive, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = clawhive("skills", "check", "--watch")
    assert done.code == 2
    assert "watch_missing" in done.err
    assert "pip install 'clawhive[watch]'" in done.err


def test_a_folder_that_comes_later_is_watched_from_then_on(tmp_path):
    asked = []

    def watcher(folders):
        asked.append(folders)
        yield set()
        tmp_path.joinpath("late").mkdir(exist_ok=True)
        yield set()
        yield {"x"}

    found = changes(lambda: [str(tmp_path / "late")], watcher)
    assert [next(found) for _ in range(3)] == [None, None, {"x"}]
    assert asked == [[], [str(tmp_path / "late")]]


def test_the_system_tells_of_a_change(tmp_path):
    pytest.importorskip("watchfiles", reason="pip install 'clawhive[watch]'")
    told = skills_check.system_watcher()([str(tmp_path)])
    next(told)
    file = tmp_path / "file"
    file.write_text("x")
    assert {str(file)} in (next(told) for _ in range(100))
