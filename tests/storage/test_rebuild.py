import pytest

from clawhive_core.errors import StorageError
from clawhive_core.events.kinds import TABLES_REBUILT
from clawhive_core.model.events import Event
from clawhive_core.model.records import Difference
from clawhive_core.storage.sqlite.migrations import RoomSchema

GRANTS = RoomSchema(
    "grants",
    (
        """
        CREATE TABLE grants (grant_id TEXT PRIMARY KEY, capability TEXT, uses INTEGER DEFAULT 0);
        CREATE INDEX grants_by_capability ON grants (capability);
        """,
    ),
)
TABLES = ("grants",)


def issue(connection, stored):
    body = stored.event.body
    connection.execute(
        "INSERT INTO grants (grant_id, capability) VALUES (?, ?)",
        (body["grant_id"], body["capability"]),
    )


def revoke(connection, stored):
    connection.execute("DELETE FROM grants WHERE grant_id = ?", (stored.event.body["grant_id"],))


PROJECTIONS = {"grant.issued": (issue,), "grant.revoked": (revoke,)}


@pytest.fixture
def log(open_log):
    log = open_log((GRANTS,), PROJECTIONS, TABLES)
    for number in range(5):
        body = {"grant_id": f"g{number}", "capability": f"fs.read:/{number}"}
        log.append_now(Event("grant.issued", body), Event("noise", {}))
    log.append_now(Event("grant.revoked", {"grant_id": "g3"}))
    return log


def tamper(log, statement):
    log.append_now(effect=lambda c: c.execute(statement) and None)


def grants(log):
    return [tuple(row) for row in log.read("SELECT * FROM grants ORDER BY grant_id")]


def test_what_was_projected_live_equals_the_replay(log):
    assert log.compare() == ()
    before = grants(log)
    assert log.rebuild() == ()
    assert grants(log) == before == [(f"g{n}", f"fs.read:/{n}", 0) for n in (0, 1, 2, 4)]


@pytest.mark.parametrize(
    ("statement", "difference"),
    [
        ("INSERT INTO grants VALUES ('forged', 'fs.write:/**', 0)", Difference("grants", 0, 1)),
        ("DELETE FROM grants WHERE grant_id = 'g0'", Difference("grants", 1, 0)),
        ("UPDATE grants SET capability = 'x' WHERE grant_id < 'g2'", Difference("grants", 2, 2)),
    ],
)
def test_a_changed_table_is_noticed_and_mended(log, statement, difference):
    before = grants(log)
    tamper(log, statement)
    assert log.compare() == (difference,)
    assert log.rebuild() == (difference,)
    assert grants(log) == before
    assert log.compare() == ()
    assert [each.event.body for each in log.events() if each.event.kind == TABLES_REBUILT] == [
        {"differences": [difference.to_dict()]}
    ]
    assert log.rebuild() == ()
    assert list(log.events())[-1].event.body == {"differences": [difference.to_dict()]}


def test_tables_are_not_made_anew_without_a_record_of_it(log, open_log):
    def fail(connection, stored):
        raise ArithmeticError

    tamper(log, "DELETE FROM grants")
    other = open_log((GRANTS,), {**PROJECTIONS, TABLES_REBUILT: (fail,)}, TABLES)
    with pytest.raises(StorageError):
        other.rebuild()
    assert grants(log) == []
    assert all(each.event.kind != TABLES_REBUILT for each in log.events())
    assert log.rebuild() == (Difference("grants", 4, 0),)


def test_a_replay_that_raises_leaves_the_tables_as_they_were(log, open_log):
    def fail(connection, stored):
        raise LookupError(stored.seq)

    before = grants(log)
    with pytest.raises(StorageError, match="Row 2 of the log cannot be applied"):
        open_log((GRANTS,), {**PROJECTIONS, "noise": (fail,)}, TABLES).rebuild()
    assert grants(log) == before


def test_a_rebuild_of_no_projections_empties_the_tables(log, open_log):
    assert open_log((GRANTS,), {}, TABLES).rebuild() == (Difference("grants", 0, 4),)
    assert grants(log) == []
