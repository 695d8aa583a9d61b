"""What plugins contribute is closed at the end, whatever closing it does."""

import anyio
import pytest

from clawhive_core.hive.contributed import Contributed
from clawhive_core.plugins.contribution import Contribution
from clawhive_core.plugins.manager import PluginManager


class Adapter:
    host = default_host = None
    supports_tools = True

    def __init__(self, name, close=None):
        self.name = name
        self.is_closed = False
        self._close = close

    async def close(self):
        if self._close is not None:
            await self._close()
        self.is_closed = True


class Plugins(PluginManager):
    def __init__(self, *adapters):
        super().__init__([])
        self.adapters = adapters

    def contributions(self, hook):
        return [Contribution("one", hook, each) for each in self.adapters]


async def raising():
    raise SystemExit(1)


@pytest.mark.parametrize("close", [anyio.sleep_forever, raising])
async def test_an_adapter_that_does_not_close_keeps_no_other_from_closing(close):
    bad, good = Adapter("bad", close), Adapter("good")
    contributed = Contributed(Plugins(bad, good), close_seconds=0.01)
    assert set(contributed.adapters()) == {"bad", "good"}
    await contributed.close()
    assert (bad.is_closed, good.is_closed) == (False, True)
