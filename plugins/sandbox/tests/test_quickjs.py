"""The engine `quickjs-wasi`, whose module compiles within a second: the fast tests of the host."""

import anyio
import pytest

from clawhive_core import (
    SandboxCommand,
    SandboxLimits,
    SandboxSpec,
    SandboxUnavailable,
    ToolError,
)
from clawhive_core.errors import NeedHumanApproval


async def test_a_program_prints_and_ends_with_zero(run, node):
    outcome = await run(node, "console.log('hällo', 6 * 7); console.log()")
    assert (outcome.exit_code, outcome.killed_by, outcome.truncated) == (0, None, ())
    assert outcome.stdout.decode() == "hällo 42\n\n"
    assert outcome.stderr == b""


async def test_timers_and_promises_end_before_the_program_does(run, node):
    outcome = await run(
        node,
        """
        setTimeout(() => console.log("late"), 5)
        Promise.resolve().then(() => console.log("soon"))
        console.log("now")
        """,
    )
    assert outcome.stdout == b"now\nsoon\nlate\n"


async def test_an_uncaught_error_is_told_with_its_line_and_exits_with_one(run, node):
    outcome = await run(node, "console.log(1)\nnull.x\n", script="job.js")
    assert (outcome.exit_code, outcome.stdout) == (1, b"1\n")
    assert b"TypeError" in outcome.stderr
    assert b"job.js:2" in outcome.stderr


@pytest.mark.parametrize(
    ("code", "limits", "expected"),
    [
        ("console.log(1); for (;;) {}", {"wall_ms": 1500}, "wall"),
        ("console.log(1); setTimeout(() => {}, 60000)", {"wall_ms": 1500}, "wall"),
        (
            "console.log(1); for (;;) console.log('x'.repeat(1000))",
            {"stdout_bytes": 5000},
            "stdout",
        ),
        ("console.log(1); for (;;) call_tool('a')", {"tool_calls": 3}, "tool_calls"),
        ("console.log(1); for (let a = [];;) a.push([a])", {"memory_bytes": 8 << 20}, "memory"),
    ],
)
async def test_each_limit_ends_the_program_and_keeps_what_it_printed(
    run, node, code, limits, expected
):
    outcome = await run(node, code, limits=limits)
    assert (outcome.exit_code, outcome.killed_by) == (None, expected)
    assert outcome.truncated == (expected,)
    assert outcome.stdout.startswith(b"1\n")
    assert len(outcome.stdout) <= 5000


async def test_a_tool_answers_the_program_and_its_refusal_is_an_exception(run, node):
    asked = []

    async def host(name, input):
        asked.append((name, dict(input)))
        if name == "mail.send":
            raise ToolError("no", code="denied")
        return {"items": [1, "ä"]}

    code = """
        const [found] = await Promise.all([clawhive_tools.web.search({query: "x"})])
        console.log(found.items[1])
        await clawhive_tools.mail.send({}).catch(error => console.log(error.message))
        """
    outcome = await run(node, code, host=host)
    assert (outcome.stderr, outcome.stdout.decode()) == (b"", "ä\ndenied: no\n")
    assert asked == [("web.search", {"query": "x"}), ("mail.send", {})]


async def test_what_parks_the_run_ends_the_program_and_is_raised(run, node):
    async def host(name, input):
        raise NeedHumanApproval("approval_1")

    with pytest.raises(NeedHumanApproval):
        await run(node, "await call_tool('a')", host=host)


async def test_a_cancelled_program_is_gone(run, node):
    with anyio.move_on_after(0.3) as scope:
        await run(node, "for (;;) {}")
    assert scope.cancelled_caught


async def test_a_folder_that_is_reached_by_a_link_is_not_opened(run, node, tmp_path):
    run.folder.rmdir()
    run.folder.symlink_to(tmp_path)
    with pytest.raises(ToolError) as caught:
        await run(node, "console.log(1)")
    assert caught.value.code == "io_error"


async def test_a_program_reaches_no_module_of_the_engine(run, node):
    outcome = await run(node, "console.log(typeof std, typeof os, typeof scriptArgs)")
    assert outcome.stdout == b"undefined undefined undefined\n"


async def test_equal_clocks_and_seeds_give_equal_runs(run, node):
    code = "console.log(Date.now(), Math.random()); setTimeout(() => console.log(Date.now()), 5)"
    once = await run(node, code, clock=86400.0, seed=7)
    assert once.stdout.startswith(b"864000")
    assert (await run(node, code, clock=86400.0, seed=7)).stdout == once.stdout


async def test_a_session_keeps_variables_until_a_limit_ends_it(node, tmp_path):
    def command(code):
        return SandboxCommand(("node", "-e", code))

    heard = []
    limits = SandboxLimits(wall_ms=1500)
    session = await node.open_session(SandboxSpec(str(tmp_path), limits=limits))
    await session.evaluate(command("let x = [1]; function f() { return x }"), heard.append)
    second = await session.evaluate(command("x.push(2); f()"), lambda *said: None)
    failed = await session.evaluate(command("null.x"), lambda *said: None)
    third = await session.evaluate(command("x.length"), lambda *said: None)
    stopped = await session.evaluate(command("for (;;) {}"), lambda *said: None)
    assert (second.stdout, failed.exit_code, third.stdout) == (b"[ 1, 2 ]\n", 1, b"2\n")
    assert stopped.killed_by == "wall"
    with pytest.raises(SandboxUnavailable, match="ended"):
        await session.evaluate(command("x"), lambda *said: None)


async def test_an_evaluation_has_limits_and_a_host_of_its_own(node, tmp_path):
    async def host(name, input):
        return {"name": name, **input}

    def command(code):
        return SandboxCommand(("node", "-e", code))

    session = await node.open_session(SandboxSpec(str(tmp_path)))
    code = "console.log((await call_tool('a.b', {n: 1})).n)"
    called = await session.evaluate(command(code), lambda *said: None, host=host)
    limits = SandboxLimits(wall_ms=200)
    stopped = await session.evaluate(command("for (;;) {}"), lambda *said: None, limits)
    assert called.stdout == b"1\n"
    assert stopped.killed_by == "wall"


async def test_a_kept_interpreter_serves_the_same_folder_only(run, node, tmp_path):
    for number in range(4):
        outcome = await run(node, f"console.log({number}, typeof before); globalThis.before = 1")
        assert outcome.stdout == f"{number} undefined\n".encode()
    (tmp_path / "other").mkdir()
    instance = await node.open(SandboxSpec(str(tmp_path / "other")))
    before = dict(node._kept)
    await instance.run(SandboxCommand(("node", "-e", "1")), lambda *said: None)
    await instance.close()
    assert dict(node._kept) == before


async def test_an_interpreter_that_was_started_while_its_folder_was_gone_is_not_used(
    run, node, tmp_path
):
    for number in range(2):
        await run(node, f"console.log({number})")
    (domain,) = node._kept
    gone = SandboxSpec(str(tmp_path / "gone"))
    node._kept.popitem()[1].end()
    node._kept[domain] = await node._started(gone)
    assert (await run(node, "console.log('still')")).stdout == b"still\n"
    with pytest.raises(ToolError, match="cannot be opened"):
        await (await node.open(gone)).run(SandboxCommand(("node", "-e", "1")), lambda *said: None)
