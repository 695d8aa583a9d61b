"""A skill, as its text and its contract declare it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import date
from pathlib import Path
from typing import Any, Literal, get_args

from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import Effects, JsonSchema, Level, Risk
from clawhive_core.skills.documents.place import Named, Place

State = Literal["loaded", "disabled", "gated", "invalid", "shadowed"]


Phase = Literal["compat", "enforce", "final"]
"""In `compat` they only warn, `enforce` refuses what goes around a contract, `final` all of it."""

LEVELS: tuple[Level, ...] = get_args(Level)
RISKS: tuple[Risk, ...] = ("safe", "guarded", "unknown", "unsafe")
"""From the least to the greatest."""


@dataclass(frozen=True, slots=True)
class RiskPolicy:
    """The most that a skill's tools may be, and whether a person confirms each call."""

    max_level: Level = "L2"
    max_risk: Risk = "unsafe"
    confirm: bool = False

    def beyond(self, level: Level, risk: Risk) -> str | None:
        """Return what of a tool lies above the cap, None where nothing does."""
        if LEVELS.index(level) > LEVELS.index(self.max_level):
            return f"its level {level} is above max_level {self.max_level}"
        if RISKS.index(risk) > RISKS.index(self.max_risk):
            return f"its risk {risk} is above max_risk {self.max_risk}"
        return None


UNCAPPED = RiskPolicy()


@dataclass(frozen=True, slots=True)
class Deprecation:
    """A tool that will be removed, when, and what stands in for it."""

    tool: str
    removal_date: date
    place: Place
    """The place of the tool's name."""
    date_place: Place
    """The place of the removal date."""
    replacement: str = ""
    """`TOOL` of the same skill or `SKILL.TOOL`; empty where there is none."""
    replacement_place: Place | None = None
    announced: date | None = None
    seen_by: str = ""
    """The first to see it on that day, such as `the lock`; empty where the contract states it."""

    def until(self, today: date) -> str:
        """Return when it goes, in words."""
        days = (self.removal_date - today).days
        if days < 0:
            return f"was to be removed on {self.removal_date}, {days_of(-days)} ago"
        return f"will be removed on {self.removal_date}, in {days_of(days)}"


def days_of(count: int) -> str:
    """Return a number of days in words."""
    return "1 day" if count == 1 else f"{count} days"


@dataclass(frozen=True, slots=True)
class TaskType:
    """A kind of task that a skill offers: its input, its steps, its output."""

    name: str
    description: str
    input_schema: JsonSchema
    steps: tuple[Mapping[str, Any], ...]
    output: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return the task type as planners see it."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
            "steps": list(self.steps),
            "output": self.output,
        }


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """Facts of an exported tool's calls; None and empty where it says nothing."""

    level: Level | None = None
    risk: Risk | None = None
    effects: Effects = field(default_factory=dict[str, "str | tuple[str, ...]"])
    sinks: tuple[str, ...] = ()
    records: tuple[str, ...] = ()
    requires_confirm: bool = False
    side_effects: bool = False
    idempotent: bool = False
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class ExportedTool:
    """A tool that other skills may import."""

    name: str
    place: Place
    description: str = ""
    input_schema: JsonSchema | None = None
    output_schema: JsonSchema | None = None
    facts: ToolFacts = field(default_factory=ToolFacts)

    @property
    def function(self) -> str:
        """The function of `handlers.py` that serves it: its name, each `-` as `_`."""
        return self.name.replace("-", "_")


Unit = Literal["second", "minute", "hour", "day"]

SECONDS: Mapping[Unit, int] = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
"""The seconds of a rate's window."""

ALL_TOOLS = "*"
"""The name under which `Access.rates` holds the one rate of all tools."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The number of calls of one tool that one user has in a window."""

    count: int
    unit: Unit

    @property
    def seconds(self) -> int:
        """The length of the window."""
        return SECONDS[self.unit]

    def __str__(self) -> str:
        return f"{self.count}/{self.unit}"


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of who may call what a skill exports, and how often."""

    requires_subscription: bool = False
    free_tools: tuple[str, ...] = ()
    """Tools that need no subscription all the same."""
    rates: Mapping[str, Rate | None] = field(default_factory=dict[str, "Rate | None"])
    """By tool, or by `*` for every tool by itself; None for no limit."""

    def needs_subscription(self, tool: str) -> bool:
        """Whether a tool is for subscribers only."""
        return self.requires_subscription and tool not in self.free_tools

    def rate_of(self, tool: str) -> Rate | None:
        """Return the rate of a tool, None where it has no limit."""
        return self.rates.get(tool, self.rates.get(ALL_TOOLS))


@dataclass(frozen=True, slots=True)
class Exports:
    """The offer of a skill to others."""

    api_version: str = ""
    """`MAJOR.MINOR`; empty where it states none."""
    tools: tuple[ExportedTool, ...] = ()
    place: Place | None = None
    """The place of its version, else of the exports."""
    access: Access = field(default_factory=Access)
    deprecated: tuple[Deprecation, ...] = ()

    def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
        return tuple([tool.name for tool in self.tools])


@dataclass(frozen=True, slots=True)
class Import:
    """The use that a skill makes of another one."""

    skill: str
    """The id after `from`."""
    place: Place
    tools: tuple[Named, ...] = ()
    min_version: str = ""
    version_place: Place | None = None


@dataclass(frozen=True, slots=True)
class Requires:
    """Requirements that must be there for a skill to be of use."""

    tools: tuple[str, ...] = ()
    bins: tuple[str, ...] = ()
    """Programs on the PATH, all of them."""
    env: tuple[str, ...] = ()
    """Environment variables that are set and not empty."""
    os: tuple[str, ...] = ()
    """The only systems it is for: `linux`, `macos`, `windows`; empty for all."""
    python: tuple[str, ...] = ()
    place: Place | None = None
    tool_places: tuple[Place, ...] = ()
    """The place of each of `tools`."""
    optional_tools: tuple[str, ...] = ()
    """Tools that its handlers call where they are there."""

    @property
    def callable_tools(self) -> tuple[str, ...]:
        """The tools of plugins that its handlers may call, there or not."""
        return (*self.tools, *self.optional_tools)


NO_EXPORTS = Exports()
NO_REQUIRES = Requires()


@dataclass(frozen=True, slots=True)
class Skill:
    """Knowledge and task types in a folder, or a manifest alone."""

    id: str
    version: str
    path: str
    """Its folder; the one around it of a manifest alone."""
    source: str
    """The part of the search path that it comes from."""
    description: str = ""
    permissions: tuple[str, ...] = ()
    """The most that its handlers and tasks may ever be granted."""
    tasks: Mapping[str, TaskType] = field(default_factory=dict[str, TaskType])
    exports: Exports = NO_EXPORTS
    imports: tuple[Import, ...] = ()
    requires: Requires = NO_REQUIRES
    risk_policy: RiskPolicy = UNCAPPED
    allowed_run_types: tuple[Named, ...] | None = None
    """The task types, TASK or SKILL.TASK, that its handlers may start; None for its own."""
    external_tools: tuple[Named, ...] = ()
    """Tools of other skills in the old form, until the set says whose they are."""
    skill_data: tuple[Named, ...] = ()
    """The skills whose data it asks for in the old form."""
    phase: Phase = "enforce"
    """The weight of the old forms where it is used (`contracts.phase`)."""
    grounds: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    """Places in what its own calls of a tool return that its further calls may read."""
    text_name: str = ""
    """The name of its SKILL.md, empty for a manifest alone."""
    manifest: Path | None = None
    """The file that holds its contract, None where it has none."""
    frontmatter: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """All keys of the SKILL.md, the unknown ones too."""
    handlers: str | None = field(default=None, repr=False)
    """The source of its handlers.py, None where it exports no tools or has none."""
    trusted: bool = False
    """Whether what it declares is given to the tasks that a user starts by name, and its handlers
    may run outside of every sandbox engine."""

    @property
    def folder(self) -> Path:
        """Its folder; the one around it of a manifest alone."""
        return Path(self.path)

    @property
    def text_file(self) -> Path | None:
        """Its SKILL.md, None for a manifest alone."""
        return Path(self.path, self.text_name) if self.text_name else None

    @property
    def file(self) -> Path:
        """The file that stands for it in messages: its manifest, else its text."""
        return self.manifest or self.text_file or self.folder

    @property
    def content(self) -> Path:
        """The files that trust is bound to: the folder, or the file of a manifest alone."""
        if not self.text_name and self.manifest is not None and not _is_named(self.manifest):
            return self.manifest
        return self.folder


def _is_named(manifest: Path) -> bool:
    return manifest.stem == "clawhive"
