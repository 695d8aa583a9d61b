"""A project for many runs at once: a model that waits, and a tool that adds."""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from loop_rounds import Plugins, Sums

from clawhive_core.config import Config
from clawhive_core.hive.hive import Hive
from clawhive_core.model.messages import LlmRequest, LlmResponse
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.testing.scripted import ScriptedModel, answer, calling

CALLS = "SELECT kind, count(*) FROM events WHERE kind LIKE 'invocation.%' GROUP BY kind"
"""What is on the disk of the calls, by kind."""


class Waiting(ScriptedModel):
    """Asks for one call a round after a pause; which round it is, the conversation tells."""

    def __init__(self, rounds: int, pause: float) -> None:
        super().__init__([])
        self.answers = [*(calling("sum.tool0", {"a": n, "b": 1}) for n in range(rounds)), "Done."]
        self.pause = pause

    async def chat(self, request: LlmRequest) -> LlmResponse:
        """Return the answer of this round."""
        if self.pause:
            await asyncio.sleep(self.pause)
        if len(self.answers) == 1:  # a conversation: each prompt is answered at once
            return answer(self.answers, 1, request)
        return answer(self.answers, 1 + (len(request.messages) - 1) // 2, request)


@asynccontextmanager
async def opened(
    root: Path, rounds: int, pause: float
) -> AsyncIterator[tuple[Hive, Callable[[], int]]]:
    """Open a project; give it, and what tells how often its tool was called."""
    (root / "clawhive.toml").touch()
    model = Waiting(rounds, pause)
    plugins = Plugins(1, model)
    sums: Sums = plugins.sums

    def load(config: Config, env: Mapping[str, str]) -> PluginManager:
        del config, env
        return plugins

    env = {"HOME": os.environ["HOME"], "PATH": os.environ.get("PATH", "")}
    async with Hive.open(root, env=env, plugins=load) as hive:
        yield hive, lambda: sums.called
