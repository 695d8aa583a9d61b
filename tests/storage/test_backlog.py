"""What waits to be committed, and how long."""

from __future__ import annotations

import pytest

from clawhive_core.storage.sqlite.append import Append
from clawhive_core.storage.sqlite.backlog import Backlog


def test_what_comes_after_a_commit_waits_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    present = iter((100.0, 100.5, 103.0, 103.5))
    monkeypatch.setattr("clawhive_core.storage.sqlite.backlog.monotonic", lambda: next(present))
    backlog = Backlog()
    backlog.put(Append())
    backlog.put(Append())
    assert backlog.due(2) == 1.5
    backlog.take()
    backlog.put(Append())
    assert backlog.due(2) == 1.5


def test_nothing_is_due_where_nothing_waits() -> None:
    backlog = Backlog()
    assert backlog.due(60) == 0
    backlog.put(Append())
    backlog.take()
    assert backlog.due(60) == 0
