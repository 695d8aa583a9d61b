"""llm: synchronous, without policy, record or validation of a tool's input."""

from __future__ import annotations

from typing import Any


def load() -> Any:
    """Import it and return what runs it."""
    import llm

    class Fake(llm.Model):
        model_id = "fake"
        supports_tools = True

        def __init__(self, rounds: int, calls: int) -> None:
            self.rounds, self.calls, self.asked = rounds, calls, 0

        def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any) -> Any:
            del prompt, stream, conversation
            number, self.asked = self.asked, self.asked + 1
            if number == self.rounds:
                yield "Done."
                return
            for index in range(self.calls):
                given = {"a": number, "b": index}
                response.add_tool_call(llm.ToolCall("tool_0", given, f"call_{number}_{index}"))

    def run(bench: Any, rounds: int, tools: int, calls: int) -> None:
        model = Fake(rounds, calls)
        offered = [bench.tool(number) for number in range(tools)]
        for _ in bench.runs():
            model.asked = 0
            conversation = model.conversation(tools=offered, chain_limit=rounds + 2)
            with bench.clock():
                said = conversation.chain("Add.").text()
            assert said.strip() == "Done.", said

    return run
