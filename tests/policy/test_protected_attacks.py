"""What an agent with a right to the whole project would plant, through the tools that write."""

import os
import shutil
import subprocess

import pytest

from clawhive_core.model.refusal import Refusal
from clawhive_core.runs.requests import RunOptions
from clawhive_core.testing import memory_hive
from tests.harness import Provider, echo

WIDE = ("fs.read:${workspace}/**", "fs.write:${workspace}/**", "fs.delete:${workspace}/**")
ROBBED = b"robbed\n"

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


def project(*providers):
    return memory_hive(providers=providers, settings={"plugins.enabled": ["builtin"]})


async def write(hive, path, text="x\n"):
    """Return what the real tool answers to a caller who was given the whole project."""
    options = RunOptions(grants=WIDE, approve="deny")
    _, outcome = await hive.call("file.write", {"path": path, "text": text}, options)
    return outcome


def is_refused(outcome):
    return isinstance(outcome, Refusal) or outcome.is_error


def git(root, *words, **env):
    kept = {"PATH": os.environ["PATH"], "HOME": str(root.parent / "nobody"), **env}
    return subprocess.run(["git", *words], cwd=root, env=kept, capture_output=True, check=False)


def plants(root):
    """Return the files by which git's next command in a folder is another's, and that folder."""
    run = f"touch {root}/robbed"
    config = f'[core]\n\tfsmonitor = "{run}; false"\n\trepositoryformatversion = 0\n'
    bare = {
        "fake/HEAD": "ref: refs/heads/main\n",
        "fake/config": f"{config}\tbare = false\n\tworktree = {root}/src\n",
        "fake/objects/x": "",
        "fake/refs/x": "",
    }
    return [
        ({".git/config": config}, "."),
        ({".GIT/config": config}, "."),
        ({"to-git/config": config}, "."),
        ({"src/../.git/config": config}, "."),
        ({".git/config.worktree": config}, "."),
        ({".git/commondir": "../fake\n", **bare}, "."),
        ({"src/.git": "gitdir: ../fake\n", **bare}, "src"),
        (bare, "fake"),
        ({"known.git/config": f"{config}\tbare = false\n\tworktree = {root}/src\n"}, "known.git"),
    ]


def prepare(root):
    (root / "src").mkdir()
    (root / "to-git").symlink_to(".git")
    git(root, "init", "-q")
    git(root, "config", "extensions.worktreeConfig", "true")
    git(root, "init", "-q", "--bare", "known.git")


@pytest.mark.parametrize("number", range(9))
async def test_no_file_that_a_tool_writes_gives_gits_next_command_away(number):
    async with project() as hive:
        prepare(hive.root)
        files, folder = plants(hive.root)[number]
        answers = [await write(hive, *each) for each in files.items()]
        assert any(map(is_refused, answers))
        (hive.root / folder).mkdir(exist_ok=True)
        git(hive.root / folder, "status")
        assert not (hive.root / "robbed").exists()
        assert not is_refused(await write(hive, "src/plain.txt"))
        assert (hive.root / "src/plain.txt").read_text() == "x\n"
        # The same files in place: what was refused would have run.
        for path, text in files.items():
            if ".GIT" not in path:
                (hive.root / path).parent.mkdir(parents=True, exist_ok=True)
                (hive.root / path).write_text(text)
                git(hive.root / folder, "status")
        assert (hive.root / "robbed").exists() or ".GIT/config" in files


@pytest.mark.parametrize(
    "path",
    [
        ".git/modules/sub/config",
        ".git/modules/sub/hooks/post-checkout",
        ".git/hooks/pre-commit",
        ".git/info/attributes",
        ".git/HEAD",
        "a/b/HEAD",
        "known.git/hooks/update",
        "known.git/info/attributes",
        ".envrc",
        ".vscode/tasks.json",
        ".husky/pre-commit",
        "lib/sitecustomize.py",
        "lib/x.pth",
        ".claude/settings.json",
        "clawhive.toml",
    ],
)
async def test_what_runs_by_itself_is_not_written(path):
    async with project() as hive:
        prepare(hive.root)
        before = (hive.root / path).read_bytes() if (hive.root / path).exists() else None
        cases = () if "known" in path else (path.swapcase(),)
        for spelled in (path, str(hive.root / path), *cases):
            assert is_refused(await write(hive, spelled)), spelled
        there = hive.root / path
        assert (there.read_bytes() if there.exists() else None) == before


@pytest.mark.parametrize("path", [".npmrc", ".pre-commit-config.yaml", ".github/workflows/x.yml"])
async def test_a_change_that_asks_is_written_after_an_exact_right_only(path):
    async with project() as hive:
        assert is_refused(await write(hive, path))
        options = RunOptions(grants=[f"fs.write:${{workspace}}/{path}"], approve="deny")
        await hive.call("file.write", {"path": path, "text": "x"}, options)
        assert (hive.root / path).read_text() == "x"


SETTINGS = '[project]\nname = "x"\n\n[tool.clawhive.policy]\ndeny = ["fs.write:${workspace}/b"]\n'


@pytest.mark.parametrize(
    ("before", "after", "may"),
    [
        (SETTINGS, SETTINGS.replace('"x"', '"y"'), True),
        (SETTINGS, SETTINGS.replace("/b", "/c"), False),
        (SETTINGS, "[project]\n", False),
        (SETTINGS, SETTINGS + "[[[", False),
        ("[project]\n", SETTINGS, False),
        ("[project]\n", '["tool"]."claw\\u0068ive".run.out = "x" # clawhive\n', False),
        ("[project]\n", '[project]\nname = "clawhive-plugin"\n', True),
        (None, SETTINGS, False),
        (None, "[project]\n", True),
    ],
)
async def test_of_a_pyproject_only_clawhives_table_is_closed(before, after, may):
    async with project() as hive:
        file = hive.root / "pyproject.toml"
        if before is not None:
            file.write_text(before)
        assert is_refused(await write(hive, "pyproject.toml", after))  # a right to the folder asks
        exactly = RunOptions(grants=["fs.write:${workspace}/pyproject.toml"], approve="deny")
        _, outcome = await hive.call(
            "file.write", {"path": "pyproject.toml", "text": after}, exactly
        )
        assert is_refused(outcome) is not may
        assert (file.read_text() if file.exists() else None) == (after if may else before)


@pytest.mark.parametrize("name", [".env", "deep/.env", ".git/config", "clawhive.toml"])
async def test_a_hard_link_is_the_file_that_it_links(name):
    async with project() as hive:
        prepare(hive.root)
        file = hive.root / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"[core]\n# secret\n" if "git" in name else b"# secret\n")
        (hive.root / "notes.txt").hardlink_to(file)
        (hive.root / "plain.txt").write_text("plain\n")
        (hive.root / "other.txt").hardlink_to(hive.root / "plain.txt")
        options = RunOptions(grants=WIDE, approve="deny")
        for path in ("notes.txt", "src/../notes.txt"):
            _, outcome = await hive.call("file.read", {"path": path}, options)
            assert is_refused(outcome)
            assert is_refused(await write(hive, path))
        _, outcome = await hive.call("file.read", {"path": "other.txt"}, options)
        assert not is_refused(outcome)
        _, found = await hive.call("file.search", {"path": ".", "pattern": "secret"}, options)
        assert "notes.txt" not in str(found)
        assert b"secret" in file.read_bytes()


@pytest.mark.parametrize("path", ["repo", "repo/.git", "known.git/config", "pyproject.toml"])
async def test_what_is_protected_is_not_deleted_with_what_holds_it(path):
    provider = Provider().offer("demo.delete", echo, effects={"path": "fs.delete"})
    async with project(provider) as hive:
        prepare(hive.root)
        git(hive.root, "init", "-q", "repo")
        (hive.root / "pyproject.toml").write_text(SETTINGS)
        (hive.root / "plain").mkdir()
        options = RunOptions(grants=(*WIDE, f"fs.delete:${{workspace}}/{path}"), approve="deny")
        _, outcome = await hive.call("demo.delete", {"path": path}, options)
        assert isinstance(outcome, Refusal)
        await hive.call("demo.delete", {"path": "plain"}, options)
        assert [each["path"] for _, each in provider.calls] == ["plain"]


def test_a_runs_folder_lies_in_nothing_protected(tmp_path):
    from clawhive_core.config import load_config
    from clawhive_core.errors import UsageError
    from clawhive_core.runs.requests import run_folder

    (tmp_path / ".git").mkdir()
    (tmp_path / "link").symlink_to(".git")
    config = load_config(root=tmp_path, env={"HOME": str(tmp_path)})
    for name in (".git", ".GIT/hooks", "link/x", ".husky", ".clawhive/x"):
        with pytest.raises(UsageError):
            run_folder(config, tmp_path / name, "run_1")
    assert run_folder(config, tmp_path / "out", "run_1") == str(tmp_path / "out")


@pytest.mark.parametrize("path", [".git/config", "x/HEAD", ".vscode/tasks.json", ".npmrc"])
async def test_artifacts_are_no_way_around(path):
    async with project() as hive:
        options = RunOptions(approve="deny")
        for name, may in ((path, False), ("report.md", True)):
            _, outcome = await hive.call("artifacts.write", {"files": {name: "x"}}, options)
            assert is_refused(outcome) is not may
        assert not list(hive.root.rglob(path))
