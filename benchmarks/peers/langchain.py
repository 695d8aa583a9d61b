"""langchain: `create_agent` on langgraph, without a checkpointer."""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
from typing import Any


def load() -> Any:
    """Import it and return what runs it."""
    from langchain.agents import create_agent
    from langchain.tools import tool
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Fake(BaseChatModel):
        rounds: int
        calls: int
        asked: int = 0

        @property
        def _llm_type(self) -> str:
            return "fake"

        def bind_tools(self, tools: Any, **_: Any) -> Any:
            del tools
            return self

        def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
            del messages
            number, self.asked = self.asked, self.asked + 1
            message = AIMessage("Done.")
            if number < self.rounds:
                given = [{"a": number, "b": index} for index in range(self.calls)]
                asked = [
                    {"name": "tool_0", "args": each, "id": f"call_{number}_{each['b']}"}
                    for each in given
                ]
                message = AIMessage("", tool_calls=asked)
            return ChatResult(generations=[ChatGeneration(message=message)])

        async def _agenerate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
            return self._generate(messages)

    async def through(bench: Any, rounds: int, tools: int, calls: int) -> None:
        offered = [tool(bench.async_tool(number)) for number in range(tools)]
        model = Fake(rounds=rounds, calls=calls)
        agent = create_agent(model, offered)
        prompt = {"messages": [{"role": "user", "content": "Add."}]}
        for _ in bench.runs():
            model.asked = 0
            with bench.clock():
                state = await agent.ainvoke(prompt, {"recursion_limit": 4 * rounds + 10})
            assert state["messages"][-1].content == "Done."

    return lambda *shape: asyncio.run(through(*shape))
