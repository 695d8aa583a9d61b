import pytest

from clawhive_core.errors import ToolError
from clawhive_core.execution.context import ToolContext
from clawhive_core.protocols.context import InvokeContext
from tests.harness import echo, text


@pytest.fixture
def context(house):
    def make(*granted, namespace="demo"):
        return ToolContext(
            house.scope(),
            "demo.tool",
            "call_1",
            house.canonical(*granted),
            float("inf"),
            house.executor,
            namespace,
        )

    return make


def test_a_tool_reads_what_its_call_asked_for_and_nothing_else(house, context):
    (house.root / "a.txt").write_text("A", encoding="utf-8")
    (house.root / "b.txt").write_text("B", encoding="utf-8")
    workspace = context("fs.read:${workspace}/a.txt").workspace
    assert workspace.read_text("a.txt", limit=10) == "A"
    with pytest.raises(ToolError) as caught:
        workspace.read_text("b.txt", limit=10)
    assert caught.value.code == "denied"
    with pytest.raises(ToolError):
        workspace.write_bytes("a.txt", b"x")


def test_a_denied_path_is_left_out_of_listings(house, context):
    for name in ("a.txt", ".env", "private"):
        (house.root / name).write_text(name, encoding="utf-8")
    house.denies = house.canonical("fs.read:${workspace}/private")
    workspace = context("fs.read:${workspace}/**").workspace
    assert [entry.path for entry in workspace.list(".")] == ["a.txt"]


def test_only_a_skills_tool_has_a_skill(context):
    assert context(namespace="skill_zodiac").skill_id == "zodiac"
    assert context(namespace="zodiac").skill_id is None


def test_kept_output_is_the_last_of_each_stream_and_signals_are_capped(house, context):
    ctx = context()
    ctx.output("stdout", b"a" * 100_000 + b"end")
    for _ in range(20_000):
        ctx.progress(1)
    assert len(ctx.partial["stdout"]) == 64 * 1024
    assert ctx.partial["stdout"].endswith(b"end")
    assert len(house.signals) == 10_000


def test_progress_texts_are_cut(house, context):
    context().progress(1, 2, "x" * 1000)
    assert len(house.signals[0].text) == 200


def test_an_ended_context_has_no_time_left(context):
    ctx = context()
    assert ctx.remaining() == float("inf")
    ctx.end()
    assert ctx.remaining() == 0.0


async def test_the_context_has_everything_that_the_protocol_names(house):
    public = [name for name in vars(InvokeContext) if not name.startswith("_")]

    async def look(_input, ctx):
        return text(",".join(name for name in public if not hasattr(type(ctx), name)))

    await house.offer("demo.look", look).offer("demo.echo", echo).ready()
    assert (await house.call("demo.look")).output == ""


async def test_a_short_form_that_is_refused_fails_with_the_refusals_code(house):
    """Nobody is to take a refusal for a value, or believe that it was saved."""

    async def use(_input, ctx):
        for short in (ctx.read("x"), ctx.save("x", 1), ctx.show("card")):
            with pytest.raises(ToolError, match="there is no tool") as caught:
                await short
            assert caught.value.code == "tool_not_found"
        return text("each was refused")

    await house.offer("demo.use", use).ready()
    assert (await house.call("demo.use")).output == "each was refused"
