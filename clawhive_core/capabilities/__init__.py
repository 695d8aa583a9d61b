"""The pattern algebra: capabilities are parsed, normalised, matched, contained and met.

Values only: no I/O, no clock. `docs/reference/capabilities.md` describes the grammar.
"""

from __future__ import annotations

from clawhive_core.capabilities.constraints import Constraints
from clawhive_core.capabilities.index import PatternIndex
from clawhive_core.capabilities.paths import VARIABLES
from clawhive_core.capabilities.pattern import (
    Capability,
    below,
    concrete,
    contains,
    matches,
    meet,
    normalise,
    overlaps,
    parse,
    path_capability,
    url_capability,
)
from clawhive_core.capabilities.segments import Segments
from clawhive_core.capabilities.verbs import HOST_FAMILY, VERBS, Kind, Verb, verb_of

__all__ = [
    "HOST_FAMILY",
    "VARIABLES",
    "VERBS",
    "Capability",
    "Constraints",
    "Kind",
    "PatternIndex",
    "Segments",
    "Verb",
    "below",
    "concrete",
    "contains",
    "matches",
    "meet",
    "normalise",
    "overlaps",
    "parse",
    "path_capability",
    "url_capability",
    "verb_of",
]
