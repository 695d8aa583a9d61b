import pytest
from hypothesis import HealthCheck, settings

# No test depends on how fast a machine is.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


@pytest.fixture
def anyio_backend():
    return "asyncio"
