"""Regular expressions that are compiled when one is first used, so that importing is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re import compile as pattern
else:

    class pattern:  # noqa: N801 - stands where `re.compile` would
        """A regular expression as `re.compile` returns it, compiled at its first use."""

        def __init__(self, text: str | bytes, flags: int = 0) -> None:
            self._source = text, flags

        def __getattr__(self, name: str) -> Any:
            import re

            found = getattr(re.compile(*self._source), name)
            setattr(self, name, found)
            return found


__all__ = ["pattern"]
