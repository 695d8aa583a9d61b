"""The API's address and the variable that holds its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from clawhive_core import ClawHiveError, model_failure

BASE_URL = "https://generativelanguage.googleapis.com"
API_VERSION = "v1beta"
"""The one with tools by JSON Schema, thoughts and tools at the provider."""
KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""The variables in which the SDK looks for a key, in its order."""

_KEYS = frozenset({"base_url", "api_key_env"})


@dataclass(frozen=True, slots=True)
class Settings:
    """The API's address and the variables that may hold its key."""

    base_url: str = BASE_URL
    """Without the API's version, which the SDK adds."""
    api_version: str = API_VERSION
    key_variables: tuple[str, ...] = KEY_VARIABLES

    @property
    def host(self) -> str:
        """The host of the base URL."""
        return urlsplit(self.base_url).hostname or ""


def read_settings(given: Mapping[str, Any], env: Mapping[str, str]) -> Settings:
    """Return the settings.

    Args:
        given: The table `[plugins.gemini]`.
        env: The environment; `GOOGLE_GEMINI_BASE_URL` and `GOOGLE_GENAI_API_VERSION` are the SDK's
            own variables.

    Raises:
        ClawHiveError: `invalid_config`: an unknown key, or a value of the wrong form.
    """
    unknown = sorted(given.keys() - _KEYS)
    if unknown:
        raise _wrong(unknown[0], "is not known", f"known: {', '.join(sorted(_KEYS))}")
    base_url: Any = given.get("base_url") or env.get("GOOGLE_GEMINI_BASE_URL") or BASE_URL
    if not isinstance(base_url, str) or not _is_address(base_url):
        raise _wrong("base_url", "is no address", f'"{BASE_URL}"')
    variable: Any = given.get("api_key_env")
    version = env.get("GOOGLE_GENAI_API_VERSION") or API_VERSION
    if variable is None:
        return Settings(base_url, version)
    if not isinstance(variable, str) or not variable:
        raise _wrong("api_key_env", "is no name of a variable", f'"{KEY_VARIABLES[1]}"')
    return Settings(base_url, version, (variable,))


def read_key(settings: Settings, env: Mapping[str, str]) -> str:
    """Return the key.

    Raises:
        ModelError: `missing_key`, with the variable that should hold it.
    """
    names = [name for name in settings.key_variables if env.get(name, "").strip()]
    wanted = settings.key_variables[-1]
    if not names:
        raise model_failure("missing_key", "there is no key for Gemini", fix=f"set `{wanted}`")
    key = env[names[0]].strip()
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise model_failure(
            "missing_key", f"what `{names[0]}` holds is no key", fix=f"set `{names[0]}` anew"
        )
    return key


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _wrong(key: str, what: str, fix: str) -> ClawHiveError:
    place = f"plugins.gemini.{key}"
    return ClawHiveError(f"`{place}` {what}", place=place, fix=fix, code="invalid_config")
