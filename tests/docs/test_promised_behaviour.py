"""Promises that no other test keeps, through the command line and the public names."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

import clawhive_core
from clawhive_core import errors
from clawhive_core.model.refusal import CODES
from clawhive_core.testing import ScriptedModel, calling, memory_hive

DEMO = ("run", "Look", "--model", "scripted:demo")
HI = """
from clawhive_core import tool

@tool
def hi() -> str:
    "Say hi."
    return "hi"
"""
MINIMUM = {
    *("invocation_id", "tool", "provider_id", "principal", "capability_level", "risk"),
    *("requested_capabilities", "granted_capabilities", "decision", "approval_required"),
    *("approval_result", "start_at", "end_at", "status", "error"),
}


def call(terminal, name, *more, **arguments):
    """Call a tool as `tools call` does, and return exit code and JSON."""
    return terminal.json("tools", "call", name, "--args", json.dumps(arguments), *more)


def snippet(terminal, code):
    inputs = ("--input", "language=python", "--input", f"code={code}")
    return terminal.json("run", "--task", "run_code_snippet", *inputs)


def configure(terminal, text):
    """Write the user's own configuration."""
    folder = terminal.project.parent / ".config" / "clawhive"
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath("config.toml").write_text(text, "utf-8")


@pytest.mark.promise("P-005")
@pytest.mark.parametrize(
    "code",
    [
        "print(open({secret!r}).read())",
        "from pathlib import Path\nprint(Path({secret!r}).read_text())",
        "from pathlib import Path\nprint(Path('../../secret.txt').read_text())",
        "import socket\nsocket.create_connection(('127.0.0.1', 9))",
        "import subprocess\nprint(subprocess.run(['id'], capture_output=True).stdout)",
        "import os\nprint(os.environ['USER'], os.system('id'))",
        "import ctypes\nassert ctypes.CDLL(None).mount(b'', b'.', b'tmpfs', 0, None) == 0",
        "print(().__class__.__mro__[-1].__subclasses__())",
    ],
)
def test_a_snippet_reaches_nothing_outside_its_folder(terminal, code):
    secret = terminal.project / "secret.txt"
    secret.write_text("the secret")
    ended, run = snippet(terminal, code.format(secret=str(secret)))
    assert ended == 1
    assert run["status"] == "failed"
    assert "the secret" not in json.dumps(run)
    assert "uid=" not in json.dumps(run)


@pytest.mark.promise("P-007")
def test_results_of_the_stub_are_marked_and_of_one_shape(terminal):
    code, result = call(terminal, "web.search", query="x")
    assert code == 0
    for item in result["structured"]["items"]:
        assert set(item) == {"title", "url", "snippet", "provider"}
        assert item["provider"] == "stub"
        assert item["title"].startswith("[stub]")
        assert item["url"].startswith("https://")


@pytest.mark.promise("P-008")
def test_what_no_grant_covers_is_refused_and_not_made(terminal):
    made = terminal.project / "made"
    terminal.plugin(
        "writer",
        f"""
from pathlib import Path
from clawhive_core import tool

@tool(risk="safe", effects={{"path": "fs.exec"}})
def write(path: str) -> str:
    "Write a file."
    Path({str(made)!r}).write_text(path)
    return "written"
""",
    )
    code, refusal = call(terminal, "writer.write", path="program")
    assert (code, refusal["error"], refusal["reason"]) == (1, "denied", "rights")
    assert not made.exists()
    grant = ("--grant", "fs.exec:${workspace}/program")
    assert call(terminal, "writer.write", *grant, path="program")[0] == 0
    assert made.exists()


@pytest.mark.promise("P-009")
def test_the_command_in_a_refusal_gives_the_right(terminal):
    import shlex

    outside = terminal.project.parent / "notes.txt"
    outside.write_text("hello")
    code, refusal = call(terminal, "file.read", path=str(outside))
    assert code == 1
    assert f"fs.read:{outside}" in refusal["message"]
    assert refusal["next"]["capabilities"] == [f"fs.read:{outside}"]
    words = shlex.split(refusal["next"]["command"])
    assert words[0] == "clawhive"
    code, result = terminal.json(*words[1:])
    assert (code, result["output"]) == (0, "hello")


@pytest.mark.promise("P-010")
def test_a_granted_right_ends_with_its_task(terminal):
    outside = terminal.project.parent / "notes.txt"
    outside.write_text("hello")
    grant = ("--grant", f"fs.read:{outside}")
    assert call(terminal, "file.read", *grant, path=str(outside))[0] == 0
    assert call(terminal, "file.read", path=str(outside))[0] == 1
    with closing(sqlite3.connect(".clawhive/hive.db")) as log:
        open_ = log.execute("SELECT count(*) FROM v_grants WHERE ended_at IS NULL").fetchone()
    assert open_ == (0,)


@pytest.mark.promise("P-011")
@pytest.mark.parametrize(
    "path",
    [
        "clawhive.toml",
        ".clawhive/hive.db",
        "clawhive.lock",
        ".git/hooks/x",
        ".git/config",
        "a/CLAWHIVE.toml",
    ],
)
def test_own_files_are_denied_whatever_is_granted(terminal, path):
    file = terminal.project / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists() and path != ".clawhive/hive.db":
        file.write_text("# mine\n")
    for grant in ("fs.read:/**", f"fs.read:{file}"):
        code, refusal = call(terminal, "file.read", "--grant", grant, path=path)
        assert (code, refusal["error"]) == (1, "denied")
        assert "command" not in refusal["next"]


@pytest.mark.promise("P-012")
@pytest.mark.parametrize("name", [".env", ".env.local", "server.pem", "id_rsa", ".netrc"])
def test_a_sensitive_name_is_denied_until_it_is_named_exactly(terminal, name):
    file = terminal.project / name
    file.write_text("KEY=1")
    assert call(terminal, "file.read", path=name)[0] == 1
    assert call(terminal, "file.read", "--grant", "fs.read:/**", path=name)[0] == 1
    _, listing = call(terminal, "file.list", path=".")
    assert name not in [entry["path"] for entry in listing["structured"]["entries"]]
    code, result = call(terminal, "file.read", "--grant", f"fs.read:{file}", path=name)
    assert (code, result["output"]) == (0, "KEY=1")


@pytest.mark.promise("P-013")
def test_a_deny_wins_over_every_grant(terminal):
    configure(
        terminal, '[policy]\ndeny = ["fs.read:${workspace}/private/**"]\nallow = ["fs.read:/**"]\n'
    )
    folder = terminal.project / "private"
    folder.mkdir()
    folder.joinpath("a.txt").write_text("no")
    grant = ("--grant", f"fs.read:{folder}/a.txt")
    code, refusal = call(terminal, "file.read", *grant, path="private/a.txt")
    assert (code, refusal["error"]) == (1, "denied")
    assert "command" not in refusal["next"]


@pytest.mark.promise("P-014")
def test_a_link_out_of_the_project_is_not_followed(terminal):
    outside = terminal.project.parent / "outside"
    outside.mkdir()
    outside.joinpath("a.txt").write_text("the secret")
    terminal.project.joinpath("file").symlink_to(outside / "a.txt")
    terminal.project.joinpath("folder").symlink_to(outside)
    for path in ("file", "folder/a.txt", "folder/../folder/a.txt"):
        code, refusal = call(terminal, "file.read", path=path)
        assert (code, refusal["error"]) == (1, "denied"), path
    code, found = call(terminal, "file.search", text="secret", path=".")
    assert "the secret" not in json.dumps(found), code


@pytest.mark.promise("P-020")
@pytest.mark.promise("P-028")
def test_every_call_is_a_step_with_the_minimum_of_an_execution(terminal):
    terminal.json(*DEMO)
    _, run = terminal.json("runs", "show", "last")
    listed, refused, answer = run["steps"]
    assert (listed["name"], listed["provider_id"], listed["capability_level"]) == (
        "tool.file.list",
        "builtin",
        "L0",
    )
    assert (refused["status"], refused["error"]["code"]) == ("failed", "denied")
    assert (answer["name"], answer["action"]) == ("respond", "respond")
    for step in (listed, refused):
        (invocation,) = step["invocations"]
        assert set(invocation) >= MINIMUM
        assert invocation["requested_capabilities"]
        assert invocation["start_at"] <= invocation["end_at"]
    assert all(run[key] for key in ("trace_id", "task_id", "run_id"))
    call(terminal, "file.read", path="none")
    _, failed = terminal.json("runs", "show", "last")
    assert failed["steps"][0]["error"]["code"] == "not_found"


@pytest.mark.promise("P-021")
async def test_the_intent_stands_in_the_log_when_the_effect_happens():
    seen = []

    class Looker:
        provider_id = "look"

        async def list_tools(self):
            schema = {"type": "object"}
            return [clawhive_core.ToolMeta("look.now", "Look.", schema, "look", risk="safe")]

        async def invoke(self, tool_name, input, ctx):
            with closing(sqlite3.connect(f"file:{hive.log.path}?mode=ro", uri=True)) as other:
                query = "SELECT kind, tool FROM events WHERE invocation_id = ?"
                seen.extend(other.execute(query, (ctx.invocation_id,)).fetchall())
            return clawhive_core.ToolResult("", "seen")

        async def close(self):
            pass

    async with memory_hive(providers=[Looker()]) as hive:
        await hive.call("look.now", {})
    assert seen == [("invocation.start", "look.now")]


@pytest.mark.promise("P-022")
@pytest.mark.parametrize(
    "statement", ["UPDATE events SET status = 'x'", "DELETE FROM events", "DELETE FROM blobs"]
)
def test_the_log_refuses_changes(terminal, statement):
    terminal.json(*DEMO)
    with closing(sqlite3.connect(".clawhive/hive.db")) as log:
        with pytest.raises(sqlite3.IntegrityError):
            log.execute(statement)
        log.rollback()
    assert terminal.clawhive("audit", "verify")[0] == 0


@pytest.mark.promise("P-025")
def test_a_secret_that_a_tool_was_handed_is_nowhere_in_the_log(terminal, monkeypatch):
    secret = 's3cr3t-"quoted"-0123456789'
    monkeypatch.setenv("API_TOKEN", secret)
    terminal.plugin(
        "keeper",
        """
from clawhive_core import InvokeContext, tool

@tool(effects={"": "secret.use:API_TOKEN"})
def tell(ctx: InvokeContext) -> dict:
    "Tell the secret."
    return {"token": ctx.secret("API_TOKEN"), "in": "Bearer " + ctx.secret("API_TOKEN")}
""",
    )
    assert call(terminal, "keeper.tell")[1]["error"] == "denied"
    code, result = call(terminal, "keeper.tell", "--grant", "secret.use:API_TOKEN")
    assert (code, result["structured"]["token"]) == (0, "[redacted]")
    assert "s3cr3t" not in json.dumps(result)
    folder = terminal.project / ".clawhive"
    stored = b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
    assert b"s3cr3t" not in stored
    assert b"[redacted]" in stored


@pytest.mark.promise("P-029")
async def test_calls_of_a_model_pass_policy_and_their_results_reach_it():
    script = [
        calling("file.read", {"path": "a.txt"}),
        calling("file.read", {"path": "/etc/x"}),
        "Done.",
    ]
    model = ScriptedModel(script, name="script")
    async with memory_hive(adapters=[model], settings={"plugins.enabled": ["builtin"]}) as hive:
        hive.root.joinpath("a.txt").write_text("hello")
        run = await hive.run("Read", model="script:any")
    assert (run["status"], run["output"]) == ("succeeded", "Done.")
    results = [
        block
        for message in model.requests[-1].messages
        for block in message.content
        if isinstance(block, clawhive_core.ToolResult)
    ]
    assert [result.is_error for result in results] == [False, True]
    assert "hello" in results[0].output
    assert results[1].structured["error"] == "denied"
    assert "rule" not in json.dumps(results[1].structured)


@pytest.mark.promise("P-030")
def test_the_loop_ends_after_the_rounds_that_it_was_given(terminal):
    asks = [
        {"tool_calls": [{"name": "file.list", "input": {"path": "." if n % 2 else "./"}}]}
        for n in range(9)
    ]
    terminal.project.joinpath("s.json").write_text(json.dumps(asks))
    code, run = terminal.json("run", "Go", "--model", "scripted:s.json", "--max-tool-rounds", "3")
    assert (code, run["error"]["code"]) == (1, "max_tool_rounds")
    assert sum(step["name"] == "tool.file.list" for step in run["steps"]) == 3


@pytest.mark.promise("P-033")
def test_plugins_and_tools_are_listed_without_importing_them(terminal):
    module = terminal.plugin("quiet", HI)
    module.write_text(f"raise SystemExit('imported')\n{HI}")
    code, value = terminal.json("plugins")
    (quiet,) = [each for each in value["plugins"] if each["id"] == "quiet"]
    assert (code, quiet["status"], quiet["imported"]) == (0, "ok", False)
    code, value = terminal.json("tools", "list")
    assert "quiet.hi" in [tool["name"] for tool in value["tools"]]
    assert terminal.clawhive("--help")[0] == 0


@pytest.mark.promise("P-035")
def test_a_plugin_whose_code_takes_something_else_is_failed(terminal):
    module = terminal.plugin("moved", HI)
    assert call(terminal, "moved.hi")[0] == 0
    module.write_text(HI.replace("hi()", "hi(loud: bool)"))
    code, value = call(terminal, "moved.hi")
    assert code == 1
    assert value.get("is_error", True)
    assert "sync" in json.dumps(value)
    assert terminal.clawhive("plugins", "check", "moved")[0] == 1


@pytest.mark.promise("P-036")
def test_a_tool_that_calls_another_has_no_more_rights_than_its_caller(terminal):
    outside = terminal.project.parent / "notes.txt"
    outside.write_text("hello")
    terminal.plugin(
        "outer",
        """
from clawhive_core import InvokeContext, tool

@tool
async def read(path: str, ctx: InvokeContext) -> dict:
    "Read by another tool."
    return {"answer": await ctx.call("file.read", {"path": path})}
""",
    )
    code, result = call(terminal, "outer.read", path=str(outside))
    assert (code, result["structured"]["answer"]["error"]) == (0, "denied")
    grant = ("--grant", f"fs.read:{outside}")
    _, result = call(terminal, "outer.read", *grant, path=str(outside))
    assert "hello" in json.dumps(result["structured"]["answer"])
    with closing(sqlite3.connect(".clawhive/hive.db")) as log:
        rows = log.execute("SELECT tool, status FROM v_invocations ORDER BY rowid").fetchall()
    assert sorted(rows) == sorted(
        [
            ("outer.read", "succeeded"),
            ("file.read", "refused"),
            ("outer.read", "succeeded"),
            ("file.read", "succeeded"),
        ]
    )


@pytest.mark.promise("P-040")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (DEMO, 0),
        (("tools", "call", "file.read", "--args", '{"path": "/etc/hostname"}'), 1),
        (("tools", "call", "file.read", "--args", '{"path": "none"}'), 1),
        (("run", "Go", "--model", "scripted:none.json"), 1),
        (("run", "Go", "--model", "nobody:x"), 2),
        (("run", "Go"), 2),
        (("run",), 2),
        (("run", *DEMO[1:], "--grant", "fs.read"), 2),
        (("tools", "call", "file.read", "--args", "{"), 2),
        (("none",), 2),
        (("--root", "/no/such/folder", "runs", "list"), 2),
        (("trust",), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_exit_codes_say_what_happened(terminal, words, code):
    assert terminal.clawhive(*words)[0] == code


@pytest.mark.promise("P-041")
def test_an_unknown_task_type_leaves_no_run(terminal):
    code, error = terminal.json("run", "--task", "no_such_task")
    assert (code, error["error"]) == (2, "unknown_task_type")
    assert terminal.json("runs", "list")[1]["runs"] == []


def error_codes():
    kinds = [errors.ClawHiveError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return {kind.code for kind in kinds if kind.__module__ == errors.__name__}


@pytest.mark.promise("P-043")
def test_every_code_can_be_explained(terminal):
    unknown = [
        code
        for code in sorted(error_codes() - {"error"} | set(CODES))
        if terminal.clawhive("explain", code)[0] != 0
    ]
    assert unknown == []


@pytest.mark.promise("P-044")
def test_each_value_says_where_it_came_from(terminal, monkeypatch):
    configure(terminal, "[loop]\nmax_tool_rounds = 7\n")
    monkeypatch.setenv("CLAWHIVE_ROUTING_MODE", "full")
    _, shown = terminal.json("config", "show")
    values = {row["key"]: (row["value"], row["origin"]) for row in shown["values"]}
    assert values["loop.max_tool_rounds"][0] == 7
    assert "config.toml:2" in values["loop.max_tool_rounds"][1]
    assert values["routing.mode"][0] == "full"
    assert "CLAWHIVE_ROUTING_MODE" in values["routing.mode"][1]
    assert values["sandbox.workspace"][1] == "default"


@pytest.mark.promise("P-049")
def test_every_public_name_can_be_imported():
    for name in clawhive_core.__all__:
        assert getattr(clawhive_core, name) is not None
    with pytest.raises(AttributeError):
        _ = clawhive_core.no_such_name


@pytest.mark.promise("P-049")
def test_importing_the_package_imports_nothing_heavy():
    heavy = ("asyncio", "importlib.metadata", "pydantic", "yaml", "jsonschema_rs", "rich", "anyio")
    code = f"import sys, clawhive_core; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == "[]\n"
