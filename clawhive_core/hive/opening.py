"""Opening a project: its configuration, log and plugins, and closing all of it again."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeVar

from clawhive_core.config.config import Config
from clawhive_core.config.load import open_config
from clawhive_core.events.redaction import Redactor
from clawhive_core.hive.project_log import open_verified
from clawhive_core.hive.watchdog import Watched, watched
from clawhive_core.plugins.environment import PluginEnvironment
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.protocols.ledger import Ledger

LoadPlugins = Callable[[Config, Mapping[str, str]], PluginManager]


class Opened(Protocol):
    """A user of an open project, which works until it is closed."""

    def working(self) -> AbstractAsyncContextManager[None]:
        """Work until the end of the context, then close everything, the log too."""
        ...


T = TypeVar("T", bound=Opened)


@asynccontextmanager
async def opened(
    kind: Callable[[Config, Ledger, PluginManager, Mapping[str, str]], T],
    path: str | os.PathLike[str] | None,
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    plugins: LoadPlugins,
) -> AsyncGenerator[T]:
    """Open a project, give what `kind` makes of it, and close it.

    Raises:
        ConfigError: The configuration cannot be used; `untrusted_project`: what it was trusted to
            tighten is gone.
        StorageError: `.clawhive/hive.db` cannot be opened; `forged_rights`: a table of it gives a
            right that the log does not.
    """
    config = open_config(path, flags, env)
    config.require_kept()
    redactor = Redactor(by_form=True)
    manager = plugins(config, PluginEnvironment(env, redactor.add))
    log = open_verified(config, lambda: manager, redactor)
    with watched(Watched(log, config.get("limits.blocked_sec"), manager.packages)):
        try:
            hive = kind(config, log, manager, env)
        except BaseException:
            log.close()
            raise
        async with hive.working():
            yield hive
