"""The place of the policies, from the plugin's settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clawhive_core import ClawHiveError


def policy_file(given: Mapping[str, Any], root: str, env: Mapping[str, str]) -> Path | None:
    """Return the file of policies, None where none is named.

    Args:
        given: The table `[plugins.cedar]`.
        root: What a relative path is relative to: the project root.
        env: The environment; `HOME` is what `~` stands for.

    Raises:
        ClawHiveError: `invalid_config`: an unknown key, or a value that is no path.
    """
    unknown = sorted(given.keys() - {"policies"})
    if unknown:
        raise _wrong(unknown[0], "is not known", "known: policies")
    name = given.get("policies")
    if name is None:
        return None
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise _wrong("policies", "is no path", 'policies = "policies.cedar"')
    if name.startswith("~/"):
        return Path(env.get("HOME") or Path.home()) / name[2:]
    return Path(root, name)


def _wrong(key: str, what: str, fix: str) -> ClawHiveError:
    place = f"plugins.cedar.{key}"
    return ClawHiveError(f"`{place}` {what}", place=place, fix=fix, code="invalid_config")
