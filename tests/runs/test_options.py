"""What a caller's own code may say of a run, and the answer to everything else."""

import dataclasses
from pathlib import Path

import pytest

from clawhive_core.errors import UsageError
from clawhive_core.runs.options import RunKeywords, RunOptions
from clawhive_core.testing import ScriptedModel, memory_hive


@pytest.mark.promise("P-253")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("approve", "nein"),
        ("approve", ["park"]),
        ("approve", None),
        ("max_tool_rounds", -1),
        ("max_tool_rounds", 0),
        ("max_tool_rounds", True),
        ("max_tool_rounds", "3"),
        ("grants", "model.call:scripted/**"),
        ("grants", None),
        ("grants", [1]),
        ("skills", "code"),
        ("words", "some words"),
        ("model", 5),
        ("session", b"s"),
        ("planner", 1),
        ("agent", ["helper"]),
        ("out", 3),
        ("title", None),
        ("command", 1),
        ("on_signal", None),
        ("on_start", "x"),
        ("ask", "me"),
    ],
)
async def test_an_option_of_another_kind_is_refused_by_its_name(name, value):
    async with memory_hive(adapters=[ScriptedModel(["hello"])]) as hive:
        with pytest.raises(UsageError) as refused:
            await hive.run("go", **{"model": "scripted:test", name: value})
        assert (refused.value.code, refused.value.place) == ("usage", name)
        assert refused.value.fix.startswith("give ")
        assert hive.log.read("SELECT count(*) FROM runs")[0][0] == 0


@pytest.mark.promise("P-253")
async def test_a_prompt_and_an_input_of_another_kind_are_refused():
    async with memory_hive(adapters=[ScriptedModel(["hello"])]) as hive:
        with pytest.raises(UsageError, match="prompt cannot be of type `int`") as refused:
            await hive.run(5, model="scripted:test")
        assert refused.value.place == "prompt"
        with pytest.raises(UsageError, match="input cannot be of type `list`") as refused:
            await hive.run(task="run_code_snippet", input=["x"])
        assert refused.value.place == "input"


def test_options_take_what_they_are_for():
    given = RunOptions(
        grants=["a"], skills=("b",), words=None, out=Path(), max_tool_rounds=1, approve="ask"
    )
    assert given.max_tool_rounds == 1
    assert RunOptions(out="folder").out == "folder"
    assert len(RunOptions.__dataclass_fields__) > 10


def test_a_long_value_is_cut_in_the_error():
    with pytest.raises(UsageError) as refused:
        RunOptions(grants="x" * 10_000)
    assert len(refused.value.message) < 200


def test_every_option_is_a_keyword_of_a_run_of_the_same_type():
    fields = {each.name: each.type for each in dataclasses.fields(RunOptions)}
    kinds = {name: each.__forward_arg__ for name, each in RunKeywords.__annotations__.items()}
    assert kinds == fields
