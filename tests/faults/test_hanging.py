"""A tool that hangs ends with what it started, and its run goes on."""

import anyio
import pytest

from clawhive_core import Hive, ToolMeta

pytestmark = pytest.mark.slow  # the two seconds of grace

SCHEMA = {"type": "object", "properties": {}}


async def program():
    """Wait for a program that does not end."""
    await anyio.run_process(["sh", "-c", "echo $$ >pid; exec sleep 3600"])


@pytest.mark.promise("P-167")
async def test_a_tool_that_waits_for_a_program_is_stopped_with_it(tmp_path, monkeypatch, gone):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clawhive.toml").write_text("")
    meta = ToolMeta("local.program", "Wait.", SCHEMA, "local", risk="safe", timeout_ms=3_000)
    async with Hive.open(tmp_path, env={"HOME": str(tmp_path), "PATH": ""}) as hive:
        hive.tools.add(meta, program)
        run_id, outcome = await hive.call("local.program", {})
        assert outcome.structured["error"] == "timeout"
        with anyio.fail_after(300):
            while not gone(int((tmp_path / "pid").read_text())):
                await anyio.lowlevel.checkpoint()
        (row,) = hive.log.read(
            "SELECT status FROM events WHERE kind = 'invocation.end' AND run_id = ?", (run_id,)
        )
        assert row["status"] == "failed"  # and not `abandoned`
