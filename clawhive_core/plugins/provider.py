"""Plugins as ToolProviders: listed from their manifests, imported at the first call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from clawhive_core.errors import PluginError, ToolError
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.plugins.plugin import Plugin
from clawhive_core.protocols.context import InvokeContext
from clawhive_core.protocols.provider import ToolProvider

if TYPE_CHECKING:
    import anyio


class PluginProvider:
    """The `@tool` functions of one plugin."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    @property
    def provider_id(self) -> str:
        """The plugin's id."""
        return self._plugin.id

    async def list_tools(self) -> list[ToolMeta]:
        """Return what the manifest lists; nothing once the plugin has failed."""
        return [meta for meta in self._plugin.listed_tools() if meta.provider_id == self._plugin.id]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Call a tool function; the first call imports the plugin and compares its tools.

        Raises:
            ToolError: `tool_changed` where the code is not what the manifest says,
                `provider_error` where it cannot be imported, else as the tool.
        """
        from clawhive_core.plugins.invocation import invoke

        tools = await _in_thread(self._plugin.verified_tools)
        if tool_name not in tools:
            raise _not_found(tool_name, self.provider_id)
        return await invoke(tools[tool_name], input, ctx)

    async def close(self) -> None:
        """Do nothing: functions need no closing."""


class ListedProvider:
    """A provider that a hook returns and whose tools the manifest lists."""

    def __init__(self, plugin: Plugin, provider_id: str) -> None:
        self._plugin = plugin
        self._provider_id = provider_id
        self._provider: ToolProvider | None = None
        self._lock: anyio.Lock | None = None

    @property
    def provider_id(self) -> str:
        """The provider's own id."""
        return self._provider_id

    async def list_tools(self) -> list[ToolMeta]:
        """Return what the manifest lists; nothing once the plugin has failed."""
        tools = self._plugin.listed_tools()
        return [meta for meta in tools if meta.provider_id == self._provider_id]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Call a tool of the provider, after comparing what it lists with the manifest.

        Raises:
            ToolError: As `PluginProvider.invoke`.
        """
        provider = await self._verified()
        if tool_name not in {meta.name for meta in await self.list_tools()}:
            raise _not_found(tool_name, self._provider_id)
        return await provider.invoke(tool_name, input, ctx)

    async def close(self) -> None:
        """Close the provider, if a call has made one."""
        provider, self._provider = self._provider, None
        if provider is not None:
            await provider.close()

    async def _verified(self) -> ToolProvider:
        import anyio

        if self._plugin.error is not None:
            raise _as_tool_error(self._plugin.error)
        self._lock = self._lock or anyio.Lock()
        async with self._lock:
            if self._provider is None:
                self._provider = await self._find()
            return self._provider

    async def _find(self) -> ToolProvider:
        listed = tuple(await self.list_tools())
        hook = partial(self._plugin.contributions, "clawhive_tool_providers")
        values = [contribution.value for contribution in await _in_thread(hook)]
        try:
            for provider in cast("list[ToolProvider]", values):
                if provider.provider_id == self._provider_id:
                    self._plugin.check_tools(listed, await provider.list_tools())
                    return provider
        except PluginError as error:
            raise _as_tool_error(error) from error
        except Exception as error:  # the isolation boundary: a plugin's provider
            raise ToolError(
                f"the provider {self._provider_id} cannot list its tools: {error!r}",
                fix="report it to the plugin's author",
                code="provider_error",
            ) from error
        raise ToolError(
            f"the plugin {self._plugin.id} offers no provider {self._provider_id}",
            fix=f"complete its settings: [plugins.{self._plugin.id}]",
            code="provider_error",
        )


async def _in_thread(work: Any) -> Any:
    """Do what may import a plugin where it blocks no one."""
    from anyio import to_thread

    try:
        return await to_thread.run_sync(work, abandon_on_cancel=True)
    except PluginError as error:
        raise _as_tool_error(error) from error


def _as_tool_error(error: PluginError) -> ToolError:
    code = "tool_changed" if error.code == "manifest_differs" else "provider_error"
    return ToolError(
        error.message,
        place=error.place,
        fix=error.fix,
        code=code,
        data={**error.data, "reason_code": error.code},
    )


def _not_found(tool_name: str, provider_id: str) -> ToolError:
    return ToolError(
        f"the provider {provider_id} has no tool {tool_name}",
        fix="clawhive tools list shows them",
        code="tool_not_found",
    )
