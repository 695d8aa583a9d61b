"""Programs in a sandbox that were given tools, hosts, secrets and variables; kept interpreters."""

import asyncio
import re
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

from clawhive_builtin.monty import MontyEngine
from clawhive_core import SandboxOutcome
from clawhive_core.errors import SandboxUnavailable
from clawhive_core.execution.sandbox.broker import MAX_OPEN
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.testing import ScriptedModel, calling, memory_hive

MODEL = "scripted:test"


class Mail:
    """A provider of one tool that reads and one that a person must answer."""

    provider_id = "mail"

    def __init__(self):
        self.calls = []

    async def list_tools(self):
        schema = {"type": "object"}
        return [
            ToolMeta("mail.read", "Read.", schema, "mail", risk="safe"),
            ToolMeta("mail.send", "Send.", schema, "mail", risk="guarded"),
        ]

    async def invoke(self, tool_name, input, ctx):
        self.calls.append((tool_name, dict(input)))
        return ToolResult(ctx.tool_call_id, "read", structured={"n": len(self.calls)})

    async def close(self):
        return None


@pytest.fixture
def mail():
    return Mail()


@pytest.fixture
def hive(mail):
    def opened(*script, engines=None, **settings):
        model = ScriptedModel(list(script))
        engines = [MontyEngine()] if engines is None else engines
        parts = {"providers": [mail], "adapters": [model], "sandboxes": engines}
        return model, memory_hive(**parts, settings=settings)

    return opened


def python(code, **given):
    return calling("sandbox.run_python", {"code": code, **given})


def result(model):
    return model.requests[-1].messages[-1].content[0]


async def test_a_program_calls_the_tools_that_it_was_given_and_no_others(hive, mail):
    code = (
        "print(call_tool('mail.read', {'id': 1})['n'])\n"
        "try:\n    call_tool('mail.send', {})\n"
        "except Exception as error:\n    print(error)\n"
    )
    model, opening = hive(python(code, tools=["mail.read"]), "Done.")
    async with opening as opened:
        run = await opened.run("go", model=MODEL)
        assert opened.records.invocations(run_id=run["run_id"], tool="mail.read").total == 1
    assert "1\n" in result(model).structured["stdout"]
    assert "was not given `mail.send`" in result(model).structured["stdout"]
    assert mail.calls == [("mail.read", {"id": 1})]


async def test_a_call_that_must_ask_parks_the_program_which_starts_again_with_the_answers(
    hive, mail
):
    code = (
        "one = call_tool('mail.read')['n']\n"
        "print(one, call_tool('mail.send', {'to': 'ana'})['n'])\n"
    )
    model, opening = hive(python(code, tools=["mail.read", "mail.send"]), "Sent.")
    async with opening as opened:
        parked = await opened.run("go", model=MODEL, approve="park")
        assert parked["status"] == "waiting_approval"
        opened.approvals.resolve("last", "approve", by="user:ana")
        run = await opened.resume(parked["run_id"])
        assert run["status"] == "succeeded"
        assert (await opened.replay("last")).ok
    assert result(model).structured["stdout"] == "1 2\n"
    assert [name for name, _ in mail.calls] == ["mail.read", "mail.send"]


@asynccontextmanager
async def server(seen):
    async def answer(reader, writer):
        seen.append((await reader.readuntil(b"\r\n\r\n")).decode())
        told = re.search(r"authorization: (.*)\r", seen[-1], re.IGNORECASE)[1]
        body = f"you are {told}".encode()
        head = f"HTTP/1.1 200 OK\r\nX-You: {told}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


SEND = """\
headers = {"Authorization": "Bearer ${secret:KEY}"}
answer = call_tool("http.request", {"url": URL, "headers": headers})
print(answer["status"], answer["body"], answer["headers"]["x-you"])
"""


async def test_a_request_goes_out_through_the_host_with_a_secret_that_the_program_never_sees(
    hive,
):
    seen = []
    async with server(seen) as url:
        code = f"URL = {url + '/x'!r}\n{SEND}"
        call = python(code, hosts=[url], secrets=["KEY"])
        model, opening = hive(call, "Done.")
        async with opening as opened:
            opened._env["KEY"] = "s3cret-value-of-mine"
            grants = [f"net.http:{url}/**", "secret.use:KEY"]
            run = await opened.run(f"Go to {url}", model=MODEL, grants=grants)
            assert run["status"] == "succeeded"
    assert result(model).structured["stderr"] == ""
    assert result(model).structured["stdout"] == "200 you are Bearer [KEY] Bearer [KEY]\n"
    assert "Bearer s3cret-value-of-mine" in seen[0]


async def test_a_host_that_was_not_named_is_not_reached(hive):
    seen = []
    async with server(seen) as url:
        code = (
            "try:\n"
            f"    call_tool('http.request', {{'url': {url!r}}})\n"
            "except Exception as error:\n    print(error)\n"
        )
        call = python(code, hosts=["api.example.com"])
        model, opening = hive(call, "Done.")
        async with opening as opened:
            prompt = "Ask api.example.com"
            await opened.run(prompt, model=MODEL, grants=["net.http:api.example.com/**"])
    assert "was not given the host" in result(model).structured["stdout"]
    assert seen == []


async def test_hosts_are_asked_about_before_the_program_starts(hive):
    _, opening = hive(python("print(1)", hosts=["api.example.com"]), "Done.")
    async with opening as opened:
        run = await opened.run("go", model=MODEL, approve="park")
        assert run["status"] == "waiting_approval"
        (asked,) = opened.approvals.pending()
        assert "net.http:https://api.example.com/**" in str(asked.to_dict())


class Kept:
    """An engine of one interpreter: each evaluation adds to a number and says it."""

    name = "kept"
    version = "1"
    isolation = "guest"
    programs = frozenset({"python -c"})
    aliases: ClassVar = {}
    deterministic = False

    def __init__(self):
        self.open_sessions = 0

    def unsupported(self, command):
        return None

    async def open(self, spec):
        raise SandboxUnavailable("only sessions")

    async def open_session(self, spec):
        self.open_sessions += 1
        return KeptSession(self)

    async def close(self):
        return None


class KeptSession:
    def __init__(self, engine):
        self.engine, self.total = engine, 0

    async def evaluate(self, command, output, limits=None, host=None):
        if command.code == "stuck":
            return SandboxOutcome(None, b"", b"", killed_by="wall")
        if command.code == "limit":
            return SandboxOutcome(0, str(limits.wall_ms).encode(), b"")
        if command.code == "call":
            return SandboxOutcome(0, str(await host("mail.read", {})).encode(), b"")
        self.total += int(command.code)
        return SandboxOutcome(0, str(self.total).encode(), b"")

    async def close(self):
        self.engine.open_sessions -= 1


async def call(session, name, **input):
    outcome = await session.call(f"sandbox.{name}", input)
    return outcome.structured if isinstance(outcome, ToolResult) else outcome


async def test_an_interpreter_keeps_its_variables_until_it_is_closed(hive):
    engine = Kept()
    _, opening = hive(engines=[engine])
    async with opening as opened, opened.session() as session:
        name = (await call(session, "open", language="python"))["sandbox"]
        assert (await call(session, "eval", sandbox=name, code="3"))["stdout"] == "3"
        assert (await call(session, "eval", sandbox=name, code="4"))["stdout"] == "7"
        assert await call(session, "close", sandbox=name) == {"closed": True}
        assert engine.open_sessions == 0
        gone = await call(session, "eval", sandbox=name, code="1")
        assert gone["error"] == "sandbox_closed"


async def test_an_evaluation_has_limits_of_its_own_and_calls_what_its_sandbox_was_given(hive, mail):
    _, opening = hive(engines=[Kept()])
    async with opening as opened, opened.session() as session:
        name = (await call(session, "open", language="python", tools=["mail.read"]))["sandbox"]
        limited = await call(session, "eval", sandbox=name, code="limit", timeout_ms=70)
        assert limited["stdout"] == "70"
        called = await call(session, "eval", sandbox=name, code="call")
        assert called["stdout"] == "{'n': 1}"
        bare = (await call(session, "open", language="python"))["sandbox"]
        refused = await call(session, "eval", sandbox=bare, code="call")
        assert "was not given `mail.read`" in refused["message"]
    assert mail.calls == [("mail.read", {})]


async def test_the_end_of_a_run_ends_its_interpreters(hive):
    engine = Kept()
    opens = calling("sandbox.open", {"language": "python"})
    _, opening = hive(opens, "Done.", engines=[engine])
    async with opening as opened:
        run = await opened.run("go", model=MODEL)
        assert run["steps"][0]["status"] == "succeeded"
        assert engine.open_sessions == 0


async def test_an_evaluation_that_meets_a_limit_ends_the_interpreter(hive):
    engine = Kept()
    _, opening = hive(engines=[engine])
    async with opening as opened, opened.session() as session:
        name = (await call(session, "open", language="python"))["sandbox"]
        stuck = await call(session, "eval", sandbox=name, code="stuck")
        assert stuck["killed_by"] == "wall"
        assert engine.open_sessions == 0


async def test_a_run_keeps_a_few_interpreters_at_most(hive):
    _, opening = hive(engines=[Kept()])
    async with opening as opened, opened.session() as session:
        for _ in range(MAX_OPEN):
            assert "sandbox" in await call(session, "open", language="python")
        refused = await call(session, "open", language="python")
        assert refused["error"] == "too_many_sandboxes"


async def test_where_no_engine_keeps_variables_the_answer_says_what_to_do(hive):
    _, opening = hive()
    async with opening as opened, opened.session() as session:
        refused = await call(session, "open", language="python")
        assert refused["error"] == "sandbox_unavailable"
        assert "run whole programs" in str(refused)
