"""Files that are replaced whole: what is there is replaced by all of it, or stays as it is."""

import os
import stat

import pytest

from clawhive_core.diagnostics.files import replace_file
from clawhive_core.errors import UsageError
from clawhive_core.skills.template import published_schema, write_schema


@pytest.mark.promise("P-238")
@pytest.mark.parametrize("kind", ["pipe", "folder", "below a file"])
def test_what_is_no_plain_file_is_never_replaced(tmp_path, kind):
    there = tmp_path / "there"
    if kind == "pipe":
        os.mkfifo(there)
    elif kind == "folder":
        there.mkdir()
    else:
        tmp_path.joinpath("file").write_text("text")
        there = tmp_path / "file" / "there"
    before = sorted(tmp_path.iterdir())
    kinds = [stat.S_IFMT(each.lstat().st_mode) for each in before]
    with pytest.raises(UsageError) as caught:
        write_schema("contract", there)
    assert (caught.value.code, caught.value.exit_code) == ("io_error", 2)
    assert str(caught.value.place).endswith("there")
    assert caught.value.fix == "name a file that you may write to"
    assert sorted(tmp_path.iterdir()) == before
    assert [stat.S_IFMT(each.lstat().st_mode) for each in before] == kinds


@pytest.mark.promise("P-238")
def test_a_file_that_is_replaced_keeps_its_rights_and_nothing_lies_beside_it(tmp_path):
    file = tmp_path / "a.json"
    file.write_bytes(b"old")
    file.chmod(0o640)
    write_schema("contract", file)
    assert file.read_text("utf-8") == published_schema("contract")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    replace_file(file, b"")
    assert (file.read_bytes(), list(tmp_path.iterdir())) == (b"", [file])
