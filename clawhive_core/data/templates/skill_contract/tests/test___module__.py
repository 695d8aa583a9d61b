"""The tools of {{id}}, called as everybody calls them: through the executor, into a log."""

import asyncio
from pathlib import Path

from clawhive_core.testing import memory_hive

SKILL = Path(__file__).resolve().parents[1]
SETTINGS = {"plugins.enabled": ["builtin"], "skills.paths": [str(SKILL)]}


async def counted(*texts):
    async with memory_hive(settings=SETTINGS) as hive, hive.session() as session:
        return [await session.call("{{id}}.count_words", {"text": text}) for text in texts]


def test_it_counts_words_and_remembers_the_last_count():
    assert asyncio.run(counted("one two three", "")) == [
        {"words": 3, "before": None},
        {"words": 0, "before": 3},
    ]


def test_it_refuses_what_is_no_text():
    (refusal,) = asyncio.run(counted(5))
    assert refusal["error"] == "invalid_input"
