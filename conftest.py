"""What every test of the core and of the plugins has around it."""

import os
import shutil
import sys
from collections.abc import Iterator

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
def _nothing_of_the_machine(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Keep tests out of the home of whoever runs them; one that would write there fails.

    A hive that is given no environment of its own, nor `HOME`, signs its log in the user's home.

    Servers are on loopback without TLS, so no client need load the machine's certificates: some 40
    ms for each that is made. Where Python may keep nothing beside sources, the processes that tests
    start keep what they compiled here: else each would compile the core again, half of its cost.
    """
    base = tmp_path_factory.getbasetemp()
    base.joinpath("no-certificates").mkdir(exist_ok=True)
    home = base / "nobodys-home"
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(base / "user-cache"))
    monkeypatch.setenv("SSL_CERT_DIR", str(base / "no-certificates"))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    if sys.dont_write_bytecode:
        monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(base.parent / "bytecode"))
        monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    yield
    written = home / ".config" / "clawhive"
    if written.exists():
        found = sorted(str(each.relative_to(home)) for each in written.rglob("*"))
        shutil.rmtree(written)
        pytest.fail(f"it wrote into the user's own directory: {', '.join(found)}")
