"""The environment as plugins get it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from clawhive_core.model.patterns import pattern

_SECRET = pattern(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL")
_SHORTEST = 12
"""Shorter values are words such as `none` or `not-needed`, which some servers take for keys."""


class PluginEnvironment(Mapping[str, str]):
    """Variables and their values; a secret that is read is never written from then on.

    A variable holds a secret where its name says so (`..._API_KEY`, `..._TOKEN`, `..._SECRET`,
    `..._PASSWORD`, `..._CREDENTIALS`), whatever form the value has. The name of a file is none.

    Args:
        env: The variables.
        redact: Called with each secret that is read, as often as it is.
    """

    def __init__(self, env: Mapping[str, str], redact: Callable[[str], None]) -> None:
        self._env = env
        self._redact = redact

    def __getitem__(self, name: str) -> str:
        value = self._env[name]
        if is_secret_name(name):
            self.redact((name,))
        return value

    def redact(self, names: Iterable[str]) -> None:
        """Let what these variables hold be a secret from now on, whatever their names say."""
        for name in names:
            value = self._env.get(name, "")
            if len(value) >= _SHORTEST and not _is_file(value):
                self._redact(value)

    def __contains__(self, name: object) -> bool:
        return name in self._env

    def __iter__(self) -> Iterator[str]:
        return iter(self._env)

    def __len__(self) -> int:
        return len(self._env)


def is_secret_name(name: str) -> bool:
    """Whether the name of a variable says that it holds a secret."""
    return _SECRET.search(name.upper()) is not None


def _is_file(value: str) -> bool:
    try:
        return os.path.isabs(os.path.expanduser(value)) and os.path.exists(value)  # noqa: PTH110, PTH111, PTH117 - a value may be no path
    except (OSError, ValueError):
        return False
