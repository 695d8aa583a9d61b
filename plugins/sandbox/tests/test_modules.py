import os
from dataclasses import replace

import pytest

from clawhive_sandbox.modules import (
    QUICKJS,
    ModuleUnusable,
    cache_folder,
    entry_name,
    main,
    open_compiled,
)


@pytest.fixture
def folder(tmp_path):
    folder = cache_folder({"XDG_CACHE_HOME": str(tmp_path)})
    folder.mkdir(mode=0o700, parents=True)
    return folder


@pytest.fixture
def entry(folder):
    entry = folder / entry_name(QUICKJS)
    entry.write_bytes(b"")
    entry.chmod(0o600)
    return entry


def test_a_compiled_module_of_ones_own_is_opened(folder, entry):
    os.close(open_compiled(QUICKJS, folder))


def test_a_module_that_was_not_compiled_is_none(folder):
    assert open_compiled(QUICKJS, folder) is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o640, 0o604])
def test_a_compiled_module_that_others_can_open_is_refused(folder, entry, mode):
    entry.chmod(mode)
    with pytest.raises(ModuleUnusable, match="delete it"):
        open_compiled(QUICKJS, folder)


def test_a_compiled_module_of_another_name_or_behind_a_link_is_refused(folder, entry, tmp_path):
    os.link(entry, tmp_path / "other")
    with pytest.raises(ModuleUnusable):
        open_compiled(QUICKJS, folder)
    entry.unlink()
    entry.symlink_to(tmp_path / "other")
    with pytest.raises(ModuleUnusable):
        open_compiled(QUICKJS, folder)


def test_a_folder_that_others_can_open_is_refused(folder, entry):
    folder.chmod(0o750)
    with pytest.raises(ModuleUnusable, match="chmod 700"):
        open_compiled(QUICKJS, folder)


def test_a_folder_behind_a_link_is_refused(folder, entry, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(ModuleUnusable):
        open_compiled(QUICKJS, tmp_path / "link")


def test_a_module_of_another_hash_is_not_read():
    with pytest.raises(ModuleUnusable, match="not the file that was tested"):
        replace(QUICKJS, sha256="0" * 64).read()


def test_a_compiler_that_fails_says_why(tmp_path):
    said = []
    (tmp_path / "file").write_text("")
    assert main([QUICKJS.name, str(tmp_path / "file")], said.append) == 1
    assert "cannot be" in said[0]
