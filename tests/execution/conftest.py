import pytest

from tests.harness import House


@pytest.fixture
def house(tmp_path):
    """A project with an empty catalog, a real log and the out-of-the-box rights."""
    house = House(tmp_path)
    yield house
    house.close()
