"""The command in a refusal of a run that goes on: it is run here, and it works."""

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.cli.inputs import read_inputs, spelled
from clawhive_core.runs.options import RunOptions
from clawhive_core.testing import ScriptedModel, calling, memory_hive

MANIFEST = """
id: keeper
version: 1.0.0
permissions: ["fs.read:/**", "fs.write:${workspace}/**"]
tasks:
  job:
    input_schema:
      type: object
      properties: {note: {type: string}, count: {type: integer}, outside: {type: string}}
    steps:
      - {name: keep, tool: bad.keep, input: {path: a.md}}
      - {name: look, tool: file.read, input: {path: "${input.outside}"}}
    output: "${steps.look.output.text}"
"""


@pytest.fixture
def outside(clawhive, bad_tools):
    folder = clawhive.root / "skills"
    folder.mkdir()
    folder.joinpath("keeper.yaml").write_text(MANIFEST)
    path = clawhive.home / "it's outside.txt"
    path.write_text("found\n", "utf-8")
    return path


def approved(clawhive, *more):
    assert clawhive("approvals", "approve", "last").code == 0
    return clawhive("runs", "resume", "last", *more)


def reading(run):
    return next(step for step in run["steps"] if step["name"] == "tool.file.read")


def fix_of(done):
    return next(line for line in done.err.splitlines() if "fix: " in line).partition("fix: ")[2]


@pytest.mark.promise("P-258")
def test_the_command_of_a_refusal_after_a_resume_starts_the_task_again_with_the_right(
    clawhive, outside
):
    given = ("--input", 'note=@@it\'s "quoted"', "--input", "count=3")
    words = ("run", "--task", "job", *given, "--input", f"outside={outside}")
    assert clawhive(*words, "--max-tool-rounds", "7").code == 3
    refused = approved(clawhive)
    assert refused.code == 1
    command = shlex.split(fix_of(refused))
    assert command[0] == "clawhive"
    assert command[-2:] == ["--grant", f"fs.read:{outside}"]
    assert clawhive(*command[1:]).code == 3
    done = approved(clawhive)
    assert (done.code, done.out) == (0, "found\n")
    assert 'note=@@it\'s "quoted"' in command
    assert command[command.index("--max-tool-rounds") + 1] == "7"


@pytest.mark.promise("P-258")
def test_it_repeats_what_a_prompt_was_started_with(clawhive, outside):
    calls = [{"name": "bad.keep", "input": {"path": "a.md"}}]
    reads = [{"name": "file.read", "input": {"path": str(outside)}}]
    script = clawhive.root / "my script.json"
    script.write_text(json.dumps([{"tool_calls": calls}, {"tool_calls": reads}, "Done."]))
    prompt, model = "-say 'it'; rm $HOME\n\"now\"", f"scripted:{script}"
    given = ("--model", model, "--skill", "code", "--out", str(clawhive.root / "my out"))
    clawhive("run", *given, "--session", "mine", "--grant", "fs.read:/srv/a", "--", prompt)
    refused = reading(approved(clawhive, "--json").json)
    command = shlex.split(refused["error"]["next"]["command"])
    assert command[:3] == ["clawhive", "run", f" {prompt}"]
    for words in (given, ("--grant", "fs.read:/srv/a"), ("--grant", f"fs.read:{outside}")):
        assert " ".join(words) in " ".join(command)
    assert clawhive(*command[1:]).code == 3
    assert approved(clawhive).out == "Done.\n"
    assert reading(clawhive("runs", "show", "last", "--json").json)["status"] == "succeeded"


def test_a_long_input_or_a_secret_in_it_gives_a_hint_instead(clawhive, outside):
    for note in ("x" * 9000, "sk-ant-api03-" + "a1B2" * 24):
        words = ("--input", f"outside={outside}", "--input", f"note={note}")
        assert clawhive("run", "--task", "job", *words).code == 3
        hint = fix_of(approved(clawhive))
        assert hint.startswith("start it again with --grant ")


def test_a_replay_is_repeated_by_the_id_of_what_it_repeats(clawhive, outside):
    words = ("run", "--task", "job", "--input", f"outside={outside}")
    assert clawhive(*words, "--grant", f"fs.write:{clawhive.root}/a.md").code == 1
    run_id = clawhive("runs", "show", "last", "--json").json["run_id"]
    refused = clawhive("runs", "replay", "last", "--mode", "tools")
    command = shlex.split(fix_of(refused))
    assert command[:5] == ["clawhive", "runs", "replay", run_id, "--mode"]
    clawhive(*command[1:])
    assert clawhive("runs", "show", "last", "--json").json["output"] == "found\n"


SCHEMAS = {
    "text": {"type": "string"},
    "any": {},
    "list": {"type": "array"},
    "n": {"type": "integer"},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    st.lists,
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(SCHEMAS)) | st.text(max_size=3), JSON | st.text()))
def test_what_an_input_is_spelled_as_is_read_as_that_input(value):
    schema = {"type": "object", "properties": SCHEMAS}
    words = spelled(value, schema)
    assert words is None or read_inputs(words, schema) == value


@pytest.mark.promise("P-259")
async def test_a_program_is_told_what_it_gives_its_run():
    read = calling("file.read", {"path": "/etc/hostname"})
    settings = {"plugins.enabled": ["builtin"]}
    async with memory_hive(
        adapters=[ScriptedModel([read, "Done."] * 2)], settings=settings
    ) as hive:
        run = await hive.run("go", model="scripted:x")
        told = run["steps"][0]["error"]["next"]
        assert "command" not in told
        assert f"grants={told['capabilities']}" in told["hint"]
        allowed = RunOptions(model="scripted:x", grants=told["capabilities"])
        run = await hive.run("go", options=allowed)
    assert run["steps"][0]["status"] == "succeeded"
