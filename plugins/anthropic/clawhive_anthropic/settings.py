"""The API's address and its key, from the plugin's settings and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from clawhive_core import ClawHiveError, model_failure

DEFAULT_HOST = "api.anthropic.com"

_DEFAULT_URL = f"https://{DEFAULT_HOST}"
_DEFAULT_KEY = "ANTHROPIC_API_KEY"
_TOKEN = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - the name of a variable
_KEYS = frozenset({"api_key_env", "base_url"})


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential of the API: a key, or a token that is sent as `Authorization: Bearer`."""

    value: str = field(repr=False)
    is_token: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """The API's address, and the environment that holds its key."""

    base_url: str = _DEFAULT_URL
    key_env: str = _DEFAULT_KEY
    """The environment variable that holds the key."""
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def host(self) -> str:
        """The host that is talked to."""
        host = urlsplit(self.base_url).hostname or DEFAULT_HOST
        return f"[{host}]" if ":" in host else host

    def credential(self) -> Credential:
        """Return the key, or where none is set under its usual name, the token.

        Raises:
            ModelError: `missing_key`, naming the variable.
        """
        key = self.env.get(self.key_env, "").strip()
        is_token = not key and self.key_env == _DEFAULT_KEY
        value = self.env.get(_TOKEN, "").strip() if is_token else key
        if not value:
            raise _missing(f"the environment variable `{self.key_env}` is not set", self.key_env)
        if not value.isascii() or not value.isprintable() or " " in value:
            held = _TOKEN if is_token else self.key_env
            raise _missing(f"what `{held}` holds is no key: it has characters of no key", held)
        return Credential(value, is_token)


def read_settings(given: Mapping[str, Any], env: Mapping[str, str]) -> Settings:
    """Return the settings.

    Args:
        given: The table `[plugins.anthropic]`: `base_url` and `api_key_env`.
        env: The environment; its variables are those of the SDK.

    Raises:
        ClawHiveError: `invalid_config`: an unknown key, or a value of the wrong form.
    """
    unknown = sorted(given.keys() - _KEYS)
    if unknown:
        place = f"plugins.anthropic.{unknown[0]}"
        raise _wrong(place, "is not known", f"known: {', '.join(sorted(_KEYS))}")
    key_env = given.get("api_key_env", _DEFAULT_KEY)
    if not isinstance(key_env, str) or not key_env.isidentifier():
        fix = f'the name of a variable: "{_DEFAULT_KEY}"'
        raise _wrong("plugins.anthropic.api_key_env", "is no name of a variable", fix)
    return Settings(_base_url(given, env), key_env, env)


def _base_url(given: Mapping[str, Any], env: Mapping[str, str]) -> str:
    place, url = "plugins.anthropic.base_url", given.get("base_url")
    if url is None:
        place, url = "ANTHROPIC_BASE_URL", env.get("ANTHROPIC_BASE_URL") or _DEFAULT_URL
    if not isinstance(url, str) or not _is_address(url):
        raise _wrong(place, "is no address", f'"{_DEFAULT_URL}", without user, query and `/v1`')
    return url


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    return plain and parts.scheme in {"http", "https"} and bool(parts.hostname)


def _wrong(place: str, what: str, fix: str) -> ClawHiveError:
    return ClawHiveError(f"`{place}` {what}", place=place, fix=fix, code="invalid_config")


def _missing(message: str, variable: str) -> ClawHiveError:
    fix = f"export {variable}=... with a key from https://platform.claude.com"
    return model_failure("missing_key", message, fix=fix)
