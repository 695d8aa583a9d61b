"""The verbs: the closed table of what a capability can be a right to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

from clawhive_core.diagnostics.suggestions import nearest_words
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.tools import Level
from clawhive_core.protocols.check import Verdict

Kind = Literal["path", "url", "name", "word"]
"""The reading of a verb's resource: a POSIX path, a network address, a dotted tool name, or words
separated by slashes."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A kind of action: how its resources are spelled, and its decision before any rule."""

    name: str
    kind: Kind
    level: Level
    """The least capability level of a tool that needs this verb."""
    default: Verdict
    """The decision on a capability of this verb without any rule, inside the bounds that
    `text` names; `deny` means that it needs a grant."""
    text: str
    example: str
    """A resource that this verb understands."""
    unsafe: bool = False
    """Whether a right is kept from children unless a grant says otherwise."""
    reads_here: bool = False
    """Whether it only reads what lies on this machine: nothing changes, and nobody else hears."""


_TABLE = (
    Verb(
        "fs.read",
        "path",
        "L0",
        "allow",
        "Read a file or list a folder; allowed in the workspace, except sensitive names.",
        "${workspace}/**",
        reads_here=True,
    ),
    Verb(
        "fs.write",
        "path",
        "L1",
        "ask",
        "Create or replace a file; allowed in the run's own folder, asked in the workspace.",
        "${workspace}/reports/**",
    ),
    Verb(
        "fs.delete",
        "path",
        "L1",
        "ask",
        "Delete a file or folder; writing does not imply it.",
        "${run}/**",
    ),
    Verb(
        "fs.exec",
        "path",
        "L2",
        "deny",
        "Execute a program of this machine outside every sandbox engine.",
        "/usr/bin/git",
        unsafe=True,
    ),
    Verb(
        "net.http",
        "url",
        "L2",
        "ask",
        "Send an HTTP request to an address.",
        "api.example.com/v1/**",
    ),
    Verb(
        "net.connect",
        "url",
        "L2",
        "ask",
        "Open a connection to a host and port.",
        "db.example.com:5432",
    ),
    Verb(
        "env.read",
        "word",
        "L0",
        "deny",
        "Read an environment variable.",
        "LANG",
        reads_here=True,
    ),
    Verb("secret.use", "word", "L0", "deny", "Get a secret by its name.", "github/token"),
    Verb(
        "tool.call",
        "name",
        "L0",
        "allow",
        "Call a tool that needs no other capability; MCP tools and unknown risk are asked.",
        "mcp.git.*",
    ),
    Verb("tool.enable", "name", "L0", "allow", "Enable a tool; allowed for safe tools.", "web.**"),
    Verb("agent.spawn", "word", "L0", "ask", "Start a sub-agent.", "researcher"),
    Verb(
        "mem.read", "word", "L0", "allow", "Recall from a memory; its own is allowed.", "shared/**"
    ),
    Verb(
        "mem.write", "word", "L0", "allow", "Add to a memory; its own is allowed.", "shared/notes"
    ),
    Verb(
        "model.call",
        "word",
        "L0",
        "allow",
        "Ask a model: `provider`, or `provider/model`; allowed at the adapter's default host.",
        "anthropic/**",
    ),
    Verb(
        "sandbox.read",
        "path",
        "L0",
        "allow",
        "Read a file of the session's sandbox directory, relative to it.",
        "out/**",
        reads_here=True,
    ),
    Verb(
        "sandbox.write",
        "path",
        "L1",
        "allow",
        "Write a file of the session's sandbox directory, relative to it.",
        "out/**",
    ),
    Verb(
        "sandbox.exec",
        "word",
        "L2",
        "allow",
        "Run a program in a sandbox engine without network.",
        "python",
    ),
)

VERBS: Mapping[str, Verb] = MappingProxyType({verb.name: verb for verb in _TABLE})
"""Every verb by its name, except those of the open family `host.<cap>` (`HOST_FAMILY`)."""

HOST_FAMILY = Verb(
    "host.<cap>",
    "word",
    "L2",
    "ask",
    "Use a capability that a host proxy offers, such as `gmail.read`, for one API scope.",
    "SCOPE",
)
"""The properties of every verb `host.<cap>`; `<cap>` is lower-case segments joined by dots."""

_host_name = pattern(r"host(?:\.[a-z0-9][a-z0-9_-]*){1,4}")


def verb_of(name: str) -> Verb | None:
    """Return a verb of the table or of the family `host.<cap>`; None where there is none."""
    known = VERBS.get(name)
    if known is None and _host_name.fullmatch(name):
        return replace(HOST_FAMILY, name=name)
    return known


_CUTOFF = 0.6
"""The least likeness of a verb: people write a part of one, such as `http`."""


def closest_verbs(name: str) -> list[str]:
    """Return up to four verbs that someone who wrote `name` may have meant, best first."""
    lower = name.lower()
    if lower != name and verb_of(lower):
        return [lower]
    family = [verb for verb in VERBS if verb.startswith(lower.partition(".")[0] + ".")]
    near = nearest_words(lower, VERBS, cutoff=_CUTOFF)
    return list(dict.fromkeys([*near, *family]))[:4]
