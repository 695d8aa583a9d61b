import os
import textwrap
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from clawhive_builtin.monty import MontyEngine
from clawhive_core import (
    SandboxCommand,
    SandboxLimits,
    SandboxMount,
    SandboxSpec,
    SandboxUnavailable,
    ToolError,
)
from clawhive_core.errors import NeedHumanApproval


def named(code, directory, **fields):
    limits = SandboxLimits(**fields.pop("limits", {}))
    argv = ("python", "-c", textwrap.dedent(code))
    seen = {name: fields.pop(name) for name in ("env", "mounts", "host") if name in fields}
    spec = SandboxSpec(str(directory), limits=limits, **seen)
    return spec, SandboxCommand(argv, **fields)


@pytest.fixture
def run(tmp_path):
    async def runs(code, **fields):
        heard = []
        engine = MontyEngine()
        outcome = await engine.run(
            *named(code, tmp_path, **fields), lambda stream, data: heard.append((stream, data))
        )
        for stream in ("stdout", "stderr"):
            printed = b"".join(data for name, data in heard if name == stream)
            assert getattr(outcome, stream).startswith(printed)
        return outcome

    return runs


def workers():
    """Return the ids of this process's living children."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end meanwhile
            found |= set((task / "children").read_text(encoding="ascii").split())
    return found


@pytest.fixture(autouse=True)
def no_worker_survives():
    before = workers()
    yield
    assert workers() <= before


async def test_a_program_prints_writes_and_ends_with_zero(run, tmp_path):
    outcome = await run("""
        import os
        print("hällo")
        open("out.txt", "w").write("x")
        print(os.getcwd(), os.listdir())
    """)
    assert (outcome.exit_code, outcome.killed_by, outcome.truncated) == (0, None, ())
    assert outcome.stdout.decode() == "hällo\n/work ['out.txt']\n"
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == "x"


async def test_a_failing_program_leaves_its_own_traceback_and_its_partial_output(run):
    outcome = await run("print(1)\ndef f(x):\n    return 1 / x\nf(0)\n", script="job.py")
    assert (outcome.exit_code, outcome.stdout) == (1, b"1\n")
    assert outcome.stderr.decode() == (
        "Traceback (most recent call last):\n"
        '  File "job.py", line 4, in <module>\n'
        "    f(0)\n"
        '  File "job.py", line 3, in f\n'
        "    return 1 / x\n"
        "ZeroDivisionError: division by zero\n"
    )


async def test_a_syntax_error_is_the_programs_own(run, tmp_path):
    assert MontyEngine().unsupported(named("x = (", tmp_path)[1]) is None
    outcome = await run("x = (\n", script="job.py")
    assert outcome.exit_code == 1
    assert outcome.stderr.decode().startswith('  File "job.py", line 1\n    x = (\n')
    assert outcome.stderr.decode().endswith("SyntaxError: '(' was never closed\n")


async def test_an_endless_recursion_is_folded(run):
    outcome = await run("def f(): return f()\nf()\n")
    assert outcome.exit_code == 1
    assert b"more times]\n" in outcome.stderr
    assert len(outcome.stderr) < 1000


@pytest.mark.parametrize(
    ("code", "exit_code", "stderr"),
    [
        ("import sys\nsys.exit(3)", 3, ""),
        ("import sys\nsys.exit()", 0, ""),
        ("import sys\nsys.exit(None)", 0, ""),
        ("import sys\nsys.exit('no good')", 1, "no good\n"),
        ("import sys as s\ns.exit(4)", 4, ""),
        ("from sys import exit\nexit(5)", 5, ""),
        ("exit(6)", 6, ""),
        ("quit(-1)", 255, ""),
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit", 0, ""),
        ("raise SystemExit('bad')", 1, "bad\n"),
        ("import sys\ndef main(): return 8\nsys.exit(main())", 8, ""),
        ("import sys\ntry:\n    sys.exit(2)\nexcept Exception:\n    print('caught')", 2, ""),
        ("import sys\ntry:\n    sys.exit(2)\nexcept SystemExit:\n    pass", 0, ""),
        ("def exit(x): pass\nexit(3)", 0, ""),
    ],
)
async def test_a_program_ends_with_the_code_that_it_names(run, tmp_path, code, exit_code, stderr):
    assert MontyEngine().unsupported(named(code, tmp_path)[1]) is None
    outcome = await run(code)
    assert (outcome.exit_code, outcome.stderr.decode(), outcome.stdout) == (exit_code, stderr, b"")


@pytest.mark.parametrize("test", ["TYPE_CHECKING", "typing.TYPE_CHECKING"])
async def test_what_is_imported_for_type_checkers_only_is_passed_over(run, tmp_path, test):
    head = "from __future__ import annotations\nimport typing\nfrom typing import TYPE_CHECKING\n"
    body = "def f(x: A) -> A: return x\nprint(f(3))\n"
    checked = f"{head}if {test}:\n    from clawhive_skills.words import A\n{body}"
    assert MontyEngine().unsupported(named(checked, tmp_path)[1]) is None
    assert (await run(checked)).stdout == b"3\n"
    other = f"{head}if {test}:\n    A = 1\nelse:\n    import clawhive_skills\n{body}"
    assert MontyEngine().unsupported(named(other, tmp_path)[1]) is not None


async def test_lines_in_a_traceback_are_the_authors_although_exits_are_rewritten(run):
    outcome = await run("import sys\nsys.exit(1 / 0)\n")
    assert b"    sys.exit(1 / 0)\nZeroDivisionError" in outcome.stderr


async def test_input_reads_stdin_and_ends_the_program_at_its_end(run):
    outcome = await run("print(input('? ') + input())\ninput()", stdin=b"a\nb\n")
    assert (outcome.exit_code, outcome.stdout) == (1, b"? ab\n")
    assert outcome.stderr == b"EOFError: EOF when reading a line\n"


async def test_the_environment_holds_only_what_the_command_names(run, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    code = "import os\nprint(dict(os.environ), os.getenv('SECRET_TOKEN'), os.getenv('A', 'b'))"
    assert (await run(code)).stdout == b"{} None b\n"
    assert (await run(code, env={"A": "1"})).stdout == b"{'A': '1'} None 1\n"


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/passwd').read()",
        "open('../outside').read()",
        "open('../../../../etc/passwd').read()",
        "open('absolute').read()",
        "open('relative').read()",
        "open('folder/passwd').read()",
        "open('absolute', 'w').write('x')",
        "open('/tmp/x', 'w').write('x')",
        "open('pipe').read()",
        "open('/proc/self/environ').read()",
        "from pathlib import Path\nPath('/').iterdir()",
        "import os\nos.listdir('..')",
        "import os\nos.rename('inside', '../outside2')",
        "import os\nos.mkdir('../made')",
        "import os\nos.remove('../outside')",
    ],
)
async def test_nothing_outside_the_directory_is_reached(tmp_path, code):
    directory = tmp_path / "box"
    directory.mkdir()
    (tmp_path / "outside").write_text("SECRET", encoding="utf-8")
    (directory / "inside").write_text("mine", encoding="utf-8")
    (directory / "absolute").symlink_to("/etc/passwd")
    (directory / "relative").symlink_to("../outside")
    (directory / "folder").symlink_to("/etc")
    os.mkfifo(directory / "pipe")
    outcome = await MontyEngine().run(
        *named(f"print(open('inside').read())\n{code}", directory), lambda *_: None
    )
    assert outcome.exit_code == 1
    assert outcome.stdout == b"mine\n"
    assert b"PermissionError" in outcome.stderr or b"cross-device" in outcome.stderr
    assert (tmp_path / "outside").read_text(encoding="utf-8") == "SECRET"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["box", "outside"]


@pytest.mark.parametrize(
    "code",
    [
        "import socket",
        "import urllib.request",
        "import subprocess",
        "import ctypes",
        "import multiprocessing",
        "import threading",
        "import os\nos.fork()",
        "import os\nos.system('id')",
        "import os\nos.symlink('/etc', 'x')",
        "__import__('socket')",
        "compile('1', '', 'eval')",
        "globals()",
    ],
)
async def test_network_processes_and_the_interpreter_itself_do_not_exist(run, tmp_path, code):
    assert MontyEngine().unsupported(named(code, tmp_path)[1]) is not None
    outcome = await run(f"print('began')\n{code}\nprint('reached')")
    assert (outcome.exit_code, outcome.stdout) == (1, b"began\n")


async def test_a_loop_ends_at_the_deadline_with_its_output(run):
    outcome = await run("print('began')\nwhile True: pass", limits={"wall_ms": 2_000})
    assert (outcome.exit_code, outcome.killed_by, outcome.truncated) == (None, "wall", ("wall",))
    assert outcome.stdout == b"began\n"
    assert outcome.duration_ms >= 2_000


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.sleep(60)",
        "import time\nwhile True: time.sleep(0.01)",
        "import asyncio\nasync def f():\n    await asyncio.sleep(60)\nasyncio.run(f())",
        "import os\nwhile True: os.listdir('.')",
        "try:\n    while True: pass\nexcept BaseException:\n    pass\nwhile True: pass",
        "pow(7, 10 ** 100000, 10 ** 5000)",
    ],
)
async def test_no_way_to_wait_outlives_the_deadline(run, code):
    with anyio.fail_after(300):
        outcome = await run(code, limits={"wall_ms": 200})
    assert (outcome.exit_code, outcome.killed_by) == (None, "wall")


async def test_sleeps_shorter_than_the_deadline_are_slept_and_overlap(run):
    outcome = await run(
        """
        import asyncio, time
        async def nap(seconds):
            await asyncio.sleep(seconds)
            print(seconds)
            return seconds
        async def main():
            print(await asyncio.gather(nap(0.05), nap(0.01)))
        asyncio.run(main())
        time.sleep(0.01)
        """
    )
    assert outcome.stdout == b"0.01\n0.05\n[0.05, 0.01]\n"
    assert outcome.exit_code == 0


@pytest.mark.parametrize(
    "code",
    ["x = []\nwhile True: x.append('a' * 100000)", "x = 'a' * 10 ** 10", "x = [0] * 10 ** 9"],
)
async def test_memory_beyond_the_limit_ends_the_program(run, code):
    outcome = await run(f"print('began')\n{code}", limits={"memory_bytes": 32 << 20})
    assert (outcome.exit_code, outcome.killed_by) == (None, "memory")
    assert outcome.stdout == b"began\n"


async def test_memory_below_the_limit_is_given(run):
    outcome = await run("print(len('a' * (8 << 20)))", limits={"memory_bytes": 32 << 20})
    assert outcome.stdout == b"8388608\n"


async def test_a_programs_own_memory_and_timeout_errors_are_no_limits(run):
    for error in ("MemoryError('mine')", "TimeoutError('mine')"):
        outcome = await run(f"raise {error}")
        assert (outcome.exit_code, outcome.killed_by, outcome.truncated) == (1, None, ())


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_a_flood_kills_its_producer_and_keeps_what_fits(run, stream):
    outcome = await run(
        f"import sys\nwhile True: print('x' * 99, file=sys.{stream})",
        limits={f"{stream}_bytes": 10_000},
    )
    assert (outcome.exit_code, outcome.killed_by, outcome.truncated) == (None, stream, (stream,))
    assert len(getattr(outcome, stream)) == 10_000


async def test_output_of_exactly_the_limit_is_no_flood(run):
    outcome = await run("print('x' * 9)", limits={"stdout_bytes": 10})
    assert (outcome.exit_code, outcome.truncated, outcome.stdout) == (0, (), b"xxxxxxxxx\n")


async def test_a_traceback_beyond_the_limit_is_cut_and_flagged(run):
    outcome = await run("1 / 0", limits={"stderr_bytes": 20})
    assert (outcome.exit_code, outcome.truncated, len(outcome.stderr)) == (1, ("stderr",), 20)


async def test_files_beyond_the_count_are_never_made(run, tmp_path):
    outcome = await run("for i in range(100): open(f'f{i}', 'w').write('x')", limits={"files": 10})
    assert (outcome.exit_code, outcome.killed_by, outcome.truncated) == (None, "files", ("files",))
    assert len(list(tmp_path.iterdir())) == 10


async def test_folders_count_as_files(run, tmp_path):
    outcome = await run("import os\nfor i in range(100): os.mkdir(f'd{i}')", limits={"files": 10})
    assert outcome.killed_by == "files"
    assert len(list(tmp_path.iterdir())) == 10


async def test_one_file_written_again_and_again_counts_once(run):
    outcome = await run("for i in range(100): open('f', 'w').write('x')", limits={"files": 1})
    assert outcome.exit_code == 0


@pytest.mark.parametrize(
    "code",
    [
        "open('f', 'w').write('x' * 5000)",
        "with open('f', 'a') as f:\n    for i in range(5000): f.write('x')",
        "from pathlib import Path\nPath('f').write_bytes(b'x' * 5000)",
        "for i in range(5000): open('f', 'w').write('x')",
        "try:\n    open('f', 'w').write('x' * 5000)\nexcept BaseException:\n    pass",
    ],
)
async def test_bytes_beyond_the_limit_are_never_written(run, tmp_path, code):
    outcome = await run(code, limits={"file_bytes": 1000})
    assert (outcome.exit_code, outcome.killed_by) == (None, "files")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1000


async def test_more_files_than_the_engine_allows_by_itself_can_be_written(run, tmp_path):
    outcome = await run("for i in range(1200): open(f'f{i}', 'w').close()", limits={"files": 2000})
    assert outcome.exit_code == 0
    assert len(list(tmp_path.iterdir())) == 1200


async def test_cancelling_kills_the_worker_and_passes_on(tmp_path):
    began = anyio.Event()
    engine = MontyEngine()
    command = named("print('began')\nwhile True: pass", tmp_path, limits={"wall_ms": 60_000})
    with anyio.fail_after(300):
        async with anyio.create_task_group() as group:
            group.start_soon(engine.run, *command, lambda *_: began.set())
            await began.wait()
            assert workers()
            group.cancel_scope.cancel()


async def test_closing_kills_every_worker(tmp_path):
    engine, began = MontyEngine(), anyio.Event()
    command = named("print('began')\nwhile True: pass", tmp_path, limits={"wall_ms": 60_000})
    outcomes = []

    async def one():
        outcomes.append(await engine.run(*command, lambda *_: began.set()))

    with anyio.fail_after(300):
        async with anyio.create_task_group() as group:
            group.start_soon(one)
            group.start_soon(one)
            await began.wait()
            await engine.close()
    assert [outcome.killed_by for outcome in outcomes] == ["cancel", "cancel"]


async def test_a_worker_killed_from_outside_is_an_error_and_not_a_hang(tmp_path):
    before = workers()

    def kill(stream, data):
        for pid in workers() - before:
            os.kill(int(pid), 9)

    outcome = await MontyEngine().run(*named("print(1)\nwhile True: pass", tmp_path), kill)
    assert (outcome.exit_code, outcome.killed_by) == (1, None)
    assert b"worker died" in outcome.stderr


async def test_many_programs_at_once_keep_apart(tmp_path):
    engine, seen = MontyEngine(), {}

    async def one(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        outcome = await engine.run(
            *named(f"open('x','w').write('{number}')\nprint(open('x').read())", folder),
            lambda *_: None,
        )
        seen[number] = outcome.stdout

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, number)
    assert seen == {number: f"{number}\n".encode() for number in range(20)}


async def test_a_fixed_clock_and_seed_make_a_run_repeatable(tmp_path):
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    code = "import random, datetime\nprint(random.random(), datetime.datetime.now())"
    fixed = MontyEngine(clock=moment, seed=7)
    first, second = [
        (await fixed.run(*named(code, tmp_path), lambda *_: None)).stdout for _ in range(2)
    ]
    assert first == second
    assert b"2026-01-02 03:04:05" in first
    assert fixed.deterministic
    assert not MontyEngine().deterministic


async def test_a_missing_directory_is_an_error_with_a_fix(tmp_path):
    with pytest.raises(ToolError) as caught:
        await MontyEngine().run(*named("print(1)", tmp_path / "missing"), lambda *_: None)
    assert caught.value.code == "io_error"


async def test_a_missing_engine_is_unavailable_with_the_line_that_installs_it(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("MONTY_BIN", str(tmp_path / "no-such-program"))
    with pytest.raises(SandboxUnavailable) as caught:
        await MontyEngine().run(*named("print(1)", tmp_path), lambda *_: None)
    assert "pip install" in caught.value.fix


def test_the_engine_names_itself():
    engine = MontyEngine()
    assert (engine.name, engine.programs) == ("monty", frozenset({"python -c"}))
    assert engine.version[0].isdigit()


async def test_an_instance_runs_several_programs_over_one_directory(tmp_path):
    spec, write = named("open('x', 'w').write('kept')", tmp_path, env={"WHO": "ana"})
    read = named("import os\nprint(open('x').read(), os.getenv('WHO'))", tmp_path)[1]
    instance = await MontyEngine().open(spec)
    outcomes = [await instance.run(each, lambda *_: None) for each in (write, read)]
    await instance.close()
    assert [each.exit_code for each in outcomes] == [0, 0]
    assert outcomes[1].stdout == b"kept ana\n"


async def test_a_mount_is_seen_and_only_written_where_it_may_be(tmp_path):
    given, own = tmp_path / "given", tmp_path / "own"
    for folder in (given, own):
        folder.mkdir()
    given.joinpath("a.txt").write_text("hello")
    code = "print(open('/data/a.txt').read())\nopen('/data/b.txt', 'w').write('x')"
    mounts = (SandboxMount(str(given), "/data"),)
    outcome = await MontyEngine().run(*named(code, own, mounts=mounts), lambda *_: None)
    assert outcome.stdout == b"hello\n"
    assert outcome.exit_code == 1
    assert not given.joinpath("b.txt").exists()


async def test_a_program_calls_tools_through_its_host(tmp_path):
    asked = []

    async def host(name, input):
        asked.append((name, dict(input)))
        if name == "no.tool":
            raise ToolError("there is none", code="tool_not_found")
        return {"n": 1}

    code = """
        print(call_tool("demo.echo", {"n": 1})["n"])
        try:
            call_tool("no.tool")
        except RuntimeError as error:
            print(error)
    """
    outcome = await MontyEngine().run(*named(code, tmp_path, host=host), lambda *_: None)
    assert outcome.stdout == b"1\ntool_not_found: there is none\n"
    assert asked == [("demo.echo", {"n": 1}), ("no.tool", {})]


async def test_what_parks_a_call_ends_the_program(tmp_path):
    async def host(name, input):
        raise NeedHumanApproval("it waits")

    spec, command = named("call_tool('demo.echo')\nprint('on')", tmp_path, host=host)
    with pytest.raises(NeedHumanApproval):
        await MontyEngine().run(spec, command, lambda *_: None)


async def test_a_program_has_no_more_calls_than_its_limit_and_none_without_a_host(tmp_path):
    async def host(name, input):
        return None

    code = "while True: call_tool('demo.echo')"
    limits = {"tool_calls": 3}
    outcome = await MontyEngine().run(
        *named(code, tmp_path, host=host, limits=limits), lambda *_: None
    )
    assert outcome.killed_by == "tool_calls"
    alone = await MontyEngine().run(*named("call_tool('x')", tmp_path), lambda *_: None)
    assert b"NameError" in alone.stderr
