import os
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from clawhive_core import SandboxCommand, SandboxLimits, SandboxSpec
from clawhive_sandbox.engine import WasmEngine
from clawhive_sandbox.modules import PYTHON, QUICKJS


@pytest.fixture
def anyio_backend():
    return "asyncio"


def children():
    """Return the ids of this process's living children."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end meanwhile
            found |= set((task / "children").read_text(encoding="ascii").split())
    return found


@pytest.fixture
async def node():
    before = children()
    engine = WasmEngine(QUICKJS, "node -e", os.environ)
    yield engine
    await engine.close()
    assert children() <= before


@pytest.fixture
async def python():
    before = children()
    engine = WasmEngine(PYTHON, "python -c", os.environ)
    yield engine
    await engine.close()
    assert children() <= before


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()

    async def runs(engine, code, **fields):
        heard = []
        names = {"env", "mounts", "host", "clock", "seed"} & set(fields)
        seen = {name: fields.pop(name) for name in names}
        limits = SandboxLimits(**fields.pop("limits", {}))
        instance = await engine.open(SandboxSpec(str(folder), limits=limits, **seen))
        flag = next(iter(engine.programs)).split()
        command = SandboxCommand((*flag, textwrap.dedent(code)), **fields)
        try:
            outcome = await instance.run(command, lambda *said: heard.append(said))
        finally:
            await instance.close()
        for stream in ("stdout", "stderr"):
            printed = b"".join(data for name, data in heard if name == stream)
            assert getattr(outcome, stream) == printed
        return outcome

    runs.folder = folder
    return runs
