"""Changes between versions of contracts, and the bump of `api_version` that it needs.

`compare_contracts` compares two skills and knows nothing of files, git or the command line;
`compare_sides` checks two whole sets against each other and says what is wrong with the change.
"""

from __future__ import annotations

from clawhive_core.skills.changes.change import (
    Bump,
    Change,
    Impact,
    Witness,
    needed_bump,
    smallest_version,
)
from clawhive_core.skills.changes.comparison import SkillDiff, compare_contracts
from clawhive_core.skills.changes.revision import Side, side_of
from clawhive_core.skills.changes.sets import SetDiff, compare_sides

__all__ = [
    "Bump",
    "Change",
    "Impact",
    "SetDiff",
    "Side",
    "SkillDiff",
    "Witness",
    "compare_contracts",
    "compare_sides",
    "needed_bump",
    "side_of",
    "smallest_version",
]
