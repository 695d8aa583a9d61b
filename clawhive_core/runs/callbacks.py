"""Callbacks that a program gives a run: whatever they raise is their failure, never the run's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clawhive_core.execution.scope import Ask, Signal, unheard
from clawhive_core.model.approvals import Approval
from clawhive_core.model.canonical import preview
from clawhive_core.model.late import dataclass

if TYPE_CHECKING:
    from clawhive_core.runs.options import RunOptions

SIGNAL_FAILED = "signal_failed"
"""The code of the warning about a listener: it is the program's, so a replay has none."""


def callbacks_of(options: RunOptions) -> dict[str, Any]:
    """Return `signal` and `ask` of the scope of a run."""
    signal = options.on_signal
    is_safe = signal is unheard or isinstance(signal, Hearing)
    return {
        "signal": signal if is_safe else Hearing(signal),
        "ask": None if options.ask is None else Asking(options.ask),
    }


@dataclass(slots=True)
class Hearing:
    """Lets a program know what happens in a run; its first failure is logged, with a traceback."""

    callback: Callable[[Signal], None]
    warning: dict[str, str] | None = None
    """How it failed first."""

    def __call__(self, signal: Signal) -> None:
        """Tell it."""
        try:
            self.callback(signal)
        except Exception as error:  # noqa: BLE001 - an observer stops no run
            if self.warning is None:
                _log("`on_signal` raised; the run goes on", error)
                message = f"`on_signal` raised {_said(error)}; the run went on"
                self.warning = {"code": SIGNAL_FAILED, "message": message}


@dataclass(slots=True)
class Asking:
    """Asks a person through a program; where that fails the call waits, as without an answer."""

    callback: Ask
    warning: dict[str, str] | None = None
    """What was wrong first."""

    async def __call__(self, approval: Approval) -> None:
        """Ask."""
        try:
            await self.callback(approval)
        except Exception as error:  # noqa: BLE001 - the question stays, and somebody else may answer it
            _log("`ask` raised; the run waits for a person", error)
            if self.warning is None:
                message = (
                    f"`ask` raised {_said(error)}; `{approval.tool}` waits for an "
                    "answer from elsewhere"
                )
                self.warning = {"code": "ask_failed", "message": message}


def warnings_of(*callbacks: Ask | Callable[[Signal], None] | None) -> list[dict[str, str]]:
    """Return what the record says of the callbacks of a run that failed."""
    known = (each for each in callbacks if isinstance(each, Asking | Hearing))
    return [each.warning for each in known if each.warning is not None]


def _said(error: Exception) -> str:
    """Return an error's type and text on one line; both are a stranger's."""
    try:
        return preview(f"{type(error).__name__}: {error}", _LONGEST)
    except Exception:  # noqa: BLE001 - its text is made by the code that failed
        return type(error).__name__


_LONGEST = 300


def _log(message: str, error: Exception) -> None:
    import logging

    logging.getLogger("clawhive").error(message, exc_info=error)
