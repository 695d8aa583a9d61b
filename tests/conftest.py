import pytest
from hypothesis import HealthCheck, settings

# No test depends on how fast a machine is.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_cache_of_the_users(tmp_path_factory, monkeypatch):
    """Keep what tests read out of the cache of whoever runs them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "user-cache"))


@pytest.fixture
def project_root(tmp_path, monkeypatch):
    """Return the empty folder of a project, outside of every run."""
    monkeypatch.delenv("CLAWHIVE_RUN", raising=False)
    root = tmp_path / "project"
    root.mkdir()
    return root
