"""The policy check: what a Cedar policy forbids is denied, or asked for."""

from __future__ import annotations

import os
from pathlib import Path

from clawhive_cedar.policies import Forbids, PolicyError, read_forbids
from clawhive_cedar.request import cedar_entities, cedar_request
from clawhive_core import CheckResult, PolicyRequest


class CedarCheck:
    """Asks the policies of one file about each call; it only tightens.

    The file is read at the first call. While it cannot be used every call is denied.
    """

    name = "cedar"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._own = Path(os.path.realpath(path)).parts
        self._forbids: Forbids | None = None

    async def check(self, request: PolicyRequest) -> CheckResult | None:
        """Return deny where a policy forbids the call, ask where only policies with `@ask` do."""
        if any(self._changes_policies(each) for each in request.capabilities):
            return CheckResult("deny", "own-policies")
        try:
            if self._forbids is None:
                self._forbids = read_forbids(self._path)
        except PolicyError as error:
            return CheckResult("deny", str(error))
        return self._decided(self._forbids, request)

    def _decided(self, forbids: Forbids, request: PolicyRequest) -> CheckResult | None:
        from cedarpy import is_authorized  # pyright: ignore[reportUnknownVariableType] - bare dicts in its stubs

        answer = is_authorized(cedar_request(request), forbids.policies, cedar_entities(request))
        reasons, errors = sorted(answer.diagnostics.reasons), answer.diagnostics.errors
        denying = [name for name in reasons if name not in forbids.asking]
        if denying:
            return CheckResult("deny", ", ".join(denying))
        if errors:  # Cedar skips a policy that fails, which would let the call pass
            return CheckResult("deny", f"{self._path.name}: {min(errors)}")
        return CheckResult("ask", ", ".join(reasons)) if reasons else None

    def _changes_policies(self, capability: str) -> bool:
        """Whether a call may change the file itself: no agent decides about itself."""
        verb, _, resource = capability.partition(":")
        if verb not in {"fs.write", "fs.delete"}:
            return False
        parts = Path(resource).parts
        if parts[-1:] == ("**",):
            parts = (*parts[:-1], *self._own[len(parts) - 1 :])
        same = zip(parts, self._own, strict=False)
        return len(parts) == len(self._own) and all(one in ("*", own) for one, own in same)
