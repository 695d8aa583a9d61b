"""A hive of a test's own: in a temporary folder, with the objects that the test gives it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clawhive_core.config import Config
from clawhive_core.hive.hive import Hive
from clawhive_core.model.tools import Code
from clawhive_core.plugins.contribution import Contribution
from clawhive_core.plugins.manager import PluginManager, PluginOptions, open_plugins
from clawhive_core.plugins.plugin import PluginRecord
from clawhive_core.protocols.adapter import LlmAdapter
from clawhive_core.protocols.check import PolicyCheck
from clawhive_core.protocols.embedder import Embedder
from clawhive_core.protocols.provider import ToolProvider
from clawhive_core.protocols.sandbox import SandboxEngine

_GIVEN = "given"


@asynccontextmanager
async def memory_hive(
    *,
    providers: Sequence[ToolProvider] = (),
    adapters: Sequence[LlmAdapter] = (),
    checks: Sequence[PolicyCheck] = (),
    sandboxes: Sequence[SandboxEngine] = (),
    embedders: Sequence[Embedder] = (),
    settings: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Hive]:
    """Open a Hive over a temporary project, with an environment of its own, and remove it after.

    No installed plugin is loaded, unless `settings` names some: `{"plugins.enabled": ["builtin"]}`.
    Everything else is real: catalog, policy, executor, log.

    Args:
        providers: What offers tools.
        adapters: What answers model requests; `adapter.name` is the part before the colon.
        checks: Policy checks.
        sandboxes: Sandbox engines, preferred first.
        embedders: What makes vectors of texts.
        settings: Configuration values by key.

    Example:
        ::

            async with memory_hive(adapters=[ScriptedModel(["Hello."])]) as hive:
                run = await hive.run("Hi", model="scripted:any")
                assert run["output"] == "Hello."
    """
    given = {
        "clawhive_llm_adapters": tuple(adapters),
        "clawhive_policy_checks": tuple(checks),
        "clawhive_sandboxes": tuple(sandboxes),
        "clawhive_embedders": tuple(embedders),
    }
    flags = dict(settings or {})

    def load(config: Config, env: Mapping[str, str]) -> PluginManager:
        installed = open_plugins(config, env, none="plugins.enabled" not in flags)
        return _Given(providers, given, installed)

    with TemporaryDirectory(prefix="clawhive-", ignore_cleanup_errors=True) as folder:
        root = _project(folder)
        env = {"HOME": folder, "XDG_CONFIG_HOME": str(Path(folder, "config"))}
        async with Hive.open(root, flags=flags, env=env, plugins=load) as hive:
            yield hive


def _project(folder: str) -> Path:
    root = Path(folder, "project")
    root.mkdir()
    return root


class _Given(PluginManager):
    """The objects that a test gave, then those of the installed plugins."""

    def __init__(
        self,
        providers: Sequence[ToolProvider],
        given: Mapping[str, Sequence[Any]],
        installed: PluginManager,
    ) -> None:
        super().__init__((), PluginOptions())
        self._own = tuple(providers)
        self._given = given
        self._installed = installed

    def providers(self) -> list[ToolProvider]:
        """Return the given providers first."""
        return [*self._own, *self._installed.providers()]

    def code_of(self, provider: ToolProvider) -> Code | None:
        """Return the code of an installed plugin's provider."""
        return self._installed.code_of(provider)

    def contributions(self, hook: str) -> list[Contribution]:
        """Return the given objects first."""
        own = [Contribution(_GIVEN, _GIVEN, value) for value in self._given.get(hook, ())]
        return [*own, *self._installed.contributions(hook)]

    def failed_hooks(self, hook: str) -> list[PluginRecord]:
        """Return what the installed plugins failed to contribute."""
        return self._installed.failed_hooks(hook)

    def secret_variables(self) -> frozenset[str]:
        """Return what the installed plugins and their settings name."""
        return self._installed.secret_variables()

    def records(self) -> list[PluginRecord]:
        """Return the installed plugins."""
        return self._installed.records()
