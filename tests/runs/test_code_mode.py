"""`--planner code`: a model's programs call tools as functions, each call decided by itself."""

import pytest

from clawhive_builtin.monty import MontyEngine
from clawhive_core.errors import ToolError
from clawhive_core.execution.sandbox.program import as_program, function_names, source_of
from clawhive_core.model.tools import ToolDef, ToolMeta
from clawhive_core.testing import ScriptedModel, calling, memory_hive

MODEL = "scripted:test"
SCHEMA = {
    "type": "object",
    "required": ["n"],
    "properties": {"by": {"type": "integer"}, "n": {"type": "integer"}},
    "additionalProperties": False,
}
ANSWER = {"type": "object", "properties": {"n": {"type": "integer"}}}


def program(code):
    return calling("run_program", {"code": code})


def result(model):
    return model.requests[-1].messages[-1].content[0]


@pytest.fixture
def counting(tools):
    def count(given, ctx):
        return {"n": given["n"] + given.get("by", 1)}

    return tools.add("test.count", count, input_schema=SCHEMA, output_schema=ANSWER)


@pytest.fixture
def opened():
    def make(tools, *script, **options):
        model = ScriptedModel(list(script))
        parts = {"providers": [tools], "adapters": [model], "sandboxes": [MontyEngine()]}
        return model, memory_hive(**parts, **options)

    return make


MANY = """\
async def main():
    n = 0
    for _ in range(30):
        n = (await test_count(n))["n"]
    print("counted")
    return await test_count(n=n, by=10)
"""


async def test_a_program_calls_tools_and_only_its_value_and_what_it_prints_go_back(
    counting, opened
):
    model, opening = opened(counting, program(MANY), "Forty.")
    async with opening as hive:
        run = await hive.run("count", model=MODEL, planner="code")
        assert (run["status"], run["output"]) == ("succeeded", "Forty.")
        assert hive.records.invocations(run_id=run["run_id"], tool="test.count").total == 31
        assert (await hive.replay("last")).ok
    assert result(model).output == 'counted\n{"n": 40}'
    assert result(model).structured["engine"] == "monty"
    assert len(model.requests) == 2


async def test_the_model_sees_tools_as_typed_functions_and_no_definitions_of_them(counting, opened):
    model, opening = opened(counting, "Nothing to do.")
    async with opening as hive:
        await hive.run("go", model=MODEL, planner="code")
    (shown,) = (tool for tool in model.requests[0].tools if tool.name == "run_program")
    stub = 'async def test_count(n: int, by: int = ...) -> {"n": int}: ...  # The tool test.count.'
    assert stub in shown.description
    assert all("." not in tool.name for tool in model.requests[0].tools)


async def test_other_loops_are_not_offered_the_tool(counting, opened):
    model, opening = opened(counting, "Nothing to do.")
    async with opening as hive:
        await hive.run("go", model=MODEL)
    assert "run_program" not in [tool.name for tool in model.requests[0].tools]
    assert "test.count" in [tool.name for tool in model.requests[0].tools]


async def test_a_refused_call_raises_in_the_program_and_the_others_stand(counting, opened):
    counting.add("test.write", lambda given, ctx: "written", effects={"path": "fs.write"})
    code = (
        "async def main():\n"
        "    try:\n"
        "        await test_write(path='/etc/x')\n"
        "    except RuntimeError as error:\n"
        "        return [str(error)[:7], await test_count(n=1)]\n"
    )
    model, opening = opened(counting, program(code), "Refused.")
    async with opening as hive:
        await hive.run("go", model=MODEL, planner="code")
    assert result(model).structured["value"] == ["denied:", {"n": 2}]
    assert [name for name, _ in counting.calls] == ["test.count"]


async def test_a_call_that_a_person_must_answer_parks_the_program_which_goes_on_afterwards(
    counting, opened
):
    counting.add("test.keep", lambda given, ctx: {"kept": True}, risk="guarded")
    code = (
        "async def main():\n"
        "    one = await test_count(n=1)\n"
        "    kept = await test_keep(n=one['n'])\n"
        "    return [one, kept, await test_count(n=5)]\n"
    )
    model, opening = opened(counting, program(code), "Kept.")
    async with opening as hive:
        parked = await hive.run("go", model=MODEL, planner="code", approve="park")
        assert parked["status"] == "waiting_approval"
        assert [name for name, _ in counting.calls] == ["test.count"]
        hive.approvals.resolve("last", "approve", by="user:ana")
        run = await hive.resume(parked["run_id"])
        assert (run["status"], run["output"]) == ("succeeded", "Kept.")
        assert (await hive.replay("last")).ok
    assert result(model).structured["value"] == [{"n": 2}, {"kept": True}, {"n": 6}]
    assert [name for name, _ in counting.calls] == ["test.count", "test.keep", "test.count"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("async def main(:\n    pass", "program.py:1:"),
        ("x = 1", "defines no `main`"),
        ("async def main():\n    return 1 / 0", "program.py:2:"),
        ("async def main():\n    return test_count", "JSON"),
        ("async def main():\n    return await test_count(m=1)", "test_count"),
        ("def g():\n    yield 1\nasync def main():\n    return list(g())", "line 2"),
        ("async def main():\n    open('/etc/passwd')", "program.py:2:"),
        ("async def main():\n    return await test_count(n='a')", "invalid_input"),
    ],
)
async def test_what_is_wrong_with_a_program_goes_back_to_the_model(counting, opened, code, said):
    model, opening = opened(counting, program(code), "No.")
    async with opening as hive:
        run = await hive.run("go", model=MODEL, planner="code")
    assert run["status"] == "succeeded"
    assert result(model).is_error
    assert said in result(model).output
    assert counting.calls == []


async def test_a_program_makes_no_more_calls_than_configured(counting, opened):
    code = "async def main():\n    for n in range(9):\n        await test_count(n=n)\n"
    settings = {"sandbox.tool_calls": 3}
    model, opening = opened(counting, program(code), "Stopped.", settings=settings)
    async with opening as hive:
        await hive.run("go", model=MODEL, planner="code")
    assert len(counting.calls) == 3
    assert "limit_reached" in result(model).output or "more than 3" in result(model).output


def test_function_names_are_python_and_different_for_every_tool():
    names = ["a.b", "a_b.c", "a.b_c", "class", "import.x", "print", "x-y.z", "9.lives", "web.list"]
    table = function_names(names)
    assert sorted(table.values()) == sorted(names)
    assert all(plain.isidentifier() for plain in table)
    assert table["web_list"] == "web.list"
    assert {"a_b_c_1": "a.b_c", "a_b_c_2": "a_b.c", "print_1": "print"}.items() <= table.items()


def test_names_that_are_no_arguments_of_python_are_given_as_they_are():
    strange = {"type": "object", "properties": {"a-b": {}, "from": {}}}
    tool = ToolDef("t.x", "Does.", strange)
    runs = ToolDef("run_program", "Runs.", {})
    (shown,) = as_program([tool, runs])
    assert "async def t_x(**arguments: Any) -> Any: ..." in shown.description
    meta = ToolMeta("t.x", "Does.", strange, "t")
    assert "async def t_x(**given):" in source_of("async def main():\n    await t_x()", [meta])


def test_a_programs_own_function_goes_before_a_tools():
    meta = ToolMeta("t.x", "Does.", SCHEMA, "t")
    code = "async def t_x(): ...\nasync def main():\n    await t_x()"
    assert source_of(code, [meta]).count("async def t_x(") == 1


def test_code_that_is_no_text_of_a_program_is_refused():
    with pytest.raises(ToolError, match="null"):
        source_of("\0", [])
