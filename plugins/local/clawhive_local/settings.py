"""Settings of models that run on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clawhive_core import ClawHiveError

_BOUNDS = {"threads": (1, 1024), "context": (0, 16_777_216), "gpu_layers": (0, 10_000)}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of models that run on this machine."""

    threads: int = 1
    context: int = 8192
    """Tokens of prompt and answer together; 0 is what the model was made for."""
    gpu_layers: int = 0
    """Layers on a graphics card, where the installed xllamacpp has one of its own."""


def read_settings(given: Mapping[str, Any]) -> Settings:
    """Return the settings.

    Args:
        given: The table `[plugins.local]`.

    Raises:
        ClawHiveError: `invalid_config`: an unknown key, or a value of the wrong form.
    """
    for key, value in given.items():
        if key not in _BOUNDS:
            raise _wrong(key, "is not known", f"known: {', '.join(_BOUNDS)}")
        least, most = _BOUNDS[key]
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise _wrong(key, "is no such number", f"between {least} and {most}")
    return Settings(**given)


def _wrong(key: str, what: str, fix: str) -> ClawHiveError:
    place = f"plugins.local.{key}"
    return ClawHiveError(f"`{place}` {what}", place=place, fix=fix, code="invalid_config")
