"""A tool of a plugin that calls `file.write`: parked, answered and resumed across commands."""

import json

import pytest

SOURCE = """
from clawhive_core import InvokeContext, tool

@tool
async def publish(names: list[str], ctx: InvokeContext) -> list:
    "Write a file a name."
    return [await ctx.call("file.write", {"path": f"{name}.md", "text": name}) for name in names]

@tool
def publish_carelessly(name: str, ctx: InvokeContext) -> str:
    "Write a file from a worker thread, whatever happens."
    import anyio.from_thread
    try:
        done = anyio.from_thread.run(ctx.call, "file.write", {"path": f"{name}.md", "text": name})
    except Exception:
        return "never mind"
    return "written" if "error" not in done else done["error"]
"""


@pytest.fixture
def publish(clawhive, site):
    site.plugin("press", SOURCE)

    def run(tool, **input):
        script = clawhive.root / "script.json"
        turns = [{"tool_calls": [{"name": f"press.{tool}", "input": input}]}, "done"]
        script.write_text(json.dumps(turns), "utf-8")
        return clawhive("run", "publish it", "--model", f"scripted:{script}")

    return run


def test_a_tool_that_waits_for_its_call_is_resumed_by_another_command(clawhive, publish):
    parked = publish("publish", names=["one", "two"])
    assert parked.code == 3
    assert parked.err.count("waits for a person") == 1
    assert 'waits for a person: file.write: {"path":"one.md"' in parked.err
    shown = clawhive("runs", "show", "last").out
    assert "waiting_approval tool.press.publish" in shown
    assert 'path = "one.md"' in clawhive("approvals", "show", "last").out
    assert clawhive("approvals", "approve", "last").code == 0
    again = clawhive("runs", "resume", "last")
    assert (again.code, again.err.count("waits for a person")) == (3, 1)
    written = clawhive.root.joinpath("one.md").stat().st_mtime_ns
    assert not clawhive.root.joinpath("two.md").exists()
    clawhive("approvals", "approve", "last")
    done = clawhive("runs", "resume", "last")
    assert (done.code, done.out) == (0, "done\n")
    assert clawhive.root.joinpath("one.md").stat().st_mtime_ns == written
    assert clawhive.root.joinpath("two.md").read_text("utf-8") == "two"
    assert clawhive("runs", "replay", "last").code == 0
    assert clawhive("audit", "verify").code == 0


def test_a_parked_tool_is_what_the_schema_of_runs_says(clawhive, publish):
    import jsonschema_rs

    publish("publish", names=["one"])
    schema = json.loads(clawhive("schema", "run").out)
    value = clawhive("runs", "show", "last", "--json").json
    assert list(jsonschema_rs.validator_for(schema).iter_errors(value)) == []
    statuses = {step["name"]: step["status"] for step in value["steps"]}
    assert set(statuses.values()) == {"waiting_approval"}


@pytest.mark.parametrize(("answer", "said"), [("approve", "written"), ("deny", "approval_denied")])
def test_a_careless_tool_in_a_thread_waits_too(clawhive, publish, answer, said):
    assert publish("publish_carelessly", name="one").code == 3
    assert clawhive("approvals", answer, "last").code == 0
    assert clawhive("runs", "resume", "last").code == 0
    run = clawhive("runs", "show", "last", "--json").json
    assert run["steps"][0]["output_preview"] == said
    assert clawhive.root.joinpath("one.md").exists() == (answer == "approve")
    assert clawhive("runs", "replay", "last").code == 0


def test_a_single_call_is_refused_to_the_tool_and_not_parked(clawhive, publish):
    publish("publish", names=[])
    done = clawhive("tools", "call", "press.publish", "--args", '{"names": ["one"]}', "--json")
    assert done.code == 0
    assert "approval_required" in done.out
    assert clawhive("approvals", "list", "--json").json["approvals"] == []
