import contextlib
import json
import threading

import pytest

from clawhive_core.audit import checkpoints as checkpoints_module
from clawhive_core.audit.checkpoints import Checkpoints, DamagedLine, Signer
from clawhive_core.audit.keys import Keys
from clawhive_core.errors import StorageError


@pytest.fixture
def user_dir(tmp_path):
    return tmp_path / "config" / "clawhive"


@pytest.fixture(params=["hmac-sha256", "ed25519"])
def scheme(request):
    return request.param


@pytest.fixture
def checkpoints(user_dir, scheme):
    return Checkpoints(user_dir, "db_1", "/project/.clawhive/hive.db", scheme)


def test_a_checkpoint_is_read_back_and_genuine(checkpoints):
    written = checkpoints.write(5, "a" * 64, "run_1")
    checkpoints.write(9, "b" * 64)
    found = checkpoints.read()
    assert found.checkpoints[0] == written
    assert [(c.seq, c.run_id) for c in found.checkpoints] == [(5, "run_1"), (9, None)]
    assert all(checkpoints.is_genuine(c) for c in found.checkpoints)
    assert found.damaged == ()


def test_a_line_names_its_scheme_key_and_database(checkpoints, scheme):
    checkpoints.write(5, "a" * 64, "run_1")
    (line,) = checkpoints.path.read_text(encoding="utf-8").splitlines()
    fields = json.loads(line)
    assert fields["scheme"] == scheme
    assert fields["database_id"] == "db_1"
    assert fields["path"] == "/project/.clawhive/hive.db"
    assert set(fields) >= {"seq", "hash", "run_id", "ts", "key", "signature"}


def test_key_and_checkpoints_are_private_and_the_key_is_never_replaced(checkpoints, user_dir):
    checkpoints.write(1, "a" * 64)
    key = checkpoints.key_path.read_bytes()
    Checkpoints(user_dir, "db_2", scheme=checkpoints.keys.scheme).write(1, "b" * 64)
    assert checkpoints.key_path.read_bytes() == key
    assert len(key) == 32
    assert checkpoints.key_path.stat().st_mode & 0o777 == 0o600
    assert checkpoints.path.stat().st_mode & 0o777 == 0o600
    assert sorted(user_dir.iterdir()) == sorted((checkpoints.key_path, checkpoints.path.parent))


def test_who_goes_on_writing_signs_with_the_key_that_another_process_put_in_its_place(user_dir):
    checkpoints = Checkpoints(user_dir, "db_1", scheme="ed25519")
    before = [checkpoints.write(seq, "a" * 64).key for seq in (1, 2)]
    Keys(user_dir, "ed25519").rotate()
    after = checkpoints.write(3, "a" * 64).key
    assert before[0] == before[1] != after == Keys(user_dir, "ed25519").key_id()
    assert all(map(checkpoints.is_genuine, checkpoints.read().checkpoints))


def test_who_goes_on_writing_makes_a_key_that_was_lost_anew(checkpoints):
    lost = checkpoints.write(1, "a" * 64)
    checkpoints.key_path.unlink()
    assert checkpoints.write(2, "a" * 64).key != lost.key
    assert checkpoints.key_path.exists()


def test_writers_that_start_together_agree_on_one_key(user_dir, scheme):
    barrier = threading.Barrier(8)
    made = [Checkpoints(user_dir, f"db_{number}", scheme=scheme) for number in range(8)]

    def write(checkpoints):
        barrier.wait()
        for seq in range(1, 6):
            checkpoints.write(seq, "a" * 64)

    threads = [threading.Thread(target=write, args=(c,)) for c in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for checkpoints in made:
        found = checkpoints.read().checkpoints
        assert len(found) == 5
        assert all(map(checkpoints.is_genuine, found))


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 6},
        {"hash": "b" * 64},
        {"run_id": "x"},
        {"ts": "x"},
        {"signature": "é"},
        {"path": ""},
    ],
    ids=str,
)
def test_a_changed_checkpoint_is_not_genuine(checkpoints, change):
    checkpoints.write(5, "a" * 64, "run_1")
    fields = {**json.loads(checkpoints.path.read_bytes()), **change}
    checkpoints.path.write_text(json.dumps(fields) + "\n", encoding="utf-8")
    found = checkpoints.read()
    assert not any(map(checkpoints.is_genuine, found.checkpoints))


def test_a_checkpoint_of_another_database_or_key_is_not_genuine(checkpoints, user_dir, tmp_path):
    written = checkpoints.write(5, "a" * 64)
    assert not Checkpoints(user_dir, "db_2").is_genuine(written)
    assert not Checkpoints(tmp_path / "nobody", "db_1").is_genuine(written)


def test_a_line_that_a_crash_cut_off_is_reported_and_the_next_one_is_whole(checkpoints):
    checkpoints.write(5, "a" * 64)
    with checkpoints.path.open("ab") as file:
        file.write(b'{"seq":6,"ha')
    assert checkpoints.read().damaged == (DamagedLine(2, is_last=True),)
    checkpoints.write(7, "b" * 64)
    found = checkpoints.read()
    assert [c.seq for c in found.checkpoints] == [5, 7]
    assert found.damaged == (DamagedLine(2, is_last=False),)


@pytest.mark.parametrize(
    "line",
    [b"\xff\xfe", b"[]", b"null", b"{}", b'{"seq": 1}', b"[" * 100_000, b"\x00" * 50],
    ids=range(7),
)
def test_lines_that_are_no_checkpoint_are_damaged_lines(checkpoints, line):
    checkpoints.write(5, "a" * 64)
    with checkpoints.path.open("ab") as file:
        file.write(line + b"\n")
    assert len(checkpoints.read().checkpoints) == 1
    assert len(checkpoints.read().damaged) == 1


@pytest.mark.parametrize("field", ["seq", "hash", "ts", "scheme", "key", "signature"])
def test_a_checkpoint_with_a_field_of_the_wrong_type_is_a_damaged_line(checkpoints, field):
    checkpoints.write(5, "a" * 64)
    fields = {**json.loads(checkpoints.path.read_bytes()), field: [1]}
    checkpoints.path.write_text(json.dumps(fields) + "\n", encoding="utf-8")
    assert checkpoints.read().damaged == (DamagedLine(1, is_last=True),)


def test_without_a_file_there_are_no_checkpoints(checkpoints, user_dir):
    assert checkpoints.read().checkpoints == ()
    assert not user_dir.exists()


def test_a_key_of_the_wrong_length_is_an_error_and_not_replaced(checkpoints, user_dir):
    user_dir.mkdir(parents=True)
    checkpoints.key_path.write_bytes(b"short")
    with pytest.raises(StorageError, match="5 bytes"):
        checkpoints.write(1, "a" * 64)
    assert checkpoints.key_path.read_bytes() == b"short"


def test_a_place_that_cannot_be_used_is_a_storage_error(checkpoints, user_dir):
    user_dir.parent.mkdir(parents=True)
    user_dir.write_text("a file", encoding="utf-8")
    with pytest.raises(StorageError) as caught:
        checkpoints.write(1, "a" * 64)
    assert str(user_dir) in caught.value.place
    with pytest.raises(StorageError):
        checkpoints.read()


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoints_module, "monotonic", lambda: now[0])
    return now


def signer(checkpoints, tip):
    return Signer(checkpoints, lambda: (tip[0], "a" * 64) if tip[0] else None)


def signed(checkpoints):
    return [each.seq for each in checkpoints.read().checkpoints]


def test_a_log_is_signed_at_once_then_every_so_many_rows_or_seconds(checkpoints, clock):
    tip = [0]
    signing = signer(checkpoints, tip)
    signing.sign()
    signing.sign_if_due()
    assert signed(checkpoints) == []
    for seq, seconds in ((5, 0), (6, 1), (1004, 2), (1005, 3), (1006, 62), (1007, 63), (1007, 999)):
        tip[0], clock[0] = seq, float(seconds)
        signing.sign_if_due(f"run_{seq}")
    assert signed(checkpoints) == [5, 1005, 1007]
    assert checkpoints.last().run_id == "run_1007"
    signing.sign()
    tip[0] = 1008
    signing.sign()
    signing.sign()
    assert signed(checkpoints) == [5, 1005, 1007, 1008]


def test_processes_of_one_log_do_not_sign_the_same_rows(checkpoints, clock):
    tip = [1]
    one, other = signer(checkpoints, tip), signer(checkpoints, tip)
    one.sign_if_due()
    other.sign_if_due()
    before = len(signed(checkpoints))
    tip[0] = 1500
    one.sign_if_due()
    other.sign_if_due()
    assert len(signed(checkpoints)) == before + 1
    tip[0] = 2600
    other.sign_if_due()
    one.sign_if_due()
    assert len(signed(checkpoints)) == before + 2


def test_a_line_that_nobody_signed_keeps_no_process_from_signing(checkpoints, clock):
    tip = [1]
    signing = signer(checkpoints, tip)
    signing.sign_if_due()
    line = json.loads(checkpoints.path.read_text("utf-8").splitlines()[-1])
    with checkpoints.path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**line, "seq": 1499}) + "\n")
    tip[0] = 1500
    signing.sign_if_due()
    assert signed(checkpoints) == [1, 1499, 1500]


def test_signing_that_failed_is_not_tried_again_at_once(checkpoints, clock, monkeypatch):
    tip, tried = [1], []

    def fail(*_):
        tried.append(clock[0])
        raise StorageError("the key cannot be used")

    signing = signer(checkpoints, tip)
    monkeypatch.setattr(Checkpoints, "write", fail)
    for seconds in (0.0, 1.0, 61.0):
        clock[0] = seconds
        with contextlib.suppress(StorageError):
            signing.sign_if_due()
    assert tried == [0.0, 61.0]


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a/b", "..", "a\0b"])
def test_an_id_that_is_a_path_leads_to_no_file_outside(user_dir, name):
    checkpoints = Checkpoints(user_dir, name)
    assert checkpoints.path.parent == user_dir / "checkpoints"
    assert checkpoints.path.name.removesuffix(".jsonl").isalnum()
