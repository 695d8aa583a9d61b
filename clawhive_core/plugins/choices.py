"""The distribution that counts for a plugin's id where more than one claims it.

ClawHive's own plugin stays whoever else claims its id. For every other id the user says which
distribution is meant (`clawhive plugins trust`); `plugins.json` in the user's own directory keeps
the answer, and binds the id from then on: a distribution that comes later does not take it over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from clawhive_core.config.private_file import PrivateFile
from clawhive_core.config.trust import refuse_inside_run
from clawhive_core.errors import ConfigError, PluginError, UsageError
from clawhive_core.plugins.discovery import DiscoveredPlugin

OWN: Mapping[str, str] = {"builtin": "clawhive_builtin"}
"""The ids of ClawHive's own plugins, and the module of each."""

_SCHEMA = "plugin-choices/1"


class PluginChoices:
    """The distributions that a user chose, by plugin id.

    Args:
        user_dir: The user's own directory.
    """

    def __init__(self, user_dir: Path) -> None:
        self._file = PrivateFile(user_dir, "plugins.json", "the list of chosen distributions")

    def read(self) -> dict[str, str]:
        """Return them; a list that is damaged, or that others may write, chooses nothing."""
        try:
            return self._read()
        except (ConfigError, ValueError, RecursionError):
            return {}

    def choose(
        self,
        plugin_id: str,
        distribution: str,
        claims: Sequence[DiscoveredPlugin],
        env: Mapping[str, str],
    ) -> None:
        """Let a distribution count for an id from now on.

        Args:
            plugin_id: The id.
            distribution: The name of the distribution.
            claims: The entry points that have the id.
            env: The environment; inside a run nothing is chosen.

        Raises:
            UsageError: `inside_run`; the id is ClawHive's own; the distribution does not have it.
            StorageError: The list cannot be written.
        """
        refuse_inside_run(env, "which distribution counts")
        if plugin_id in OWN:
            raise UsageError(
                f"`{plugin_id}` is ClawHive's own, and stays it", place=plugin_id, fix="choose none"
            )
        names = sorted({each.distribution for each in claims})
        if _normalised(distribution) not in map(_normalised, names):
            raise UsageError(
                f"no installed distribution {distribution!r} has a plugin `{plugin_id}`",
                place="--distribution",
                fix=f"name one that has: {', '.join(names) or 'there is none'}",
            )
        with self._file.locked():
            try:
                kept = self._read()
            except (ConfigError, ValueError, RecursionError):
                self._file.keep_damaged()
                kept = {}
            chosen = {**kept, plugin_id: distribution}
            self._file.write({"schema": _SCHEMA, "distributions": dict(sorted(chosen.items()))})

    def _read(self) -> dict[str, str]:
        data = self._file.read()
        if data is None:
            return {}
        import json

        document: Any = json.loads(data.decode("utf-8"))
        fields = cast("dict[str, Any]", document if isinstance(document, dict) else {})
        found = fields.get("distributions")
        if fields.get("schema") != _SCHEMA or not isinstance(found, dict):
            raise ValueError(f"it is not in the form {_SCHEMA}")
        return {str(key): str(name) for key, name in cast("dict[Any, Any]", found).items()}


def counting(claims: Sequence[DiscoveredPlugin], chosen: str | None) -> DiscoveredPlugin | None:
    """Return the entry point that counts among those of one id, None where nobody could say.

    Args:
        claims: The entry points, at least one.
        chosen: The distribution that the user chose for the id.
    """
    own = OWN.get(claims[0].id)
    if own is not None:
        return next((each for each in claims if each.value == own), None)
    if chosen is not None:
        name = _normalised(chosen)
        claims = [each for each in claims if _normalised(each.distribution) == name]
    return claims[0] if len(claims) == 1 else None


def claimed_by_others(claims: Sequence[DiscoveredPlugin], chosen: str | None) -> PluginError:
    """Return the error of the entry points of one id that do not count; it names them all.

    Args:
        claims: The entry points.
        chosen: The distribution that the user chose for the id.
    """
    plugin_id, names = claims[0].id, sorted({each.distribution for each in claims})
    listed = " and ".join(names)
    uninstall = ", or ".join(f"pip uninstall {name}" for name in names)
    choose = f"clawhive plugins trust {plugin_id} --distribution NAME"
    message = f"the id {plugin_id!r} is claimed by {listed}; none of them is loaded"
    fix = f"say which one you mean: {choose}; or keep one: {uninstall}"
    if plugin_id in OWN:
        own = OWN[plugin_id]
        others = sorted({each.distribution for each in claims if each.value != own})
        message = f"the id {plugin_id!r} is ClawHive's own, and {' and '.join(others)} claims it"
        fix = " && ".join(f"pip uninstall {name}" for name in others)
    elif chosen is not None:
        message = f"for the id {plugin_id!r} you chose {chosen}, and {listed} claims it; not loaded"
        fix = f"install {chosen} again, or choose anew: {choose}"
    return PluginError(
        message,
        place=claims[0].source,
        fix=fix,
        code="duplicate_plugin",
        data={"distributions": names},
    )


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
