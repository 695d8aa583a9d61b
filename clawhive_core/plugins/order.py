"""The order of plugins: the configuration's list, then `after` and `before`, then the id."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from clawhive_core.errors import PluginError
from clawhive_core.plugins.manifest import Manifest


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
