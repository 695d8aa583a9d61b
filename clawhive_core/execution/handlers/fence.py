"""The fence around a handler's process, made by the process itself before it runs anything.

It is imported by `handler_child.py`, from beside it, with nothing of ClawHive but `confine`. On
Linux it takes

- a PID namespace, whose first process takes all others along when it ends, and nothing in which can
  see or reach it; with a mount namespace in which all is read-only and `/proc` is its own. Where
  neither root nor a user namespace gives them: a watching parent to which descendants fall, and
  which a filter of system calls keeps from being signalled;
- Landlock (https://docs.kernel.org/userspace-api/landlock.html): files open for reading except the
  guarded ones, for writing in the own temporary folder only; from its version 6 also no signals and
  no abstract sockets of others;
- that filter (seccomp): no sockets of the machine's services, by which they could be asked to do
  what the process may not;
- every capability away, for good.

What of it the kernel lacks is told by `missing`.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import clawhive_core.confine as confine  # noqa: PLR0402 - rooms import no public names
else:
    try:
        import confine
    except ModuleNotFoundError:  # not in a handler's process, which has its folder on the path
        import clawhive_core.confine as confine  # noqa: PLR0402 - as above

_USER, _MOUNTS, _PIDS, _IPC = 0x10000000, 0x00020000, 0x20000000, 0x08000000
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_PROGRAMS = 1, 2, 4, 8
_RECURSIVE, _PRIVATE = 0x4000, 0x40000
_MOUNT_SETATTR, _HERE, _WHOLE_TREE = 442, -100, 0x8000

_DEATH_SIGNAL, _DUMPABLE, _SUBREAPER = 1, 4, 36
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - its own, mounted below
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

_SIGNALS: dict[str, tuple[int, ...]] = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "prlimit64": (302, 261),
    "pidfd_open": (434, 434),
}
"""System calls whose first argument is a process, on x86_64 and on aarch64."""
_SOCKET, _SOCKETPAIR, _FCNTL, _IOCTL = (41, 198), (53, 199), (72, 25), (16, 29)
_PIDFD_SEND_SIGNAL, _IO_URING_SETUP = 424, 425
_UNIX, _DATAGRAM, _SOCKET_FLAGS = 1, 2, (0, 0o2000000, 0o4000, 0o2004000)
_SET_OWNER, _SET_OWNER_EX, _OWNER_OF_SOCKET, _GROUP_OF_SOCKET = 8, 15, 0x8901, 0x8902


class Fence:
    """The fence of one process and all that it starts.

    Args:
        scratch: The folder in which it may write, empty.
        guarded: Paths that it cannot open.
        file_bytes: The bytes of its files, where the folder can be bounded.
        files: Their number, likewise.
    """

    def __init__(self, scratch: str, guarded: Sequence[str], file_bytes: int, files: int) -> None:
        self.missing: list[str] = []
        self._scratch, self._guarded = scratch, guarded
        self._size = f"size={max(file_bytes, 4096)},nr_inodes={files + 2},mode=0700"
        self._kernel = confine.kernel()
        self._watcher = os.getpid()
        self._others = (self._watcher, os.getppid())
        self._has_pids = self._has_user = self._has_mounts = False

    def fork(self) -> int:
        """Fork, into a PID namespace where there can be one; return 0 in the fenced process.

        This process gets the number of the child that it must watch: with it all others end where
        there is a namespace, else they fall to this process.
        """
        self._has_pids = sys.platform == "linux" and self._separate()
        if not self._has_pids:
            with suppress(AttributeError):
                self._kernel.prctl(_SUBREAPER, 1, 0, 0, 0)
        child = os.fork()
        if child == 0 and self._has_pids:
            self._mount()
            self._be_first()
        return child

    @property
    def has_namespace(self) -> bool:
        """Whether the child's end is the end of all that it started."""
        return self._has_pids

    def close(self) -> None:
        """Restrict this process for good, before any thread of it starts."""
        if sys.platform != "linux":
            self.missing.append("this system has neither namespaces nor Landlock")
            return
        os.setpgid(0, 0)  # a signal to its own group is none to the watcher's
        confine.drop_capabilities()
        if not confine.forbid_new_privileges() or not self._restrict_files():
            self.missing.append(
                "Landlock: it can read ClawHive's own files"
                if self._has_mounts
                else "Landlock: it can write all that the user can, and look into other processes"
            )
        if not confine.refuse(self._rules()):
            self.missing.append("seccomp: it can ask the machine's services to act for it")
            if not self._has_pids:
                self.missing.append("a PID namespace: it can end its watcher, and outlive its call")

    def _separate(self) -> bool:
        """Let the next child begin a PID namespace; as a user with a user namespace around it."""
        user, group = os.geteuid(), os.getegid()
        if self._kernel.unshare(_PIDS) == 0:
            return True
        if self._kernel.unshare(_USER | _PIDS) != 0:
            return False
        self._has_user = True
        with suppress(OSError):
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"{user} {user} 1")
            _write("/proc/self/gid_map", f"{group} {group} 1")
        return True

    def _mount(self) -> None:
        """Make all read-only in a mount namespace, `/proc` and two temporary folders its own."""
        if self._has_user:
            with suppress(OSError):  # no further user namespaces below this one
                _write("/proc/sys/user/max_user_namespaces", "0")
        if self._kernel.unshare(_MOUNTS | _IPC) != 0:
            return
        if self._mounted(None, "/", None, _RECURSIVE | _PRIVATE):
            attributes = (ctypes.c_uint64 * 4)(_READ_ONLY, 0, 0, 0)
            size = ctypes.sizeof(attributes)
            changed = self._kernel.syscall(
                _MOUNT_SETATTR, _HERE, b"/", _WHOLE_TREE, attributes, size
            )
            for folder in (self._scratch, _SHARED_MEMORY):
                self._mounted("tmpfs", folder, "tmpfs", _NO_SETUID | _NO_DEVICES, self._size)
            flags = _READ_ONLY | _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS
            has_proc = self._mounted("proc", "/proc", "proc", flags)
            self._has_mounts = has_proc and changed == 0

    def _mounted(
        self, source: str | None, target: str, kind: str | None, flags: int, data: str = ""
    ) -> bool:
        given = (each and each.encode() for each in (source, target, kind))
        return self._kernel.mount(*given, flags, data.encode() or None) == 0

    def _be_first(self) -> None:
        """Fork the fenced process; this one, the namespace's first, ends with it or its host."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets what has ended
        prctl = self._kernel.prctl
        prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        prctl(_DUMPABLE, 0, 0, 0, 0)  # nobody traces it
        worker = os.fork()
        if worker:
            _wait(worker)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        prctl(_DUMPABLE, 1, 0, 0, 0)

    def _restrict_files(self) -> bool:
        """Take all files but those it may read, and its own folder; by Landlock."""
        if 0 < confine.landlock_version() < confine.TRUNCATING and not self._has_mounts:
            self.missing.append("Landlock 3: it can empty the files that the user can write")
        guarded = {"/dev", *map(os.path.realpath, self._guarded)}
        with suppress(OSError):
            if not self._has_mounts:
                guarded |= _other_processes()

        def grant(give: Callable[[str, int], None]) -> None:
            _give_around(guarded, give)
            give(self._scratch, confine.EVERYTHING)
            for device in _DEVICES:
                give(device, confine.OF_FILES)
            if self._has_mounts:
                give(_SHARED_MEMORY, confine.EVERYTHING)

        return confine.restrict_files(grant)

    def _rules(self) -> list[confine.Rule]:
        """Return the system calls to refuse."""
        machine, _ = confine.MACHINES.get(os.uname().machine, (0, 0))
        datagrams = (_DATAGRAM | flags for flags in _SOCKET_FLAGS)
        rules: list[confine.Rule] = [
            (_IO_URING_SETUP, 0, None),  # it could do what is refused here
            (_SOCKET[machine], 0, _UNIX),
            *((_SOCKETPAIR[machine], 1, each) for each in datagrams),
        ]
        if self._has_pids:
            return rules
        targets = [-1, *(sign * pid for pid in self._others for sign in (1, -1))]
        for numbers in _SIGNALS.values():
            rules += [(numbers[machine], 0, target) for target in targets]
        rules += [(_FCNTL[machine], 1, each) for each in (_SET_OWNER, _SET_OWNER_EX)]
        rules += [(_IOCTL[machine], 1, each) for each in (_OWNER_OF_SOCKET, _GROUP_OF_SOCKET)]
        return [*rules, (_PIDFD_SEND_SIGNAL, 0, None)]


def _wait(worker: int) -> NoReturn:
    """End when the worker has, or nobody is left at the other end of stdin."""
    os.close(1)
    poll = select.poll()
    poll.register(0, 0)
    with suppress(OSError):  # it has ended already
        poll.register(os.pidfd_open(worker), select.POLLIN)
        poll.poll()
    os._exit(0)


def _other_processes() -> set[str]:
    """Return the folders of `/proc` that are other processes'."""
    own = os.path.realpath("/proc/self")
    with os.scandir("/proc") as entries:
        return {one.path for one in entries if one.name.isdigit() and one.path != own}


def _give_around(guarded: set[str], give: Callable[[str, int], None]) -> None:
    """Give all rights to read outside of the guarded paths, and on them to look around."""
    above = {path[:end] for path in guarded for end in range(1, len(path)) if path[end] == "/"}
    folders = ["/"]
    while folders:
        folder = folders.pop()
        give(folder, confine.LIST_FOLDER)
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.path in guarded or entry.is_symlink():
                    continue  # what a link leads to has its own rights
                if not entry.is_dir(follow_symlinks=False):
                    give(entry.path, confine.READING & confine.OF_FILES)
                elif entry.path in above:
                    folders.append(entry.path)
                else:
                    give(entry.path, confine.READING)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib costs a tenth of the start
        file.write(text)
