"""A handler in each box: what it computes, asks for, prints, and how it ends."""

import os
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from clawhive_builtin import MontyEngine
from clawhive_core import HandlerCall, HandlerEngine, SandboxLimits, ToolError, Unsupported
from clawhive_core.execution.handlers.child import ChildPython

FACTS = {"skill_id": "zodiac", "user_id": "ana", "profile": {"identity": {"name": "Ana"}}}


class Box:
    """Runs handlers in one engine over a host that remembers what it was asked."""

    def __init__(self, engine):
        self.engine = engine
        self.asked = []
        self.printed = b""
        self.answers = {}

    async def host(self, method, arguments):
        self.asked.append((method, dict(arguments)))
        answer = self.answers.get(method, {"got": method})
        await anyio.lowlevel.checkpoint()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def output(self, _stream, data):
        self.printed += data

    async def __call__(self, source, **limits):
        call = HandlerCall(source, "handlers.py", "f", {"n": 2}, FACTS, SandboxLimits(**limits))
        return await self.engine.run_handler(call, self.host, self.output)


@pytest.fixture(params=["monty", "child"])
def box(request, tmp_path):
    return Box(MontyEngine() if request.param == "monty" else ChildPython(tmp_path, "run_1"))


@pytest.fixture
def child(tmp_path):
    return Box(ChildPython(tmp_path, "run_1"))


@pytest.fixture
def monty():
    return Box(MontyEngine())


def test_both_boxes_keep_to_the_protocol(tmp_path):
    assert isinstance(MontyEngine(), HandlerEngine)
    assert isinstance(ChildPython(tmp_path, "run_1"), HandlerEngine)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("def f(input, ctx):\n    return input['n'] * 3", 6),
        ("async def f(input, ctx):\n    return [input['n'], None, True, 1.5, 'é😀']",
         [2, None, True, 1.5, "é😀"]),
        ("def f(input, ctx):\n    return None", None),
        ("def f(input, ctx):\n    return {'a': (1, 2)}", {"a": [1, 2]}),
        ("def f(input, ctx):\n    return [ctx.skill_id, ctx.user_id, ctx.profile['identity']]",
         ["zodiac", "ana", {"name": "Ana"}]),
        ("async def g():\n    return 4\ndef f(input, ctx):\n    return g()", 4),
        ("async def f(input, ctx):\n    return await ctx.call('a.b', {'x': 1})", {"got": "call"}),
        ("def f(input, ctx):\n    return ctx.call(name='a.b', input={'x': 1})", {"got": "call"}),
        ("import json\nL = 3\nctx = 1\ndef f(input, ctx):\n    return json.loads(str(L))", 3),
        ("def f(input, ctx):\r\n    return 1", 1),
        ("type = str = json = len = 5\ndef f(input, ctx):\n    return len", 5),
        ("async def f(input, ctx):\n    ask = ctx.call\n    return await ask('a.b')",
         {"got": "call"}),
    ],
)  # fmt: skip
async def test_a_handler_answers_its_value(box, body, value):
    outcome = await box(body)
    assert (outcome.value, outcome.error, outcome.killed_by) == (value, None, None)


async def test_a_handler_asks_for_several_things_at_once(box):
    source = """
import asyncio
async def f(input, ctx):
    return await asyncio.gather(
        ctx.call("a.b"), ctx.read("p"), ctx.save("p", [1]), ctx.show("card", {"x": 1})
    )
"""
    outcome = await box(source)
    assert outcome.value == [{"got": name} for name in ("call", "read", "save", "show")]
    asked = dict(box.asked)
    assert asked["call"]["name"] == "a.b"
    assert (asked["read"], asked["save"]) == ({"path": "p"}, {"path": "p", "data": [1]})
    assert asked["show"] == {"card_type": "card", "data": {"x": 1}}


async def test_what_a_plain_handler_asks_for_is_done_before_it_ends(box):
    outcome = await box("def f(input, ctx):\n    ctx.save('p', 1)\n    return 5")
    assert (outcome.value, box.asked) == (5, [("save", {"path": "p", "data": 1})])


async def test_a_failure_that_nobody_awaits_fails_the_handler(box):
    box.answers["save"] = ToolError("not here", code="denied")
    outcome = await box("def f(input, ctx):\n    ctx.save('p', 1)\n    return 5")
    assert outcome.error == "RuntimeError: denied: not here"


async def test_a_refused_short_form_can_be_caught(box):
    box.answers["read"] = ToolError("not here", code="denied")
    source = """
async def f(input, ctx):
    try:
        return await ctx.read("skills.other.x")
    except RuntimeError as error:
        return str(error)
"""
    assert (await box(source)).value == "denied: not here"


async def test_what_the_host_raises_else_ends_the_handler_and_is_raised(box):
    box.answers["call"] = LookupError("parked")
    source = """
async def f(input, ctx):
    try:
        await ctx.call("a.b")
    except BaseException:
        pass
    while True:
        await ctx.read("p")
"""
    with pytest.raises(LookupError, match="parked"):
        await box(source)


@pytest.mark.parametrize(
    ("body", "error", "line"),
    [
        ("def f(input, ctx):\n    raise ValueError('bad')", "ValueError: bad", 2),
        ("def g():\n    1 / 0\ndef f(input, ctx):\n    g()", "ZeroDivisionError: division by zero",
         2),
        ("1 / 0\ndef f(input, ctx): ...", "ZeroDivisionError: division by zero", 1),
        ("def f(input, ctx):\n    return ctx.nothing", "AttributeError", 2),
        ("def f(input, ctx):\n    return ctx.call()", "TypeError", 2),
        ("def f(input, ctx):\n    return ctx.call('a', {}, 3)", "TypeError", 2),
        ("def f(input, ctx):\n    raise NotImplementedError('later')",
         "NotImplementedError: later", 2),
        ("def f(input, ctx):\n    return f(input, ctx)", "RecursionError", 2),
        ("async def f(input, ctx):\n    await ctx.call('a')\n    raise KeyError('k')",
         "KeyError: ", 3),
    ],
)  # fmt: skip
async def test_an_exception_is_told_with_its_line(box, body, error, line):
    outcome = await box(body)
    assert outcome.error.startswith(error)
    assert (outcome.line, outcome.not_json, outcome.value) == (line, False, None)


@pytest.mark.parametrize(
    "body",
    ["{1, 2}", "ctx", "f", "b'x'", "[x for x in [ctx]]"],
)
async def test_what_is_no_json_is_told_apart(box, body):
    outcome = await box(f"def f(input, ctx):\n    return {body}")
    assert outcome.not_json
    assert "not JSON serializable" in outcome.error


async def test_a_huge_value_is_no_answer(box):
    outcome = await box("def f(input, ctx):\n    return 'x' * 40_000_000")
    assert outcome.value is None
    assert outcome.error


async def test_a_memory_bomb_meets_its_limit(box):
    outcome = await box(
        "def f(input, ctx):\n    return [str(x) for x in range(100_000_000)]",
        memory_bytes=64 * 1024 * 1024,
    )
    assert outcome.killed_by == "memory"


async def test_all_that_a_handler_prints_is_heard(box):
    source = """
def f(input, ctx):
    for number in range(2000):
        print(number)
    return 1
"""
    assert (await box(source)).value == 1
    assert box.printed.split() == [b"%d" % number for number in range(2000)]


async def test_printing_without_end_meets_its_limit(box):
    outcome = await box(
        "def f(input, ctx):\n    while True:\n        print('x' * 1000)",
        stdout_bytes=10_000,
        stderr_bytes=10_000,
    )
    assert outcome.killed_by in {"stdout", "stderr"}
    assert 0 < len(box.printed) <= 10_000


async def test_a_cancelled_handler_is_gone_at_once(box):
    for body in ("while True: pass", "await __import__('asyncio').sleep(60)"):
        with anyio.move_on_after(0.3) as scope:
            await box(
                f"import asyncio\nasync def f(input, ctx):\n    {body}".replace(
                    "__import__('asyncio')", "asyncio"
                )
            )
        assert scope.cancelled_caught
    assert await survivors() == []


async def survivors():
    """Return the children of this process that are still there after a moment."""
    for _ in range(15_000):
        found = boxes()
        if not found:
            return []
        await anyio.sleep(0.02)
    return found


def boxes():
    path = f"/proc/self/task/{os.getpid()}/children"
    return [pid for pid in Path(path).read_text().split() if is_box(pid)]


def is_box(pid):
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"handler_child" in line or b"monty" in line


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("def f(input, ctx):\n    yield 1", "`yield`"),
        ("import socket\ndef f(input, ctx): ...", "the module `socket`"),
        ("import subprocess\ndef f(input, ctx): ...", "the module `subprocess`"),
        ("import os\ndef f(input, ctx):\n    return os.system('id')", "`os.system`"),
        ("def f(input, ctx):\n    return __import__('os')", "`__import__`"),
        ("import ctypes\ndef f(input, ctx): ...", "the module `ctypes`"),
    ],
)
async def test_what_the_engine_lacks_is_found_before_anything_runs(monty, body, what):
    found = await monty("print('begun')\n" + body)
    assert isinstance(found, Unsupported)
    assert what in found.what
    assert found.line > 1
    assert (monty.printed, monty.asked) == (b"", [])


@pytest.mark.parametrize(
    "body",
    [
        "return open('/etc/passwd').read()",
        "return open('handlers.py', 'w').write('x')",
        "from pathlib import Path; return Path('/').iterdir()",
        "import os; return os.listdir('/')",
        "import os; return os.mkdir('/tmp/x')",
        "return eval('open(\"/etc/hosts\").read()')",
    ],
)
async def test_a_fenced_handler_reaches_no_file(monty, body):
    outcome = await monty(f"def f(input, ctx):\n    {body}")
    assert outcome.error is not None
    assert outcome.value is None


@pytest.mark.parametrize("arguments", ["", "'call'", "'no', (), {}", "[], 1, 2", "'call', 1, 2"])
async def test_what_stands_behind_ctx_cannot_be_misused(monty, arguments):
    outcome = await monty(f"def f(input, ctx):\n    return _ask_({arguments})")
    assert outcome.error.startswith("TypeError: ctx.")
    assert monty.asked == []


async def test_a_fenced_handler_sees_no_environment(monty, monkeypatch):
    monkeypatch.setenv("SECRET_OF_A_TEST", "x")
    source = "import os\ndef f(input, ctx):\n    return [dict(os.environ), os.getenv('PATH', 'no')]"
    assert (await monty(source)).value == [{}, "no"]


async def test_a_fenced_handler_sleeps_and_waits(monty):
    source = """
import asyncio
import time
async def f(input, ctx):
    time.sleep(0.01)
    await asyncio.gather(asyncio.sleep(0.01), ctx.call("a.b"))
    return time.time() > 0
"""
    assert (await monty(source)).value is True


async def test_a_child_sees_only_the_environment_that_it_needs(child, monkeypatch):
    monkeypatch.setenv("SECRET_OF_A_TEST", "x")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    source = "import os\ndef f(input, ctx):\n    return dict(os.environ)"
    env = (await child(source)).value
    assert env["CLAWHIVE_RUN"] == "run_1"
    assert set(env) <= {"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "CLAWHIVE_RUN", "LC_CTYPE"}


async def test_a_child_may_import_what_is_installed_and_starts_in_its_folder(child, tmp_path):
    source = "import os, anyio\ndef f(input, ctx):\n    return [anyio.__name__, os.getcwd()]"
    assert (await child(source)).value == ["anyio", str(tmp_path)]


async def test_nothing_that_a_child_prints_is_taken_for_an_answer(child):
    source = """
import os, sys
def f(input, ctx):
    print('{"value": 666}', flush=True)
    os.write(1, b'{"value": 667}\\n')
    sys.__stdout__.write('{"value": 668}\\n')
    sys.__stdout__.flush()
    return sys.stdin.read()
"""
    outcome = await child(source)
    assert outcome.value == ""
    assert child.printed.count(b"66") == 3


@pytest.mark.parametrize("death", ["os._exit(3)", "os.kill(os.getpid(), 9)"])
async def test_a_child_that_dies_is_told(child, death):
    outcome = await child(f"import os\ndef f(input, ctx):\n    {death}")
    assert outcome.error == "its process ended without an answer"
    assert await survivors() == []


async def test_a_child_cannot_write_files_beyond_its_limit(child):
    source = """
import os, tempfile
def f(input, ctx):
    with tempfile.NamedTemporaryFile(buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 100_000)
        except OSError as error:
            return [error.strerror, os.stat(file.name).st_size]
"""
    outcome = await child(source, file_bytes=10_000)
    assert outcome.value == ["File too large", 10_000]


async def test_a_folder_that_is_gone_makes_the_child_unusable(tmp_path):
    from clawhive_core import SandboxUnavailable

    box = Box(ChildPython(tmp_path / "gone", "run_1"))
    with pytest.raises(SandboxUnavailable):
        await box("def f(input, ctx): ...")


def has_landlock():
    import ctypes

    return ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1) > 0


@pytest.fixture
def fenced(tmp_path):
    root = tmp_path / "project"
    for folder in (".clawhive", ".git/hooks", "notes", "skills/one"):
        root.joinpath(folder).mkdir(parents=True)
    for name in (".clawhive/hive.db", "clawhive.toml", "notes/a.txt", "b.txt"):
        root.joinpath(name).write_text("as it was")
    user = tmp_path / "user"
    user.mkdir()
    user.joinpath("grants.json").write_text("as it was")
    root.joinpath("skills/one/link").symlink_to(root / ".clawhive")
    guarded = (root / ".clawhive", root / "clawhive.toml", root / ".git/hooks", user)
    box = Box(ChildPython(root / "skills/one", "run_1", tuple(map(str, guarded))))
    box.root, box.user = root, user
    return box


def before(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock")
@pytest.mark.promise("P-099")
@pytest.mark.parametrize(
    "attack",
    [
        "open(root + '/.clawhive/hive.db').read()",
        "open(root + '/.clawhive/hive.db', 'a').write('x')",
        "open(root + '/.clawhive/new', 'w').write('x')",
        "open(root + '/clawhive.toml', 'w').write('x')",
        "open(root + '/clawhive.lock', 'w').write('x')",
        "open(root + '/.git/hooks/pre-commit', 'w').write('x')",
        "open(user + '/grants.json').read()",
        "open(user + '/trust.json', 'w').write('x')",
        "open('link/hive.db').read()",
        "open(f'/proc/{os.getppid()}/cwd/../../.clawhive/hive.db').read()",
        "open(f'/proc/{os.getppid()}/root{root}/.clawhive/hive.db').read()",
        "os.rename(root + '/.clawhive', root + '/notes/moved')",
        "os.link(root + '/.clawhive/hive.db', root + '/notes/linked')",
        "shutil.rmtree(root + '/.clawhive')",
        "os.unlink(root + '/clawhive.toml')",
        "os.truncate(root + '/.clawhive/hive.db', 0)",
        "subprocess.run(['cat', root + '/.clawhive/hive.db'], check=True)",
        "subprocess.run(['sh', '-c', f'echo x > {root}/clawhive.toml'], check=True)",
    ],
)
async def test_a_childs_handler_and_what_it_starts_reach_nothing_of_clawhives(fenced, attack):
    was = before(fenced.root.parent)
    outcome = await fenced(
        "import os, shutil, subprocess\ndef f(input, ctx):\n"
        f"    root, user = {str(fenced.root)!r}, {str(fenced.user)!r}\n    {attack}\n"
    )
    assert outcome.error is not None
    assert outcome.error.startswith(("PermissionError", "subprocess.CalledProcessError", "OSError"))
    assert before(fenced.root.parent) == was


@pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock")
async def test_the_fence_leaves_a_childs_handler_all_beside_it_to_read(fenced):
    outcome = await fenced(
        "import os, subprocess\ndef f(input, ctx):\n"
        f"    root = {str(fenced.root)!r}\n"
        "    out = subprocess.run(['cat', root + '/b.txt'], capture_output=True, check=True)\n"
        "    notes = open(root + '/notes/a.txt').read()\n"
        "    return [out.stdout.decode(), notes, sorted(os.listdir(root))]\n"
    )
    assert outcome.error is None, outcome.error
    names = [".clawhive", ".git", "b.txt", "clawhive.toml", "notes", "skills"]
    assert outcome.value == ["as it was", "as it was", names]
