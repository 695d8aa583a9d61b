import json
import sys
from pathlib import Path

import pytest

from clawhive_core.audit.checkpoints import Checkpoints
from clawhive_core.audit.keys import Keys
from clawhive_core.errors import StorageError, UsageError


@pytest.fixture
def keys(tmp_path):
    return Keys(tmp_path, "ed25519")


@pytest.fixture
def without_cryptography(monkeypatch):
    def forget():
        monkeypatch.setattr("clawhive_core.audit.keys._has_cryptography", lambda: False)
        for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "cryptography", None)

    return forget


def signed(keys, text):
    data = text.encode()
    return keys.scheme, keys.key_id(), data, keys.sign(data)


def test_a_stranger_can_check_a_signature_with_the_public_key_alone(keys):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    _, key, data, signature = signed(keys, "text")
    public = bytes.fromhex(keys.public())
    Ed25519PublicKey.from_public_bytes(public).verify(bytes.fromhex(signature), data)
    assert keys.has_signed("ed25519", key, data, signature)
    assert not keys.has_signed("ed25519", key, b"other", signature)
    assert not keys.has_signed("ed25519", "0" * 16, data, signature)
    assert not keys.has_signed("other", key, data, signature)
    assert not keys.has_signed("ed25519", key, data, "no hex")


def test_the_key_is_private_and_made_once(keys, tmp_path):
    public = keys.key_id() and keys.public()
    assert keys.path.stat().st_mode & 0o777 == 0o600
    assert Keys(tmp_path, "ed25519").public() == public
    assert [path.name for path in tmp_path.iterdir()] == ["audit-ed25519.key"]


def test_a_look_makes_no_key(keys, tmp_path):
    assert keys.public() is None
    assert keys.retired() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("P-090")
def test_what_retired_keys_signed_still_verifies_and_each_names_its_successor(keys, tmp_path):
    notes = [signed(keys, "one")]
    for text in ("two", "three"):
        keys.rotate()
        notes.append(signed(keys, text))
    assert len({note[1] for note in notes}) == 3
    fresh = Keys(tmp_path, "ed25519")
    assert all(fresh.has_signed(*note) for note in notes)
    retired = fresh.retired()
    assert [each.key for each in retired] == [note[1] for note in notes[:2]]
    assert [each.next for each in retired] == [note[1] for note in notes[1:]]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "audit-ed25519.key",
        "audit-retired.jsonl",
    ]


def test_a_key_put_in_place_of_the_users_makes_older_signatures_worthless(keys, tmp_path):
    old = signed(keys, "one")
    keys.rotate()
    keys.path.write_bytes(b"k" * 32)
    stolen = Keys(tmp_path, "ed25519")
    assert not stolen.has_signed(*old)
    assert stolen.retired() == []


@pytest.mark.parametrize("change", [{"next": "0" * 16}, {"public": "0" * 64}, {"until": "x"}])
def test_a_changed_word_of_a_retired_key_does_not_count(keys, tmp_path, change):
    old = signed(keys, "one")
    keys.rotate()
    path = tmp_path / "audit-retired.jsonl"
    fields = {**json.loads(path.read_bytes()), **change}
    path.write_text(json.dumps(fields), "utf-8")
    assert not Keys(tmp_path, "ed25519").has_signed(*old)


def test_somebody_elses_key_cannot_be_slipped_in_as_a_retired_one(keys, tmp_path):
    keys.key_id()
    other = Keys(tmp_path / "other", "ed25519")
    (tmp_path / "other").mkdir()
    forged = signed(other, "forged")
    other.rotate()
    line = (tmp_path / "other" / "audit-retired.jsonl").read_bytes()
    (tmp_path / "audit-retired.jsonl").write_bytes(line)
    assert not Keys(tmp_path, "ed25519").has_signed(*forged)


@pytest.mark.parametrize("line", [b"[]", b"{}", b"\xff", b"null", b'{"key": 1}'], ids=range(5))
def test_lines_that_are_no_retired_key_are_passed_over(keys, tmp_path, line):
    old = signed(keys, "one")
    keys.rotate()
    path = tmp_path / "audit-retired.jsonl"
    path.write_bytes(line + b"\n" + path.read_bytes() + line + b"\n")
    assert Keys(tmp_path, "ed25519").has_signed(*old)


def test_a_rotation_that_is_broken_off_leaves_the_old_key_signing(keys, tmp_path, monkeypatch):
    old = signed(keys, "one")

    def fail(self, target):
        raise OSError("no space")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match="no space"):
            keys.rotate()
    fresh = Keys(tmp_path, "ed25519")
    assert fresh.key_id() == old[1]
    assert fresh.has_signed(*old)
    fresh.rotate()
    assert Keys(tmp_path, "ed25519").has_signed(*old)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_without_cryptography_it_is_hmac_and_cannot_be_rotated(tmp_path, without_cryptography):
    without_cryptography()
    keys = Keys(tmp_path)
    assert keys.scheme == "hmac-sha256"
    assert keys.has_signed(*signed(keys, "one"))
    assert keys.public() is None
    with pytest.raises(UsageError) as refused:
        keys.rotate()
    assert "clawhive[audit]" in refused.value.fix


def test_ed25519_that_cannot_be_checked_is_said_and_not_called_forged(
    tmp_path, without_cryptography
):
    written = Checkpoints(tmp_path, "db_1", scheme="ed25519").write(1, "a" * 64)
    without_cryptography()
    with pytest.raises(StorageError) as unable:
        Checkpoints(tmp_path, "db_1").is_genuine(written)
    assert unable.value.fix == "pip install 'clawhive[audit]'"


def test_signing_with_hmac_imports_no_cryptography(tmp_path):
    import subprocess

    code = (
        "import sys; from clawhive_core.audit.checkpoints import Checkpoints;"
        f"Checkpoints({str(tmp_path)!r}, 'db', scheme='hmac-sha256').write(1, 'a' * 64);"
        "print('cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
