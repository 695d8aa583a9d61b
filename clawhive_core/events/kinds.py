"""The kinds of events that the core writes, and what their bodies hold."""

from __future__ import annotations

from collections.abc import Mapping

from clawhive_core.model.late import dataclass

RUN_START = "run.start"
RUN_STATUS = "run.status"
RUN_END = "run.end"
PLAN_MADE = "plan.made"
TOOLS_ENABLED = "tools.enabled"
TOOLS_CHANGED = "tools.changed"
STEP_END = "step.end"
INVOCATION_START = "invocation.start"
INVOCATION_END = "invocation.end"
INVOCATION_REFUSED = "invocation.refused"
APPROVAL_REQUESTED = "approval.requested"
APPROVAL_EDITED = "approval.edited"
APPROVAL_RESOLVED = "approval.resolved"
MODEL_START = "model.start"
MODEL_END = "model.end"
MODEL_RETRY = "model.retry"
EMBEDDING_START = "embedding.start"
EMBEDDING_END = "embedding.end"
GRANT_ISSUED = "grant.issued"
GRANT_REVOKED = "grant.revoked"
GRANT_USED = "grant.used"
GRANT_RETURNED = "grant.returned"
QUOTA_RESERVED = "quota.reserved"
QUOTA_RETURNED = "quota.returned"
SUBSCRIPTION_ADDED = "subscription.added"
SUBSCRIPTION_REMOVED = "subscription.removed"
CATALOG_REVISION = "catalog.revision"
REPLAY_END = "replay.end"
SECRET_USED = "secret.used"  # noqa: S105 - no password
QUESTION_ANSWERED = "question.answered"
HANDLER_STARTED = "handler.started"
SINK_FAILED = "sink.failed"
SINK_RECOVERED = "sink.recovered"
SINK_DELIVERED = "sink.delivered"
STORE_PUT = "store.put"
STORE_DELETE = "store.delete"
TABLES_REBUILT = "tables.rebuilt"
BODIES_PRUNED = "bodies.pruned"
DATABASE_ADOPTED = "database.adopted"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of event: the version of its body, what it says, and the body's fields."""

    name: str
    version: int
    meaning: str
    fields: Mapping[str, str]
    """Field to meaning; `blob` values are kept outside the row when they are long."""


_CALL = {
    "step": "{name, label, ordinal} of the step that the call belongs to",
    "tool_call": "{id, name, input (blob), catalog_revision} as it was asked",
    "input_preview": "the input on one line, cut",
    "capability_level": "L0, L1 or L2",
    "risk": "safe, guarded, unsafe or unknown",
    "contract_hash": "the tool's contract hash",
    "requested_capabilities": "the capabilities that the call needs",
    "granted_capabilities": "[{capability, grant_id}] that allowed it, by a grant or an approval",
    "decision": "allow, ask or deny",
    "rules": "ids of the rules, checks and floors that decided",
    "approval_required": "whether a person had to answer",
    "approval_result": "the answer, or null",
    "idempotency_key": "the key that a tool may use to do the work once",
    "parent_invocation_id": "the invocation that made this nested call, or null",
    "grounds": "{skill, places} of its output that the calling skill's further calls may name; only"
    " where its contract says so",
    "asked_input": "the input that was asked for (blob); only where a person edited it",
    "parent_run_id": "the run that started its run; only where one did",
}

_QUOTA = {
    "user_id": "whose call it is",
    "tool": "the tool's canonical name",
    "limit": "how many calls the exporting skill allows in a window",
    "seconds": "the window's length",
    "since": "when the window began, in Unix seconds",
}
_SUBSCRIPTION = {"user_id": "the user", "skill_id": "the skill"}

_KINDS = (
    Kind(
        RUN_START,
        1,
        "a run began; status running",
        {
            "task": "task_id, task_type, input, prompt",
            "title": "what a person reads",
            "parent_run_id": "the run that spawned it, or null",
            "artifacts": "the folder for its files",
            "model": "PROVIDER:NAME, or null",
            "max_tool_rounds": "the bound of its loop",
            "planner": "the planner's name",
            "catalog_revision": "the catalog revision it began with",
            "tools": "[name, description, parameters] of the tools it was shown (blob)",
            "instructions": "what its system prompt said of skills (blob); older runs lack it",
            "words": "what the user said (blob); only where the task is in other words",
            "persona": "what its system prompt began with (blob); only where its agent has one",
            "parent_step_id": "the step that spawned it; only where one did",
            "delegates": "the agents that rules start with it; only where there are any",
            "skills": "the skills active, what each skill would bring, whether nothing else may be"
            " called (blob); only where there is any of it",
            "answers": "how many answers its conversation had before; only where it goes on",
            "policy": "{allow, ask, deny}: how many of its rules say so",
            "fence": "1: the number under which it was taken; older runs lack it",
            "worker": "the open log that executes it; older runs lack it",
        },
    ),
    Kind(
        RUN_STATUS,
        1,
        "a run changed its status",
        {
            "reason": "why, or null",
            "fence": "the number under which it is taken or interrupted, one more than before; only"
            " where it is",
            "worker": "the open log that executes it from here on; only where it is taken",
            "warnings": "[{code, message}], about who asks or listens; only where there are any",
        },
    ),
    Kind(
        RUN_END,
        1,
        "a run ended; status succeeded, failed or cancelled",
        {
            "output": "the run's output (blob)",
            "output_preview": "the output on one line, cut",
            "error": "{code, message}, or null",
            "usage": "tokens and cost, summed",
            "artifacts": "[{path, media_type, bytes, sha256}]",
            "warnings": "[{code, message}], about output or listener; only where there are any",
        },
    ),
    Kind(PLAN_MADE, 1, "a planner answered", {"plan": "planner, steps, output"}),
    Kind(
        TOOLS_ENABLED,
        1,
        "a core tool's result enabled tools that the model is offered from now on",
        {
            "skill": "the id of the skill that they come from, or empty",
            "defs": "[name, description, parameters] of tools that come from no skill (blob); else"
            " it is not there",
            "expires_at_turn": "the turn from which they are gone; only where there is one",
            "tools": "the names of the tools",
            "left_out": "[name, why] of the other tools that it requires and are not offered",
        },
    ),
    Kind(
        TOOLS_CHANGED,
        1,
        "the catalog changed what a running model is offered from a turn on",
        {
            "catalog_revision": "the new revision",
            "tools": "[name, description, parameters] of the tools that it is shown now (blob)",
            "skills": "what each skill would bring now (blob)",
            "polling": "the tools that may answer the same call differently",
        },
    ),
    Kind(
        STEP_END,
        1,
        "a step ended without a call: with an answer, or with nothing to do or to say",
        {
            "name": "the step's name",
            "label": "what a person reads",
            "ordinal": "its place in the run, from 0",
            "action": "respond, or finish: it tells the user nothing; a call has rows of its own",
            "output_preview": "the output on one line, cut",
            "error": "{code, message}, or null",
        },
    ),
    Kind(
        INVOCATION_START,
        1,
        "a call was decided and is about to be made; status intended",
        _CALL,
    ),
    Kind(
        INVOCATION_END,
        1,
        "a call came back, was given up or is parked; status succeeded, failed, abandoned, unknown"
        " or parked",
        {
            "output": "what came back (blob)",
            "output_preview": "the output on one line, cut",
            "error": "{code, message}, or null",
            "is_error": "whether the tool answered an error",
            "artifacts": "[{path, media_type, bytes, sha256}]",
            "enables": "{names, expires_at_turn, skill}: what it lets the model have; only where it"
            " does",
        },
    ),
    Kind(
        INVOCATION_REFUSED,
        1,
        "a call was not made; status refused",
        {**_CALL, "refusal": "{error, message, reason, next, ...} as the caller got it"},
    ),
    Kind(
        APPROVAL_REQUESTED,
        1,
        "a call must be answered by a person; status parked",
        {
            **_CALL,
            "approval_id": "the approval's id",
            "digest": "SHA-256 over contract, arguments, capabilities, principal and bound files",
            "sinks": "the arguments that say where data or money goes",
            "destinations": "where each of their values comes from",
            "diff": "what would change, as a unified diff, or empty",
            "grant_step": "the step that it belongs to, which a grant of scope step is for",
            "expires_at": "until when it can be answered",
            "tool": "what the tool was then: hashes and contract (blob); older rows lack it",
        },
    ),
    Kind(
        APPROVAL_EDITED,
        1,
        "a person changed a call before approving it, in the same transaction; status edited",
        {
            "approval_id": "the approval's id",
            "by": "who changed it",
            "digest": "what the answer is bound to from here on",
            "tool_call": "{input (blob)} as it is approved",
            "input_preview": "the input on one line, cut",
            "requested_capabilities": "the capabilities that the call needs now",
            "sinks": "the arguments that say where data or money goes",
            "destinations": "where each of their values comes from",
            "diff": "what would change, as a unified diff, or empty",
            "decision": "what policy says of the changed call: allow or ask",
            "rules": "ids of the rules, checks and floors that decided",
        },
    ),
    Kind(
        APPROVAL_RESOLVED,
        1,
        "an approval was answered or ended; status approved, denied, expired, drifted or consumed",
        {
            "approval_id": "the approval's id",
            "by": "who answered",
            "reason": "why, or null",
            "scope": "for how long a person's answer is: once, step, task, session or always",
            "grants": "the grants that came with the answer",
        },
    ),
    Kind(
        MODEL_START,
        1,
        "a request is about to be sent to a model; status running",
        {
            "model": "PROVIDER:NAME",
            "system": "the system text (blob), or null",
            "tools": "{count, digest} of the tools that were shown",
            "history": "{count, digest} of all messages",
            "new": "the messages that no request before it, here or in the run before, had (blobs)",
            "max_tokens": "the bound of the answer",
            "tool_choice": "which tools the model may call",
            "asked": "response_schema, temperature, reasoning, options; only those that are set",
        },
    ),
    Kind(
        MODEL_END,
        1,
        "a model answered or failed; status succeeded or failed",
        {
            "model": "PROVIDER:NAME",
            "response": "the answer's blocks (blob), or null",
            "preview": "the answer on one line, cut",
            "stop_reason": "why it stopped",
            "answered_by": "the model, as the provider names it; only where it says so",
            "response_id": "the provider's id of the answer; only where it says one",
            "raw_stop_reason": "the provider's word for why it stopped; only where it says one",
            "usage": "tokens and cost",
            "error": "{code, message, fix}, or null",
        },
    ),
    Kind(
        MODEL_RETRY,
        1,
        "an attempt to reach a model failed and is made again",
        {
            "model": "the name after the colon",
            "error": "{code, message} of the attempt",
            "wait_seconds": "how long the next attempt waits",
        },
    ),
    Kind(
        EMBEDDING_START,
        1,
        "texts are about to be sent to an embedder; status running",
        {
            "model": "PROVIDER:NAME",
            "asked": "the model as it was asked for, or null where the configured one was meant",
            "texts": "the texts (blob)",
            "count": "how many texts",
        },
    ),
    Kind(
        EMBEDDING_END,
        1,
        "an embedder answered or failed; status succeeded or failed",
        {
            "model": "PROVIDER:NAME",
            "answered_by": "the model, as the provider names it, or null",
            "vectors": "the vectors in order, 32-bit floats, little-endian (blob), or null",
            "dimension": "the length of each vector",
            "usage": "tokens and cost, or null",
            "error": "{code, message, fix}, or null",
        },
    ),
    Kind(
        GRANT_ISSUED,
        1,
        "a principal got capabilities",
        {
            "grants": "each grant: grant_id, capability, mode, scope, scope_id, subject, issuer...",
            "set": "what many tasks share: {id, subject, task_id, run, members (blob)}; each"
            " member is [capability, issuer, mode]",
        },
    ),
    Kind(
        GRANT_REVOKED,
        1,
        "a grant and what was derived from it ended",
        {"grant_id": "the grant", "reason": "why"},
    ),
    Kind(
        GRANT_USED,
        1,
        "a call that is about to be made counts as a use of grants and of what they derive from",
        {"grant_ids": "the grants"},
    ),
    Kind(
        GRANT_RETURNED,
        1,
        "the call never started, so that it gives its uses back",
        {"grant_ids": "the grants"},
    ),
    Kind(
        QUOTA_RESERVED,
        1,
        "a call that is about to be made counts for its user and tool",
        _QUOTA,
    ),
    Kind(
        QUOTA_RETURNED,
        1,
        "the call never started, so that it counts no more",
        _QUOTA,
    ),
    Kind(
        SUBSCRIPTION_ADDED,
        1,
        "a user may use what a skill does not give for free",
        _SUBSCRIPTION,
    ),
    Kind(
        SUBSCRIPTION_REMOVED,
        1,
        "a user's subscription to a skill ended",
        _SUBSCRIPTION,
    ),
    Kind(
        CATALOG_REVISION,
        1,
        "the catalog changed",
        {"catalog_revision": "the new revision", "tools": "name, provider and hashes (blob)"},
    ),
    Kind(
        REPLAY_END,
        1,
        "a replay ended; status succeeded or failed",
        {"mode": "exact, model, tools or policy", "difference": "the first difference, or null"},
    ),
    Kind(
        SECRET_USED,
        1,
        "a tool got a secret that its call has the right to",
        {"name": "the secret's name", "tool": "the tool"},
    ),
    Kind(
        QUESTION_ANSWERED,
        1,
        "a person was asked something by a tool, such as for an MCP server",
        {
            "source": "who asked",
            "tool": "the tool that was running",
            "action": "accept, decline or cancel",
            "names": "the names of the values that were given",
        },
    ),
    Kind(
        HANDLER_STARTED,
        1,
        "the handler of a trusted skill, which no sandbox engine runs, got a process of its own",
        {
            "engine": "the name of what runs it: python",
            "missing": "[text]: the parts of the process's fence that this machine lacks",
        },
    ),
    Kind(
        SINK_FAILED,
        1,
        "an audit sink did not take events; a required one stops effects until it has them",
        {
            "sink": "the sink's name",
            "required": "whether effects stop",
            "from_seq": "the number of the first event that it lacks",
            "message": "why",
        },
    ),
    Kind(
        SINK_RECOVERED,
        1,
        "a required audit sink has taken what it lacked",
        {
            "sink": "the sink's name",
            "from_seq": "the number of the first event that it lacked",
            "to_seq": "the number of the last event that it was given",
        },
    ),
    Kind(
        SINK_DELIVERED,
        1,
        "a required audit sink has every event up to a number, whichever process wrote it",
        {
            "sink": "the sink's name",
            "to_seq": "the number of the last of these events",
        },
    ),
    Kind(
        STORE_PUT,
        1,
        "a tool or a skill kept a value",
        {
            "user_id": "whose value it is",
            "namespace": "the provider, `skill_` and the id for a skill",
            "key": "the value's name",
            "value": "the value (blob)",
        },
    ),
    Kind(
        STORE_DELETE,
        1,
        "a tool or a skill forgot a value",
        {
            "user_id": "whose value it is",
            "namespace": "the provider, `skill_` and the id for a skill",
            "key": "the value's name",
        },
    ),
    Kind(
        TABLES_REBUILT,
        1,
        "tables that differed from the log were made anew from it",
        {"differences": "[{table, missing, extra}]: rows that lacked, and that were too many"},
    ),
    Kind(
        BODIES_PRUNED,
        1,
        "old bodies were removed; their digests stay",
        {"before": "the moment before which they ended", "bodies": "how many", "bytes": "how much"},
    ),
    Kind(
        DATABASE_ADOPTED,
        1,
        "a person let all that somebody else wrote into the log before count",
        {"rows": "the number of the last such row", "gives": "how many rights of which kinds"},
    ),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""Every kind of the core by name; rooms and plugins may append others."""

_NESTED = """
    id name label ordinal input code message error next action reason capability grant_id path
    media_type bytes sha256 task_id task_type prompt steps needs for_each when permissions tool
    planner input_tokens output_tokens cache_read_tokens cache_write_tokens cost count digest
    allow ask deny mode scope scope_id subject issuer expires_at parent_grant
    uses delegate
"""

FIELDS: frozenset[str] = frozenset(
    [field for kind in _KINDS for field in kind.fields] + _NESTED.split()
)
"""The names that bodies are made of; they are never taken for a secret."""
