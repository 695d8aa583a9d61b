"""The engine `cpython-wasi`, whose module takes half a minute to compile: the slow part only."""

import pytest

from clawhive_core import SandboxCommand, SandboxSpec

pytestmark = pytest.mark.slow

ORDINARY = """
import datetime, json, os, re, statistics
class Animal:
    def says(self):
        yield "nothing"
class Cat(Animal):
    def says(self):
        yield from super().says()
        yield "meow"
open("data.json", "w").write(json.dumps({"a": [1, 2, 6]}))
print(list(Cat().says()), statistics.mean(json.load(open("data.json"))["a"]))
print(datetime.date(2024, 2, 29), re.findall("[a-c]+", "xabcx"), os.getcwd(), os.listdir())
print(input(), os.environ)
"""


async def test_ordinary_python_runs(run, python):
    outcome = await run(python, ORDINARY, env={"NAME": "value"}, stdin=b"given\n")
    assert outcome.stderr == b""
    assert outcome.stdout.decode() == (
        "['nothing', 'meow'] 3\n"
        "2024-02-29 ['abc'] /work ['data.json']\n"
        "given environ({'NAME': 'value'})\n"
    )


async def test_coroutines_and_tools_run_together(run, python):
    async def host(name, input):
        return {name: dict(input)}

    outcome = await run(
        python,
        """
        import asyncio, clawhive_tools
        async def main():
            print(await asyncio.gather(clawhive_tools.mail.read(most=1), asyncio.sleep(0.01, "b")))
        asyncio.run(main())
        print(call_tool("x"))
        """,
        host=host,
    )
    assert outcome.stderr == b""
    assert outcome.stdout == b"[{'mail.read': {'most': 1}}, 'b']\n{'x': {}}\n"


async def test_an_exception_shows_its_lines(run, python):
    outcome = await run(python, "def f(x):\n    return 1 / x\nf(0)\n", script="job.py")
    assert outcome.exit_code == 1
    assert outcome.stderr.decode() == (
        "Traceback (most recent call last):\n"
        '  File "job.py", line 3, in <module>\n'
        "    f(0)\n"
        '  File "job.py", line 2, in f\n'
        "    return 1 / x\n"
        "           ~~^~~\n"
        "ZeroDivisionError: division by zero\n"
    )


@pytest.mark.parametrize(
    ("code", "limits", "expected"),
    [
        ("while True: pass", {"wall_ms": 3000}, "wall"),
        ("import time; time.sleep(60)", {"wall_ms": 3000}, "wall"),
        ("x = 'x' * 10**9", {}, "memory"),
        ("open('a', 'w').write('x' * 60000)", {"file_bytes": 50000}, "files"),
        ("for n in range(9): open(str(n), 'w')", {"files": 5}, "files"),
        ("import os\nfor n in range(9): os.mkdir(str(n))", {"files": 5}, "files"),
        ("f = open('a', 'wb', 0); import os; os.unlink('a')\nwhile True: f.write(b'x' * 9999)",
         {"file_bytes": 50000}, "files"),
        ("while True: print('x' * 1000)", {"stdout_bytes": 5000}, "stdout"),
    ],
)  # fmt: skip
async def test_each_limit_ends_the_program_and_keeps_what_it_printed(
    run, python, code, limits, expected
):
    outcome = await run(python, f"print(1)\n{code}", limits=limits)
    assert (outcome.exit_code, outcome.killed_by) == (None, expected)
    assert outcome.stdout.startswith(b"1\n")


async def test_calls_nest_as_deep_as_python_allows_and_then_raise(run, python):
    outcome = await run(
        python,
        """
        from functools import cache
        @cache
        def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
        blocks = [bytes([n % 256]) * 100_000 for n in range(500)]
        print(fib(150))
        try: fib(5000)
        except RecursionError: print("too deep")
        print(all(block == bytes([n % 256]) * 100_000 for n, block in enumerate(blocks)))
        """,
    )
    assert outcome.stderr == b""
    assert outcome.stdout == b"9969216677189303386214405760200\ntoo deep\nTrue\n"


async def test_equal_clocks_and_seeds_give_equal_runs(run, python, tmp_path):
    code = """
        import datetime, random, time, uuid
        print(datetime.datetime.now(), random.random(), uuid.uuid4(), hash("text"))
        time.sleep(0.05)
        print(datetime.datetime.now(), time.perf_counter())
        """
    once = await run(python, code, clock=86400.0, seed=7)
    assert once.stderr == b""
    assert once.stdout.startswith(b"1970-01-02 00:00:00")
    assert (await run(python, code, clock=86400.0, seed=7)).stdout == once.stdout
    assert (await run(python, code, clock=86400.0, seed=8)).stdout != once.stdout


async def test_a_session_keeps_variables_and_prints_last_values(python, tmp_path):
    def command(code):
        return SandboxCommand(("python", "-c", code))

    heard = []
    session = await python.open_session(SandboxSpec(str(tmp_path)))
    first = await session.evaluate(command("x = [1]\ndef f(): return x"), heard.append)
    second = await session.evaluate(command("x.append(2)\nf()"), lambda *said: None)
    failed = await session.evaluate(command("1 / 0"), lambda *said: None)
    left = await session.evaluate(command("import sys; sys.exit(3)"), lambda *said: None)
    after = await session.evaluate(command("len(x)"), lambda *said: None)
    await session.close()
    assert (first.exit_code, first.stdout) == (0, b"")
    assert second.stdout == b"[1, 2]\n"
    assert (failed.exit_code, left.exit_code, after.stdout) == (1, 3, b"2\n")
    assert failed.stderr.endswith(b"ZeroDivisionError: division by zero\n")
