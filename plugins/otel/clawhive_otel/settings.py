"""The destination of spans, from the plugin's settings and OpenTelemetry's variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from clawhive_core import ClawHiveError

_KEYS = frozenset({"endpoint", "required", "timeout"})
_MAX_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Settings:
    """The destination of spans, and whether effects wait for it."""

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    required: bool = False
    timeout: float = 10
    """Seconds for a batch, repetitions included."""


def read_settings(given: Mapping[str, Any], env: Mapping[str, str]) -> Settings | None:
    """Return the settings, None where nothing says where to send.

    Args:
        given: The table `[plugins.otel]`.
        env: The environment; its variables are those of the OpenTelemetry specification.

    Raises:
        ClawHiveError: `invalid_config`: an unknown key, or a value of the wrong form.
    """
    unknown = sorted(given.keys() - _KEYS)
    if unknown:
        raise _wrong(unknown[0], "is not known", f"known: {', '.join(sorted(_KEYS))}")
    endpoint = given.get("endpoint", _endpoint(env))
    if endpoint is None:
        return None
    required, timeout = given.get("required", False), given.get("timeout", 10)
    if not isinstance(endpoint, str) or urlsplit(endpoint).scheme not in {"http", "https"}:
        raise _wrong("endpoint", "is no address", '"http://localhost:4318/v1/traces"')
    if not isinstance(required, bool):
        raise _wrong("required", "is neither true nor false", "true or false")
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not 0 < timeout <= _MAX_SECONDS:
        raise _wrong("timeout", "is no number of seconds", f"between 0 and {_MAX_SECONDS}")
    return Settings(endpoint, _headers(env), required, timeout)


def _endpoint(env: Mapping[str, str]) -> str | None:
    own = env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    base = env.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    return own or (f"{base.rstrip('/')}/v1/traces" if base else None)


def _headers(env: Mapping[str, str]) -> dict[str, str]:
    text = env.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or env.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip().lower(): unquote(value.strip()) for name, _, value in pairs}


def _wrong(key: str, what: str, fix: str) -> ClawHiveError:
    return ClawHiveError(
        f"`plugins.otel.{key}` {what}", place=f"plugins.otel.{key}", fix=fix, code="invalid_config"
    )
