"""A table of calls and what policy is to say of each: read with its places, and checked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, cast, get_args

from clawhive_core.capabilities import normalise
from clawhive_core.config.tomlfile import TomlFile, read_toml
from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding, Fix
from clawhive_core.diagnostics.suggestions import nearest
from clawhive_core.errors import CapabilityError, ClawHiveError, ConfigError
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.refusal import CODES, Reason
from clawhive_core.protocols.check import Verdict
from clawhive_core.skills.documents.document import Document
from clawhive_core.skills.documents.fields import Fields
from clawhive_core.skills.documents.place import InvalidSkill, KeyPath, Place

POLICY_ASK = "policy.ask"

_TABLE_KEYS = ("schema", "calls")
_WHERE = ("task", "step", "agent", "session")
_KEYS = ("name", "tool", "input", "expect", "rule", "grant", "reason", "grants", "words", *_WHERE)
_SCHEMA = "policy-cases/1"
_AT = pattern(r"(.*?)(?::(\d+))?(?::(\d+))?", re.DOTALL)
_REASONS: Mapping[Verdict, Reason | None] = {"allow": None, "ask": "approval", "deny": "rights"}


_FORM = "a table is `calls:` with a list of `{tool: ..., input: {...}, expect: allow|ask|deny}`"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict of policy on a call, or the reason that there is none."""

    verdict: Verdict
    rules: tuple[str, ...] = ()
    """The rules that decided: `no-grant`, `protected:...`, `deny:PATTERN`, `policy.ask`,
    `risk.RISK`, a check's rule; or `agents.NAME.allow`."""
    grants: tuple[str, ...] = ()
    """The patterns of the grants that cover the call."""
    reason: Reason | None = None
    message: str = ""
    decided: bool = True

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Outcome:
        """Return the outcome of a call that was explained."""
        parts = facts["capabilities"]
        # A grant's id is another one in each run: its pattern stands for it.
        rules = [
            each["rule"] for each in parts if each["pattern"] is None or each["rule"] == POLICY_ASK
        ]
        if facts["floor"] == "ask":
            rules.append(f"risk.{facts['risk']}")
        return cls(
            facts["verdict"],
            (*dict.fromkeys(rules), *(each["rule"] for each in facts["checks"])),
            tuple(dict.fromkeys(pattern for each in parts for pattern in each["grants"])),
            _REASONS[facts["verdict"]],
            facts["message"],
        )

    @classmethod
    def unseen(cls, agent: str) -> Outcome:
        """Return the outcome of a call of a tool that an agent's list does not have."""
        rule = f"agents.{agent}.allow"
        return cls("deny", (rule,), message=f"`{rule}` does not have the tool")

    @classmethod
    def undecided(cls, error: ClawHiveError) -> Outcome:
        """Return the outcome of a call that the executor would refuse before it decides."""
        reason = CODES.get(error.code)
        message = f"{error.message}; {error.fix}" if error.fix else error.message
        return cls("deny", (error.code,), (), reason, message, decided=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON."""
        return {
            "verdict": self.verdict if self.decided else None,
            "rules": list(self.rules),
            "grants": list(self.grants),
            "reason": self.reason,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class Case:
    """One call and what policy is to say of it."""

    place: Place
    """The place of its verdict."""
    tool: str
    expect: Verdict
    name: str = ""
    input: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rule: str | None = None
    """A rule that is to be among those that decide."""
    grant: str | None = None
    """The canonical pattern of a grant that is to cover the call."""
    reason: str | None = None
    """The class of the refusal, as its caller sees it."""
    grants: tuple[str, ...] = ()
    """Rights that the run has beside its own."""
    words: str | None = None
    """The words of the user."""
    where: Mapping[str, str] = field(default_factory=dict[str, str])
    """Its task type, step, agent and session, as far as it names them."""

    def problem(self, outcome: Outcome) -> Finding | None:
        """Return what is otherwise than the table says, None where nothing is."""
        title = f"{self.name}: `{self.tool}`" if self.name else f"`{self.tool}`"
        if not outcome.decided and not self._means(outcome):
            return self._finding("CH0913", f"{title} cannot be decided: {outcome.message}")
        if outcome.verdict != self.expect:
            grants = () if outcome.verdict == "deny" else outcome.grants
            by = ", ".join((*outcome.rules, *grants))
            said = f"policy says {outcome.verdict}, not {self.expect}"
            return self._finding("CH0912", f"{title}: {said} ({by})" if by else f"{title}: {said}")
        for what, wanted, have in (
            ("rule", self.rule, outcome.rules),
            ("grant", self.grant, outcome.grants),
            ("reason", self.reason, (outcome.reason or "none",)),
        ):
            if wanted is not None and wanted not in have:
                found = ", ".join(have) or "none"
                message = f"{title}: policy says {self.expect}, but by {what} {found}, not {wanted}"
                return self._finding("CH0912", message)
        return None

    def _means(self, outcome: Outcome) -> bool:
        """Whether the table says of which class the refusal is, not merely that there is one."""
        return self.reason is not None and self.reason == outcome.reason

    def _finding(self, code: str, message: str) -> Finding:
        fix = f"{self._explaining()} shows each rule; mend the policy, or the table"
        return self.place.finding(code, "error", message, fix)

    def _explaining(self) -> str:
        words = ["clawhive", "policy", "explain", self.tool, "--args", canonical_text(self.input)]
        words += [word for key, value in self.where.items() for word in (f"--{key}", value)]
        words += [word for each in self.grants for word in ("--grant", each)]
        return shlex.join(words)

    def to_dict(self) -> dict[str, Any]:
        """Return where the case stands and what it says, as JSON."""
        return {
            "name": self.name or None,
            "file": self.place.file,
            "line": self.place.line,
            "column": self.place.column,
            "tool": self.tool,
            "expect": self.expect,
        }


@dataclass(slots=True)
class CaseReader:
    """Reads the calls of one table, each by itself, so that one mistake hides no other.

    Args:
        document: The table.
        variables: What `${workspace}`, `${run}` and `${home}` stand for.
    """

    document: Document
    variables: Mapping[str, str]
    findings: list[Finding] = field(default_factory=list[Finding])

    def read(self) -> list[Case]:
        """Return the calls that can be used; `findings` are what is wrong with the others."""
        self.findings += [as_unreadable(each) for each in self.document.problems]
        found = [self._try(path, value) for path, value in self._rows()]
        return [each for each in found if each is not None]

    def _rows(self) -> list[tuple[KeyPath, Any]]:
        try:
            top = Fields.of(self.document, (), self.document.value or {})
            top.closed(_TABLE_KEYS, "a table of calls")
            if top.text("schema", _SCHEMA) != _SCHEMA:
                raise top.fail("schema", "is another form of table", f"write `{_SCHEMA}`")
            rows = top.items("calls")
            if not rows:
                raise top.fail("calls", "holds no call, so that nothing is held", "add one")
        except InvalidSkill as error:
            self.findings.append(as_unreadable(error.finding))
            return []
        return rows

    def _try(self, path: KeyPath, value: Any) -> Case | None:
        try:
            return self._case(Fields.of(self.document, path, value))
        except InvalidSkill as error:
            self.findings.append(as_unreadable(error.finding))
            return None

    def _case(self, row: Fields) -> Case:
        row.closed(_KEYS, "a call")
        for key in ("tool", "expect"):
            if key not in row:
                raise row.fail(None, f"a call needs `{key}`", f"add `{key}: ...`")
        if "step" in row and "task" not in row:
            raise row.fail("step", "a step is one of a task type", "add `task: TASK`")
        return Case(
            row.place("expect"),
            row.text("tool"),
            cast("Verdict", _one_of(row, "expect", get_args(Verdict))),
            row.text("name"),
            self._input(row),
            self._rule(row),
            self._pattern(row, "grant", row.text("grant")) if "grant" in row else None,
            _one_of(row, "reason", get_args(Reason)) if "reason" in row else None,
            tuple(self._pattern(row, "grants", each) for each in row.texts("grants")),
            row.text("words") or None,
            {key: row.text(key) for key in _WHERE if key in row},
        )

    def _input(self, row: Fields) -> Mapping[str, Any]:
        given = self._expanded(row.below("input").values)
        try:
            canonical_text(given)
        except (TypeError, RecursionError) as error:
            raise row.fail("input", str(error), "put it in quotes") from None
        return given

    def _rule(self, row: Fields) -> str | None:
        rule = row.text("rule") or None
        if rule is None or not rule.startswith("deny:"):
            return rule
        return f"deny:{self._pattern(row, 'rule', rule.removeprefix('deny:'))}"

    def _pattern(self, row: Fields, key: str, text: str) -> str:
        try:
            return normalise(text, self.variables)
        except CapabilityError as error:
            raise row.fail(key, error.message, error.fix) from None

    def _expanded(self, value: Any) -> Any:
        """Return an input whose texts may begin with a variable."""
        if isinstance(value, Mapping):
            items = cast("Mapping[str, Any]", value).items()
            return {key: self._expanded(each) for key, each in items}
        if isinstance(value, list):
            return [self._expanded(each) for each in cast("list[Any]", value)]
        if isinstance(value, str):
            for name, path in self.variables.items():
                if value.startswith(f"${{{name}}}"):
                    return path + value.removeprefix(f"${{{name}}}")
        return value


def _one_of(row: Fields, key: str, known: Sequence[str]) -> str:
    value = row.text(key)
    if value not in known:
        close = nearest(value, known)
        fix = f"did you mean `{close}`?" if close else f"one of: {', '.join(known)}"
        raise row.fail(key, f"`{value}` is none of those there are", fix)
    return value


def as_unreadable(finding: Finding) -> Finding:
    """Return what a reader of files found, as a mistake of a table."""
    return replace(finding, code="CH0911", severity="error", fix=finding.fix or Fix(_FORM))


def open_table(path: Path) -> Document:
    """Read a file and keep the place of each of its values.

    Raises:
        InvalidSkill: It cannot be read, or is not of the form that its name promises.
    """
    if path.suffix != ".toml":
        return Document.load(path, "table")
    shown = shown_path(path)
    try:
        read = read_toml(path, shown)
    except ConfigError as error:
        raise InvalidSkill(_table_finding(error.place or shown, error.message, error.fix)) from None
    if read is None:
        raise InvalidSkill(_table_finding(shown, "there is no such file", "name another one"))
    return _TomlTable(read)


class _TomlTable(Document):
    """A TOML file as the readers of YAML see it; its dates are no values of JSON."""

    def __init__(self, read: TomlFile) -> None:
        self.file = read.shown
        self.value: Any = read.data
        self.problems: list[Finding] = []
        self._what = "table"
        self._read = read

    def place(self, path: KeyPath, *, key: bool = False) -> Place:
        """Return where a key stands; the nearest one above it where it is missing."""
        del key  # only keys have places
        span = self._read.span(path)
        return Place(self.file) if span is None else Place(self.file, span.line, span.column)


def _table_finding(place: str, message: str, fix: str | None) -> Finding:
    found = _AT.fullmatch(place)
    file, line, column = found.groups() if found else (place, None, None)
    numbers = [None if each is None else int(each) for each in (line, column)]
    at = Place(file, *numbers)
    return at.finding("CH0911", "error", message, fix)
