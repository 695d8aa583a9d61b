"""The pytest plugin, as a user's own project runs it: in a process of its own."""

import subprocess
from importlib.metadata import entry_points

import pytest

from tests.harness import own_pytest

PLUGIN = "clawhive_core.testing.pytest_plugin"


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    root = tmp_path / "project"
    root.joinpath("skills", "good").mkdir(parents=True)
    root.joinpath("pytest.ini").write_text("[pytest]\n")
    good = "---\nname: good\ndescription: d\n---\n"
    root.joinpath("skills", "good", "SKILL.md").write_text(good)
    root.joinpath("test_own.py").write_text("def test_own(): pass\n")
    return root


def run(root, *words):
    names = {point.name for point in entry_points(group="pytest11")}
    plugin = () if "clawhive" in names else ("-p", PLUGIN)
    done = subprocess.run(
        own_pytest(*plugin, "-v", *words),
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return done.returncode, done.stdout + done.stderr


def bad(root):
    folder = root / "skills" / "bad"
    folder.mkdir()
    folder.joinpath("SKILL.md").write_text("---\nname: bad\ndescription: d\n---\n")
    folder.joinpath("clawhive.yaml").write_text("imports: [{from: good, tools: [gone]}]\n")


@pytest.mark.promise("P-174")
def test_nothing_is_collected_and_nothing_loaded_unless_it_is_asked(project):
    bad(project)
    project.joinpath("test_own.py").write_text(
        "import sys\n"
        "def test_own():\n"
        "    own = {name for name in sys.modules if name.startswith('clawhive_core.')}\n"
        f"    rest = own - {{'clawhive_core.testing', '{PLUGIN}'}}\n"
        "    own = ('model', 'model.lazy', 'model.version')\n"
        "    assert rest <= {f'clawhive_core.{each}' for each in own}\n"
    )
    code, out = run(project)
    assert (code, "1 passed" in out) == (0, True), out


@pytest.mark.promise("P-174")
def test_each_skill_is_one_test_that_fails_with_its_findings(project):
    bad(project)
    code, out = run(project, "--clawhive-skills")
    assert (code, "1 failed, 2 passed" in out) == (1, True), out
    assert "skills/bad/clawhive.yaml:1:32: error CH0602" in out
    assert "Traceback" not in out
    code, out = run(project, "--clawhive-skills", "skills/good")
    assert (code, "1 passed" in out) == (0, True), out


def test_the_ini_key_asks_too_and_the_profile_decides(project):
    project.joinpath("pytest.ini").write_text("[pytest]\nclawhive_skills = true\n")
    project.joinpath("skills", "good", "SKILL.md").write_text(
        "---\nname: other\ndescription: d\n---\n"
    )
    assert run(project)[0] == 0
    code, out = run(project, "--clawhive-profile", "strict")
    assert (code, "error CH0204" in out) == (1, True), out
    project.joinpath("pytest.ini").write_text(
        "[pytest]\nclawhive_skills = true\nclawhive_profile = loose\n"
    )
    code, out = run(project)
    assert (code, "clawhive_profile is" in out) == (4, True), out
