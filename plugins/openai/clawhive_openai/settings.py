"""The servers and their keys, from the plugin's settings and the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from clawhive_core import ClawHiveError, ModelError, model_failure

DEFAULT_HOST = "api.openai.com"
DEFAULT_URL = f"https://{DEFAULT_HOST}/v1"
_KEYS = frozenset({"base_url", "api_key_env", "api", "tools"})
_APIS = ("responses", "chat")
_TOOLS = ("auto", "native", "constrained")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_OWN = re.compile(
    r"([a-z0-9-]+\.)?api\.openai\.com|[a-z0-9-]+\.(openai|services\.ai|cognitiveservices)\.azure\.com"
)


@dataclass(frozen=True, slots=True)
class Server:
    """One server, and the adapter's name for it."""

    name: str = "openai"
    base_url: str = DEFAULT_URL
    api: Literal["responses", "chat"] | None = None
    """None: responses where OpenAI's models are served, else chat completions."""
    api_key_env: str | None = "OPENAI_API_KEY"
    tools: Literal["auto", "native", "constrained"] = "auto"
    """`auto` notices where native calls are ignored; see `clawhive_core.ToolProbe`."""

    @property
    def host(self) -> str:
        """The host's name, without the port."""
        return urlsplit(self.base_url).hostname or ""

    @property
    def is_openai(self) -> bool:
        """Whether OpenAI's own models are served there, by OpenAI or by Azure."""
        return _OWN.fullmatch(self.host) is not None

    @property
    def dialect(self) -> Literal["responses", "chat"]:
        """The API that is spoken."""
        return self.api or ("responses" if self.is_openai else "chat")

    @property
    def probes(self) -> Literal["auto", "native", "constrained"]:
        """The way in which tool calls are asked for: OpenAI's own models are never doubted."""
        doubted = self.dialect == "chat" and not self.is_openai
        return self.tools if doubted or self.tools != "auto" else "native"

    def key(self, env: Mapping[str, str]) -> str:
        """Return the key; empty where the server needs none.

        Raises:
            ModelError: `missing_key`, with the variable's name.
        """
        key = env.get(self.api_key_env, "").strip() if self.api_key_env else ""
        if not key and self.is_openai:
            raise missing_key(self.api_key_env or "OPENAI_API_KEY", self.host)
        return key


def missing_key(variable: str, host: str) -> ModelError:
    """Return the error for a key that is needed and not there."""
    return model_failure(
        "missing_key",
        f"`{host}` needs a key, and the environment variable {variable} holds none",
        fix=f"export {variable}=...",
    )


def read_settings(given: Mapping[str, Any], env: Mapping[str, str]) -> list[Server]:
    """Return the servers: `openai`, `openai-chat`, and those of `servers`.

    Args:
        given: The table `[plugins.openai]`.
        env: The environment; `OPENAI_BASE_URL` counts where `base_url` is not set.

    Raises:
        ClawHiveError: `invalid_config`: an unknown key, or a value of the wrong form.
    """
    place = "plugins.openai"
    own = {key: value for key, value in given.items() if key != "servers"}
    url = own.pop("base_url", None) or env.get("OPENAI_BASE_URL") or DEFAULT_URL
    first = _read({**own, "base_url": url}, Server(), place)
    servers = given.get("servers", {})
    if not isinstance(servers, Mapping):
        raise _wrong(f"{place}.servers", "is no table", f'[{place}.servers.NAME]\nbase_url = "..."')
    return [
        first,
        replace(first, name="openai-chat", api="chat"),
        *(_named(name, table) for name, table in cast("Mapping[str, Any]", servers).items()),
    ]


def _named(name: str, table: Any) -> Server:
    place = f"plugins.openai.servers.{name}"
    if not _NAME.fullmatch(name) or name in {"openai", "openai-chat"}:
        raise _wrong(place, "is no name for a server", "a small letter, then letters, digits, `-`")
    if not isinstance(table, Mapping) or "base_url" not in table:
        raise _wrong(place, "says no `base_url`", 'base_url = "http://localhost:8000/v1"')
    return _read(cast("Mapping[str, Any]", table), Server(name, api_key_env=None), place)


def _read(table: Mapping[str, Any], start: Server, place: str) -> Server:
    unknown = sorted(table.keys() - _KEYS)
    if unknown:
        known = ", ".join(sorted({*_KEYS, "servers"} if start.name == "openai" else _KEYS))
        raise _wrong(f"{place}.{unknown[0]}", "is not known", f"known: {known}")
    url, variable = table["base_url"], table.get("api_key_env", start.api_key_env)
    if not isinstance(url, str) or not _is_address(url):
        raise _wrong(f"{place}.base_url", "is no address", f'"{DEFAULT_URL}"')
    if not (variable is None or (isinstance(variable, str) and variable.isidentifier())):
        raise _wrong(f"{place}.api_key_env", "names no variable", '"OPENAI_API_KEY"')
    for key, choices in (("api", _APIS), ("tools", _TOOLS)):
        if key in table and table[key] not in choices:
            raise _wrong(f"{place}.{key}", "is none of its values", " or ".join(choices))
    return replace(
        start,
        base_url=url.rstrip("/"),
        api=table.get("api"),
        api_key_env=variable,
        tools=table.get("tools", "auto"),
    )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _wrong(place: str, what: str, fix: str) -> ClawHiveError:
    return ClawHiveError(f"`{place}` {what}", place=place, fix=fix, code="invalid_config")
