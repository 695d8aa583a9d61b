"""Attempts to get out of a sandbox engine, in a scene that tells which of them succeeded.

The attempts are in `data/attacks.toml`. A benign program shows that an engine runs programs at all,
and the engine `bare`, a plain process, that the attempts succeed where nothing holds them.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from clawhive_core import SandboxCommand, SandboxLimits, SandboxOutcome, SandboxSpec

if TYPE_CHECKING:
    from clawhive_core import SandboxEngine, SandboxInstance, Stream, Unsupported

Language = Literal["python", "node"]

FLAGS: Mapping[Language, str] = {"python": "-c", "node": "-e"}
BENIGN: Mapping[Language, str] = {"python": "print(6 * 7)", "node": "console.log(6 * 7)"}
BREACH = "BREACH"
_SECRET_NAME = "CLAWHIVE_ATTACK_SECRET"  # noqa: S105 - a name
_KEPT = "as it was"
_WALL_MS, _TIMED_MS = 20_000, 1_000
_LATE_MS = 500
_STREAM = 1 << 20
_LEFT = ("/tmp/clawhive-attack", "/dev/shm/clawhive-attack", "/dev/clawhive-attack")  # noqa: S108 - what the attempts name


@dataclass(frozen=True, slots=True)
class Attack:
    """One attempt."""

    language: Language
    category: str
    name: str
    code: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of an attempt: what it achieved, None where it was blocked."""

    attack: Attack
    breach: str | None


def attacks(language: Language) -> list[Attack]:
    """Return the attempts in one language."""
    import tomllib

    text = files("clawhive_sandbox").joinpath("data", "attacks.toml").read_text(encoding="utf-8")
    return [
        Attack(language, each["category"], each["name"], each["code"])
        for each in tomllib.loads(text)[language]
    ]


class Scene:
    """A secret, files, a process, sockets and shared memory outside of the sandbox.

    Args:
        root: An empty folder that any user can enter.
    """

    def __init__(self, root: Path) -> None:
        self.secret = f"sk-{secrets.token_hex(16)}"
        self._root, self._stack = root, ExitStack()
        self._sockets: dict[str, socket.socket] = {}
        self._victim: subprocess.Popen[bytes] | None = None
        self._key = secrets.randbelow(1 << 30) + 1
        self._segment = -1
        self.directory = root / "session"

    def __enter__(self) -> Self:
        for name in ("open", "private"):
            (self._root / name).mkdir()
            (self._root / name).chmod(0o777)
        (self._root / "private" / "secret").write_text(self.secret)
        handle = os.open(self._root / "private" / "secret", os.O_RDONLY)
        os.set_inheritable(handle, True)  # noqa: FBT003 - the standard library's signature
        self._stack.callback(os.close, handle)
        for name, kind, address in self._addresses():
            opened = self._sockets[name] = socket.socket(*kind)
            self._stack.enter_context(opened)
            opened.bind(address)
            if kind[1] == socket.SOCK_STREAM:
                opened.listen()
            opened.setblocking(False)  # noqa: FBT003 - as above
        shared = Path(f"/dev/shm/clawhive-{self._key}")  # noqa: S108 - what is attacked
        with suppress(OSError):
            shared.write_text(self.secret)
            self._stack.callback(shared.unlink)
        self._share_memory()
        os.environ[_SECRET_NAME] = self.secret
        self._stack.callback(os.environ.pop, _SECRET_NAME, None)
        return self

    def __exit__(self, *_: object) -> None:
        if self._victim is not None:
            self._end_victim(self._victim)
        self._stack.close()
        for path in _LEFT:
            with suppress(OSError):
                Path(path).unlink()

    def _addresses(self) -> Iterator[tuple[str, tuple[int, int], Any]]:
        yield "port", (socket.AF_INET, socket.SOCK_STREAM), ("127.0.0.1", 0)
        yield "udp", (socket.AF_INET, socket.SOCK_DGRAM), ("127.0.0.1", 0)
        yield "unix", (socket.AF_UNIX, socket.SOCK_STREAM), str(self._root / "unix")
        yield "abstract", (socket.AF_UNIX, socket.SOCK_STREAM), f"\0clawhive-{self._key}"

    def _share_memory(self) -> None:
        kernel = ctypes.CDLL(None)
        self._segment = kernel.shmget(self._key, 4096, 0o1666)
        queue = kernel.msgget(self._key, 0o1666)
        self._stack.callback(kernel.shmctl, self._segment, 0, None)
        self._stack.callback(kernel.msgctl, queue, 0, None)

    def set(self) -> dict[str, Any]:
        """Put everything back in its place; return what attempts know of it."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(mode=0o700)
        folder = self._root / "open"
        shutil.rmtree(folder)
        folder.mkdir()
        folder.chmod(0o777)
        for path in (folder / "there", self._root / "victim"):
            path.write_text(_KEPT)
            path.chmod(0o666)
        if self._victim is None or self._victim.poll() is not None:
            self._victim = self._new_victim()
        unix = self._root / "unix"
        unix.chmod(0o777)
        for handle in self._sockets.values():
            _heard(handle)
        return {
            "secret": str(self._root / "private" / "secret"),
            "victim": str(self._root / "victim"),
            "open": str(folder),
            "host": self._victim.pid,
            "pid": self._victim.pid,
            "mark": f"7200.{self._key}",
            "port": self._sockets["port"].getsockname()[1],
            "udp": self._sockets["udp"].getsockname()[1],
            "unix": str(unix),
            "abstract": f"clawhive-{self._key}",
            "key": self._key,
            "shm": f"/dev/shm/clawhive-{self._key}",  # noqa: S108 - as above
            "sleep": f"3600.{secrets.randbelow(10**9):09}",
        }

    def _new_victim(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/usr/bin/env", "sleep", f"7200.{self._key}"],
            start_new_session=True,
        )

    def _end_victim(self, victim: subprocess.Popen[bytes]) -> None:
        victim.kill()
        victim.wait()

    def breach(self, given: Mapping[str, Any]) -> str | None:
        """Return what of the scene has changed, None where nothing has."""
        folder = self._root / "open"
        left = _processes(given["sleep"])
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if left:
            return "it left a process"
        if [each.name for each in folder.iterdir()] != ["there"] or any(
            each.read_text() != _KEPT for each in (folder / "there", self._root / "victim")
        ):
            return "it changed files outside"
        if self._victim is None or self._victim.poll() is not None:
            return "it ended a process outside"
        reached = [name for name, handle in self._sockets.items() if _heard(handle)]
        if reached:
            return f"it reached a socket outside ({reached[0]})"
        owned = any(_runs_as_owner(each) for each in self.directory.rglob("*"))
        return "it left a program that runs as its owner" if owned else None


def _runs_as_owner(path: Path) -> bool:
    try:
        return bool(path.lstat().st_mode & 0o6000)
    except OSError:
        return False


def _heard(handle: socket.socket) -> bool:
    """Return whether something arrived at a socket, and forget it."""
    heard = False
    with suppress(BlockingIOError):
        while True:
            if handle.type == socket.SOCK_DGRAM:
                handle.recv(99)
            else:
                handle.accept()[0].close()
            heard = True
    return heard


def _processes(argument: str) -> list[int]:
    """Return the processes that have an argument."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if argument.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


async def attempted(engine: SandboxEngine, attack: Attack, scene: Scene) -> Verdict:
    """Make one attempt in an engine.

    Raises:
        SandboxUnavailable: The engine cannot start here.
    """
    given = scene.set()
    shown = repr(given) if attack.language == "python" else _as_javascript(given)
    prefix = "P" if attack.language == "python" else "const P"
    argv = (attack.language, FLAGS[attack.language], f"{prefix} = {shown}\n{attack.code}\n")
    command = SandboxCommand(argv)
    if engine.unsupported(command) is not None:
        return Verdict(attack, None)
    wall = _TIMED_MS if attack.category in {"time", "output", "survivors"} else _WALL_MS
    limits = SandboxLimits(wall_ms=wall, stdout_bytes=_STREAM, stderr_bytes=_STREAM)
    outcome = await _run(engine, command, scene.directory, limits)
    return Verdict(attack, _told(attack, outcome, scene.secret) or scene.breach(given))


async def _run(
    engine: SandboxEngine, command: SandboxCommand, directory: Path, limits: SandboxLimits
) -> SandboxOutcome:
    instance = await engine.open(SandboxSpec(str(directory), limits=limits))
    try:
        return await instance.run(command, lambda _stream, _data: None)
    finally:
        await instance.close()


def _told(attack: Attack, outcome: SandboxOutcome, secret: str) -> str | None:
    """Return what a program's end tells of a breach."""
    printed = outcome.stdout.decode("utf-8", "replace")
    if secret in printed or secret in outcome.stderr.decode("utf-8", "replace"):
        return "it read the secret"
    if BREACH in printed:
        return "it could"
    if attack.category == "time" and outcome.duration_ms > _TIMED_MS + _LATE_MS * _patience():
        return f"it ran for {outcome.duration_ms} ms"
    if max(len(outcome.stdout), len(outcome.stderr)) > _STREAM:
        return "its output was not limited"
    return None


def _patience() -> float:
    """Return by how much a busy machine may be late."""
    return max(1.0, 4 * os.getloadavg()[0] / (os.cpu_count() or 1))


def _as_javascript(given: Mapping[str, Any]) -> str:
    import json

    return json.dumps(given)


async def attack(
    engine: SandboxEngine, language: Language, told: Callable[[Verdict], None] = lambda _: None
) -> list[Verdict]:
    """Make every attempt in an engine, after a benign program.

    Raises:
        SandboxUnavailable: The engine cannot start here.
        RuntimeError: It does not run the benign program, so that its verdicts would say nothing.
    """
    verdicts: list[Verdict] = []
    root = Path(tempfile.mkdtemp(prefix="clawhive-attack-"))
    os.chmod(root, 0o755)  # noqa: PTH101, S103 - an async function; any user must find the scene
    try:
        with Scene(root) as scene:
            scene.set()
            command = SandboxCommand((language, FLAGS[language], BENIGN[language]))
            outcome = await _run(engine, command, scene.directory, SandboxLimits(wall_ms=_WALL_MS))
            if outcome.stdout != b"42\n":
                raise RuntimeError(f"`{engine.name}` runs no benign program: {outcome}")
            for each in attacks(language):
                verdicts.append(await attempted(engine, each, scene))
                told(verdicts[-1])
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return verdicts


def by_category(verdicts: Sequence[Verdict]) -> dict[str, tuple[int, int]]:
    """Return for each category how many attempts were blocked, and how many there were."""
    made = Counter(each.attack.category for each in verdicts)
    blocked = Counter(each.attack.category for each in verdicts if each.breach is None)
    return {category: (blocked[category], count) for category, count in made.items()}


class BareEngine:
    """Runs programs in a plain process with a deadline: the negative control, and no sandbox."""

    name = "bare"
    version = ""
    aliases: Mapping[str, str] = {}
    deterministic = False
    programs = frozenset({"python -c", "node -e"})

    def unsupported(self, command: SandboxCommand) -> Unsupported | None:  # noqa: ARG002 - the protocol's signature
        """Return None."""
        return None

    async def open(self, spec: SandboxSpec) -> SandboxInstance:
        """Return an instance."""
        return _BareInstance(spec)

    async def close(self) -> None:
        """Do nothing."""


class _BareInstance:
    def __init__(self, spec: SandboxSpec) -> None:
        self._spec = spec

    async def run(
        self,
        command: SandboxCommand,
        output: Callable[[Stream, bytes], None],  # noqa: ARG002 - the protocol's signature
    ) -> SandboxOutcome:
        from anyio import to_thread

        return await to_thread.run_sync(self._run, command)

    def _run(self, command: SandboxCommand) -> SandboxOutcome:
        program = sys.executable if command.program == "python" else command.program
        started = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(
                [program, *command.argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self._spec.directory,
                close_fds=False,
            )
            try:
                code, killed = process.wait(self._spec.limits.wall_ms / 1000), None
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                code, killed = None, "wall"
            out.seek(0)
            err.seek(0)
            ms = round((time.monotonic() - started) * 1000)
            return SandboxOutcome(
                code, out.read(_STREAM * 2), err.read(_STREAM * 2), killed, (), ms
            )

    async def close(self) -> None:
        pass
