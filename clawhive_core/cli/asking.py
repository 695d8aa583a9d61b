"""Asking the person at the terminal about one call."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from clawhive_core.cli.approvals import describe, edited_by_hand, granted_lines
from clawhive_core.cli.grants import suspended_lines, suspended_rights
from clawhive_core.cli.output import ask, is_terminal, put, say
from clawhive_core.errors import ClawHiveError, RunError, UsageError
from clawhive_core.model.canonical import preview
from clawhive_core.model.late import dataclass

if TYPE_CHECKING:
    import anyio

    from clawhive_core.cli.progress import ProgressLine
    from clawhive_core.hive.hive import Hive
    from clawhive_core.model.approvals import Approval, ApprovalScope
    from clawhive_core.model.questions import Answer, Question
    from clawhive_core.policy.answers import AnswerOptions, Edited, Verdict
    from clawhive_core.runs.options import ApproveMode
    from clawhive_core.runs.requests import RunOptions

MODES = ("ask", "park", "deny")
_WIDER: Mapping[str, ApprovalScope] = {"s": "step", "t": "task", "c": "session", "a": "always"}
_CHOICES = "y yes, once   s step   t task   c conversation   a always   e edit   n no > "
_UNSAFE_CHOICES = "y yes, once   e edit   n no > "
_LESS = "Enter gives these   numbers or rights give less   b back > "

_COMPANY_SECONDS = 0.2
"""The time that a question waits for equal calls that a plan makes at once."""


def approve_option(command: Any) -> Any:
    """Give a command the option `--approve`."""
    return click.option(
        "--approve",
        type=click.Choice(MODES),
        help="Calls that a person must answer: ask here, let the run wait, or refuse them. "
        "Without it: ask on a terminal, else park.",
    )(command)


def approver(
    mode: str | None, line: ProgressLine, *, as_json: bool
) -> tuple[ApproveMode, Terminal | None]:
    """Return `approve` and `ask` of RunOptions; `connect` then gives the terminal its hive.

    Args:
        mode: What `--approve` says, None where it is not given.
        line: What tells of the run meanwhile; it leaves the terminal to a question.
        as_json: Whether the output is for a program, so that nothing prompts of itself.

    Raises:
        UsageError: `ask` where there is no terminal, or inside a run.
    """
    inside = bool(os.environ.get("CLAWHIVE_RUN"))
    terminal = is_terminal(sys.stdin, sys.stderr) and not inside
    if mode == "ask" and not terminal:
        raise UsageError(
            "nobody can be asked here: no run decides about itself"
            if inside
            else "nobody can be asked here: there is no terminal",
            place="--approve",
            fix="--approve park, then: clawhive approvals approve last",
        )
    if mode == "ask" or (mode is None and terminal and not as_json):
        return "ask", Terminal(line)
    return "deny" if mode == "deny" else "park", None


def connect(options: RunOptions, hive: Hive) -> None:
    """Let the person at the terminal answer for this hive's runs."""
    if isinstance(options.ask, Terminal):
        options.ask.hive = hive


class Terminal:
    """Shows an approval, reads what the person says, and resolves it."""

    def __init__(self, line: ProgressLine) -> None:
        self.hive: Hive | None = None
        self._line = line
        self._one_at_a_time: anyio.Lock | None = None

    async def __call__(self, approval: Approval) -> None:
        """Ask until there is an answer; the end of input gives none."""
        import anyio

        lock = self._one_at_a_time = self._one_at_a_time or anyio.Lock()
        async with lock:
            if self.hive is None:
                return
            await anyio.sleep(_COMPANY_SECONDS)
            if self.hive.approvals.find(approval.approval_id).state == "pending":
                with self._line.hidden():
                    await _Question(self.hive, approval).ask()

    async def reply(self, question: Question) -> Answer:
        """Put somebody else's question to the person, set off from ours."""
        import anyio

        lock = self._one_at_a_time = self._one_at_a_time or anyio.Lock()
        async with lock:
            with self._line.hidden():
                return await _Foreign(question).ask()


@dataclass(slots=True)
class _Foreign:
    """A question that is not ours, in front of one person; the end of input cancels it."""

    question: Question

    async def ask(self) -> Answer:
        from clawhive_core.model.questions import Answer

        question = self.question
        say("", f"A question of {question.source}, not of ClawHive; it gets the answer:", err=True)
        put(question.message.rstrip("\n") + "\n", err=True)
        if question.url is not None:
            return await self._open(question.url)
        if _asks_for_secret(question):
            say("It seems to ask for a secret. Whatever is typed here is sent to it.", err=True)
        values: dict[str, Any] = {}
        for name, schema in question.fields.items():
            answered, value = await self._value(name, schema)
            if not answered:
                return Answer("cancel")
            if value is not None:
                values[name] = value
        for name, value in values.items():
            say(f"  {name}: {preview(str(value))}", err=True)
        line = await _line(f"Send this to {question.source}?   y yes   n no > ")
        if line is None:
            return Answer("cancel")
        if line.lower() not in {"y", "yes"}:
            return Answer("decline")
        return Answer("accept", values)

    async def _open(self, url: str) -> Answer:
        from clawhive_core.model.questions import Answer

        say(f"It wants this address opened: {url}", err=True)
        say("What is typed there goes past ClawHive; look at its host.", err=True)
        line = await _line("Open it in your browser?   y yes   n no > ")
        if line is None:
            return Answer("cancel")
        if line.lower() not in {"y", "yes"}:
            return Answer("decline")
        import webbrowser

        webbrowser.open(url)
        return Answer("accept")

    async def _value(self, name: str, schema: Mapping[str, Any]) -> tuple[bool, Any]:
        """Return whether the person went on, and the value of one field, None for none."""
        needed = name in self.question.required
        shown = preview(str(schema.get("title") or name))
        about = preview(str(schema.get("description") or ""))
        hint = _hint(schema) + ("" if needed else "; Enter for none")
        while True:
            line = await _line(f"  {shown} {f'({about}) ' if about else ''}[{hint}] > ")
            if line is None:
                return False, None
            if not line and not needed:
                return True, schema.get("default")
            try:
                return True, _read(line, schema)
            except ValueError as error:
                say(f"  {error}", err=True)


def _asks_for_secret(question: Question) -> bool:
    parts = [question.message, *question.fields, *map(str, question.fields.values())]
    return any(word in part.lower() for part in parts for word in _SECRETS)


_SECRETS = (
    *("password", "passphrase", "token", "secret", "api key", "api_key", "apikey", "credential"),
    *("private key", "one-time", "otp", "cvv", "card number", "security code"),
)


def _choices(schema: Mapping[str, Any]) -> list[str]:
    titled: Sequence[Any] = schema.get("oneOf") or schema.get("anyOf") or ()
    listed: Sequence[Any] = schema.get("enum") or [each["const"] for each in titled]
    return [str(each) for each in listed]


def _hint(schema: Mapping[str, Any]) -> str:
    if choices := _choices(schema):
        return "one of " + ", ".join(preview(each) for each in choices[:20])
    if schema.get("type") == "array":
        return f"several, with commas between: {_hint(schema.get('items') or {})}"
    if schema.get("type") == "boolean":
        return "y or n"
    return str(schema.get("type") or "text").replace("string", "text")[:20]


def _read(line: str, schema: Mapping[str, Any]) -> Any:
    """Return the value that a line stands for.

    Raises:
        ValueError: It stands for none that the schema allows.
    """
    kind, choices = schema.get("type"), _choices(schema)
    if kind == "array":
        return [_read(each.strip(), schema.get("items") or {}) for each in line.split(",")]
    if kind == "boolean":
        if line.lower() not in {"y", "yes", "true", "n", "no", "false"}:
            raise ValueError("y or n")
        return line.lower() in {"y", "yes", "true"}
    if kind in {"integer", "number"}:
        value = int(line) if kind == "integer" else float(line)
        low, high = schema.get("minimum"), schema.get("maximum")
        if (low is not None and value < low) or (high is not None and value > high):
            raise ValueError(f"from {low} to {high}")
        return value
    if choices and line not in choices:
        raise ValueError(f"one of {', '.join(choices[:20])}")
    return line


@dataclass(slots=True)
class _Question:
    """One approval in front of one person."""

    hive: Hive
    approval: Approval
    edited: Edited | None = None
    equal: Sequence[Approval] = ()
    """The approvals that wait for exactly this call, this one included, as it was shown."""

    async def ask(self) -> None:
        say("", "Approve?", err=True)
        self._show()
        unsafe = self.approval.risk == "unsafe"
        while True:
            choices = _UNSAFE_CHOICES if unsafe else _CHOICES
            line = await _line(self._batch + choices)
            if line is None:
                return
            if await self._take(line.lower(), unsafe=unsafe):
                return

    async def _take(self, key: str, *, unsafe: bool) -> bool:
        """Do what a key says; whether that answered the call."""
        if key in {"n", "no"}:
            several = self.equal if len(self.equal) > 1 else ()
            return await self._resolve("deny", {}, several)
        if key in {"y", "yes"}:
            return await self._resolve("approve", {"edited": self.edited})
        if key == "m" and self._batch:
            return await self._resolve("approve", {}, self.equal)
        if key in {"e", "edit"}:
            await self._edit()
        elif key in _WIDER and not unsafe:
            return await self._widen(_WIDER[key])
        return False

    @property
    def _batch(self) -> str:
        """The further answer that is offered where equal calls wait, else nothing."""
        alone = self.approval.risk == "unsafe" or self.edited is not None
        several = len(self.equal) > 1 and not alone
        return f"m these {len(self.equal)} calls   " if several else ""

    def _show(self) -> None:
        self.equal = self.hive.approvals.equals(self.approval)
        if len(self.equal) > 1:
            say(f"{len(self.equal)} equal calls: `n` denies each", err=True)
        given = self.hive.approvals.input_of(self.approval)
        say(*describe(self.approval, given, self.edited), err=True)
        for line in self._suspended():
            say(line, err=True)

    def _suspended(self) -> list[str]:
        """Return which rights do not count for this call, as its tool changed, and how it did."""
        from clawhive_core.policy.grants import GrantBook

        book = GrantBook(self.hive.config.user_dir, self.hive.log)
        tool = self.hive.catalog.current.meta_of(self.approval.tool)
        if tool is None:
            return []
        lines = [line for each in suspended_rights(book, tool) for line in suspended_lines(each)]
        if self.hive.declarations.state(tool) == "changed":
            lines.append(f"changed  since you declared it: clawhive tools show {tool.name}")
        return lines

    async def _edit(self) -> None:
        try:
            self.edited = await edited_by_hand(self.hive, self.approval, self.edited)
        except UsageError as error:
            say(f"{error.message}; {error.fix}", err=True)
            return
        except RunError as error:
            say(error.message, err=True)  # somebody answered elsewhere
            return
        say("", "Approve, as edited?" if self.edited else "Approve, as asked?", err=True)
        self._show()

    async def _widen(self, scope: ApprovalScope) -> bool:
        """Show the rights that a wider scope gives, let the person take less of them."""
        rights = (self.edited or self.approval).capabilities
        say(*granted_lines(rights, scope), err=True)
        line = await _line(_LESS)
        if line is None or line.lower() in {"b", "back"}:
            return False
        try:
            chosen = _chosen(line.split(), rights)
            more: AnswerOptions = {"scope": scope, "grants": chosen, "edited": self.edited}
            return await self._resolve("approve", more)
        except UsageError as error:
            say(f"{error.message}; {error.fix}", err=True)
            return False

    async def _resolve(
        self, verdict: Verdict, more: AnswerOptions, several: Sequence[Approval] = ()
    ) -> bool:
        import anyio

        by = f"user:{self.hive.config.get('user.id')}"

        def resolve() -> None:
            if several:
                self.hive.approvals.resolve_each(several, verdict, by=by)
                return
            self.hive.approvals.resolve(self.approval.approval_id, verdict, by=by, **more)

        try:
            await anyio.to_thread.run_sync(resolve)
        except RunError as error:
            say(error.message, err=True)  # somebody answered elsewhere
        except UsageError:
            raise
        except ClawHiveError as error:
            say(f"{error.message}; {error.fix}", err=True)
            return False
        return True


def _chosen(words: Sequence[str], rights: Sequence[str]) -> list[str]:
    """Return the rights that words name, by number or as they are written.

    Raises:
        UsageError: No right has that number.
    """
    found: list[str] = []
    for word in words:
        if not word.isdecimal():
            found.append(word)
        elif 0 < int(word) <= len(rights):
            found.append(rights[int(word) - 1])
        else:
            raise UsageError(f"there is no number {word}", fix=f"1 to {len(rights)}")
    return found


async def _line(prompt: str) -> str | None:
    """Return a line that is typed after a prompt, None at the end of input."""
    import anyio

    ask(prompt)
    # A terminal gives whole lines, so that reading one never blocks the run's other work.
    try:
        await anyio.wait_readable(sys.stdin)
    except anyio.get_cancelled_exc_class():
        say(err=True)  # somebody answered elsewhere, or the run is cancelled
        raise
    line = sys.stdin.readline()
    if not line:
        say(err=True)
        return None
    return line.strip()
