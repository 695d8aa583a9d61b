"""The options of a run, which its caller gives beside its task, and the callbacks among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from clawhive_core.errors import UsageError
from clawhive_core.execution.scope import ApproveMode, Ask, Signal, ignore_signal
from clawhive_core.model.approvals import Approval
from clawhive_core.model.canonical import preview
from clawhive_core.model.late import dataclass
from clawhive_core.model.questions import Answer, Question
from clawhive_core.model.texts import well_formed

if TYPE_CHECKING:
    from clawhive_core.runs.run import RunRequest


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run, beside its task.

    Raises:
        UsageError: A value is none of those that its option takes.
    """

    model: str | None = None
    grants: Sequence[str] = ()
    """Capabilities that the user gives this task, as `--grant` does."""
    session: str | None = None
    planner: str | None = None
    """The planner of a prompt's steps: `react`, `llm` or a plugin's."""
    out: str | PathLike[str] | None = None
    """The artifacts folder; `clawhive-out/RUN_ID` below the project root otherwise."""
    max_tool_rounds: int | None = None
    command: str = ""
    """The command line that starts the run, which refusals extend by `--grant`. Without one they
    name `grants`."""
    title: str = ""
    """The name of a session in listings."""
    on_start: Callable[[RunRequest], None] = lambda _: None
    on_signal: Callable[[Signal], None] = ignore_signal
    stream: bool = False
    """Whether `on_signal` gets a model's answer piece by piece."""
    approve: ApproveMode = "park"
    """The way to go on with a call that a person must answer."""
    skills: Sequence[str] = ()
    """Skills whose text a prompt's model is told from the start."""
    agent: str | None = None
    """The agent of `[agents.NAME]` that acts; the default one otherwise."""
    words: Sequence[str] | None = None
    """The user's words, where the prompt or the task's input is somebody else's: for a sub-agent,
    or for a session of an agent. Destinations that occur in them are not asked about."""
    ask: Ask | None = None
    """The function that asks the person, where `approve` is `ask`; without it the run parks. Its
    method `reply`, where it has one, gets the questions of tools (`Question`) and answers them."""

    def __post_init__(self) -> None:
        """Refuse what would be taken for something else: options come from callers' own code."""
        for name, (fits, wanted) in _KINDS.items():
            value: Any = getattr(self, name)
            if not fits(value):
                raise UsageError(
                    f"`{name}` cannot be {_shown(value)}", place=name, fix=f"give {wanted}"
                )


class RunKeywords(TypedDict, total=False):
    """The fields of `RunOptions` as keyword arguments."""

    model: str | None
    grants: Sequence[str]
    session: str | None
    planner: str | None
    out: str | PathLike[str] | None
    max_tool_rounds: int | None
    command: str
    title: str
    on_start: Callable[[RunRequest], None]
    on_signal: Callable[[Signal], None]
    stream: bool
    approve: ApproveMode
    skills: Sequence[str]
    agent: str | None
    words: Sequence[str] | None
    ask: Ask | None


def prompt_of(value: Any) -> str:
    """Return a caller's prompt; half of a surrogate pair in it is written as its escape.

    Raises:
        UsageError: It is no text.
    """
    _require(value, str, "prompt", "give the words as a text")
    return well_formed(value)


def require_input(value: Any) -> None:
    """Refuse a task's input that is no object.

    Raises:
        UsageError: It is none.
    """
    _require(value, Mapping, "input", "give the task's arguments by name")


def _require(value: Any, kind: type, place: str, fix: str) -> None:
    if not isinstance(value, kind):
        name = type(value).__name__
        raise UsageError(f"the {place} cannot be of type `{name}`", place=place, fix=fix)


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _are_texts(value: Any) -> bool:
    known = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return known and all(isinstance(each, str) for each in value)  # pyright: ignore[reportUnknownVariableType] - of anything


def _is_count(value: Any) -> bool:
    return value is None or (type(value) is int and value > 0)


def _is_mode(value: Any) -> bool:
    return isinstance(value, str) and value in get_args(ApproveMode)


_TEXT = (_is_text, "a text, or leave it out")
_TEXTS = (_are_texts, 'a list of texts, such as ["..."]')
_CALLS = (callable, "a function of one argument")
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("model", "session", "planner", "agent"), _TEXT),
    **dict.fromkeys(("command", "title"), (lambda value: isinstance(value, str), "a text")),
    **dict.fromkeys(("grants", "skills"), _TEXTS),
    **dict.fromkeys(("on_start", "on_signal"), _CALLS),
    "words": (lambda value: value is None or _are_texts(value), _TEXTS[1]),
    "ask": (lambda value: value is None or callable(value), "an async function, or leave it out"),
    "out": (lambda value: value is None or isinstance(value, str | PathLike), "a folder's path"),
    "max_tool_rounds": (_is_count, "a whole number above 0, or leave it out"),
    "approve": (_is_mode, "`ask`, `park` or `deny`"),
}


def _shown(value: Any) -> str:
    text = repr(value)
    return f"`{text}`" if len(text) <= _LONGEST else f"`{text[:_LONGEST]}…`"


_LONGEST = 80


SIGNAL_FAILED = "signal_failed"
"""The code of the warning about a listener: it is the program's, so a replay has none."""


def listener_of(options: RunOptions) -> Callable[[Signal], None]:
    """Return what a run's signals go to: whatever the program's own raises stays its failure."""
    signal = options.on_signal
    return (
        signal
        if signal is ignore_signal or isinstance(signal, SafeListener)
        else SafeListener(signal)
    )


@dataclass(slots=True)
class SafeListener:
    """Lets a program know what happens in a run; its first failure is logged, with a traceback."""

    callback: Callable[[Signal], None]
    warning: dict[str, str] | None = None
    """The first failure."""

    def __call__(self, signal: Signal) -> None:
        """Tell it."""
        try:
            self.callback(signal)
        except Exception as error:  # noqa: BLE001 - an observer stops no run
            if self.warning is None:
                _log_failure("`on_signal` raised; the run goes on", error)
                message = f"`on_signal` raised {_described(error)}; the run went on"
                self.warning = {"code": SIGNAL_FAILED, "message": message}


@dataclass(slots=True)
class SafeAsker:
    """Asks a person through a program; where that fails the call waits, as without an answer."""

    callback: Ask
    warning: dict[str, str] | None = None
    """The first thing that was wrong."""

    async def __call__(self, approval: Approval) -> None:
        """Ask."""
        try:
            await self.callback(approval)
        except Exception as error:  # noqa: BLE001 - the question stays, and somebody else may answer it
            _log_failure("`ask` raised; the run waits for a person", error)
            if self.warning is None:
                message = (
                    f"`ask` raised {_described(error)}; `{approval.tool}` waits for an "
                    "answer from elsewhere"
                )
                self.warning = {"code": "ask_failed", "message": message}

    async def reply(self, question: Question) -> Answer:
        """Put a tool's question; nobody answers it where the program cannot, or fails."""
        replying = getattr(self.callback, "reply", None)
        if replying is None:
            return Answer("cancel")
        try:
            return await replying(question)
        except Exception as error:  # noqa: BLE001 - a tool's question that fails has no answer
            _log_failure("`reply` raised; the question has no answer", error)
            return Answer("cancel")


def callback_warnings(*callbacks: Ask | Callable[[Signal], None] | None) -> list[dict[str, str]]:
    """Return what the record says of the callbacks of a run that failed."""
    known = (each for each in callbacks if isinstance(each, SafeAsker | SafeListener))
    return [each.warning for each in known if each.warning is not None]


def _described(error: Exception) -> str:
    """Return an error's type and text on one line; both are a stranger's."""
    try:
        return preview(f"{type(error).__name__}: {error}", _LONGEST_ERROR)
    except Exception:  # noqa: BLE001 - its text is made by the code that failed
        return type(error).__name__


_LONGEST_ERROR = 300


def _log_failure(message: str, error: Exception) -> None:
    import logging

    logging.getLogger("clawhive").error(message, exc_info=error)
