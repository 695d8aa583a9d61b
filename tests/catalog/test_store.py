import asyncio
from dataclasses import replace

import anyio
import pytest

from clawhive_core.catalog.assembly import Preferences
from clawhive_core.catalog.store import CatalogStore
from tests.harness import Provider, tool_meta


class Broken(Provider):
    """Fails in one way at listing or closing."""

    def __init__(self, provider_id="broken", listing=None, closing=None):
        super().__init__(provider_id)
        self.listing = listing
        self.closing = closing

    async def list_tools(self):
        return await self.listing() if self.listing else []

    async def close(self):
        if self.closing:
            await self.closing()


def raising(error):
    async def fail():
        raise error

    return fail


async def stubborn():
    """Survives one cancellation, and so all the time that it is given to stop in."""
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        await asyncio.sleep(3600)


def good(*names, provider_id="demo"):
    provider = Provider(provider_id)
    provider.metas = [tool_meta(name, provider_id) for name in names]
    return provider


@pytest.fixture
def notes():
    return []


@pytest.fixture
def store(notes):
    seconds = {"list_seconds": 0.02, "close_seconds": 0.02, "grace_seconds": 0.02}
    return CatalogStore(note=notes.append, **seconds)


async def test_providers_are_listed_and_assembled(store, notes):
    catalog = await store.add(good("a.one"), good("b.two", provider_id="other"))
    assert sorted(catalog.tools) == ["a.one", "b.two"]
    assert store.current is catalog
    assert notes == []


async def test_adding_makes_another_revision_and_keeps_the_old_tools(store):
    first = await store.add(good("a.one"))
    second = await store.add(good("b.two", provider_id="other"))
    assert sorted(second.tools) == ["a.one", "b.two"]
    assert second.revision != first.revision
    assert sorted(first.tools) == ["a.one"]


@pytest.mark.parametrize(
    "listing",
    [
        raising(ValueError("no network")),
        raising(SystemExit(3)),
        raising(asyncio.CancelledError()),
        raising(BaseExceptionGroup("g", [SystemExit()])),
        anyio.sleep_forever,
        stubborn,
    ],
    ids=["raises", "exits", "cancels", "group", "hangs", "stubborn"],
)
async def test_a_provider_that_cannot_list_leaves_the_others(store, notes, listing):
    catalog = await store.add(good("a.one"), Broken(listing=listing))
    assert list(catalog.tools) == ["a.one"]
    (note,) = notes
    assert "`broken`" in note


async def test_what_is_no_list_of_tools_is_noted(store, notes):
    class NoList(Provider):
        async def list_tools(self):
            return None

    class Mixed(Provider):
        async def list_tools(self):
            return [None, {"name": "a.b"}, tool_meta("a.good", "mixed")]

    class Sync(Provider):
        def list_tools(self):
            return []

    catalog = await store.add(NoList("none"), Mixed("mixed"), Sync("sync"))
    assert list(catalog.tools) == ["a.good"]
    assert len(notes) == 3
    assert any("2 things that are no tool" in note for note in notes)


async def test_a_provider_without_an_id_is_noted_by_its_type(store, notes):
    class Nameless:
        async def list_tools(self):
            raise RuntimeError

        async def close(self):
            raise RuntimeError

    await store.add(Nameless())
    await store.close_providers()
    assert all("`Nameless`" in note for note in notes)
    assert len(notes) == 2


async def test_a_tool_belongs_to_the_provider_that_lists_it(store):
    provider = Provider("mine")
    provider.metas = [tool_meta("a.b", "builtin")]
    catalog = await store.add(provider)
    assert catalog.tools["a.b"].meta.provider_id == "mine"


async def test_refreshing_sees_what_changed(store):
    provider = good("a.one")
    await store.add(provider)
    provider.metas = [tool_meta("a.two")]
    assert list((await store.refresh()).tools) == ["a.two"]


async def test_a_provider_that_fails_at_a_refresh_has_no_tools_then(store, notes):
    provider = good("a.one")
    await store.add(provider)
    provider.list_tools = raising(ValueError("gone"))
    assert len(await store.refresh()) == 0
    assert "gone" in notes[0]


async def test_the_contract_of_an_earlier_revision_is_remembered(store):
    provider = good("a.one")
    before = await store.add(provider)
    provider.metas = [tool_meta("a.one", risk="unsafe")]
    after = await store.refresh()
    assert store.contract_at(before.revision, "a.one") == before.contracts["a.one"]
    assert store.contract_at(before.revision, "a.one") != after.contracts["a.one"]
    assert store.contract_at(before.revision, "a.two") is None
    assert store.contract_at("cat_unknown", "a.one") is None


async def test_old_revisions_are_forgotten_in_the_end_but_never_the_current_one(store):
    provider = good("a.one")
    first = await store.add(provider)
    for number in range(100):
        provider.metas = [tool_meta("a.one", description=str(number))]
        current = await store.refresh()
    assert store.contract_at(first.revision, "a.one") is None
    assert store.contract_at(current.revision, "a.one") is not None


async def test_closing_closes_each_provider_once_whatever_the_others_do(store, notes):
    provider = good("a.one")
    await store.add(
        provider,
        Broken("raises", closing=raising(ValueError("stuck"))),
        Broken("exits", closing=raising(SystemExit())),
        Broken("hangs", closing=anyio.sleep_forever),
        Broken("stubborn", closing=stubborn),
    )
    await store.close_providers()
    await store.close_providers()
    assert provider.closed == 1
    assert sorted(note.split("`")[1] for note in notes) == ["exits", "hangs", "raises", "stubborn"]
    assert any("stuck" in note for note in notes)


async def test_preferences_hold_for_every_revision(notes):
    store = CatalogStore(Preferences(pins={"a.b": "second"}), notes.append)
    catalog = await store.add(good("a.b", provider_id="first"), good("a.b", provider_id="second"))
    assert catalog.tools["a.b"].meta.provider_id == "second"
    assert (await store.refresh()).tools["a.b"].meta.provider_id == "second"


@pytest.mark.promise("P-239")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt", "properties": 5},
        {"$ref": "#/nope"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
    ],
)
async def test_a_tool_whose_schema_cannot_be_used_is_left_out_and_told_once(store, notes, schema):
    provider = good("a.one", "a.two")
    provider.metas[0] = replace(provider.metas[0], input_schema=schema)
    catalog = await store.add(provider)
    assert list(catalog.tools) == ["a.two"]
    (drop,) = catalog.dropped
    assert (drop.name, drop.provider_id) == ("a.one", "demo")
    assert drop.reason.startswith("its input schema cannot be used: ")
    await store.refresh()
    assert notes == [f"`a.one` of `demo` is left out: {drop.reason}"]


async def test_a_tool_whose_schema_was_mended_is_there_again(store):
    provider = good("a.one")
    whole = provider.metas[0]
    provider.metas[0] = replace(whole, input_schema={"type": "objekt"})
    await store.add(provider)
    provider.metas[0] = whole
    catalog = await store.refresh()
    assert (list(catalog.tools), catalog.dropped) == (["a.one"], ())
