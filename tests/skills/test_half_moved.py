"""A contract that is moved out of a SKILL.md while the disk is full."""

import pytest

from clawhive_core.skills.fixing.moving import Move, move_contract

resource = pytest.importorskip("resource")


def test_a_full_disk_leaves_no_part_of_a_manifest(tmp_path):
    file = tmp_path / "SKILL.md"
    file.write_text("---\nname: x\n---\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            move_contract(file, Move("---\nname: x\n---\n", "id: x\nversion: 1.0.0\n" * 9))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["SKILL.md"]
