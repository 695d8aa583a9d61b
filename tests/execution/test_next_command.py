"""The command that a refusal gives: whole, or none."""

import shlex

import pytest

from clawhive_core.testing import memory_hive


@pytest.mark.parametrize(("text", "whole"), [("it's", True), ("x" * 5000, False)])
async def test_a_sessions_refusal_gives_a_whole_command_or_none(text, whole):
    given = {"path": "a.txt", "text": text}
    settings = {"plugins.enabled": ["builtin"]}
    async with memory_hive(settings=settings) as hive, hive.session() as session:
        refused = await session.call("file.write", given)
    assert refused["next"]["capabilities"]
    if not whole:
        assert "command" not in refused["next"]
        return
    words = shlex.split(refused["next"]["command"])
    assert words[:4] == ["clawhive", "tools", "call", "file.write"]
    assert words[5:7] == ['{"path":"a.txt","text":"it\'s"}', "--grant"]
    assert words[7:] == refused["next"]["capabilities"]
