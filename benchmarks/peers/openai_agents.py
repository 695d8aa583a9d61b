"""openai-agents, its tracing off."""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import json
from typing import Any


def load() -> Any:
    """Import it and return what runs it."""
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    class Fake(Model):
        def __init__(self, rounds: int, calls: int) -> None:
            self.rounds, self.calls, self.asked = rounds, calls, 0

        def output(self, number: int) -> list[Any]:
            if number == self.rounds:
                text = ResponseOutputText(text="Done.", type="output_text", annotations=[])
                return [
                    ResponseOutputMessage(
                        id="msg",
                        content=[text],
                        role="assistant",
                        status="completed",
                        type="message",
                    )
                ]
            return [
                ResponseFunctionToolCall(
                    arguments=json.dumps({"a": number, "b": index}),
                    call_id=f"call_{number}_{index}",
                    name="tool_0",
                    type="function_call",
                )
                for index in range(self.calls)
            ]

        async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
            number, self.asked = self.asked, self.asked + 1
            return ModelResponse(output=self.output(number), usage=Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    async def through(bench: Any, rounds: int, tools: int, calls: int) -> None:
        offered = [function_tool(bench.async_tool(number)) for number in range(tools)]
        model = Fake(rounds, calls)
        agent = Agent(name="bench", model=model, tools=offered)
        config = RunConfig(tracing_disabled=True)
        for _ in bench.runs():
            model.asked = 0
            with bench.clock():
                result = await Runner.run(agent, "Add.", max_turns=rounds + 2, run_config=config)
            assert result.final_output == "Done.", result.final_output

    return lambda *shape: asyncio.run(through(*shape))
