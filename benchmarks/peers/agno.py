"""agno, its telemetry off, without a database."""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


def fake_model() -> Any:
    """Return the class of the fake model."""
    from agno.models.base import Model
    from agno.models.response import ModelResponse

    class Fake(Model):
        def __init__(self, rounds: int, calls: int, pause: float = 0) -> None:
            super().__init__(id="fake", name="Fake", provider="Fake")
            self.rounds, self.calls, self.asked, self.pause = rounds, calls, 0, pause

        async def ainvoke(self, *_: Any, **__: Any) -> ModelResponse:
            if self.pause:
                await asyncio.sleep(self.pause)
            number, self.asked = self.asked, self.asked + 1
            if number == self.rounds:
                return ModelResponse(role="assistant", content="Done.")
            calls = [
                {
                    "id": f"call_{number}_{index}",
                    "type": "function",
                    "function": {
                        "name": "tool_0",
                        "arguments": json.dumps({"a": number, "b": index}),
                    },
                }
                for index in range(self.calls)
            ]
            return ModelResponse(role="assistant", tool_calls=calls)

        def invoke(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        invoke_stream = ainvoke_stream = invoke

        def _parse_provider_response(self, response: Any, **_: Any) -> Any:
            return response

        def _parse_provider_response_delta(self, response: Any) -> Any:
            return response

    return Fake


def load() -> Any:
    """Import it and return what runs it."""
    from agno.agent import Agent

    model_of = fake_model()

    async def through(bench: Any, rounds: int, tools: int, calls: int) -> None:
        offered = [bench.async_tool(number) for number in range(tools)]
        model = model_of(rounds, calls)
        agent = Agent(model=model, tools=offered, telemetry=False)
        for _ in bench.runs():
            model.asked = 0
            with bench.clock():
                result = await agent.arun("Add.")
            assert result.content == "Done.", result.content

    return lambda *shape: asyncio.run(through(*shape))


@asynccontextmanager
async def load_many(bench: Any, rounds: int, pause: float) -> AsyncIterator[Any]:
    """Give what makes one run of many: an agent holds the state of one run, so each has its own."""
    from agno.agent import Agent

    model_of, tool = fake_model(), bench.async_tool(0)

    async def one() -> None:
        agent = Agent(model=model_of(rounds, 1, pause), tools=[tool], telemetry=False)
        result = await agent.arun("Add.")
        assert result.content == "Done.", result.content

    yield one
