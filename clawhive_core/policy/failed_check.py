"""The stand-in for a policy check that is not there."""

from __future__ import annotations

from clawhive_core.errors import PluginError
from clawhive_core.protocols.check import CheckResult, PolicyRequest


class FailedCheck:
    """Stands for a policy check whose plugin failed to load: it denies, by failing."""

    def __init__(self, plugin_id: str) -> None:
        self.name = plugin_id

    async def check(self, request: PolicyRequest) -> CheckResult | None:
        """Fail, which the decision takes as a deny.

        Raises:
            PluginError: Always.
        """
        del request
        raise PluginError(f"the policy check of plugin `{self.name}` could not be loaded")
