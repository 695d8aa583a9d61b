"""pydantic-ai with its FunctionModel."""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


def load() -> Any:
    """Import it and return what runs it."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import UsageLimits

    async def through(bench: Any, rounds: int, tools: int, calls: int) -> None:
        asked = 0

        async def answer(messages: Any, info: Any) -> ModelResponse:
            nonlocal asked
            del messages, info
            number, asked = asked, asked + 1
            if number == rounds:
                return ModelResponse(parts=[TextPart("Done.")])
            given = ({"a": number, "b": index} for index in range(calls))
            parts = [ToolCallPart("tool_0", each, f"call_{number}_{each['b']}") for each in given]
            return ModelResponse(parts=parts)

        offered = [bench.async_tool(number) for number in range(tools)]
        agent = Agent(FunctionModel(answer), tools=offered)
        for _ in bench.runs():
            asked = 0
            with bench.clock():
                result = await agent.run("Add.", usage_limits=UsageLimits(request_limit=None))
            assert result.output == "Done.", result.output

    return lambda *shape: asyncio.run(through(*shape))


@asynccontextmanager
async def load_many(bench: Any, rounds: int, pause: float) -> AsyncIterator[Any]:
    """Give what makes one run of many; the agent is shared."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import UsageLimits

    async def answer(messages: Any, info: Any) -> ModelResponse:
        del info
        await asyncio.sleep(pause)
        number = sum(isinstance(each, ModelResponse) for each in messages)
        if number == rounds:
            return ModelResponse(parts=[TextPart("Done.")])
        call = ToolCallPart("tool_0", {"a": number, "b": 0}, f"call_{number}")
        return ModelResponse(parts=[call])

    agent = Agent(FunctionModel(answer), tools=[bench.async_tool(0)])

    async def one() -> None:
        result = await agent.run("Add.", usage_limits=UsageLimits(request_limit=None))
        assert result.output == "Done.", result.output

    yield one
