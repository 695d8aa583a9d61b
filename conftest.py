"""What every test of the core and of the plugins has around it."""

import os

import pytest
from hypothesis import HealthCheck, settings

# No test depends on how fast a machine is. New seeds each time, in both: what the quick one misses
# today it may find tomorrow.
_QUIET = [HealthCheck.too_slow]
settings.register_profile("quick", max_examples=20, deadline=None, suppress_health_check=_QUIET)
settings.register_profile("deep", max_examples=400, deadline=None, suppress_health_check=_QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, the only loop that is supported."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_cache_of_the_users(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep what tests read out of the cache of whoever runs them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "user-cache"))
