"""Who has subscribed to what, as the project's log holds it."""

import pytest

from clawhive_core.policy.subscriptions import SubscriptionBook
from clawhive_core.storage.sqlite import subscriptions
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import tables_of


@pytest.fixture
def log(tmp_path):
    made = EventLog.open(tmp_path / "hive.db", tables_of(subscriptions))
    yield made
    made.close()


async def pairs(book, **which):
    return [(each.user_id, each.skill_id) for each in await book.list(**which)]


async def test_a_user_has_subscribed_from_the_first_time_on_until_it_is_ended(log):
    book = SubscriptionBook(log)
    assert not await book.has("ana", "shop")
    assert [await book.add("ana", "shop") for _ in range(2)] == [True, False]
    assert await book.add("bob", "shop")
    assert await book.add("ana", "news")
    assert await book.has("ana", "shop")
    assert not await book.has("bob", "news")
    assert await pairs(book, user_id="ana") == [("ana", "news"), ("ana", "shop")]
    assert await pairs(book, skill_id="shop") == [("ana", "shop"), ("bob", "shop")]
    assert [await book.remove("ana", "shop") for _ in range(2)] == [True, False]
    assert not await book.has("ana", "shop")
    assert await pairs(book) == [("ana", "news"), ("bob", "shop")]
    kinds = [stored.event.kind for stored in log.events()]
    assert kinds == ["subscription.added"] * 3 + ["subscription.removed"]


async def test_where_nothing_is_recorded_nobody_has_subscribed_and_nothing_is_changed():
    book = SubscriptionBook(None)
    assert not await book.has("ana", "shop")
    assert await book.list() == []
    assert not await book.add("ana", "shop")
    assert not await book.remove("ana", "shop")
