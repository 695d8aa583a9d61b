"""A file of Cedar policies, read: its forbids, and which of them only ask."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cedarpy import PolicySet

_LARGEST = 1024 * 1024
_PIECE = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"|;|[^;"/]+|.', re.DOTALL)

_DEEPEST = 200
_BRACKET = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"|([(\[{])|([)\]}])', re.DOTALL)

_BLANK = re.compile(r"(?:\s|//[^\n]*)*")


class PolicyError(Exception):
    """The policies cannot be used; the message begins with the place."""


@dataclass(frozen=True, slots=True)
class Forbids:
    """The policies that can tighten something; a `permit` gives nothing, so none is kept."""

    policies: PolicySet
    asking: frozenset[str]
    """The ids of those that have the annotation `@ask`."""


def read_forbids(path: Path) -> Forbids:
    """Return the forbids of a file; their ids are those of `@id`, else `policyN` from 0.

    Raises:
        PolicyError: The file cannot be read or parsed, two ids are equal, or it has templates.
    """
    from cedarpy import PolicySet

    parsed = _parsed(_text(path), path)
    if parsed.get("templates"):
        raise PolicyError(f"{path}: templates (`?principal`, `?resource`) cannot be used here")
    kept: dict[str, Any] = {}
    for number, policy in parsed["staticPolicies"].items():
        name: str = policy.get("annotations", {}).get("id") or number
        if policy["effect"] != "forbid":
            continue
        if name in kept:
            raise PolicyError(f'{path}: two policies have the id "{name}"')
        kept[name] = policy
    asking = frozenset(name for name, each in kept.items() if "ask" in each.get("annotations", {}))
    document: dict[str, Any] = {"templates": {}, "staticPolicies": kept, "templateLinks": []}
    try:
        return Forbids(PolicySet.from_json_str(json.dumps(document)), asking)
    except (RecursionError, ValueError):  # Cedar's own reader of JSON bounds depth, too
        raise _too_deep(path) from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise PolicyError(f"{path}: it has more than {_LARGEST} bytes")
        return data.decode("utf-8")
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PolicyError(f"{path}: it is not UTF-8") from error


def _parsed(text: str, path: Path) -> Mapping[str, Any]:
    from cedarpy import policies_to_json_str

    if _depth(text) > _DEEPEST:  # Cedar takes time in the square of it
        raise _too_deep(path)
    try:
        return json.loads(policies_to_json_str(text))
    except ValueError as error:
        line, what = _first_wrong(text, str(error))
        raise PolicyError(f"{path}:{line}: {what}") from error
    except RecursionError:
        raise _too_deep(path) from None


def _depth(text: str) -> int:
    """Return how deep the brackets of a text are nested."""
    deepest = depth = 0
    for found in _BRACKET.finditer(text):
        if found[1]:
            depth += 1
            deepest = max(deepest, depth)
        elif found[2]:
            depth = max(0, depth - 1)
    return deepest


def _too_deep(path: Path) -> PolicyError:
    return PolicyError(f"{path}: a policy is nested too deeply")


def _first_wrong(text: str, what: str) -> tuple[int, str]:
    """Return the line at which the first policy that cannot be parsed begins, and why."""
    from cedarpy import policies_to_json_str

    for line, statement in _statements(text):
        try:
            policies_to_json_str(statement)
        except ValueError as error:
            return line, str(error)
    return 1, what


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each policy with its first line; strings and comments may hold semicolons."""
    start = 0
    for found in _PIECE.finditer(text):
        if found[0] == ";" or found.end() == len(text):
            statement = text[start : found.end()]
            before = _BLANK.match(text, start)
            first = start if before is None else before.end()
            yield text.count("\n", 0, first) + 1, statement
            start = found.end()
