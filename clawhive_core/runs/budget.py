"""The budget of a run: tokens, US dollars, seconds; its sub-agents use of the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from clawhive_core.errors import ModelError
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import Usage


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """The most that a run and all below it may use; None where nothing is said."""

    tokens: int | None = None
    """Input and output tokens of all model calls."""
    cost: float | None = None
    """US dollars; calls whose price nobody knows count nothing."""
    seconds: float | None = None
    """From the start, or from the resume, of the run."""

    def to_dict(self) -> dict[str, Any]:
        """Return the limits as JSON."""
        return {"tokens": self.tokens, "cost": self.cost, "seconds": self.seconds}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> BudgetLimits:
        """Return what `to_dict` wrote; older runs have none."""
        return cls(row.get("tokens"), row.get("cost"), row.get("seconds"))

    def within(self, other: BudgetLimits) -> BudgetLimits:
        """Return the lower of each of both limits."""
        return BudgetLimits(
            _lower(self.tokens, other.tokens),
            _lower(self.cost, other.cost),
            _lower(self.seconds, other.seconds),
        )


def _lower(one: Any, other: Any) -> Any:
    return min((each for each in (one, other) if each is not None), default=None)


@dataclass(slots=True)
class Budget:
    """An account of one run: what it may use, what it has used, and whose account it draws on."""

    limits: BudgetLimits = field(default_factory=BudgetLimits)
    above: Budget | None = None
    """The account of the run that started this one."""
    used: Usage = field(default_factory=Usage)
    """The use of the run itself."""
    drawn: Usage = field(default_factory=Usage)
    """The use of the runs below it."""
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)
    is_unbounded: bool = field(init=False)
    """Whether nothing bounds it, here or above."""

    def __post_init__(self) -> None:
        """Start the clock."""
        self.began = self.clock()
        free = self.limits == BudgetLimits()
        self.is_unbounded = free and (self.above is None or self.above.is_unbounded)

    def charge(self, usage: Usage) -> None:
        """Count a model call of the run, here and against every account above."""
        self.used = self.used + usage
        if self.above is not None:
            self.above.draw(usage)

    def draw(self, usage: Usage) -> None:
        """Count what a run below used, here and against every account above."""
        self.drawn = self.drawn + usage
        if self.above is not None:
            self.above.draw(usage)

    def left(self) -> BudgetLimits:
        """Return what may still be used, here and above; never less than zero."""
        here = BudgetLimits(
            _less(self.limits.tokens, self.tokens),
            _less(self.limits.cost, (self.used + self.drawn).cost or 0),
            _less(self.limits.seconds, self.clock() - self.began),
        )
        return here if self.above is None else here.within(self.above.left())

    @property
    def tokens(self) -> int:
        """The tokens that were used, here and below."""
        used = self.used + self.drawn
        return (used.input_tokens or 0) + (used.output_tokens or 0)

    def check(self) -> float | None:
        """Return the seconds that are left, None where nothing bounds them.

        Raises:
            ModelError: `budget_exceeded`, where nothing is left of one of the three.
        """
        if self.is_unbounded:
            return None
        left = self.left()
        for name in _UNITS:
            if getattr(left, name) == 0:
                raise budget_exceeded(name)
        return left.seconds

    def below(self, limits: BudgetLimits) -> Budget:
        """Return the account of a run that this one starts: it draws on this account too."""
        return Budget(limits, self, clock=self.clock)


_UNITS = {"tokens": "tokens", "cost": "dollars", "seconds": "seconds"}


def budget_exceeded(name: str, more: str = "") -> ModelError:
    """Return the error of a run that has used up one of the three, by its name in the limits."""
    return ModelError(
        f"the budget of the run is spent: no {_UNITS[name]} are left"
        + (f"; {more}" if more else ""),
        code="budget_exceeded",
        fix=f"raise `budget.{name}` in the configuration, or ask for less at once",
    )


def _less(limit: Any, used: Any) -> Any:
    return None if limit is None else max(limit - used, 0)
