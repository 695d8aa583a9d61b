import errno
import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.errors import ToolError
from clawhive_core.execution.files import nofollow, workspace
from clawhive_core.execution.files.workspace import FileWorkspace


def below(*folders):
    """Allow everything inside the given folders except sensitive names."""

    def allows(verb, path):
        inside = any(path == str(f) or path.startswith(f"{f}/") for f in folders)
        return (
            inside and "/.clawhive" not in path and not path.rsplit("/", 1)[-1].startswith(".env")
        )

    return allows


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def files(root):
    return FileWorkspace(root, below(root))


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def refused(code, act, *args, **kwargs):
    with pytest.raises(ToolError) as caught:
        act(*args, **kwargs)
    assert caught.value.code == code, caught.value
    assert caught.value.place
    assert caught.value.fix
    return caught.value


def test_a_file_of_the_project_is_read_by_relative_and_by_absolute_path(root, files):
    (root / "a.txt").write_text("hällo", encoding="utf-8")
    assert files.read_text("a.txt", limit=100) == "hällo"
    assert files.read_bytes(str(root / "a.txt"), limit=6) == "hällo".encode()
    assert files.read_text("./b/../a.txt", limit=100) == "hällo"


def test_a_root_behind_a_link_is_resolved_once(root, tmp_path):
    (root / "a.txt").write_text("x", encoding="utf-8")
    (tmp_path / "alias").symlink_to(root)
    files = FileWorkspace(tmp_path / "alias", below(root))
    assert files.root == str(root)
    assert files.read_text("a.txt", limit=9) == "x"


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "x/../../secret", "..", "/"])
def test_a_path_outside_is_denied_whether_it_exists_or_not(root, files, path):
    refused("denied", files.read_bytes, path, limit=10)
    refused("denied", files.read_bytes, path + "/missing", limit=10)
    refused("denied", files.list, path)


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800"])
def test_what_is_no_path_is_refused(files, path):
    with pytest.raises(ToolError) as caught:
        files.read_bytes(path, limit=10)
    assert caught.value.code == "not_found"


def test_a_link_out_of_the_grant_is_denied_to_every_verb(root, files, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s", encoding="utf-8")
    (root / "file").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    refused("denied", files.read_bytes, "file", limit=10)
    refused("denied", files.read_bytes, "folder/secret", limit=10)
    refused("denied", files.list, "folder")
    refused("denied", list, files.walk("folder"))
    refused("denied", files.write_bytes, "folder/new", b"x")
    refused("denied", files.write_bytes, "file", b"x")
    assert (outside / "secret").read_text(encoding="utf-8") == "s"
    assert names_in(outside) == ["secret"]


def test_a_link_inside_the_grant_is_read_but_never_written(root, files):
    (root / "real").write_text("r", encoding="utf-8")
    (root / "alias").symlink_to("real")
    assert files.read_text("alias", limit=9) == "r"
    refused("denied", files.write_bytes, "alias", b"x")
    assert (root / "real").read_text(encoding="utf-8") == "r"


def test_a_denied_name_stays_denied_behind_a_link_and_as_a_link(root, files):
    (root / ".env").write_text("KEY=1", encoding="utf-8")
    (root / "plain").write_text("p", encoding="utf-8")
    (root / "innocent").symlink_to(".env")
    (root / ".env.local").symlink_to("plain")
    refused("denied", files.read_bytes, ".env", limit=9)
    refused("denied", files.read_bytes, "innocent", limit=9)
    refused("denied", files.read_bytes, ".env.local", limit=9)
    assert [entry.path for entry in files.list(".")] == ["innocent", "plain"]


def test_a_denied_path_is_left_out_of_listings_and_walks(root, files):
    (root / ".clawhive").mkdir()
    (root / ".clawhive" / "hive.db").write_text("x", encoding="utf-8")
    (root / "src").mkdir()
    (root / "src" / ".env").write_text("x", encoding="utf-8")
    (root / "src" / "b.py").write_text("12", encoding="utf-8")
    (root / "src" / "a.py").write_text("1", encoding="utf-8")
    found = [(entry.path, entry.kind, entry.bytes) for entry in files.walk(".")]
    assert found == [("src", "directory", 0), ("src/a.py", "file", 1), ("src/b.py", "file", 2)]


def test_a_grant_of_one_file_shows_only_that_file(root):
    (root / "a").write_text("1", encoding="utf-8")
    (root / "b").write_text("1", encoding="utf-8")
    files = FileWorkspace(root, lambda verb, path: verb == "fs.read" and path == str(root / "a"))
    assert [entry.path for entry in files.list(".")] == ["a"]
    assert [entry.path for entry in files.walk(".")] == ["a"]
    refused("denied", files.read_bytes, "b", limit=1)
    refused("denied", files.write_bytes, "a", b"x")


def test_entries_outside_the_root_have_absolute_paths(root, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "a").touch()
    files = FileWorkspace(root, below(root, other))
    assert [entry.path for entry in files.list(str(other))] == [str(other / "a")]


def test_a_link_swapped_in_after_the_check_is_refused(root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("secret", encoding="utf-8")
    inside = root / "d"

    def allows(verb, path):
        if not inside.is_symlink():
            inside.rename(root / "moved")
            inside.symlink_to(outside)
        return path.startswith(str(root))

    inside.mkdir()
    (inside / "a").write_text("fine", encoding="utf-8")
    error = refused("denied", FileWorkspace(root, allows).read_bytes, "d/a", limit=10)
    assert "link" in error.message


def test_a_file_swapped_for_a_link_after_the_check_is_refused(root):
    target = root / "a"
    target.write_text("fine", encoding="utf-8")

    def allows(verb, path):
        target.unlink()
        target.symlink_to("/etc/passwd")
        return True

    refused("denied", FileWorkspace(root, allows).read_bytes, "a", limit=10)


@pytest.mark.parametrize("is_said", [True, False])
def test_a_file_is_read_as_well_where_the_system_does_not_say_where_it_is(
    root, files, monkeypatch, is_said
):
    (root / "d").mkdir()
    (root / "d" / "a").write_text("four", encoding="utf-8")
    (root / "link").symlink_to("d")
    (root / "out").symlink_to("/etc")
    if not is_said:

        def unknown(*_, **__):
            raise OSError

        monkeypatch.setattr(os, "readlink", unknown)
        (root / "link").unlink()
        (root / "link").mkdir()
        (root / "link" / "a").write_text("four", encoding="utf-8")
    assert files.read_text("d/a", limit=4) == files.read_text("./link//a", limit=4) == "four"
    refused("too_large", files.read_bytes, "d/a", limit=3)
    refused("not_found", files.read_bytes, "d/b", limit=3)
    refused("not_a_file", files.read_bytes, "d", limit=3)
    if is_said:
        refused("denied", files.read_bytes, "out/passwd", limit=10_000)


def test_a_file_replaced_after_the_check_is_read_as_it_stands_there(root):
    target = root / "a"
    target.write_text("old", encoding="utf-8")

    def allows(verb, path):
        target.rename(root / "b")
        target.write_text("new", encoding="utf-8")
        return True

    assert FileWorkspace(root, allows).read_text("a", limit=10) == "new"


def test_a_write_never_goes_through_a_link_swapped_in_after_the_check(root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = root / "d"
    folder.mkdir()

    def allows(verb, path):
        if not folder.is_symlink():
            folder.rmdir()
            folder.symlink_to(outside)
        return path.startswith(str(root))

    refused("denied", FileWorkspace(root, allows).write_bytes, "d/new", b"x")
    assert names_in(outside) == []


def test_a_folder_swapped_for_a_link_during_a_walk_is_not_entered(root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").touch()
    (root / "d").mkdir()
    (root / "d" / "inner").touch()
    found = []
    for entry in FileWorkspace(root, below(root)).walk("."):
        found.append(entry.path)
        if entry.path == "d":
            (root / "d").rename(root / "moved")
            (root / "d").symlink_to(outside)
    assert found == ["d"]


def test_no_race_between_links_and_files_ever_yields_what_lies_outside(root, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("SECRET", encoding="utf-8")
    (root / "plain").write_text("plain", encoding="utf-8")
    over = threading.Event()

    def swap():
        while not over.is_set():
            for target in ("plain", str(secret)):
                (root / "next").symlink_to(target)
                (root / "next").rename(root / "target")

    swapper = threading.Thread(target=swap)
    swapper.start()
    files = FileWorkspace(root, below(root))
    seen = set()
    try:
        for _ in range(1500):
            try:
                seen.add(files.read_text("target", limit=100))
            except ToolError as error:
                seen.add(error.code)
    finally:
        over.set()
        swapper.join()
    assert seen <= {"plain", "denied", "not_found"}


def test_pipes_sockets_and_devices_are_no_files_and_never_waited_for(root, files, monkeypatch):
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as unix:
        monkeypatch.chdir(root)
        unix.bind("socket")
    refused("not_a_file", files.read_bytes, "pipe", limit=10)
    refused("not_a_file", files.read_bytes, "socket", limit=10)
    refused("not_a_file", files.write_bytes, "pipe", b"x")
    everything = FileWorkspace(root, lambda verb, path: True)
    refused("not_a_file", everything.read_bytes, "/dev/zero", limit=10)
    assert [(e.path, e.kind) for e in files.list(".")] == [("pipe", "other"), ("socket", "other")]


def test_a_directory_is_no_file_and_a_file_no_directory(root, files):
    (root / "d").mkdir()
    (root / "f").touch()
    refused("not_a_file", files.read_bytes, "d", limit=10)
    refused("not_a_file", files.write_bytes, "d", b"x")
    refused("not_a_file", FileWorkspace(root, lambda v, p: True).read_bytes, "/", limit=10)
    refused("not_a_directory", files.list, "f")
    refused("not_a_directory", files.read_bytes, "f/x", limit=10)
    refused("not_a_directory", files.write_bytes, "f/x", b"x")
    refused("not_found", files.list, "missing")
    refused("not_found", files.read_bytes, "d/missing", limit=10)


def test_a_larger_file_is_refused_with_both_sizes(root, files):
    with (root / "big").open("wb") as big:
        big.truncate(1 << 40)
    error = refused("too_large", files.read_bytes, "big", limit=1000)
    assert error.data == {"bytes": 1 << 40, "limit": 1000}
    (root / "exact").write_bytes(b"12345")
    assert files.read_bytes("exact", limit=5) == b"12345"
    refused("too_large", files.read_bytes, "exact", limit=4)


def test_a_file_that_hides_its_size_is_still_bounded(root):
    everything = FileWorkspace(root, lambda verb, path: True)
    refused("too_large", everything.read_bytes, "/proc/self/maps", limit=10)


def test_a_binary_file_is_not_text(root, files):
    (root / "b").write_bytes(b"ab\xff\xfe")
    error = refused("not_text", files.read_text, "b", limit=10)
    assert "byte 2 is 0xff" in error.message


def test_a_name_that_is_not_utf_8_can_be_listed_and_read_back(root, files):
    (root / os.fsdecode(b"\xff\xfe")).write_bytes(b"odd")
    (entry,) = files.list(".")
    assert files.read_bytes(entry.path, limit=10) == b"odd"


def test_a_very_deep_tree_is_walked_to_its_bound_and_never_fails(root, files):
    handle = os.open(root, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=handle)
        below_it = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below_it
    os.close(handle)
    assert len(list(files.walk("."))) == nofollow.MAX_DEPTH


def test_a_walk_stops_at_its_bound_with_an_error(root, files, monkeypatch):
    monkeypatch.setattr(workspace, "MAX_ENTRIES", 3)
    for number in range(4):
        (root / str(number)).touch()
    found = files.walk(".")
    assert [next(found).path for _ in range(3)] == ["0", "1", "2"]
    refused("too_large", next, found)


def test_a_folder_that_may_not_be_opened_is_named_and_not_entered(root, files, monkeypatch):
    (root / "closed").mkdir()
    (root / "closed" / "inner").touch()
    (root / "z").touch()
    real_open = os.open

    def guarded(path, *args, **kwargs):  # root may open anything, so the kernel's answer is played
        if path == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real_open(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", guarded)
    assert [entry.path for entry in files.walk(".")] == ["closed", "z"]
    assert refused("io_error", files.list, "closed").message.endswith("Permission denied")


def test_a_write_creates_folders_and_keeps_the_mode_of_what_it_replaces(root, files):
    files.write_bytes("a/b/c.sh", b"one")
    (root / "a/b/c.sh").chmod(0o750)
    files.write_bytes("a/b/c.sh", b"two")
    assert (root / "a/b/c.sh").read_bytes() == b"two"
    assert (root / "a/b/c.sh").stat().st_mode & 0o777 == 0o750
    assert names_in(root / "a/b") == ["c.sh"]


def test_a_full_disk_leaves_the_old_file_and_no_other(root, files, monkeypatch):
    files.write_bytes("a", b"old")

    def full(handle, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    error = refused("io_error", files.write_bytes, "a", b"new")
    assert "No space left" in error.message
    assert names_in(root) == ["a"]
    assert (root / "a").read_bytes() == b"old"


def test_a_failed_rename_leaves_no_temporary_file(root, files, monkeypatch):
    def broken(*args, **kwargs):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "rename", broken)
    refused("io_error", files.write_bytes, "a", b"new")
    assert names_in(root) == []


def test_no_handle_is_left_open_after_success_or_failure(root, files):
    before = names_in(Path("/proc/self/fd"))
    files.write_bytes("d/a", b"x")
    list(files.walk("."))
    next(files.walk("."))
    files.read_bytes("d/a", limit=9)
    for path in ("missing", "d", "../x", "d/a/x"):
        refused_any(files, path)
    assert names_in(Path("/proc/self/fd")) == before


def refused_any(files, path):
    for act in (lambda: files.read_bytes(path, limit=1), lambda: files.write_bytes(path, b"")):
        try:
            act()
        except ToolError:
            continue


names = st.sampled_from(["a", "b", "..", ".", "out", "in", "etc", "", "passwd", "loop"])


@given(parts=st.lists(names, min_size=1, max_size=6), absolute=st.booleans())
def test_no_path_of_names_dots_and_links_reads_outside(tmp_path_factory, parts, absolute):
    base = tmp_path_factory.mktemp("paths")
    root = base / "root"
    (root / "a" / "b").mkdir(parents=True)
    (base / "passwd").write_text("OUTSIDE", encoding="utf-8")
    (root / "a" / "passwd").write_text("inside", encoding="utf-8")
    (root / "out").symlink_to("..")
    (root / "in").symlink_to("a")
    (root / "loop").symlink_to("loop")
    path = ("/" if absolute else "") + "/".join(parts)
    try:
        answer = FileWorkspace(root, below(root)).read_text(path, limit=100)
    except ToolError as error:
        answer = error.code
    assert answer in {"inside", "denied", "not_found", "not_a_file", "not_a_directory"}
