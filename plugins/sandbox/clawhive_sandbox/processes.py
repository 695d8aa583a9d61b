"""The processes behind the engines, seen from the agent's: the fork server, its workers."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clawhive_core import SandboxUnavailable
from clawhive_sandbox.frames import Frames, json_frame, send_all
from clawhive_sandbox.modules import GuestModule, ModuleUnusable, open_compiled

if TYPE_CHECKING:
    import anyio

START_SECONDS = 60


_SERVE = "from clawhive_sandbox.worker import main; main(*sys.argv[1:])"
_COMPILE = "from clawhive_sandbox.modules import main; sys.exit(main(sys.argv[1:]))"


def _python(code: str, *words: str) -> list[str]:
    """Return a command that runs code with what can be imported here, and nothing else."""
    path = [each for each in sys.path if each]
    return [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {path!r}; {code}", *words]


class Worker:
    """A running worker: its socket, and a handle that no later process can inherit."""

    def __init__(self, stream: socket.socket, handle: int) -> None:
        self._stream, self._handle = stream, handle
        self._frames = Frames()
        self._come: deque[tuple[int, bytes]] = deque()
        self._saying: anyio.Lock | None = None

    async def say(self, value: dict[str, Any]) -> None:
        """Tell the worker something; one that has ended hears nothing."""
        import anyio

        if self._saying is None:
            self._saying = anyio.Lock()
        async with self._saying:
            await send_all(self._stream, json_frame(value))

    async def frame(self) -> tuple[int, bytes] | None:
        """Return what the worker says next, None once it has ended.

        Raises:
            BrokenStream: It says what is no frame.
        """
        import anyio

        while not self._come:
            try:
                data = self._stream.recv(1 << 18)
            except BlockingIOError:
                await anyio.wait_readable(self._stream)
                continue
            except OSError:
                return None
            if not data:
                return None
            self._come += self._frames.feed(data)
        return self._come.popleft()

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._handle >= 0 and not select.select([self._handle], [], [], 0)[0]

    def kill(self) -> None:
        """Kill the process; nothing happens where it has ended."""
        if self._handle >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def end(self) -> None:
        """Kill the process, and let go of its socket and handle."""
        self.kill()
        self._stream.close()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class ForkServer:
    """A process that has loaded an interpreter and forks a worker for each instance."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process, self._control = process, control

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    async def fork(self) -> Worker:
        """Return a new worker.

        Raises:
            SandboxUnavailable: The server has ended.
        """
        from anyio import to_thread

        return await to_thread.run_sync(self._fork)

    def _fork(self) -> Worker:
        ours, theirs = socket.socketpair()
        try:
            socket.send_fds(self._control, [b"w"], [theirs.fileno()])
            told, handed, _, _ = socket.recv_fds(self._control, 8, 1)
        except OSError:
            told, handed = b"", []
        finally:
            theirs.close()
        if not told or not handed:
            ours.close()
            raise SandboxUnavailable(
                "the process that starts the engine's workers has ended",
                fix="run it again; `clawhive doctor` tells whether the engine works here",
            )
        ours.settimeout(0)
        return Worker(ours, handed[0])

    async def close(self) -> None:
        """End it and every worker, and wait for that."""
        import anyio
        from anyio import to_thread

        self._control.close()
        self._process.kill()
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._process.wait)


async def start_server(module: GuestModule, folder: Path) -> ForkServer:
    """Start a server for an interpreter that is compiled already.

    Raises:
        ModuleUnusable: There is no compiled form, or it cannot be loaded.
    """
    from anyio import to_thread

    return await to_thread.run_sync(_start, module, folder)


def _start(module: GuestModule, folder: Path) -> ForkServer:
    compiled_form = open_compiled(module, folder)
    if compiled_form is None:
        raise ModuleUnusable("its compiled form has gone")
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            _python(_SERVE, module.name, str(compiled_form)),
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[compiled_form],
            env={"PATH": os.defpath},
            cwd="/",
            start_new_session=True,
        )
    finally:
        theirs.close()
        os.close(compiled_form)
    ours.settimeout(START_SECONDS)
    with suppress(OSError):
        if ours.recv(1) == b"+":
            if process.stderr is not None:
                process.stderr.close()
            return ForkServer(process, ours)
    process.kill()
    ours.close()
    said = process.communicate()[1].decode("utf-8", "replace").strip()
    raise ModuleUnusable(said.rpartition("\n")[2] or "its worker does not start")


async def compiled(module: GuestModule, folder: Path) -> str:
    """Compile a module in a process of its own.

    Returns:
        Why it cannot be compiled; nothing where it was.
    """
    import anyio

    command = _python(_COMPILE, module.name, str(folder))
    done = await anyio.run_process(command, check=False, cwd="/", env={"PATH": os.defpath})
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip()
    return said.rpartition("\n")[2] or "its compiler died"
