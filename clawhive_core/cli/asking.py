"""Asking the person at the terminal about one call."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from clawhive_core.cli.approvals import describe, edited_by_hand, granted_lines
from clawhive_core.cli.grants import suspended_lines, suspended_rights
from clawhive_core.cli.output import ask, is_terminal, say
from clawhive_core.errors import ClawHiveError, RunError, UsageError
from clawhive_core.model.late import dataclass

if TYPE_CHECKING:
    import anyio

    from clawhive_core.cli.progress import ProgressLine
    from clawhive_core.hive.hive import Hive
    from clawhive_core.model.approvals import Approval, ApprovalScope
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
        suspended = [] if tool is None else suspended_rights(book, tool)
        return [line for each in suspended for line in suspended_lines(each)]

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
