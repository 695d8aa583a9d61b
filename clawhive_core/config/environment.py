"""Settings from environment variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from clawhive_core.config.setting import Setting, check
from clawhive_core.config.settings import SETTINGS
from clawhive_core.diagnostics.finding import Finding, Fix
from clawhive_core.errors import ConfigError

_PREFIX = "CLAWHIVE_"
_WORDS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
_CUTOFF = 0.85
_RESERVED = frozenset({"CLAWHIVE_RUN"})  # set for what a run starts


def environment_values(env: Mapping[str, str]) -> Iterator[tuple[Setting, Any, str]]:
    """Yield each setting that the environment gives: setting, value, variable.

    `CLAWHIVE_ROUTING_MODE` goes before the aliases of `routing.mode`. An empty variable counts as
    unset, except where the setting's default is empty too.

    Raises:
        ConfigError: A variable's text is no value of its setting.
    """
    for setting, variables in _variables():
        for variable in variables:
            text = env.get(variable)
            if text is None or (text == "" and setting.default not in ("", ())):
                continue
            yield setting, check(setting, _read(setting, text, variable), variable), variable
            break


@cache
def _variables() -> tuple[tuple[Setting, tuple[str, ...]], ...]:
    """Return each setting with its variables, the first of which counts."""
    return tuple((each, (*filter(None, [each.variable]), *each.env)) for each in SETTINGS.values())


@cache
def _own() -> Mapping[str, str]:
    """Return the variables that are named like their settings, by what follows the prefix."""
    own = (each.variable for each in SETTINGS.values())
    return {each.removeprefix(_PREFIX): each for each in own if each}


def _read(setting: Setting, text: str, variable: str) -> Any:
    match setting.kind:
        case "flag":
            return _flag(setting, text, variable)
        case "integer" | "number":
            return _number(setting, text, variable)
        case "texts":
            return _texts(setting, text, variable)
        case "table":
            return _json(setting, text, variable)
        case _:
            return text


def _flag(setting: Setting, text: str, variable: str) -> bool:
    value = _WORDS.get(text.strip().lower())
    if value is None:
        raise ConfigError(
            f"`{variable}` must be 1, 0, true, false, yes or no, not {text[:40]!r}",
            place=variable,
            fix=f"{variable}={str(setting.default).lower()}",
        )
    return value


def _number(setting: Setting, text: str, variable: str) -> float:
    parse = int if setting.kind == "integer" else float
    try:
        return parse(text.strip())
    except ValueError as error:
        what = "an integer" if setting.kind == "integer" else "a number"
        raise ConfigError(
            f"`{variable}` must be {what}, not {text[:40]!r}",
            place=variable,
            fix=f"{variable}={setting.default or 1}",
        ) from error


def _texts(setting: Setting, text: str, variable: str) -> Any:
    if text.lstrip().startswith("["):
        return _json(setting, text, variable)
    return [part.strip() for part in text.split(",") if part.strip()]


def _json(setting: Setting, text: str, variable: str) -> Any:
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"`{variable}` is not valid JSON: {error}",
            place=variable,
            fix=_json_example(setting, variable),
        ) from error


def _json_example(setting: Setting, variable: str) -> str:
    if setting.kind == "texts":
        return f'{variable}=a,b or {variable}=\'["a", "b"]\''
    return f'{variable}=\'{{"key": "value"}}\''


def misspelt_variables(env: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each `CLAWHIVE_` variable that is nearly, but not quite, a setting's."""
    from clawhive_core.diagnostics.suggestions import nearest

    known = _own()
    for variable in sorted(env):
        name = variable.removeprefix(_PREFIX)
        if name in known or name == variable or variable in _RESERVED:
            continue
        guess = known.get(nearest(name, known, cutoff=_CUTOFF) or "")
        if guess is not None:
            yield Finding(
                "CH0901",
                "warning",
                f"the environment variable {variable} is unknown and has no effect; did you mean "
                f"{guess}?",
                fix=Fix(f"rename it to {guess}"),
            )
