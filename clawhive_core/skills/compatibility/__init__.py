"""Schema compatibility: containment of JSON Schemas, with proofs and witnesses.

`contains` searches for a value that one schema accepts and the other refuses: it finds one, proves
that there is none, or says that it knows neither.
"""

from __future__ import annotations

from clawhive_core.skills.compatibility.comparison import (
    Compatibility,
    Verdict,
    compare_inputs,
    compare_outputs,
    contains,
)

__all__ = ["Compatibility", "Verdict", "compare_inputs", "compare_outputs", "contains"]
