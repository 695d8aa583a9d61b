"""The connections that the requests of a project share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clawhive_core.errors import ToolError

if TYPE_CHECKING:
    from clawhive_core.execution.http.guard import Guard

INSTALL: Final = "pip install 'clawhive[http]'"


class Connections:
    """The guard of a project, made at the first request and closed with the project.

    Args:
        proxy: Through which checked addresses are reached.
    """

    def __init__(self, proxy: str | None = None) -> None:
        self._proxy = proxy
        self._guard: Guard | None = None

    def guard(self) -> Guard:
        """Return the guard.

        Raises:
            ToolError: `missing_package`.
            ConfigError: The proxy is none.
        """
        if self._guard is None:
            require_installed()
            from clawhive_core.execution.http.guard import Guard

            self._guard = Guard(proxy=self._proxy)
        return self._guard

    async def aclose(self) -> None:
        """Close every connection."""
        guard, self._guard = self._guard, None
        if guard is not None:
            await guard.aclose()


def require_installed() -> None:
    """Check that the library below is there.

    Raises:
        ToolError: `missing_package`.
    """
    from importlib.util import find_spec

    if find_spec("httpx2") is None:
        raise ToolError(
            "the library for HTTP requests is not installed",
            place="ctx.http",
            fix=INSTALL,
            code="missing_package",
        )
