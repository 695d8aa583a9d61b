"""agno, its telemetry off, without a database."""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import json
from typing import Any


def load() -> Any:
    """Import it and return what runs it."""
    from agno.agent import Agent
    from agno.models.base import Model
    from agno.models.response import ModelResponse

    class Fake(Model):
        def __init__(self, rounds: int, calls: int) -> None:
            super().__init__(id="fake", name="Fake", provider="Fake")
            self.rounds, self.calls, self.asked = rounds, calls, 0

        async def ainvoke(self, *_: Any, **__: Any) -> ModelResponse:
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

    async def through(bench: Any, rounds: int, tools: int, calls: int) -> None:
        offered = [bench.async_tool(number) for number in range(tools)]
        model = Fake(rounds, calls)
        agent = Agent(model=model, tools=offered, telemetry=False)
        for _ in bench.runs():
            model.asked = 0
            with bench.clock():
                result = await agent.arun("Add.")
            assert result.content == "Done.", result.content

    return lambda *shape: asyncio.run(through(*shape))
