"""Files of the project that a program in the jail sees and changes, as its call's rights allow."""

import sys
from pathlib import Path

import pytest

from clawhive_core import SandboxSpec
from clawhive_core import SandboxUnavailable as Unavailable
from clawhive_core.runs.options import RunOptions
from clawhive_core.testing import memory_hive
from clawhive_sandbox.jail_engine import JailEngine

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="the jail is made on Linux only"),
]


@pytest.fixture
async def hive(tmp_path):
    engine = JailEngine(["python -c"])
    try:
        await engine.open(SandboxSpec(str(tmp_path)))
    except Unavailable as error:
        pytest.skip(error.message)

    async def ask(approval):
        opened.approvals.resolve(approval.approval_id, "approve", by="user:ana")

    async with memory_hive(sandboxes=[engine]) as opened:

        async def shell(command, **given):
            options = RunOptions(session="one", approve="ask", ask=ask)
            _, done = await opened.call("shell.exec", {"command": command, **given}, options)
            return done

        shell.root = Path(opened.root)
        yield shell


def made(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def test_a_program_sees_what_may_be_read_and_no_sensitive_name(hive, tmp_path):
    made(hive.root, data__one="1", data___dot_env="sk-of-a-test", other__two="2")
    made(tmp_path, secret="sk-of-a-test")
    (hive.root / "data/link").symlink_to(tmp_path / "secret")
    done = await hive(
        "cd /workspace; find . -type f; cat data/link; echo x > data/one", reads=["data"]
    )
    assert done.structured["stdout"] == "./data/one\n"
    assert "sk-of" not in done.output
    assert (hive.root / "data/one").read_text() == "1"
    (seen,) = done.structured["mounted"]
    assert (seen["target"], seen["writable"], seen["files"]) == ("/workspace/data", False, 1)


async def test_what_a_program_changes_is_held_to_the_rules_of_file_write(hive):
    made(hive.root, src__a="a", src__b="b")
    command = (
        "cd /workspace/src; echo new > a; echo c > c; rm b; ln -s /etc/passwd l; mkfifo p;"
        " mkdir -p .git/hooks .vscode; echo x > .git/hooks/post-commit; echo x > .envrc;"
        " echo x > .vscode/tasks.json; echo x > .env; echo x > HEAD; echo x > pyproject.toml"
    )
    done = await hive(command, writes=["src"])
    written = [Path(each).name for each in done.structured["written"]]
    assert written == ["a", "c"]
    assert sorted(each.name for each in (hive.root / "src").iterdir()) == ["a", "b", "c"]
    assert (hive.root / "src/a").read_text() == "new\n"
    left = {Path(each["path"]).name for each in done.structured["left_out"]}
    protected = {"post-commit", ".envrc", "tasks.json", ".env", "HEAD", "pyproject.toml"}
    assert left == protected | {"l", "b"}


async def test_a_path_that_may_not_be_read_or_changed_stops_the_call_before_it_runs(hive):
    made(hive.root, a="a")
    for given in ({"reads": ["/root"]}, {"writes": [".git"]}, {"writes": ["a"]}):
        done = await hive("echo ran", **given)
        assert "ran" not in str(getattr(done, "structured", ""))
