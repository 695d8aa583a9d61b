"""The shape of the effects that a plugin's tool declares."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from clawhive_core.diagnostics.suggestions import did_you_mean
from clawhive_core.model.effects import verbs_of
from clawhive_core.model.patterns import pattern
from clawhive_core.model.tools import Effects

_EFFECT = pattern(r"([a-z]+(?:\.[a-z][a-z0-9_]*)+)(?::(\S(?:.*\S)?))?")


def effect_problems(effects: Effects, parameters: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the shape of declared effects, as pairs of problem and fix."""
    for argument, effect in effects.items():
        if argument and argument not in parameters:
            yield (
                f"effects name the argument {argument!r}, which the function does not have",
                f'name one of: {", ".join(parameters) or "(no parameter)"}, or "" for every call',
            )
        for text in effect if isinstance(effect, tuple) else (effect,):
            yield from _text_problems(argument, text)


def _text_problems(argument: str, text: str) -> Iterator[tuple[str, str]]:
    match = _EFFECT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        yield (
            f"{text!r} is no effect",
            'write "verb" or "verb:resource", such as "fs.read" or "fs.read:{}/**"',
        )
    elif argument == "" and match[2] is None:
        yield (
            f'the effect {text!r} of every call (key "") names no resource',
            f'add it, such as "{match[1]}:**"',
        )
    elif argument == "" and "{" in match[2].replace("${", ""):
        yield (
            f'the effect {text!r} of every call (key "") uses an argument',
            "move it under the argument's name",
        )


def unknown_verbs(effects: Effects) -> Iterator[tuple[str, str]]:
    """Yield the verbs that no capability has, each with the fix."""
    from clawhive_core.capabilities import VERBS

    for verb, _ in verbs_of(effects):
        if verb in VERBS or verb.startswith("host."):
            continue
        yield (
            f"{verb!r} is no verb of a capability",
            did_you_mean(verb, VERBS) or f"use one of: {', '.join(VERBS)}",
        )


def as_effects(value: Mapping[str, str | list[str] | tuple[str, ...]]) -> Effects:
    """Return effects with lists as tuples, so that they are values."""
    return {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}
