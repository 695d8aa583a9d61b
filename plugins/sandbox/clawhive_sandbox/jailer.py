"""The program around jailed programs: it makes a jail, starts a program in it and ends it.

It imports nothing of ClawHive but `confine`, which it loads from its file. Run as
`python -I jailer.py CONFINE serve|once DESCRIPTOR`, with a socket under that descriptor:

- `serve`: for each message of four descriptors (stdin, stdout, stderr and the control socket of one
  program) it forks a process that runs that program's job;
- `once`: the descriptor is the control socket, and stdin, stdout and stderr are the program's.

Over the control socket comes the job, one line of JSON, and go lines of JSON: `{"refused"}`, or
`{"started"}` and `{"ended"}`. When its other end is closed, all that the program started is killed.

The jail is bubblewrap (https://github.com/containers/bubblewrap), started as a real user who is not
root, in a mount namespace of this process: there each folder of the job is opened once and mounted
under a number, and the program's own files are in a temporary file system of bounded size and
number of files. What it leaves there is copied back after its end, without following links.
Without bubblewrap the program is held by Landlock and seccomp alone, which is weaker.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import resource
import select
import shutil
import signal
import socket
import stat
import struct
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clawhive_core import confine
else:
    sys.path.insert(0, os.path.dirname(sys.argv[1]))
    import confine

    del sys.path[0]

NOBODY = 65_534
"""The user that programs run as where ClawHive runs as root."""
INSIDE = 1_000
"""The user that a jailed program sees itself as."""
_USER, _MOUNTS = 0x10000000, 0x00020000
_NO_SETUID, _NO_DEVICES, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 0x1000, 0x4000, 0x40000
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
_EMPTY_PATH, _WHOLE_TREE, _CLONE_TREE = 0x1000, 0x8000, 1
_MAP_IDS, _FROM_EMPTY_PATH = 0x00100000, 4
_NO_LINKS = 4
_HERE = -100
_DEATH_SIGNAL, _SUBREAPER = 1, 36
_SCOPES = 6
_STAGES = ("/mnt", "/media", "/srv", "/home")
_POLL_MS = 50
_END_SECONDS = 5.0
_MAX_DEPTH = 64
_PAGE = 4096
_KERNEL_ROOM = 16 * 1024 * 1024
"""Bytes that a program's kernel objects may take of its control group."""

_FORBIDDEN = {
    "x86_64": (
        *(101, 134, 135, 136, 139, 153, 154, 155, 156, 159, 161, 163, 164, 165, 166, 167, 168),
        *(169, 170, 171, 172, 173, 174, 175, 176, 177, 178, 179, 180, 212, 227, 237, 238, 239),
        *(246, 248, 249, 250, 256, 272, 279, 298, 300, 301, 303, 304, 305, 308, 310, 311, 312),
        *(313, 319, 320, 321, 323, 29, 30, 31, 67, 103, 216),
    ),
    "aarch64": (
        *(18, 39, 40, 41, 42, 51, 58, 60, 89, 92, 97, 104, 105, 106, 112, 116, 117, 142, 161, 162),
        *(170, 171, 194, 195, 196, 197, 217, 218, 219, 224, 225, 235, 236, 237, 238, 239, 241, 262),
        *(263, 264, 265, 266, 268, 270, 271, 272, 273, 279, 280, 282, 294),
    ),
}
"""System calls that no program in a jail needs: ptrace, other processes' memory, keys, modules,
mounts, namespaces, clocks, bpf, perf, userfaultfd, memory that no limit counts (memfd, SysV)."""
_SHARED_FORBIDDEN = (*range(425, 434), 438, 440, 442, 443, 447, 457, 458, 461)
"""Those with one number everywhere: io_uring, the newer mount calls, pidfd_getfd, and so on."""
_SOCKET, _IOCTL, _SEMGET, _MSGGET = (41, 198), (16, 29), (64, 190), (68, 186)
_FAMILIES = {1, 2, 10, 16}
"""Sockets of files, IPv4, IPv6, and of the own network namespace's description."""
_PUSH_INPUT, _CONSOLE = 0x5412, 0x541C


class Refused(Exception):
    """The jail cannot be made; its text says why."""


def rules(*, shares: bool = False, net: bool = False) -> list[confine.Rule]:
    """Return the system calls that are refused to programs.

    Args:
        shares: Whether they share the machine's sockets and IPC, which are then closed to them.
        net: Whether sockets stay open all the same.
    """
    machine = os.uname().machine
    place, _ = confine.MACHINES.get(machine, (0, 0))
    calls = (*_FORBIDDEN.get(machine, ()), *_SHARED_FORBIDDEN)
    found: list[confine.Rule] = [(number, 0, None) for number in calls]
    found += [(_IOCTL[place], 1, each) for each in (_PUSH_INPUT, _CONSOLE)]
    if shares:
        found += [(each[place], 0, None) for each in (_SEMGET, _MSGGET)]
    if shares and not net:
        return [*found, (_SOCKET[place], 0, None)]
    return [*found, *((_SOCKET[place], 0, each) for each in range(46) if each not in _FAMILIES)]


class Group:
    """A control group of one program, as far as this process may make one (v1, or v2 delegated)."""

    def __init__(self) -> None:
        self.folders: list[str] = []
        self._events = ""

    def make(self, memory: int, processes: int) -> None:
        """Make it, bounded; it stays empty where nobody lets this process."""
        for line in _text("/proc/self/cgroup").splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                self._make_v2(path, memory, processes)
            elif controllers == "memory":
                above = f"/sys/fs/cgroup/memory{path}"
                if self._made(above, {"memory.limit_in_bytes": memory}):
                    self._events = f"{self.folders[-1]}/memory.oom_control"
            if self._events:
                return

    def _make_v2(self, path: str, memory: int, processes: int) -> None:
        bounds = {"memory.max": memory, "memory.swap.max": 0, "pids.max": processes}
        for above in (os.path.dirname(path), path):
            if self._made(f"/sys/fs/cgroup{above}", bounds):
                self._events = f"{self.folders[-1]}/memory.events"
                return

    def _made(self, above: str, bounds: Mapping[str, int]) -> bool:
        folder = f"{above}/clawhive-{os.getpid()}"
        try:
            os.mkdir(folder, 0o700)
        except OSError:
            return False
        try:
            for name, value in bounds.items():
                _write(f"{folder}/{name}", str(value))
        except OSError:
            os.rmdir(folder)
            return False
        self.folders.append(folder)
        return True

    def enter(self) -> None:
        """Move this process into it."""
        for folder in self.folders:
            _write(f"{folder}/cgroup.procs", str(os.getpid()))

    def killed(self) -> int:
        """Return how many processes the kernel killed for want of memory."""
        words = _text(self._events).split() if self._events else []
        return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else 0

    def remove(self) -> None:
        """Remove it, once nobody is in it."""
        for folder in self.folders:
            for _ in range(50):
                try:
                    os.rmdir(folder)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.01)


class Scratch:
    """The files of one program, which are a folder's before it and after it.

    Args:
        root: The folder that holds them while it runs.
        source: The folder that they come from and go back to; None where nothing is kept.
        owner: The user to whom they belong meanwhile.
    """

    def __init__(self, root: str, source: str | None, owner: int) -> None:
        self._root, self._source, self._owner = root, source, owner
        self._known: dict[str, tuple[int, ...]] = {}
        self.work, self.temporary = f"{root}/work", f"{root}/tmp"
        self.shared = f"{root}/shm"

    def fill(self) -> None:
        """Make its folders and copy the source's files."""
        for folder in (self.work, self.temporary, self.shared):
            os.mkdir(folder, 0o700)
            os.chown(folder, self._owner, -1)
        if self._source is None:
            return
        with _Folder(opened(self._source)) as source, _Folder(_open(self.work)) as work:
            for path, found, parent in walk(source.handle):
                target = _parent(work.handle, path)
                with _Folder(target):
                    self._copy(parent, target, path.rpartition("/")[2], found)
        self._known = dict(self._signatures())

    def _copy(self, parent: int, target: int, name: str, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            os.mkdir(name, 0o700, dir_fd=target)
            os.chown(name, self._owner, -1, dir_fd=target, follow_symlinks=False)
        elif stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(name, dir_fd=parent), name, dir_fd=target)
        elif stat.S_ISREG(found.st_mode):
            _copy_file(parent, name, target, name, 0o600 | found.st_mode & 0o100, self._owner)

    def _signatures(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        with _Folder(_open(self.work)) as work:
            for path, found, _ in walk(work.handle):
                yield path, _signature(found)

    def give_back(self) -> None:
        """Copy what changed back, and remove from the source what is gone."""
        if self._source is None:
            return
        with _Folder(opened(self._source)) as source, _Folder(_open(self.work)) as work:
            there: set[str] = set()
            for path, found, parent in walk(work.handle):
                there.add(path)
                if self._known.get(path) == _signature(found):
                    continue
                with _Folder(_parent(source.handle, path)) as target:
                    self._return(parent, target.handle, path.rpartition("/")[2], found)
            for path in sorted(set(self._known) - there, reverse=True):
                with suppress(OSError), _Folder(_parent(source.handle, path)) as target:
                    _remove(target.handle, path.rpartition("/")[2])

    def _return(self, parent: int, target: int, name: str, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            try:
                os.mkdir(name, 0o700, dir_fd=target)
            except FileExistsError:
                if not stat.S_ISDIR(os.lstat(name, dir_fd=target).st_mode):
                    os.unlink(name, dir_fd=target)
                    os.mkdir(name, 0o700, dir_fd=target)
            return
        temporary = f".{os.urandom(8).hex()}"
        try:
            if stat.S_ISLNK(found.st_mode):
                os.symlink(os.readlink(name, dir_fd=parent), temporary, dir_fd=target)
            elif stat.S_ISREG(found.st_mode):
                _copy_file(parent, name, target, temporary, 0o600 | found.st_mode & 0o100, -1)
            else:
                return  # a pipe, a socket: nothing to keep
            with suppress(FileNotFoundError):
                if stat.S_ISDIR(os.lstat(name, dir_fd=target).st_mode):
                    _remove(target, name)
            os.rename(temporary, name, src_dir_fd=target, dst_dir_fd=target)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=target)
            raise

    def is_full(self) -> bool:
        """Whether its file system has no more room, for bytes or for files."""
        found = os.statvfs(self._root)
        return found.f_bfree == 0 or found.f_ffree == 0


class _Folder:
    """An open folder, closed at the end of a block."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)


def walk(top: int) -> Iterator[tuple[str, os.stat_result, int]]:
    """Yield everything below a folder, folders first: its path, status, and its open folder."""
    yield from _walk(top, "", 0)


def _walk(folder: int, above: str, depth: int) -> Iterator[tuple[str, os.stat_result, int]]:
    for name in sorted(os.listdir(folder)):
        try:
            found = os.lstat(name, dir_fd=folder)
        except FileNotFoundError:
            continue
        path = f"{above}{name}"
        yield path, found, folder
        if stat.S_ISDIR(found.st_mode) and depth < _MAX_DEPTH:
            try:
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            except OSError:
                continue  # closed by the program itself
            with _Folder(below):
                yield from _walk(below, f"{path}/", depth + 1)


def _signature(found: os.stat_result) -> tuple[int, ...]:
    if stat.S_ISDIR(found.st_mode):
        return (found.st_ino, found.st_mode)
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _copy_file(parent: int, name: str, target: int, copied: str, mode: int, owner: int) -> None:
    reading = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
    with os.fdopen(reading, "rb") as source:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(copied, flags, mode, dir_fd=target), "wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
            if owner >= 0:
                os.fchown(file.fileno(), owner, -1)


def _parent(top: int, path: str) -> int:
    """Open the folder that a path below another one lies in, following no link."""
    handle = os.dup(top)
    for name in path.split("/")[:-1]:
        with _Folder(handle):
            handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
    return handle


def _remove(folder: int, name: str) -> None:
    if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def opened(path: str, flags: int = os.O_RDONLY | os.O_DIRECTORY) -> int:
    """Open a path in which no name is a link.

    Raises:
        OSError: It is not there, or is reached by a link.
    """
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, 0, _NO_LINKS)
    handle = confine.kernel().syscall(_OPENAT2, _HERE, os.fsencode(path), how, len(how))
    if handle < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return handle


class Jail:
    """One program's jail.

    Args:
        job: What to run, and in what; see `clawhive_sandbox.jail`.
        control: The socket to ClawHive.
    """

    def __init__(self, job: Mapping[str, Any], control: socket.socket) -> None:
        self._job, self._control = job, control
        self._is_root = os.geteuid() == 0
        self._owner = NOBODY if self._is_root else os.geteuid()
        self._group = Group()
        self._stage = ""
        self._scratch = Scratch("", None, -1)
        self._copies: list[Scratch] = []
        self._first = 0
        self._handle = -1
        self._worst = 0
        self._is_over = False

    def run(self) -> None:
        """Make the jail, run the program in it and tell how it ended."""
        job = self._job
        room = job["memory"] + job["file_bytes"] + _KERNEL_ROOM
        if job["memory"]:
            self._group.make(room, job["processes"] + 4)
        try:
            ended = self._in_namespaces() if job["bwrap"] else self._by_landlock()
        except (OSError, Refused) as error:
            self._say({"refused": str(error)})
        else:
            self._say({"ended": ended})
        finally:
            self._group.remove()

    def _say(self, message: Mapping[str, Any]) -> None:
        with suppress(OSError):
            self._control.sendall(json.dumps(message).encode() + b"\n")

    def _in_namespaces(self) -> dict[str, Any]:
        self._separate()
        sources = [
            (opened(source, os.O_PATH) if is_own else os.open(source, os.O_PATH), target, kind)
            for source, target, kind, is_own in self._mounts()
        ]
        self._stage = next(
            each
            for each in _STAGES
            if os.path.isdir(each) and not self._job["bwrap"].startswith(f"{each}/")
        )
        mounted("tmpfs", self._stage, "tmpfs", _NO_SETUID | _NO_DEVICES, "mode=0711")
        self._make_scratch()
        arguments = list(self._arguments(sources))
        reading, writing = os.pipe()
        waiting, going = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            os.close(going)
            self._start(arguments, writing, waiting)
        os.close(writing)
        os.close(waiting)
        _be_silent()
        self._first = _child_pid(reading)
        if self._first:
            self._handle = os.pidfd_open(self._first)
            self._limit_first()
            self._say({"started": {"group": bool(self._group.folders)}})
            os.write(going, b"+")
        os.close(going)
        code = self._watch(pid)
        if not self._first:
            raise Refused("bubblewrap could not make the jail")
        return self._told(code)

    def _mounts(self) -> Iterator[tuple[str, str, str, bool]]:
        for source, target in self._job["system"]:
            yield source, target, "--ro-bind", False
        for source, target, is_writable in self._job["mounts"]:
            yield source, target, "--bind" if is_writable else "--ro-bind", True

    def _separate(self) -> None:
        """Begin a mount namespace; as a user in a user namespace, which is where one may."""
        user, group = os.geteuid(), os.getegid()
        kernel = confine.kernel()
        if kernel.unshare(_MOUNTS if self._is_root else _MOUNTS | _USER) != 0:
            raise Refused(f"no namespace can be made here ({os.strerror(ctypes.get_errno())})")
        if not self._is_root:
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"{user} {user} 1")
            _write("/proc/self/gid_map", f"{group} {group} 1")
        mounted(None, "/", None, _RECURSIVE | _PRIVATE)

    def _make_scratch(self) -> None:
        job, root = self._job, f"{self._stage}/scratch"
        size, files = job["file_bytes"], job["files"] + 8 + 4 * len(job["copies"])
        folders = [job["directory"]] if job["directory"] is not None else []
        for folder in (*folders, *(each for each, _ in job["copies"])):
            with _Folder(opened(folder)) as source:
                for _, found, _ in walk(source.handle):
                    size += -(-found.st_size // _PAGE) * _PAGE
                    files += 1
        os.mkdir(root, 0o711)
        bounds = f"size={max(size, _PAGE)},nr_inodes={files},mode=0711"
        mounted("tmpfs", root, "tmpfs", _NO_SETUID | _NO_DEVICES, bounds)
        self._scratch = Scratch(root, job["directory"], self._owner)
        self._scratch.fill()
        for number, (source, _) in enumerate(job["copies"]):
            os.mkdir(f"{root}/copy{number}", 0o711)
            self._copies.append(Scratch(f"{root}/copy{number}", source, self._owner))
            self._copies[-1].fill()

    def _arguments(self, sources: Sequence[tuple[int, str, str]]) -> Iterator[str]:
        """Yield bubblewrap's arguments, with everything under the stage's own names."""
        job, stage = self._job, self._stage
        yield from ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts")
        yield from ("--unshare-cgroup-try", "--disable-userns", "--die-with-parent")
        yield from ("--new-session", "--cap-drop", "ALL", "--hostname", "sandbox")
        yield from ("--uid", str(INSIDE), "--gid", str(INSIDE), "--clearenv")
        if not job["net"]:
            yield "--unshare-net"
        for name, value in job["env"].items():
            yield from ("--setenv", name, value)
        yield from ("--proc", "/proc", "--dev", "/dev")
        yield from ("--bind", self._scratch.shared, "/dev/shm", "--remount-ro", "/dev")
        yield from ("--bind", self._scratch.temporary, "/tmp")
        for target, path in job["links"]:
            yield from ("--symlink", target, path)
        for number, (handle, target, kind) in enumerate(sources):
            staged = f"{stage}/{number}"
            self._stage_one(handle, staged, is_own=number >= len(job["system"]))
            yield from (kind, staged, target)
        for number, (path, text) in enumerate(job["texts"].items()):
            _write(f"{stage}/text{number}", text)
            os.chmod(f"{stage}/text{number}", 0o644)
            yield from ("--ro-bind", f"{stage}/text{number}", path)
        for copy, (_, target) in zip(self._copies, job["copies"], strict=True):
            yield from ("--bind", copy.work, target)
        if job["work"] is not None:
            yield from ("--bind", self._scratch.work, job["work"])
        for path in job["closed"]:
            yield from ("--remount-ro", path)
        yield from ("--remount-ro", "/", "--chdir", job["cwd"])

    def _stage_one(self, handle: int, staged: str, *, is_own: bool) -> None:
        """Mount an opened file or folder under a name of the stage."""
        found = os.stat(f"/proc/self/fd/{handle}")
        if stat.S_ISDIR(found.st_mode):
            os.mkdir(staged, 0o755)
        else:
            os.close(os.open(staged, os.O_CREAT | os.O_EXCL, 0o644))
        is_mapped = self._is_root and is_own and found.st_uid != NOBODY
        if not (is_mapped and _mounted_as(handle, staged, found.st_uid, NOBODY)):
            mounted(f"/proc/self/fd/{handle}", staged, None, _BIND | _RECURSIVE)
        os.close(handle)

    def _start(self, arguments: Sequence[str], told: int, go: int) -> NoReturn:
        """Become bubblewrap, as a user who is not root."""
        try:
            self._control.close()
            self._group.enter()
            self._drop_user()
            args = os.memfd_create("args", 0)
            os.write(args, b"\0".join(each.encode() for each in arguments) + b"\0")
            os.lseek(args, 0, os.SEEK_SET)
            held = os.memfd_create("filter", 0)
            architecture = confine.MACHINES[os.uname().machine][1]
            os.write(held, confine.filter_of(rules(), architecture))
            os.lseek(held, 0, os.SEEK_SET)
            for handle in (told, go):
                os.set_inheritable(handle, True)  # noqa: FBT003 - the standard library's signature
            given = ["--args", str(args), "--seccomp", str(held)]
            given += ["--info-fd", str(told), "--block-fd", str(go), "--"]
            os.execve(self._job["bwrap"], ["bwrap", *given, *self._job["argv"]], {})
        except BaseException as error:  # noqa: BLE001 - a forked process must not go on as its parent
            os.write(2, f"the jail cannot be started: {error}\n".encode())
        os._exit(125)

    def _drop_user(self) -> None:
        if self._is_root:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        confine.kernel().prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        confine.forbid_new_privileges()

    def _limit_first(self) -> None:
        """Limit the namespace's first process as its own user: root may lack that right here."""
        if self._is_root:
            os.setresgid(NOBODY, 0, 0)
            os.setresuid(NOBODY, 0, 0)
        try:
            self._limit(self._first, 1)  # the namespace's first counts, too
        except OSError as error:
            raise Refused("its limits cannot be set") from error
        finally:
            if self._is_root:
                os.setresuid(0, 0, 0)
                os.setresgid(0, 0, 0)

    def _limit(self, pid: int, others: int) -> None:
        job = self._job
        bounds = [
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NOFILE, 512),
            (resource.RLIMIT_MEMLOCK, 64 * 1024),
            (resource.RLIMIT_MSGQUEUE, 0),
        ]
        if job["memory"]:
            bounds += [(resource.RLIMIT_DATA, job["memory"])]
        if job["processes"]:
            bounds += [(resource.RLIMIT_NPROC, job["processes"] + others)]
        if job["wall_ms"]:
            bounds += [(resource.RLIMIT_CPU, job["wall_ms"] // 1000 + 2)]
        for kind, value in bounds:
            hard = resource.prlimit(pid, kind)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.prlimit(pid, kind, (bound, bound))

    def _watch(self, pid: int) -> int:
        """Wait until the program has ended or nobody is there for it any more; then kill all."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN | select.POLLHUP)
        handle = os.pidfd_open(pid)
        poll.register(handle, select.POLLIN)
        is_watched = self._job["memory"] and not self._group.folders
        while not poll.poll(_POLL_MS if is_watched else None):
            self._worst = sum(map(_resident, _descendants(self._first)))
            if self._worst > self._most():
                break
        os.close(handle)
        self._kill(pid)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status)

    def _kill(self, pid: int) -> None:
        """End the namespace's first process, and with it all others; wait until they are gone."""
        if self._handle >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            select.select([self._handle], [], [], _END_SECONDS)
            os.close(self._handle)
        handle = os.pidfd_open(pid)  # not waited for yet, so that the number is still its own
        if not select.select([handle], [], [], _END_SECONDS)[0]:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)

    def _told(self, code: int) -> dict[str, Any]:
        """Return how the program ended, once its files are where they belong."""
        is_full = self._scratch.is_full()
        problem = None
        try:
            for each in (self._scratch, *self._copies):
                each.give_back()
        except OSError as error:
            problem = f"{error.filename or 'its files'}: {error.strerror}"
        killed = self._group.killed() > 0 or self._worst > self._most()
        return {"code": code, "full": is_full, "memory": killed, "problem": problem}

    def _most(self) -> float:
        """Return how much memory all its processes may take together."""
        memory = self._job["memory"]
        return memory + self._job["file_bytes"] if memory else math.inf

    def _by_landlock(self) -> dict[str, Any]:
        """Run the program held by Landlock and seccomp; find and end what descends from it."""
        if confine.landlock_version() < _SCOPES or os.uname().machine not in confine.MACHINES:
            raise Refused("this kernel has no Landlock that holds signals (Linux 6.12)")
        confine.kernel().prctl(_SUBREAPER, 1, 0, 0, 0)
        root = f"{self._job['temporary']}/clawhive-{os.urandom(8).hex()}"
        os.mkdir(root, 0o711)
        try:
            self._scratch = Scratch(root, self._job["directory"], self._owner)
            self._scratch.fill()
            pid = os.fork()
            if pid == 0:
                self._start_held()
            _be_silent()
            self._say({"started": {"group": bool(self._group.folders)}})
            code = self._watch_held(pid, root)
            return {**self._told(code), "full": self._is_over or code == -signal.SIGXFSZ}
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def _start_held(self) -> NoReturn:
        job = self._job
        try:
            self._control.close()
            os.setsid()
            self._group.enter()
            self._drop_user()
            self._limit(os.getpid(), _processes_of(os.geteuid()))
            resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_bytes"], job["file_bytes"]))
            confine.drop_capabilities()
            env = {**job["env"], "HOME": self._scratch.work, "TMPDIR": self._scratch.temporary}
            os.chdir(self._scratch.work)
            held = confine.restrict_files(self._grant, connections=job["net"])
            if not (held and confine.refuse(rules(shares=True, net=job["net"]))):
                os.write(2, b"Landlock and seccomp hold nothing here\n")
                os._exit(125)
            os.execvpe(job["argv"][0], job["argv"], env)
        except BaseException as error:  # noqa: BLE001 - a forked process must not go on as its parent
            os.write(2, f"{job['argv'][0]}: {error}\n".encode())
        os._exit(127)

    def _grant(self, give: Any) -> None:
        for source, _ in self._job["system"]:
            give(source, confine.READING)
        for path in ("/bin", "/sbin", "/lib", "/lib64"):
            if not os.path.islink(path):
                give(path, confine.READING)
        for source, _, is_writable in self._job["mounts"]:
            give(source, confine.EVERYTHING if is_writable else confine.READING)
        give(self._scratch.work, confine.EVERYTHING)
        give(self._scratch.temporary, confine.EVERYTHING)
        give(f"/proc/{os.getpid()}", confine.READING)
        for device in ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"):
            give(device, confine.OF_FILES)

    def _watch_held(self, pid: int, root: str) -> int:
        poll = select.poll()
        poll.register(self._control, select.POLLIN | select.POLLHUP)
        handle = os.pidfd_open(pid)
        poll.register(handle, select.POLLIN)
        while not poll.poll(_POLL_MS):
            self._worst = sum(map(_resident, _descendants(os.getpid())))
            if self._worst > self._most():
                break
            self._is_over = _is_over(root, self._job["file_bytes"], self._job["files"])
            if self._is_over:
                break
        os.close(handle)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        end = time.monotonic() + _END_SECONDS
        while (left := _descendants(os.getpid())) and time.monotonic() < end:
            for each in left:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        return os.waitstatus_to_exitcode(status)


def mounted(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Mount something.

    Raises:
        Refused: The kernel does not let this process.
    """
    given = (None if each is None else os.fsencode(each) for each in (source, target, kind))
    if confine.kernel().mount(*given, ctypes.c_ulong(flags), data.encode() or None) != 0:
        raise Refused(f"{target} cannot be mounted ({os.strerror(ctypes.get_errno())})")


def _mounted_as(handle: int, target: str, real: int, shown: int) -> bool:
    """Mount an opened file so that one user's files are another's; return whether that works."""
    syscall = confine.kernel().syscall
    flags = _EMPTY_PATH | _CLONE_TREE | _WHOLE_TREE | os.O_CLOEXEC
    tree = syscall(_OPEN_TREE, handle, b"", flags)
    users = _user_namespace(real, shown)
    attributes = (ctypes.c_uint64 * 4)(_MAP_IDS, 0, 0, users)
    size = ctypes.sizeof(attributes)
    done = (
        tree >= 0
        and syscall(_MOUNT_SETATTR, tree, b"", _EMPTY_PATH, attributes, size) == 0
        and syscall(_MOVE_MOUNT, tree, b"", _HERE, os.fsencode(target), _FROM_EMPTY_PATH) == 0
    )
    for each in (tree, users):
        if each >= 0:
            os.close(each)
    return done


def _user_namespace(real: int, shown: int) -> int:
    """Open a user namespace that maps one user to another."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        confine.kernel().unshare(_USER)
        os.write(writing, b"+")
        signal.pause()
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    try:
        for name in ("uid_map", "gid_map"):
            _write(f"/proc/{pid}/{name}", f"{real} {shown} 1")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _child_pid(reading: int) -> int:
    """Return the number of the jail's first process, 0 where there is none."""
    data = b""
    while more := os.read(reading, 4096):
        data += more
        if b"}" in data:
            break
    os.close(reading)
    return int(json.loads(data)["child-pid"]) if b"}" in data else 0


def _be_silent() -> None:
    """Let go of the program's stdin, stdout and stderr."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        with suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                waiting += map(int, _text(f"/proc/{parent}/task/{task}/children").split())
        found.append(parent)
    return found[1:]


def _resident(pid: int) -> int:
    words = _text(f"/proc/{pid}/statm").split()
    return int(words[1]) * _PAGE if words else 0


def _processes_of(user: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                count += os.stat(f"/proc/{name}").st_uid == user
    return count


def _is_over(root: str, most: int, files: int) -> bool:
    used = count = 0
    with suppress(OSError), _Folder(_open(root)) as top:
        for _, found, _ in walk(top.handle):
            used, count = used + found.st_blocks * 512, count + 1
    return used > most or count > files + 8


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def job_of(control: socket.socket) -> dict[str, Any]:
    """Return the job that comes through a control socket."""
    data = bytearray()
    while not data.endswith(b"\n"):
        more = control.recv(1 << 16)
        if not more:
            os._exit(0)
        data += more
    return json.loads(data)


def serve(server: socket.socket) -> None:
    """Fork a process for each program that comes, until ClawHive is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets those that have ended
    while True:
        told, handles, _, _ = socket.recv_fds(server, 1, 4)
        if not told or len(handles) < 4:  # noqa: PLR2004 - as the docstring of the module says
            return
        if os.fork() == 0:
            server.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number, handle in enumerate(handles[:3]):
                os.dup2(handle, number)
                os.close(handle)
            _run(socket.socket(fileno=handles[3]))
        for handle in handles:
            os.close(handle)


def _run(control: socket.socket) -> NoReturn:
    try:
        Jail(job_of(control), control).run()
    except BaseException as error:  # noqa: BLE001 - whatever it is, ClawHive is told
        with suppress(OSError):
            control.sendall(json.dumps({"refused": f"{error}"}).encode() + b"\n")
    os._exit(0)


if __name__ == "__main__":
    stream = socket.socket(fileno=int(sys.argv[3]))
    if sys.argv[2] == "serve":
        serve(stream)
    else:
        _run(stream)
