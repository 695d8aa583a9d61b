import json
import os
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import ClassVar

import anyio
import pytest

from clawhive_core.errors import SandboxUnavailable, ToolError
from clawhive_core.execution.sandbox.broker import SandboxBroker, SandboxProvider, in_order
from clawhive_core.execution.sandbox.directory import SandboxDirectory
from clawhive_core.protocols.sandbox import SandboxLimits, SandboxOutcome, SandboxSpec, Unsupported

COMMANDS = ("python -c", "node -e")


@dataclass
class Call:
    """What the broker uses of an InvokeContext."""

    artifacts: str
    conversation_id: str = "conv_1"
    tool_call_id: str = "call_1"
    seconds: float = 30.0
    heard: list = field(default_factory=list)

    def remaining(self):
        return self.seconds

    def output(self, stream, data):
        self.heard.append((stream, data))


class Engine:
    """An engine whose programs are Python functions of the command."""

    version = "1.0"
    isolation = "guest"
    deterministic = True
    aliases: ClassVar = {"py": "python", "python3": "python", "js": "node", "javascript": "node"}

    def __init__(self, program=None, name="fake", programs=("python -c",), problem=None):
        self.name, self.programs = name, frozenset(programs)
        self.program, self.problem = program, problem
        self.ran, self.closed, self.opened = [], False, 0

    def unsupported(self, command):
        return self.problem

    async def open(self, spec):
        self.opened += 1
        return Instance(self, spec)

    async def run(self, spec, command, output):
        facts = {name: getattr(command, name) for name in ("argv", "script", "stdin", "program")}
        command = SimpleNamespace(directory=spec.directory, limits=spec.limits, **facts)
        self.ran.append(command)
        await anyio.lowlevel.checkpoint()
        answer = self.program(command) if self.program else SandboxOutcome(0, b"hi\n", b"")
        output("stdout", answer.stdout)
        return answer

    async def close(self):
        self.closed = True


@dataclass
class Instance:
    engine: Engine
    spec: SandboxSpec

    async def run(self, command, output):
        return await self.engine.run(self.spec, command, output)

    async def close(self):
        self.engine.opened -= 1


@pytest.fixture
def box(tmp_path):
    (tmp_path / "artifacts").mkdir()

    class Box:
        root = tmp_path / "sandbox_workspace"
        directory = root / "conv_1"
        artifacts = tmp_path / "artifacts"
        call = Call(str(tmp_path / "artifacts"))

        def __init__(self):
            self.engines = [Engine()]
            self.limits = SandboxLimits()

        def provider(self):
            broker = SandboxBroker(lambda: self.engines, COMMANDS, self.limits, self.root)
            return SandboxProvider(broker)

        async def do(self, tool, **input):
            provider = self.provider()
            meta = {one.name: one for one in await provider.list_tools()}[f"sandbox.{tool}"]
            check(meta.input_schema, input)
            result = await provider.invoke(meta.name, input, self.call)
            if not result.is_error:
                check(meta.output_schema, result.structured)
            return result

        async def run(self, program=None, **input):
            if program is not None:
                self.engines = [Engine(program)]
            return await self.do("exec", command=["python", "-c", "..."], **input)

    return Box()


def check(schema, value):
    from jsonschema_rs import validator_for

    validator_for(schema).validate(value)


async def refused(code, awaitable):
    with pytest.raises(ToolError) as caught:
        await awaitable
    assert caught.value.code == code, caught.value
    assert caught.value.fix
    return caught.value


async def test_a_program_runs_in_its_sessions_private_directory(box):
    result = await box.run()
    (command,) = box.engines[0].ran
    assert command.argv == ("python", "-c", "...")
    assert command.directory == str(box.directory)
    assert box.directory.stat().st_mode & 0o777 == 0o700
    assert (box.root / ".gitignore").read_text(encoding="utf-8") == "*\n"
    assert (result.output, result.is_error) == ("hi", False)
    assert result.structured == {
        "exit_code": 0,
        "stdout": "hi\n",
        "stderr": "",
        "killed_by": None,
        "truncated": [],
        "engine": "fake",
        "engine_version": "1.0",
        "isolation": "guest",
        "passed_over": [],
        "duration_ms": 0,
    }
    assert box.call.heard == [("stdout", b"hi\n")]


async def test_sessions_never_share_a_directory_whatever_their_ids(box):
    ids = ["a", "A.b", "..", "../a", ".state", "a/b", "x" * 300, "é", ""]
    paths = {SandboxDirectory(box.root, one).path for one in ids}
    assert len(paths) == len(ids)
    assert {path.rsplit("/", 1)[0] for path in paths} == {str(box.root)}
    assert str(box.root / ".state") not in paths


async def test_a_failing_program_is_an_error_result_with_a_code_and_its_last_words(box):
    result = await box.run(lambda _: SandboxOutcome(1, b"part\n", b"Traceback\nValueError: no\n"))
    assert result.is_error
    assert result.structured["error"]["code"] == "program_failed"
    assert result.structured["error"]["message"].endswith("exit code 1: ValueError: no")
    assert result.output.startswith("part\n[stderr]\nTraceback")


async def test_a_program_that_meets_a_limit_is_an_error_result_that_names_it(box):
    outcome = SandboxOutcome(None, b"x", b"", killed_by="wall", truncated=("wall",))
    result = await box.run(lambda _: outcome, timeout_ms=100)
    assert result.is_error
    assert result.structured["error"]["code"] == "limit_reached"
    assert result.structured["error"]["message"].endswith("longer than 100 ms")
    assert result.structured["truncated"] == ["wall"]


async def test_output_that_is_not_utf_8_is_replaced_and_huge_output_is_cut_and_flagged(box):
    result = await box.run(lambda _: SandboxOutcome(0, b"\xff", b"\0" * (1 << 20)))
    assert result.structured["stdout"] == "\ufffd"
    assert result.structured["truncated"] == ["stderr"]
    assert len(json.dumps(result.structured)) < 4 << 20
    assert (await box.do("collect_outputs")).artifacts[1].bytes == 1 << 20


async def test_output_of_plain_text_is_shown_whole_far_beyond_what_escaped_text_may_take(box):
    said = b"line of plain text\n" * 100_000
    result = await box.run(lambda _: SandboxOutcome(0, said, b"\0" * (1 << 18)))
    assert result.structured["stdout"] == said.decode()
    assert result.structured["stderr"] == "\0" * (1 << 18)
    assert result.structured["truncated"] == []


@pytest.mark.parametrize("name", ["py", "python3", "python"])
async def test_other_names_of_a_program_mean_the_same(box, name):
    await box.do("exec", command=[name, "-c", "1"])
    assert box.engines[0].ran[0].program == "python"


@pytest.mark.parametrize("name", ["js", "javascript", "node"])
async def test_javascript_goes_to_the_engine_that_runs_node(box, name):
    box.engines = [Engine(), Engine(name="qjs", programs=("node -e",))]
    result = await box.do("exec", command=[name, "-e", "1"])
    assert result.structured["engine"] == "qjs"


@pytest.mark.parametrize(
    "command",
    [["bash", "-c", "id"], ["python", "x.py"], ["python"], ["/usr/bin/python", "-c", "1"], [""]],
)
async def test_commands_that_are_not_listed_are_refused_with_the_line_that_lists_them(box, command):
    error = await refused("command_not_allowed", box.do("exec", command=command))
    assert '[sandbox] commands = ["python -c", "node -e", ' in error.fix
    assert box.engines[0].ran == []


async def test_a_command_of_the_shell_runs_in_an_engine_that_has_a_shell_or_not_at_all(box):
    box.engines = [Engine(), Engine(name="jail", programs=("sh -c",))]
    call = ("shell.exec", {"command": "ls | head"}, box.call)
    done = await box.provider().invoke(*call)
    assert done.structured["engine"] == "jail"
    assert box.engines[1].ran[0].argv == ("sh", "-c", "ls | head")
    await refused("command_not_allowed", box.do("exec", command=["sh", "-c", "ls"]))
    box.engines = [Engine()]
    error = await refused("sandbox_unavailable", box.provider().invoke(*call))
    assert "[sandbox]" in error.fix
    assert box.engines[0].ran == []


async def test_a_command_without_code_is_refused(box):
    error = await refused("invalid_input", box.do("exec", command=["python", "-c"]))
    assert error.place == "/command/2"


async def test_the_first_engine_that_can_runs_the_program(box):
    box.engines = [Engine(problem=Unsupported(3, 5, "`yield` (generators)")), Engine(name="full")]
    result = await box.run()
    assert result.structured["engine"] == "full"
    assert box.engines[0].ran == []


async def test_the_result_says_which_engines_were_passed_over_and_why(box):
    box.engines = [Engine(name="small", problem=Unsupported(3, 5, "`yield`")), Engine(name="large")]
    result = await box.run()
    assert result.structured["engine"] == "large"
    assert result.structured["passed_over"] == [
        {"engine": "small", "reason": "line 3: the engine `small` cannot run `yield`"}
    ]


async def test_an_engine_that_isolates_less_than_the_minimum_runs_nothing(box):
    weak = Engine(name="weak")
    weak.isolation = "landlock"
    box.engines = [weak]
    error = await refused("sandbox_unavailable", box.run())
    assert (weak.ran, weak.opened) == ([], 0)
    assert "`sandbox.minimum` is `jail`" in error.message
    assert 'minimum = "landlock"' in error.fix
    box.engines = [weak, Engine(name="strong")]
    assert (await box.run()).structured["engine"] == "strong"


def test_engines_that_the_order_names_come_first_and_the_others_as_they_are():
    engines = [Engine(name=name) for name in ("a", "b", "c", "d")]
    assert [each.name for each in in_order(engines, ["d", "nobody", "b"])] == ["d", "b", "a", "c"]


async def test_a_program_that_no_engine_can_run_is_refused_with_line_and_engine(box):
    box.engines = [Engine(problem=Unsupported(3, 5, "`yield` (generators)"))]
    error = await refused("sandbox_unavailable", box.run(script="job.py"))
    assert error.message == "line 3: the engine `fake` cannot run `yield` (generators)"
    assert error.place == "job.py:3:5"
    assert error.data == {"line": 3, "column": 5, "engine": "fake", "wants": "python"}
    assert "an engine that runs all of python" in error.fix
    assert box.engines[0].ran == []


async def test_a_program_without_any_engine_is_refused(box):
    error = await refused("sandbox_unavailable", box.do("exec", command=["node", "-e", "1"]))
    assert error.message == "no installed sandbox engine runs `node -e`"
    assert "no engine here runs node: write it in python" in error.fix
    assert error.data == {"wants": "node"}


async def test_where_no_plugin_brings_an_engine_the_shipped_one_is_named(box):
    box.engines = []
    error = await refused("sandbox_unavailable", box.run(script="job.py"))
    assert error.fix == "enable the plugin `builtin`, or another one that brings a sandbox engine"


async def test_an_engine_that_cannot_start_gives_way_to_the_next(box):
    def broken(command):
        raise SandboxUnavailable("no worker", fix="install it")

    box.engines = [Engine(broken), Engine(name="next")]
    assert (await box.run()).structured["engine"] == "next"
    box.engines = [Engine(broken)]
    error = await refused("sandbox_unavailable", box.run())
    assert error.fix == "install it"


async def test_a_timeout_only_lowers_the_limit_and_the_deadline_of_the_call_counts(box):
    for asked, left, expected in ((100, 30, 100), (60_000, 30, 5_000), (60_000, 2, 1_250)):
        box.call.seconds = left
        await box.run(timeout_ms=asked)
        assert box.engines[0].ran[-1].limits.wall_ms == expected
    box.call.seconds = 0
    await box.run()
    assert box.engines[0].ran[-1].limits.wall_ms == 1


async def test_a_full_session_directory_leaves_no_room_to_write(box):
    box.limits = SandboxLimits(files=2, file_bytes=10)
    box.directory.mkdir(parents=True)
    for number in range(15):
        (box.directory / str(number)).write_bytes(b"12345")
    await box.run()
    limits = box.engines[0].ran[0].limits
    assert (limits.files, limits.file_bytes) == (1, 5)


async def test_files_are_written_below_the_sessions_directory(box):
    result = await box.do("write_files", files={"a.txt": "hällo", "d/e/b.txt": ""})
    assert result.structured == {"files": ["a.txt", "d/e/b.txt"], "bytes": 6}
    assert (box.directory / "a.txt").read_text(encoding="utf-8") == "hällo"
    assert (box.directory / "d/e/b.txt").exists()
    await box.do("write_files", files={"c.txt": "c"})
    assert (box.directory / "a.txt").exists()


@pytest.mark.parametrize(
    "path",
    ["../x", "/etc/x", "a/../../x", "", ".", "a//b", "a/", "a\0b", "x" * 1025, "a/" * 70 + "b"],
)
async def test_paths_out_of_the_directory_are_refused_and_nothing_is_written(box, path):
    await refused("invalid_input", box.do("write_files", files={"good": "x", path: "x"}))
    assert not box.directory.exists() or list(box.directory.iterdir()) == []


async def test_a_name_cannot_be_a_file_and_a_folder(box):
    await refused("invalid_input", box.do("write_files", files={"a": "1", "b": "2", "a/b": "3"}))
    await box.do("write_files", files={"a": "1"})
    await refused("invalid_input", box.do("write_files", files={"z": "1", "a/b": "3"}))
    await box.do("write_files", files={"d/x": "1"})
    await refused("invalid_input", box.do("write_files", files={"z": "1", "d": "3"}))
    assert sorted(path.name for path in box.directory.iterdir()) == ["a", "d"]


async def test_too_many_or_too_large_files_are_refused_before_any_is_written(box):
    box.limits = SandboxLimits(files=2, file_bytes=10)
    await refused("too_large", box.do("write_files", files={"a": "", "b": "", "c": ""}))
    await refused("too_large", box.do("write_files", files={"a": "x" * 11}))
    assert not box.directory.exists()


async def test_a_link_planted_in_the_directory_is_never_written_through(box, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("old", encoding="utf-8")
    box.directory.mkdir(parents=True)
    (box.directory / "folder").symlink_to(outside)
    (box.directory / "file").symlink_to(outside / "f")
    await refused("denied", box.do("write_files", files={"a": "x", "folder/new": "x"}))
    await refused("denied", box.do("write_files", files={"a": "x", "file": "x"}))
    assert [path.name for path in outside.iterdir()] == ["f"]
    assert (outside / "f").read_text(encoding="utf-8") == "old"
    assert not (box.directory / "a").exists()


@pytest.mark.parametrize("name", ["sandbox_workspace", "sandbox_workspace/conv_1"])
async def test_a_link_in_place_of_the_directory_itself_is_refused(box, tmp_path, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    link = tmp_path / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside)
    await refused("denied", box.run())
    await refused("denied", box.do("write_files", files={"a": "x"}))
    await refused("denied", box.do("collect_outputs"))
    assert list(outside.iterdir()) == []


async def test_a_full_disk_leaves_no_half_written_files(box, monkeypatch):
    await box.do("write_files", files={"a": "old"})
    real, count = os.write, [0]

    def full(handle, data):
        count[0] += 1
        if count[0] > 1:
            raise OSError(28, "No space left on device")
        return real(handle, data)

    monkeypatch.setattr(os, "write", full)
    error = await refused("io_error", box.do("write_files", files={"a": "new", "b": "new"}))
    assert "No space left" in error.message
    assert [path.name for path in box.directory.iterdir()] == ["a"]
    assert (box.directory / "a").read_text(encoding="utf-8") == "old"


async def test_outputs_are_what_is_new_or_changed_since_files_were_written(box):
    def program(command):
        folder = box.directory
        (folder / "out").mkdir()
        (folder / "out" / "chart.csv").write_text("1,2", encoding="utf-8")
        (folder / "changed").write_text("xyz", encoding="utf-8")
        return SandboxOutcome(0, b"printed\n", b"warned\n")

    await box.do("write_files", files={"input": "abc", "changed": "abc"})
    await box.run(program)
    result = await box.do("collect_outputs")
    assert [(one.path, one.media_type) for one in result.artifacts] == [
        ("stdout.txt", "text/plain"),
        ("stderr.txt", "text/plain"),
        ("changed", "application/octet-stream"),
        ("out/chart.csv", "text/csv"),
    ]
    assert (box.artifacts / "out/chart.csv").read_text(encoding="utf-8") == "1,2"
    assert (box.artifacts / "stdout.txt").read_bytes() == b"printed\n"
    assert result.structured["stdout"] == "printed\n"
    assert result.structured["skipped"] == []
    assert result.structured["files"] == [one.to_dict() for one in result.artifacts]


async def test_outputs_leave_out_what_git_and_other_tools_would_act_upon(box):
    names = [".git/config", "bare/HEAD", ".vscode/tasks.json", ".npmrc", "clawhive.toml"]

    def program(command):
        for name in (*names, "plain.txt"):
            (box.directory / name).parent.mkdir(exist_ok=True)
            (box.directory / name).write_text("x", encoding="utf-8")
        return SandboxOutcome(0, b"", b"")

    await box.run(program)
    result = await box.do("collect_outputs")
    assert sorted(each["path"] for each in result.structured["skipped"]) == sorted(names)
    assert "plain.txt" in [one.path for one in result.artifacts]
    assert not [name for name in names if (box.artifacts / name).exists()]


async def test_outputs_can_be_collected_by_another_process_and_again(box):
    await box.run(lambda c: SandboxOutcome(1, b"out", b"err"))
    first = await box.do("collect_outputs")  # each `do` has a broker of its own
    assert [one.path for one in first.artifacts] == ["stdout.txt", "stderr.txt"]
    assert await box.do("collect_outputs") == first


async def test_output_of_an_earlier_program_is_never_taken_for_a_later_ones(box):
    await box.run()
    await box.do("write_files", files={})
    assert (await box.do("collect_outputs")).artifacts == ()
    await box.run()
    box.engines = [Engine(problem=Unsupported(1, 1, "anything"))]
    await refused("sandbox_unavailable", box.run())
    assert (await box.do("collect_outputs")).structured["stdout"] == ""


async def test_links_pipes_and_odd_names_are_named_and_left_out(box, tmp_path):
    (tmp_path / "secret").write_text("SECRET", encoding="utf-8")

    def program(command):
        (box.directory / "good").write_text("g", encoding="utf-8")
        (box.directory / "link").symlink_to(tmp_path / "secret")
        (box.directory / "folder").symlink_to(tmp_path)
        os.mkfifo(box.directory / "pipe")
        (box.directory / os.fsdecode(b"odd\xff")).write_text("o", encoding="utf-8")
        return SandboxOutcome(0, b"", b"")

    await box.run(program)
    result = await box.do("collect_outputs")
    assert [one.path for one in result.artifacts] == ["stdout.txt", "stderr.txt", "good"]
    assert result.structured["skipped"] == [
        {"path": "folder", "reason": "a link"},
        {"path": "link", "reason": "a link"},
        {"path": "odd\\udcff", "reason": "its name is not UTF-8"},
        {"path": "pipe", "reason": "no regular file"},
    ]
    assert sorted(path.name for path in box.artifacts.iterdir()) == [
        "good",
        "stderr.txt",
        "stdout.txt",
    ]


async def test_a_file_named_like_the_output_does_not_hide_it(box):
    def program(command):
        for name in ("stdout.txt", "stdout-2.txt"):
            (box.directory / name).write_text(name, encoding="utf-8")
        return SandboxOutcome(0, b"real", b"")

    await box.run(program)
    await box.do("collect_outputs")
    assert (box.artifacts / "stdout.txt").read_bytes() == b"real"
    assert (box.artifacts / "stdout-2.txt").read_bytes() == b"stdout-2.txt"
    assert (box.artifacts / "stdout-3.txt").read_bytes() == b"stdout.txt"


async def test_outputs_beyond_the_limits_are_named_and_left_out(box):
    box.limits = SandboxLimits(files=2, file_bytes=10)

    def program(command):
        for name, size in (("a", 4), ("b", 40), ("c", 4), ("d", 1)):
            (box.directory / name).write_bytes(b"x" * size)
        return SandboxOutcome(0, b"", b"")

    await box.run(program)
    result = await box.do("collect_outputs")
    assert [one.path for one in result.artifacts][2:] == ["a", "c"]
    assert result.structured["skipped"] == [
        {"path": "b", "reason": "more than 10 bytes in all"},
        {"path": "d", "reason": "more than 2 files"},
    ]


async def test_a_link_planted_in_the_artifacts_folder_is_never_written_through(box, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("old", encoding="utf-8")
    (box.artifacts / "stdout.txt").symlink_to(outside)
    await box.run()
    await refused("io_error", box.do("collect_outputs"))
    assert outside.read_text(encoding="utf-8") == "old"


async def test_one_session_runs_one_program_at_a_time(box):
    running, most = [0], [0]

    class Slow(Engine):
        async def run(self, spec, command, output):
            running[0] += 1
            most[0] = max(most[0], running[0])
            await anyio.lowlevel.checkpoint()
            running[0] -= 1
            return SandboxOutcome(0, b"", b"")

    box.engines = [Slow()]
    provider = box.provider()
    command = {"command": ["python", "-c", "1"]}
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(provider.invoke, "sandbox.exec", command, box.call)
    assert most == [1]


async def test_closing_closes_every_engine(box):
    await box.provider().close()
    assert box.engines[0].closed


async def test_the_contracts_are_complete_and_their_schemas_valid(box):
    box.limits = SandboxLimits(wall_ms=60_000)
    tools = await box.provider().list_tools()
    assert [(one.name, one.capability_level, one.risk) for one in tools] == [
        ("sandbox.write_files", "L1", "safe"),
        ("sandbox.exec", "L2", "safe"),
        ("sandbox.run_python", "L2", "safe"),
        ("sandbox.run_javascript", "L2", "safe"),
        ("shell.exec", "L2", "unsafe"),
        ("sandbox.open", "L2", "safe"),
        ("sandbox.eval", "L2", "safe"),
        ("sandbox.close", "L0", "safe"),
        ("sandbox.collect_outputs", "L0", "safe"),
    ]
    assert all(one.provider_id == "sandbox" and one.description and one.keywords for one in tools)
    assert tools[1].timeout_ms == 240_000
    for one in tools:
        for example in one.examples:
            check(one.input_schema, example)


async def test_a_program_and_its_files_are_what_a_call_must_give(box):
    tools = {one.name: one.input_schema for one in await box.provider().list_tools()}
    required = {name: schema.get("required", []) for name, schema in tools.items()}
    assert required == {
        "sandbox.write_files": ["files"],
        "sandbox.exec": ["command"],
        "sandbox.run_python": ["code"],
        "sandbox.run_javascript": ["code"],
        "shell.exec": ["command"],
        "sandbox.open": ["language"],
        "sandbox.eval": ["sandbox", "code"],
        "sandbox.close": ["sandbox"],
        "sandbox.collect_outputs": [],
    }


async def test_an_unknown_tool_is_refused(box):
    with pytest.raises(ToolError) as caught:
        await box.provider().invoke("sandbox.fly", {}, box.call)
    assert caught.value.code == "tool_not_found"
