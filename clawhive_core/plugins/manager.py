"""The PluginManager: every discovered plugin, asked in order, each failure kept to its plugin.

The configuration switches plugins and orders them: its list first, then `after` and `before` of
their manifests, then the id.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, cast

from clawhive_core.config.config import Config
from clawhive_core.diagnostics.finding import Finding, Fix
from clawhive_core.diagnostics.suggestions import did_you_mean
from clawhive_core.errors import PluginError
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.tools import Code, ToolMeta
from clawhive_core.plugins.choices import OWN, PluginChoices, claimed_by_others, counting
from clawhive_core.plugins.contribution import Contribution
from clawhive_core.plugins.discovery import DiscoveredPlugin, discover
from clawhive_core.plugins.environment import is_secret_name
from clawhive_core.plugins.hookspecs import PROTOCOLS, HookContext
from clawhive_core.plugins.manifest import Manifest
from clawhive_core.plugins.plugin import Plugin, PluginRecord, again
from clawhive_core.plugins.provider import ListedProvider, PluginProvider
from clawhive_core.protocols.provider import ToolProvider

_WORD = pattern(r"[A-Za-z_]\w*")
_REFERENCE = pattern(r"\$\{secret:([A-Za-z_]\w*)")
_PROVIDERS = "clawhive_tool_providers"
_SERVED = ("mcp", "sandbox")
"""The tables of ClawHive's own settings that the plugin of the same name acts on."""


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """The configuration and flags about plugins."""

    disabled: frozenset[str] = frozenset()
    """Ids that are switched off before anything of them is imported."""
    enabled_only: frozenset[str] | None = None
    """The only ids that are on; None for all, an empty set for none."""
    order: tuple[str, ...] = ()
    strict: bool = False
    """Whether a failed plugin is an error of the caller."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The tables `[plugins.ID]`, by id."""
    config: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The tables of ClawHive's own settings, by name."""
    root: str = ""
    """The project root; the current directory where empty."""
    user_dir: str = ""
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def allows(self, plugin_id: str) -> bool:
        """Tell whether a plugin is switched on."""
        if plugin_id in self.disabled:
            return False
        return self.enabled_only is None or plugin_id in self.enabled_only


class PluginManager:
    """Knows every plugin from its manifest and imports one when it is needed.

    A plugin that fails is taken out of use, its tools and contributions withdrawn, and the rest
    goes on; its record says why. With `strict`, `contributions` and `providers` raise instead.
    """

    def __init__(
        self, discovered: Sequence[DiscoveredPlugin], options: PluginOptions | None = None
    ) -> None:
        self._options = options or PluginOptions()
        self._plugins = [self._make(item) for item in discovered]
        self._passed_over: list[Plugin] = []
        self._code: dict[int, Code] = {}
        """The code of each provider, by its `id`."""
        self._settle_claims()
        self._order = self._sorted()

    def records(self) -> list[PluginRecord]:
        """Return every discovered plugin, usable ones first and in order, and what is known now."""
        rest = [plugin for plugin in self._plugins if plugin not in self._order]
        rest.sort(key=lambda plugin: (plugin.id, plugin.discovered.distribution))
        return [plugin.record() for plugin in (*self._order, *rest)]

    def packages(self) -> dict[str, str]:
        """Return the ids of all discovered plugins, by the names of their packages."""
        return {plugin.discovered.package: plugin.id for plugin in self._plugins}

    def manifest_tools(self) -> list[ToolMeta]:
        """Return the tools that the manifests of usable plugins list; nothing is imported."""
        return [meta for plugin in self._order for meta in plugin.listed_tools()]

    def secret_variables(self) -> frozenset[str]:
        """Return the variables that manifests and configuration name for secrets.

        Manifests of plugins that are off or failed count too; nothing is imported.
        """
        options = self._options
        found = {*_named(options.settings), *_named(options.config)}
        for manifest in (plugin.manifest for plugin in self._plugins):
            if manifest is not None:
                found.update(manifest.env)
                for meta in manifest.tools:
                    found.update(_secrets_of(meta))
        return frozenset(found)

    def has_unlisted_tools(self) -> bool:
        """Whether a usable plugin offers tools that only its code can list."""
        return any(plugin.is_usable and self._lists_when_run(plugin) for plugin in self._order)

    def providers(self) -> list[ToolProvider]:
        """Return the providers of every usable plugin, in order.

        Only plugins whose manifest says `tools = "dynamic"`, or names one of the plugin's settings
        in `dynamic_settings`, are imported for it.

        Raises:
            PluginError, ExceptionGroup: As `raise_failures`, with `strict`.
        """
        found: list[ToolProvider] = []
        for plugin in self._order:
            for provider in self._providers_of(plugin):
                found.append(provider)
                if plugin.id not in OWN:
                    self._code[id(provider)] = plugin.code
        self._raise_if_strict()
        return found

    def code_of(self, provider: ToolProvider) -> Code | None:
        """Return what reads the code of a plugin's provider; None for ClawHive's own."""
        return self._code.get(id(provider))

    def contributions(self, hook: str) -> list[Contribution]:
        """Return what every usable plugin's hook contributes, in order.

        Only plugins whose manifest lists the hook are imported; each hook is called once.

        Raises:
            PluginError, ExceptionGroup: As `raise_failures`, with `strict`.
            ValueError: There is no such hook.
        """
        if hook not in PROTOCOLS:
            raise ValueError(f"there is no hook {hook!r}; hooks: {', '.join(PROTOCOLS)}")
        found: list[Contribution] = []
        for plugin in self._order:
            found += self._contributions_of(plugin, hook)
        self._raise_if_strict()
        return found

    def failed_hooks(self, hook: str) -> list[PluginRecord]:
        """Return the plugins that should contribute to a hook and have failed.

        For hooks that must fail closed: ask after `contributions`. A plugin whose manifest cannot
        be read counts where its text names the hook. Disabled plugins do not count, nor one whose
        id another distribution has.
        """
        return [
            plugin.record()
            for plugin in self._plugins
            if plugin.enabled
            and plugin.error is not None
            and plugin not in self._passed_over
            and plugin.may_implement(hook)
        ]

    def unknown_ids(self) -> list[Finding]:
        """Return a warning for each id in the options that no plugin has."""
        known = {plugin.id for plugin in self._plugins}
        options = self._options
        named = {
            *options.disabled,
            *(options.enabled_only or ()),
            *options.order,
            *options.settings,
        }
        return [_unknown(name, known) for name in sorted(named - known)]

    def raise_failures(self) -> None:
        """Raise what is wrong with the plugins, if anything is.

        Raises:
            PluginError: One plugin has failed.
            ExceptionGroup: Several have; it holds a PluginError each.
        """
        errors = [
            plugin.error for plugin in self._plugins if plugin.enabled and plugin.error is not None
        ]
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup("plugins failed", errors)

    def _make(self, item: DiscoveredPlugin) -> Plugin:
        options = self._options
        context = HookContext(
            plugin_id=item.id,
            settings=options.settings.get(item.id, {}),
            root=options.root or str(Path.cwd()),
            env=options.env,
            config=options.config.get(item.id, {}),
            user_dir=options.user_dir,
        )
        return Plugin(item, context, enabled=options.allows(item.id))

    def _settle_claims(self) -> None:
        """Let one distribution count for each id; where nobody could say which, fail them all."""
        by_id: dict[str, list[Plugin]] = {}
        for plugin in self._plugins:
            by_id.setdefault(plugin.id, []).append(plugin)
        user_dir = self._options.user_dir
        chosen = PluginChoices(Path(user_dir)).read() if user_dir else dict[str, str]()
        for plugin_id, plugins in by_id.items():
            claims, choice = [each.discovered for each in plugins], chosen.get(plugin_id)
            counts = counting(claims, choice)
            for plugin in plugins:
                if plugin.discovered is counts:
                    continue
                if counts is not None:
                    self._passed_over.append(plugin)
                if counts is not None and plugin_id not in OWN:
                    plugin.pass_over(counts.distribution)
                else:
                    plugin.fail(claimed_by_others(claims, choice))

    def _sorted(self) -> list[Plugin]:
        """Return the usable plugins in order; those in a cycle are failed."""
        while True:
            usable = {plugin.id: plugin for plugin in self._plugins if plugin.is_usable}
            manifests = {
                key: plugin.manifest
                for key, plugin in usable.items()
                if plugin.manifest is not None
            }
            try:
                return [usable[key] for key in sort_plugins(manifests, self._options.order)]
            except PluginError as error:
                for key in set(error.data["cycle"]):
                    usable[key].fail(again(error))

    def _providers_of(self, plugin: Plugin) -> Iterator[ToolProvider]:
        ids = dict.fromkeys(meta.provider_id for meta in plugin.listed_tools())
        for provider_id in ids:
            own = provider_id == plugin.id
            yield PluginProvider(plugin) if own else ListedProvider(plugin, provider_id)
        if plugin.manifest is None:
            return
        if plugin.manifest.dynamic:
            for contribution in self._contributions_of(plugin, _PROVIDERS):
                yield contribution.value
        elif self._lists_when_run(plugin):
            for contribution in self._contributions_of(plugin, _PROVIDERS):
                if _id_of(contribution) not in ids:
                    yield contribution.value

    def _lists_when_run(self, plugin: Plugin) -> bool:
        manifest = plugin.manifest
        if manifest is None:
            return False
        options = self._options
        own = (name for name, value in options.config.get(plugin.id, {}).items() if value)
        given = {*options.settings.get(plugin.id, {}), *own}
        return manifest.dynamic or not given.isdisjoint(manifest.dynamic_settings)

    def _contributions_of(self, plugin: Plugin, hook: str) -> list[Contribution]:
        if not plugin.is_usable or hook not in plugin.hooks:
            return []
        try:
            return plugin.contributions(hook)
        except PluginError:  # kept in the plugin, shown by its record
            return []

    def _raise_if_strict(self) -> None:
        if self._options.strict:
            self.raise_failures()


def _secrets_of(meta: ToolMeta) -> Iterator[str]:
    """Yield the secrets that a tool declares to use."""
    for value in meta.effects.values():
        for text in (value,) if isinstance(value, str) else value:
            verb, _, name = text.partition(":")
            if verb == "secret.use":
                yield name


def _named(value: Any, key: str = "") -> Iterator[str]:
    """Yield the names of variables in a table: `..._env`, `${secret:...}`, words of secrets."""
    if isinstance(value, Mapping):
        for name, item in cast("Mapping[str, Any]", value).items():
            yield from _named(item, name)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            yield from _named(item, key)
    elif isinstance(value, str):
        yield from (word for word in _WORD.findall(value) if is_secret_name(word))
        yield from _REFERENCE.findall(value)
        if key.endswith("_env"):
            yield value


def _id_of(contribution: Contribution) -> object:
    """Return a provider's id, None where it fails: the catalog then notes what is wrong."""
    try:
        return contribution.value.provider_id
    except Exception:  # noqa: BLE001 - the isolation boundary: a plugin's provider
        return None


def _unknown(name: str, known: set[str]) -> Finding:
    hint = did_you_mean(name, known) or "clawhive plugins lists what is installed"
    return Finding("CH0101", "warning", f"no plugin is called {name!r}", fix=Fix(hint))


def sort_plugins(manifests: Mapping[str, Manifest], order: Sequence[str]) -> list[str]:
    """Return the ids of plugins in the order in which they are asked.

    Plugins of the configuration's list come first, as listed, whatever they say of themselves.
    Ids that are not installed are passed over.

    Raises:
        PluginError: `plugin_order_cycle`: `after` and `before` contradict each other; the message
            prints the cycle, `data["cycle"]` lists it.
    """
    from graphlib import CycleError, TopologicalSorter

    first = [plugin for plugin in dict.fromkeys(order) if plugin in manifests]
    rest = {key: value for key, value in manifests.items() if key not in first}
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(rest, ()))
    for key, manifest in rest.items():
        sorter.add(key, *(other for other in manifest.after if other in rest))
        for other in manifest.before:
            if other in rest:
                sorter.add(other, key)
    try:
        sorter.prepare()
    except CycleError as error:
        raise _cycle(error.args[1]) from error
    ready = sorted(sorter.get_ready())
    while ready:
        key = heapq.heappop(ready)
        first.append(key)
        sorter.done(key)
        for freed in sorter.get_ready():
            heapq.heappush(ready, freed)
    return first


def _cycle(cycle: list[str]) -> PluginError:
    return PluginError(
        f"`after` and `before` of plugins contradict each other: {' < '.join(cycle)}",
        fix=f"write the order you want: [plugins] order = {sorted(set(cycle))}".replace("'", '"'),
        code="plugin_order_cycle",
        data={"cycle": cycle},
    )


def open_plugins(config: Config, env: Mapping[str, str], *, none: bool = False) -> PluginManager:
    """Return the manager of the installed plugins; nothing of them is imported.

    Args and errors are those of `plugin_options`.
    """
    return PluginManager(discover(), plugin_options(config, env, none=none))


def plugin_options(config: Config, env: Mapping[str, str], *, none: bool = False) -> PluginOptions:
    """Return what the configuration says about plugins.

    Args:
        config: Says which are off, in which order they stand, and each one's settings.
        env: The environment that hooks get.
        none: Switch every plugin off (`--no-plugins`).
    """
    enabled = config.get("plugins.enabled")
    only = frozenset[str]() if none else None if enabled is None else frozenset(enabled)
    return PluginOptions(
        disabled=frozenset(config.get("plugins.disabled")),
        enabled_only=only,
        order=tuple(config.get("plugins.order")),
        strict=config.get("plugins.strict"),
        settings=_tables(config.section("plugins")),
        config={name: config.section(name) for name in _SERVED},
        root=str(config.root),
        user_dir=str(config.user_dir),
        env=env,
    )


def _tables(section: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the tables `[plugins.ID]`; the section's other keys are no plugins."""
    return {name: table for name, table in section.items() if isinstance(table, Mapping)}
