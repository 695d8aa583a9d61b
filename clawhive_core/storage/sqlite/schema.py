"""The tables and views of the event log."""

from __future__ import annotations

from collections.abc import Sequence

from clawhive_core.events.chain import COLUMNS
from clawhive_core.storage.sqlite.migrations import RoomSchema


def selecting(columns: Sequence[str]) -> str:
    """Return the beginning of a query for columns of `events`."""
    return f"SELECT {', '.join(columns)} FROM events"  # noqa: S608 - our own column names


SELECT = selecting(COLUMNS)
INSERT = f"INSERT INTO events ({', '.join(COLUMNS)}, seal) VALUES (?{', ?' * len(COLUMNS)})"  # noqa: S608 - our own column names
TIP = "SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1"


_TABLES = """
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    ts TEXT NOT NULL,
    kind TEXT NOT NULL,
    version INTEGER NOT NULL,
    trace_id TEXT,
    run_id TEXT,
    task_id TEXT,
    step_id TEXT,
    invocation_id TEXT,
    conversation_id TEXT,
    principal TEXT,
    tool TEXT,
    provider_id TEXT,
    status TEXT,
    body TEXT NOT NULL,
    prev TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX events_of_run ON events (run_id, seq) WHERE run_id IS NOT NULL;
CREATE INDEX events_of_invocation ON events (invocation_id) WHERE invocation_id IS NOT NULL;
CREATE TABLE blobs (
    sha256 TEXT PRIMARY KEY,
    type TEXT NOT NULL,
    data BLOB
) WITHOUT ROWID;

CREATE TRIGGER events_refuse_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
CREATE TRIGGER events_refuse_delete BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
CREATE TRIGGER blobs_refuse_delete BEFORE DELETE ON blobs
BEGIN SELECT RAISE(ABORT, 'bodies are pruned to tombstones, never deleted'); END;
CREATE TRIGGER blobs_refuse_update BEFORE UPDATE ON blobs
WHEN NEW.sha256 <> OLD.sha256 OR (NEW.data IS NOT NULL AND OLD.data IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'bodies are pruned to tombstones, never changed'); END;
"""

# An invocation without an end is `unknown` once its run ended or was interrupted after it began,
# even when the run was resumed since. A call that a person must answer is parked, until
# what became of it takes its place.
_INVOCATIONS = """
CREATE VIEW v_invocations AS
SELECT
    s.invocation_id, s.run_id, s.step_id, s.trace_id, s.tool, s.provider_id, s.principal,
    json_extract(s.body, '$.capability_level') AS capability_level,
    json_extract(s.body, '$.risk') AS risk,
    json_extract(s.body, '$.requested_capabilities') AS requested_capabilities,
    json_extract(s.body, '$.granted_capabilities') AS granted_capabilities,
    json_extract(s.body, '$.decision') AS decision,
    json_extract(s.body, '$.approval_required') AS approval_required,
    json_extract(s.body, '$.approval_result') AS approval_result,
    s.ts AS start_at,
    CASE s.kind WHEN 'invocation.refused' THEN s.ts ELSE e.ts END AS end_at,
    CASE
        WHEN s.kind = 'invocation.refused' THEN coalesce(s.status, 'refused')
        WHEN e.seq IS NOT NULL THEN e.status
        WHEN EXISTS (
            SELECT 1 FROM events AS r
            WHERE r.run_id = s.run_id AND r.invocation_id IS NULL AND r.seq > s.seq
                AND r.kind IN ('run.end', 'run.status')
                AND (
                    r.status IN ('succeeded', 'failed', 'cancelled')
                    OR r.status = 'interrupted' AND s.kind <> 'approval.requested'
                )
        ) THEN CASE s.kind WHEN 'approval.requested' THEN 'refused' ELSE 'unknown' END
        WHEN s.kind = 'approval.requested' THEN 'parked'
        ELSE 'running'
    END AS status,
    CASE s.kind
        WHEN 'invocation.refused' THEN json_object(
            'code', json_extract(s.body, '$.refusal.error'),
            'message', json_extract(s.body, '$.refusal.message')
        )
        ELSE json_extract(e.body, '$.error')
    END AS error,
    json_extract(s.body, '$.input_preview') AS input_preview,
    json_extract(e.body, '$.output_preview') AS output_preview,
    s.seq AS seq,
    json_extract(s.body, '$.step.name') AS step_name,
    json_extract(s.body, '$.step.label') AS step_label,
    json_extract(s.body, '$.step.ordinal') AS step_ordinal,
    json_extract(s.body, '$.parent_invocation_id') AS parent_invocation_id
FROM events AS s
LEFT JOIN events AS e ON e.seq = (
    SELECT max(x.seq) FROM events AS x
    WHERE x.run_id = s.run_id AND x.invocation_id = s.invocation_id
        AND x.kind = 'invocation.end'
)
WHERE s.invocation_id IS NOT NULL AND (
    s.kind IN ('invocation.start', 'invocation.refused')
    OR s.kind = 'approval.requested' AND NOT EXISTS (
        SELECT 1 FROM events AS d
        WHERE d.run_id = s.run_id AND d.invocation_id = s.invocation_id AND d.seq > s.seq
            AND d.kind IN ('invocation.start', 'invocation.refused')
    )
);
"""

# One row a step: its own end where there is one, else its latest invocation, nested ones last.
# A window, unlike GROUP BY, lets SQLite use the index for `WHERE run_id = ...`.
_STEPS = """
CREATE VIEW v_steps AS
SELECT
    step_id, run_id, name, label, ordinal, action, status, error, trace_id, provider_id,
    capability_level, input_preview, output_preview
FROM (
    SELECT *, row_number() OVER (
        PARTITION BY run_id, step_id ORDER BY precedence DESC
    ) AS place
    FROM (
        SELECT
            step_id, run_id,
            json_extract(body, '$.name') AS name,
            json_extract(body, '$.label') AS label,
            json_extract(body, '$.ordinal') AS ordinal,
            json_extract(body, '$.action') AS action,
            status,
            json_extract(body, '$.error') AS error,
            trace_id, provider_id,
            json_extract(body, '$.capability_level') AS capability_level,
            json_extract(body, '$.input_preview') AS input_preview,
            json_extract(body, '$.output_preview') AS output_preview,
            seq + 2000000000000000 AS precedence
        FROM events
        WHERE kind = 'step.end'
        UNION ALL
        SELECT
            step_id, run_id, step_name, step_label, step_ordinal, 'tool_call',
            CASE status
                WHEN 'intended' THEN 'running'
                WHEN 'refused' THEN 'failed'
                WHEN 'abandoned' THEN 'failed'
                WHEN 'parked' THEN CASE WHEN EXISTS (
                    SELECT 1 FROM events AS r
                    WHERE r.run_id = v_invocations.run_id AND r.invocation_id IS NULL
                        AND r.kind = 'run.end'
                ) THEN 'cancelled' ELSE 'waiting_approval' END
                ELSE status
            END,
            error, trace_id, provider_id, capability_level, input_preview, output_preview,
            seq + (parent_invocation_id IS NULL) * 1000000000000000
        FROM v_invocations
    )
    WHERE step_id IS NOT NULL
)
WHERE place = 1;
"""

# Version 2: a call that a person must answer is a row from the moment it is asked for.
_DROPPED = "DROP VIEW v_steps; DROP VIEW v_invocations;"

# Version 3: a tool that was parked for a call of its own does not wait any more once its run ended.
_VIEWS = _DROPPED + _INVOCATIONS + _STEPS

# Version 4: the events behind rights that stand are found without reading the others.
_OF_RIGHTS = """
CREATE INDEX events_of_grants ON events (kind, ts)
    WHERE kind IN ('grant.issued', 'grant.revoked');
CREATE INDEX events_of_ended_tasks ON events (task_id) WHERE kind = 'run.end';
"""

# Version 5: the same for what was used of counted rights; the last revocation is found at once.
_OF_USES = """
CREATE INDEX events_of_revocations ON events (seq) WHERE kind = 'grant.revoked';
CREATE INDEX events_of_uses ON events (seq) WHERE kind IN ('grant.used', 'grant.returned');
"""

# Version 6: one index instead of two, since each costs every row of every call a few microseconds.
# It finds a run's events, and among them those of one invocation, or of none.
_OF_RUN = """
DROP INDEX events_of_run;
DROP INDEX events_of_invocation;
CREATE INDEX events_of_run ON events (run_id, invocation_id) WHERE run_id IS NOT NULL;
"""

# Version 7: whether a grant was revoked is found by its id.
_OF_REVOKED = """
CREATE INDEX events_of_revoked ON events (json_extract(body, '$.grant_id'))
    WHERE kind = 'grant.revoked';
"""

# Version 8: each row has a seal beside its hashed columns; what was written before can get one.
_SEALS = f"""
ALTER TABLE events ADD COLUMN seal BLOB;
DROP TRIGGER events_refuse_update;
CREATE TRIGGER events_refuse_update BEFORE UPDATE OF {", ".join(COLUMNS)} ON events
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
"""

SCHEMA = RoomSchema(
    "events",
    (
        _TABLES + _INVOCATIONS + _STEPS,
        _VIEWS,
        _VIEWS,
        _OF_RIGHTS,
        _OF_USES,
        _OF_RUN + _VIEWS,
        _OF_REVOKED,
        _SEALS,
    ),
)
"""The event log's own tables; other rooms add theirs beside it."""
