from pathlib import Path

import pytest

from clawhive_builtin import MontyEngine
from clawhive_core import SandboxLimits, ToolError
from clawhive_core.execution.sandbox.broker import SandboxBroker, SandboxProvider

PRIMES = Path(__file__).parents[3] / "examples" / "primes.py"


@pytest.fixture
def sandbox(tmp_path):
    engine = MontyEngine()
    limits = SandboxLimits(wall_ms=1000, file_bytes=10_000)
    root = tmp_path / "sandbox_workspace"
    return SandboxProvider(SandboxBroker(lambda: [engine], ("python -c",), limits, root))


def program(code, **further):
    return {"command": ["python", "-c", code], **further}


async def test_a_snippet_leaves_output_and_files_as_artifacts(sandbox, call):
    await sandbox.invoke("sandbox.write_files", {"files": {"in.csv": "a,b\n1,2\n"}}, call)
    code = "rows = open('in.csv').read().splitlines()\nprint(len(rows))\n"
    code += "open('out.txt', 'w').write(rows[1])"
    done = await sandbox.invoke("sandbox.exec", program(code), call)
    assert (done.is_error, done.output, done.structured["engine"]) == (False, "2", "monty")
    kept = await sandbox.invoke("sandbox.collect_outputs", {}, call)
    assert [one.path for one in kept.artifacts] == ["stdout.txt", "stderr.txt", "out.txt"]
    assert (Path(call.artifacts) / "out.txt").read_text(encoding="utf-8") == "1,2"
    assert call.heard == [("stdout", b"2\n")]


async def test_the_example_prints_and_writes_the_primes(sandbox, call):
    done = await sandbox.invoke("sandbox.exec", program(PRIMES.read_text(encoding="utf-8")), call)
    primes = "2 3 5 7 11 13 17 19 23 29 31 37 41 43 47"
    assert (done.is_error, done.output) == (False, primes)
    await sandbox.invoke("sandbox.collect_outputs", {}, call)
    assert (Path(call.artifacts) / "primes.txt").read_text(encoding="utf-8").split() == (
        primes.split()
    )


async def test_what_the_engine_cannot_run_is_refused_with_its_line_and_nothing_has_run(
    sandbox, call
):
    code = "open('made', 'w').write('x')\nprint(1)\ndef f():\n    yield 1\n"
    with pytest.raises(ToolError) as caught:
        await sandbox.invoke("sandbox.exec", program(code, script="job.py"), call)
    error = caught.value
    assert error.code == "sandbox_unavailable"
    assert error.message == "line 4: the engine `monty` cannot run `yield` (generators)"
    assert error.place == "job.py:4:5"
    kept = await sandbox.invoke("sandbox.collect_outputs", {}, call)
    assert kept.artifacts == ()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print('part')\n1 / 0", "program_failed"),
        ("print('part')\nraise SystemExit(3)", "program_failed"),
        ("print('part')\nwhile True: pass", "limit_reached"),
        ("print('part')\nopen('f', 'w').write('x' * 20000)", "limit_reached"),
        ("print('part')\nopen('/etc/passwd').read()", "program_failed"),
    ],
)
async def test_a_program_that_fails_keeps_its_output_and_says_why(sandbox, call, code, expected):
    done = await sandbox.invoke("sandbox.exec", program(code), call)
    assert done.is_error
    assert done.structured["error"]["code"] == expected
    assert done.structured["stdout"] == "part\n"
    kept = await sandbox.invoke("sandbox.collect_outputs", {}, call)
    assert (Path(call.artifacts) / "stdout.txt").read_bytes() == b"part\n"
    assert kept.structured["stdout"] == "part\n"


async def test_files_stay_from_one_program_to_the_next(sandbox, call):
    await sandbox.invoke("sandbox.exec", program("open('n', 'w').write('41')"), call)
    code = "print(int(open('n').read()) + int(input()))"
    done = await sandbox.invoke("sandbox.exec", program(code, stdin="1\n"), call)
    assert done.output == "42"
