"""The worker processes: a server that has loaded an interpreter, and forks of it.

`main` gets the descriptor of the compiled module, and a socket as its stdin. For each socket that
comes through it, it forks a worker for one instance, which speaks `frames` over that socket, and
sends back a handle of the process (Linux: `pidfd_open`). The server itself never runs a guest, so a
fork of it holds nothing of another one's.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
from collections import deque
from contextlib import suppress
from typing import Any, Literal

from clawhive_sandbox.frames import STDERR, STDOUT, Frames, frame, json_frame, read_json
from clawhive_sandbox.guest import STACK, Grants, Interpreter
from clawhive_sandbox.wasi import Quota

_PDEATHSIG = 1
_OPEN_FILES = 256
_LINE = 16 << 20
_EARLY = 4096
"""Bytes of errors that an interpreter may print before it has a program."""


class Stopped(Exception):
    """The program met a limit, which was told already."""


class Conversation:
    """A worker's end of the socket to its engine, and what its guest says and hears.

    Args:
        stream: The socket.
    """

    def __init__(self, stream: socket.socket) -> None:
        self._stream, self._frames = stream, Frames()
        self._come: deque[dict[str, Any]] = deque()
        self._stdin = b""
        self._said, self._to_read = b"", b""
        self._calls = 0
        self._limits: dict[str, int] = {}
        self._room = {"stdout": 0, "stderr": _EARLY}
        self.quota: Quota | None = None

    def next(self) -> dict[str, Any]:
        """Return the next object that the engine says; at the end of the conversation, end."""
        while not self._come:
            data = self._stream.recv(1 << 16)
            if not data:
                os._exit(0)
            self._come += [read_json(body) for _, body in self._frames.feed(data)]
        return self._come.popleft()

    def say(self, value: dict[str, Any]) -> None:
        """Tell the engine something."""
        self._stream.sendall(json_frame(value))

    def stop(self, limit: str) -> None:
        """Tell of the limit that the program met, and end it."""
        self.say({"ended": {"exit_code": None, "killed_by": limit}})
        os._exit(0)

    def printed(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Pass on what the program printed, as far as there is room."""
        kept = data[: self._room[stream]]
        self._room[stream] -= len(kept)
        if kept:
            self._stream.sendall(frame(STDOUT if stream == "stdout" else STDERR, kept))
        if len(kept) < len(data):
            self.stop(stream)

    def stdin(self, length: int) -> bytes:
        """Return what comes next of the program's input."""
        data, self._stdin = self._stdin[:length], self._stdin[length:]
        return data

    def told(self, data: bytes) -> None:
        """Take what the guest's own part says: lines of JSON."""
        *lines, self._said = (self._said + data).split(b"\n")
        if len(self._said) > _LINE:
            self.stop("memory")
        for line in lines:
            message = json.loads(line)
            if "call" in message:
                self._calls += 1
                if self._calls > self._limits["tool_calls"]:
                    self.stop("tool_calls")
                self.say({key: message.get(key) for key in ("call", "name", "input")})
            elif "ended" in message:
                self._ended(int(message["ended"]))

    def _ended(self, code: int) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.say({"ended": {"exit_code": code & 0xFF, "killed_by": None}})

    def read(self, length: int) -> bytes:
        """Return what comes next for the guest's own part: the code to run, answers to calls."""
        if not self._to_read:
            message = self.next()
            if "run" in message:
                message = self._begun(message["run"])
            self._to_read = json.dumps(message).encode() + b"\n"
        data, self._to_read = self._to_read[:length], self._to_read[length:]
        return data

    def _begun(self, run: dict[str, Any]) -> dict[str, Any]:
        """Start the clock of a run; the kernel ends the process when it is up."""
        limits = self._limits = run["limits"]
        self._room = {"stdout": limits["stdout"], "stderr": limits["stderr"]}
        self._stdin = run["stdin"].encode("latin-1")
        self._calls = 0
        if self.quota is not None:
            self.quota.renew(limits["files"], limits["file_bytes"])
        most = limits["file_bytes"]
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        signal.setitimer(signal.ITIMER_REAL, limits["wall"] / 1000)
        return {key: run[key] for key in ("code", "script", "keep")}

    def heard(self, seconds: float | None) -> bool:
        """Wait until there is something to read for the guest's own part; whether there is."""
        if self._to_read or self._come:
            return True
        return bool(select.select([self._stream], [], [], seconds)[0])


def work(interpreter: Interpreter, stream: socket.socket) -> None:
    """Run one instance, in a process of its own."""
    talk = Conversation(stream)
    grants = Grants.of(talk.next()["open"])
    _fence()
    try:
        code = interpreter.run(grants, talk)
    except OSError as error:
        talk.say({"refused": str(error)})
    except Exception as error:  # noqa: BLE001 - whatever the engine raises is a trap of the guest
        with suppress(OSError):
            talk.printed("stderr", f"{_trap(error)}\n".encode())
            talk.say({"ended": {"exit_code": 134, "killed_by": None}})
    else:
        talk.say({"ended": {"exit_code": code & 0xFF, "killed_by": None}})


def _trap(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"the interpreter stopped: {text[-1].strip() if text else type(error).__name__}"


def _fence() -> None:
    """Take from the process what it does not need."""
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
    ):
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (value, value))
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_STACK, (4 * STACK, hard))


def serve(interpreter: Interpreter, control: socket.socket) -> None:
    """Fork a worker for each socket that arrives, until the engine is gone."""
    while True:
        told, handed, _, _ = socket.recv_fds(control, 1, 1)
        if not told or not handed:
            return
        stream = socket.socket(fileno=handed[0])
        worker = os.fork()
        if worker == 0:
            control.close()
            _die_with_parent()
            try:
                work(interpreter, stream)
            finally:
                stream.close()
                os._exit(0)
        stream.close()
        handle = os.pidfd_open(worker)
        socket.send_fds(control, [worker.to_bytes(8, "big")], [handle])
        os.close(handle)


def _die_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() == 1:
        os._exit(0)


def main(name: str, compiled: str) -> None:
    """Load the interpreter and serve."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets those that have ended
    control = socket.socket(fileno=0)
    interpreter = Interpreter(name, int(compiled))
    control.sendall(b"+")
    serve(interpreter, control)
