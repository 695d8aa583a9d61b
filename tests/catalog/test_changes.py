"""Providers whose tools change while they run."""

import threading

import anyio
import pytest

from clawhive_core.catalog.store import CatalogStore
from clawhive_core.testing import memory_hive
from tests.harness import Provider, echo


class Server(Provider):
    """Says when what it lists changes, as a server does."""

    def subscribe(self, changed):
        self.changed = changed


@pytest.fixture
def server():
    return Server().offer("demo.echo", echo)


async def test_a_change_makes_a_new_revision_without_reopening(server):
    store, told = CatalogStore(), []
    before = (await store.add(server)).revision

    def heard(catalog):
        told.append(catalog.revision)
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(store.watching, heard)
        server.offer("demo.more", echo)
        server.changed()
    assert told == [store.current.revision]
    assert told[0] != before
    assert set(store.current.tools) == {"demo.echo", "demo.more"}


async def test_changes_are_told_from_any_thread_and_a_shower_is_one_listing(server):
    listed = []

    class Counting(Server):
        async def list_tools(self):
            listed.append(len(self.metas))
            return self.metas

    counting = Counting().offer("demo.echo", echo)
    store = CatalogStore()
    await store.add(counting)

    def tell():
        for _ in range(100):
            counting.changed()

    async with anyio.create_task_group() as group:
        counting.offer("demo.more", echo)
        thread = threading.Thread(target=tell)
        thread.start()
        thread.join()
        group.start_soon(store.watching, lambda _: group.cancel_scope.cancel())
    assert listed == [1, 2]


async def test_only_who_changed_is_listed_again(server):
    other = Provider("other").offer("other.tool", echo)
    store = CatalogStore()
    await store.add(server, other)
    other.metas = []
    async with anyio.create_task_group() as group:
        server.offer("demo.more", echo)
        server.changed()
        group.start_soon(store.watching, lambda _: group.cancel_scope.cancel())
    assert set(store.current.tools) == {"demo.echo", "demo.more", "other.tool"}


async def test_a_provider_that_cannot_be_subscribed_to_is_noted_and_keeps_its_tools():
    class Broken(Provider):
        def subscribe(self, changed):
            raise ValueError("no")

    notes = []
    store = CatalogStore(note=notes.append)
    await store.add(Broken().offer("demo.echo", echo))
    assert set(store.current.tools) == {"demo.echo"}
    assert notes == ["provider `demo` cannot say when its tools change: no"]


async def test_an_open_hive_takes_the_change_and_records_the_revision(server):
    async with memory_hive(providers=[server]) as hive:
        server.offer("demo.more", echo)
        before = hive.catalog.current.revision
        server.changed()
        async for stored in hive.events():
            if stored.event.kind == "catalog.revision":
                break
        _, outcome = await hive.call("demo.more", {"n": 1})
        assert hive.catalog.current.revision == stored.event.body["catalog_revision"] != before
    assert outcome.structured == {"n": 1}
    server.changed()  # the hive is closed: nothing happens
