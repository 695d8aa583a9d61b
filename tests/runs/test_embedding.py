"""Vectors of texts: the one way to an embedder, its rights, budget, record and replay."""

import math
from pathlib import Path

import pytest

from clawhive_core import Embeddings, Plan, Usage
from clawhive_core.errors import InvalidInput, ModelError
from clawhive_core.hive.contributed import Contributed
from clawhive_core.hive.hive import RunOptions
from clawhive_core.model.embeddings import checked_texts, packed, unit_vectors, unpacked
from clawhive_core.model.failures import model_failure
from clawhive_core.model.tools import ToolResult
from clawhive_core.testing import ScriptedModel, calling, memory_hive


class Lengths:
    """Embeds by the length of a text; fails as often as it is told."""

    name, host, default_host, default_model = "lengths", None, None, "two"

    def __init__(self, *failures, **facts):
        self.failures, self.asked, self.closed = list(failures), [], False
        vars(self).update(facts)

    async def embed(self, texts, model):
        self.asked.append((tuple(texts), model))
        if self.failures:
            raise self.failures.pop(0)
        vectors = tuple((float(len(text)), 1.0) for text in texts)
        return Embeddings(f"{model}-v1", vectors, Usage(input_tokens=3))

    async def close(self):
        self.closed = True


def far():
    return Lengths(name="far", host="api.far.test", default_host="api.far.test")


def embedding(model=None):
    async def embed(given, ctx):
        found = await ctx.embed(given["texts"], model)
        return {"model": found.model, "vectors": [list(each) for each in found.vectors]}

    return embed


def kinds(hive, kind):
    return [each.event for each in hive.log.events() if each.event.kind == kind]


async def called(hive, texts, **options):
    _, outcome = await hive.call("test.embed", {"texts": texts}, RunOptions(**options))
    return outcome


async def test_a_tool_gets_one_vector_of_length_one_a_text_and_it_is_on_record(tools):
    embedder = Lengths()
    tools.add("test.embed", embedding())
    async with memory_hive(providers=[tools], embedders=[embedder]) as hive:
        outcome = await called(hive, ["abc", "a"])
        await hive.log.flush()
        (start,), (end,) = kinds(hive, "embedding.start"), kinds(hive, "embedding.end")
        vectors = outcome.structured["vectors"]
        assert unpacked(hive.log.load(end.body["vectors"]), 2) == tuple(map(tuple, vectors))
    assert outcome.structured["model"] == "two-v1"
    assert [math.hypot(*each) for each in vectors] == pytest.approx([1, 1])
    assert (start.body["model"], start.body["asked"], start.body["count"]) == (
        "lengths:two",
        None,
        2,
    )
    assert (end.status, end.body["dimension"], end.body["usage"]["input_tokens"]) == (
        "succeeded",
        2,
        3,
    )
    assert embedder.asked == [(("abc", "a"), "two")]
    assert embedder.closed


async def test_what_it_used_counts_for_the_run_and_bounds_it(tools):
    tools.add("test.embed", embedding())
    answers = [
        calling("test.embed", {"texts": ["a"]}),
        calling("test.embed", {"texts": ["b"]}),
        ".",
    ]
    settings = {"budget.tokens": 2}
    given = {"providers": [tools], "adapters": [ScriptedModel(answers)], "embedders": [Lengths()]}
    async with memory_hive(**given, settings=settings) as hive:
        run = await hive.run("Embed.", model="scripted:any")
    assert run["error"]["code"] == "budget_exceeded"
    assert run["usage"]["input_tokens"] == 3


@pytest.mark.parametrize(
    ("embedders", "model", "chosen"),
    [
        ([Lengths()], "lengths:other", "lengths:other"),
        ([Lengths()], "lengths", "lengths:two"),
        (
            [far(), Lengths()],
            None,
            "lengths:two",
        ),
        ([far()], None, None),
        ([Lengths()], "none:two", None),
        ([], None, None),
    ],
)
async def test_the_embedder_is_the_named_one_or_one_that_sends_nothing_out(
    tools, embedders, model, chosen
):
    tools.add("test.embed", embedding(model))
    async with memory_hive(providers=[tools], embedders=embedders) as hive:
        outcome = await called(hive, ["a"])
        await hive.log.flush()
        asked = [event.body["model"] for event in kinds(hive, "embedding.start")]
    if chosen is None:
        assert isinstance(outcome, ToolResult)
        assert (outcome.structured["error"], asked) == ("unknown_model", [])
    else:
        assert asked == [chosen]


async def test_the_configuration_chooses_one(tools):
    tools.add("test.embed", embedding())
    given = {"providers": [tools], "embedders": [Lengths(), far()]}
    async with memory_hive(**given, settings={"model.embedding": "far:big"}) as hive:
        assert (await called(hive, ["a"])).structured["model"] == "big-v1"


async def test_policy_decides_about_the_provider_and_its_host(tools):
    tools.add("test.embed", embedding())
    elsewhere = Lengths(host="elsewhere.test", default_host="api.far.test")
    async with memory_hive(providers=[tools], embedders=[elsewhere]) as hive:
        tools.functions["test.embed"] = embedding("lengths")
        assert (await called(hive, ["a"])).structured["error"] == "approval_required"
        right = "model.call:lengths/elsewhere.test"
        assert not (await called(hive, ["a"], grants=(right,))).is_error
    async with memory_hive(
        providers=[tools], embedders=[Lengths()], settings={"policy.deny": ["model.call:lengths"]}
    ) as hive:
        assert (await called(hive, ["a"])).structured["error"] == "denied"


async def test_a_failure_that_may_pass_is_tried_again(tools, monkeypatch):
    monkeypatch.setattr("random.random", lambda: 0.0)
    embedder = Lengths(model_failure("overloaded", "busy"))
    tools.add("test.embed", embedding())
    async with memory_hive(providers=[tools], embedders=[embedder]) as hive:
        assert not (await called(hive, ["a"])).is_error
        await hive.log.flush()
        assert [event.body["model"] for event in kinds(hive, "model.retry")] == ["two"]


@pytest.mark.parametrize("failure", [model_failure("model_not_found", "none"), ValueError("broke")])
async def test_a_failure_is_the_tools_and_on_record(tools, failure):
    tools.add("test.embed", embedding())
    async with memory_hive(providers=[tools], embedders=[Lengths(failure)]) as hive:
        outcome = await called(hive, ["a"])
        await hive.log.flush()
        (end,) = kinds(hive, "embedding.end")
    assert (
        outcome.structured["error"]
        == end.body["error"]["code"]
        == getattr(failure, "code", "provider_error")
    )


async def test_the_page_s_embedder_and_tool_work_together(tools):
    page = Path(__file__).parents[2] / "docs" / "how-to" / "embeddings.md"
    code = page.read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    namespace = {"__name__": "page"}
    exec(compile(code, "page", "exec"), namespace)
    nearest, (letters,) = namespace["nearest"], namespace["clawhive_embedders"](None)
    tools.add("test.embed", lambda given, ctx: nearest(**given, ctx=ctx))
    async with memory_hive(providers=[tools], embedders=[letters]) as hive:
        given = {"text": "tea", "among": ["coffee", "eat", "milk"]}
        _, outcome = await hive.call("test.embed", given)
    assert outcome.output == "eat"


class Embedding:
    """Plans nothing, and asks for vectors at the run's own level, as recall does."""

    name, replans = "embedding", False

    def __init__(self):
        self.found = []

    async def plan(self, task, ctx):
        models, scope = ctx.complete.func.__self__, ctx.complete.keywords["scope"]
        self.found.append(await models.embed(["abc", "a"], None, scope))
        return Plan(self.name, (), "done")


async def test_an_exact_replay_answers_from_the_record(monkeypatch):
    planner, embedder = Embedding(), Lengths()
    monkeypatch.setattr(Contributed, "planners", lambda _: {"embedding": planner})
    async with memory_hive(embedders=[embedder], adapters=[ScriptedModel([])]) as hive:
        run = await hive.run("Embed.", planner="embedding", model="scripted:any")
        embedder.default_model = "another"
        report = await hive.replay(run["run_id"])
        assert report.difference is None
        assert report.compared >= 2
    assert len(embedder.asked) == 1
    assert planner.found[0] == planner.found[1]


async def test_a_replay_with_other_texts_differs(monkeypatch):
    planner = Embedding()
    monkeypatch.setattr(Contributed, "planners", lambda _: {"embedding": planner})

    async def other(task, ctx):
        await ctx.complete.func.__self__.embed(["x"], None, ctx.complete.keywords["scope"])

    async with memory_hive(embedders=[Lengths()], adapters=[ScriptedModel([])]) as hive:
        run = await hive.run("Embed.", planner="embedding", model="scripted:any")
        planner.plan = other
        report = await hive.replay(run["run_id"])
    assert report.difference.kind == "embedding.start"


async def test_a_restarted_tool_gets_the_vectors_that_it_had(job):
    async def outer(given, ctx):
        first = await ctx.embed(["abc"])
        kept = await ctx.call("test.keep", {"path": "kept.txt"})
        return {"first": list(first.vectors[0]), "kept": kept}

    async with job(outer) as work:
        embedder = Lengths()
        work.hive._contributed.__dict__["_embedders"] = {"lengths": embedder}
        run = await work.run(approve="park")
        (approval,) = work.waiting()
        work.hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")
        done = await work.hive.resume(run["run_id"])
    assert done["status"] == "succeeded"
    assert len(embedder.asked) == 1
    assert math.hypot(*done["output"]["first"]) == pytest.approx(1)


@pytest.mark.parametrize("texts", ["abc", ["a", ""], ["a", 1], ["a"] * 3000, ["a" * 9_000_000]])
def test_what_has_no_vector_is_refused(texts):
    with pytest.raises(InvalidInput):
        checked_texts(texts)


@pytest.mark.parametrize(
    "answer",
    [
        [[1.0]],
        Embeddings("m", ()),
        Embeddings("m", ((),)),
        Embeddings("m", ((0.0, 0.0),)),
        Embeddings("m", ((math.nan, 1.0),)),
        Embeddings("m", ((math.inf, 1.0),)),
        Embeddings("m", (("a", "b"),)),
    ],
)
def test_an_answer_that_is_none_is_an_error_with_a_code(answer):
    with pytest.raises(ModelError) as caught:
        unit_vectors(answer, ["a"], "p:m")
    assert caught.value.code == "invalid_response"


def test_vectors_are_as_exact_as_they_are_kept():
    found = unit_vectors(Embeddings("m", ((0.1, 0.2, 0.3), (3.0, 4.0, 0.0))), ["a", "b"], "p:m")
    assert unpacked(packed(found.vectors), found.dimension) == found.vectors
    assert (found.dimension, unpacked(b"", 0)) == (3, ())
