"""Tools and their calls: ToolDef, ToolMeta, ToolCall, ToolResult, Artifact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, Literal

from clawhive_core.model.canonical import digest
from clawhive_core.model.late import Caching, dataclass, per_call

Level = Literal["L0", "L1", "L2"]
"""The reach of a tool: L0 reads, L1 writes files, L2 executes, uses the network or a CLI."""

Risk = Literal["safe", "guarded", "unsafe", "unknown"]
"""The way a call is decided: by its grants, after one approval, each time by a person; unknown is
decided as guarded."""

OutputTrust = Literal["trusted", "named", "untrusted"]
"""The author of an output's words: one who may be followed, that of a document which the call asked
for by its name, a stranger."""

Effects = Mapping[str, str | tuple[str, ...]]
"""Arguments to capabilities: `{"path": "fs.read"}` asks for `fs.read:<the argument's value>`, a
template (`"fs.read:{}/**"`) says more; the key `""` is for what every call needs. A list asks for
one capability an item, an object one a key."""

TIMEOUT_MS = 30_000
"""The deadline of a call whose tool names none."""

JsonSchema = Mapping[str, Any]
"""A JSON Schema, draft 2020-12."""

Code = Callable[[], Mapping[str, Any]]
"""Reads the code that a tool runs: JSON values by the names of its files, as a person compares
them."""


@dataclass(frozen=True, slots=True)
class ToolDef:
    """A tool as a model is shown it: name, description, and its parameters as JSON Schema."""

    name: str
    description: str
    parameters: JsonSchema


@dataclass(frozen=True, slots=True)
class ToolMeta(Caching):
    """All that ClawHive knows of a tool before calling it."""

    name: str
    """Canonical name: 1 to 4 segments `[A-Za-z0-9_-]+` joined by dots."""
    description: str
    input_schema: JsonSchema
    provider_id: str
    output_schema: JsonSchema | None = None
    capability_level: Level = "L0"
    risk: Risk = "unknown"
    effects: Effects = field(default_factory=dict[str, "str | tuple[str, ...]"])
    sinks: tuple[str, ...] = ()
    """Arguments that say where data or money goes, each with a kind: `to:recipient`; see
    `model.sinks`."""
    records: tuple[str, ...] = ()
    """Fields of the structured output that are the user's own records: `*/id:selector.event`."""
    requires_confirm: bool = False
    confirms: str | None = None
    """The proposing tool whose proposal this tool carries out."""
    side_effects: bool = False
    idempotent: bool = False
    polling: bool = False
    timeout_ms: int = TIMEOUT_MS
    preconditions: tuple[str, ...] = ()
    """Tools that must have succeeded in this session."""
    output_trust: OutputTrust = "untrusted"
    always_load: bool = False
    category: str = ""
    keywords: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    examples: tuple[Mapping[str, Any], ...] = ()
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    text_counts: bool = False
    """Whether a changed text suspends like a changed contract: where others than the plugin's
    author write it, as in a skill or on a server."""
    code: Code | None = field(default=None, compare=False, repr=False)
    """The code that its calls run, of which a change suspends too; the catalog says so, nobody
    else. None for ClawHive's own, and where it runs elsewhere, as on a server."""
    raised: str = ""
    """The reason for a risk higher than its author declared; the catalog says so, nobody else."""

    @cached_property
    def contract_hash(self) -> str:
        """SHA-256 over schemas, level, risk, effects, sinks, records, trust and idempotence."""
        return digest(self.contract)

    @property
    def contract(self) -> dict[str, Any]:
        """The fields of which a change suspends grants and approvals that name the tool."""
        return {
            "name": self.name,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "capability_level": self.capability_level,
            "risk": self.risk,
            "requires_confirm": self.requires_confirm,
            "effects": self.effects,
            "sinks": self.sinks,
            "idempotent": self.idempotent,
            **({"records": self.records} if self.records else {}),
            **({"output_trust": self.output_trust} if self.output_trust != "untrusted" else {}),
        }

    @property
    def text(self) -> dict[str, Any]:
        """The words of the tool that a model and a person read."""
        return {
            "description": self.description,
            "annotations": self.annotations,
            "examples": self.examples,
        }

    @cached_property
    def text_hash(self) -> str:
        """SHA-256 over description, annotations and examples."""
        return digest([self.description, self.annotations, self.examples])

    @cached_property
    def code_hash(self) -> str:
        """SHA-256 over the code that its calls run, read at the first use; empty where unknown."""
        return "" if self.code is None else digest(self.code())

    def to_def(self) -> ToolDef:
        """Return what a model is shown of this tool."""
        return ToolDef(self.name, self.description, self.input_schema)


@per_call
class ToolCall:
    """A call as it is asked for: a tool by name, an input, and the id that the caller gave it."""

    id: str
    name: str
    input: Mapping[str, Any]
    catalog_revision: str | None = None
    """The catalog revision under which the tool was offered; None where it was named by a person
    or a plan."""
    malformed: str | None = None
    """The arguments as the model wrote them, where they are no JSON object; such a call is refused
    with `invalid_input`."""
    native: Mapping[str, Any] | None = None
    """Data that the adapters which this call came through need back, by adapter name."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a call left behind."""

    path: str
    """Absolute, or relative to the run's artifacts folder."""
    media_type: str
    bytes: int
    sha256: str

    def to_dict(self) -> dict[str, Any]:
        """Return the artifact as JSON."""
        return {
            "path": self.path,
            "media_type": self.media_type,
            "bytes": self.bytes,
            "sha256": self.sha256,
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Artifact:
        """Return what `to_dict` wrote."""
        return cls(row["path"], row["media_type"], row["bytes"], row["sha256"])


@dataclass(frozen=True, slots=True)
class Enablement:
    """Tools that a result of a core tool lets the model have from its next turn on."""

    names: tuple[str, ...]
    expires_at_turn: int | None = None
    """The turn of the run's loop, counted from 0, from which they are gone; None: it has them to
    its end."""
    skill: str = ""
    """The skill that brings them; what else it brings the run has settled at its start."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "names": list(self.names),
            "expires_at_turn": self.expires_at_turn,
            "skill": self.skill,
        }


@per_call
class ToolResult:
    """The result of a call."""

    tool_call_id: str
    output: str
    """Text, as a model reads it."""
    is_error: bool = False
    structured: Any = None
    """The JSON value, where the tool gives one."""
    artifacts: tuple[Artifact, ...] = ()
    edited: str = ""
    """The changes that a person made to the input before approving it; the executor says so."""
    enables: Enablement | None = None
    """The tools that a core tool enables; nothing of it counts in the result of any other."""

    @property
    def value(self) -> Any:
        """The structured value where there is one, else the text."""
        return self.output if self.structured is None else self.structured
