"""What a program gives a run to call: whatever it raises is its own failure, never the run's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clawhive_core.execution.scope import Ask, Signal, unheard
from clawhive_core.model.approvals import Approval
from clawhive_core.model.late import dataclass

if TYPE_CHECKING:
    from clawhive_core.runs.options import RunOptions


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
    errors: int = 0
    """How often it raised."""

    def __call__(self, signal: Signal) -> None:
        """Tell it."""
        try:
            self.callback(signal)
        except Exception as error:  # noqa: BLE001 - an observer stops no run
            self.errors += 1
            if self.errors == 1:
                _log("`on_signal` raised; the run goes on", error)


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
                    f"`ask` raised {type(error).__name__}: {error}; `{approval.tool}` waits for an "
                    "answer from elsewhere"
                )
                self.warning = {"code": "ask_failed", "message": message}


def warnings_of(ask: Ask | None) -> dict[str, Any]:
    """Return what the record says of a run that waits because its asking failed."""
    warning = ask.warning if isinstance(ask, Asking) else None
    return {} if warning is None else {"warnings": [warning]}


def _log(message: str, error: Exception) -> None:
    import logging

    logging.getLogger("clawhive").error(message, exc_info=error)
