"""Random programs of nested calls: parked, resumed, and in the end as if nobody had been asked."""

from collections import Counter
from pathlib import Path

import anyio
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.hive.hive import RunOptions
from clawhive_core.model.messages import LlmMessage, LlmRequest
from clawhive_core.skills.contracts.skill import Skill, TaskType
from clawhive_core.testing import ScriptedModel, memory_hive
from tests.examples import share
from tests.runs.conftest import OPEN, Tools

CALLS = st.tuples(st.sampled_from(["note", "keep", "ask", "missing"]), st.integers(0, 2))
PROGRAMS = st.recursive(
    st.lists(CALLS, max_size=3),
    lambda inner: st.lists(
        st.one_of(CALLS, st.tuples(st.sampled_from(["inner", "beside", "chain"]), inner)),
        min_size=1,
        max_size=3,
    ),
    max_leaves=12,
)


class House:
    """Tools that note what they do, and one that makes the calls of a program."""

    def __init__(self):
        self.done = Counter()
        self.tools = Tools()
        self.tools.add("test.note", self.note)
        self.tools.add("test.keep", self.note, risk="guarded", effects={"path": "fs.write"})
        self.tools.add("test.inner", self.inner)
        answer = lambda request: f"answer to {request.messages[0].content[0].text}"  # noqa: E731
        self.model = ScriptedModel([answer] * 99)

    def note(self, given, ctx):
        self.done[given["path"]] += 1
        return given["path"]

    async def inner(self, given, ctx):
        return [await self.one(each, ctx) for each in given["program"]]

    async def one(self, call, ctx):
        what, more = call
        if what == "beside":
            return await self.side_by_side(more, ctx)
        if what == "chain":
            return [await self.one(each, ctx) for each in more]
        if what == "inner":
            return await ctx.call("test.inner", {"program": more})
        if what == "ask":
            request = LlmRequest("scripted:m", (LlmMessage.text("user", str(more)),))
            return (await ctx.complete(request)).text
        answer = await ctx.call(f"test.{what}", {"path": f"{what}{more}"})
        return answer["error"] if isinstance(answer, dict) else answer

    async def side_by_side(self, program, ctx):
        found = [None] * len(program)

        async def fill(index, call):
            found[index] = await self.one(call, ctx)

        async with anyio.create_task_group() as group:
            for index, call in enumerate(program):
                group.start_soon(fill, index, call)
        return found

    async def run(self, program, *, asked):
        async with memory_hive(providers=[self.tools], adapters=[self.model]) as hive:
            step = {"name": "outer", "tool": "test.inner", "input": {"program": program}}
            task = TaskType("job", "A job.", OPEN, (step,), "${steps.outer.output}")
            hive.skills.append(Skill("test", "1.0.0", Path(), "test", tasks={"job": task}))
            grants = [] if asked else ["fs.write:${workspace}/**"]
            run = await hive.run(task="job", options=RunOptions(grants=grants))
            while run["status"] == "waiting_approval":
                for each in hive.approvals.pending():
                    hive.approvals.resolve(each.approval_id, "approve", by="user:ana")
                run = await hive.resume("last")
            assert (await hive.replay("last")).ok
            return run["status"], run["output"]


@share(1 / 10)
@given(PROGRAMS)
def test_what_a_parked_program_does_is_what_it_does_without_being_parked(program):
    async def compare():
        whole, parked = House(), House()
        expected = await whole.run(program, asked=False)
        assert expected[0] == "succeeded"
        assert await parked.run(program, asked=True) == expected
        assert parked.done == whole.done
        assert len(parked.model.requests) == len(whole.model.requests)

    anyio.run(compare)
