"""`clawhive subscriptions` as people and scripts use them."""

import sqlite3
from contextlib import closing

import pytest

MANIFEST = """
id: shop
exports:
  api_version: "1.0"
  tools: [{name: buy, input_schema: {type: object}, output_schema: {type: object}}]
  access: {requires_subscription: true}
"""
HANDLERS = "def buy(input, ctx):\n    return {'for': ctx.user_id}\n"
STORE = """
from clawhive_core import Subscription, hookimpl

class Staff:
    async def has(self, user_id, skill_id):
        return user_id == "ann"
    async def add(self, user_id, skill_id):
        raise PermissionError("the list is kept elsewhere")
    async def remove(self, user_id, skill_id):
        return False
    async def list(self, user_id=None, skill_id=None):
        return [Subscription("ann", "shop", "2026-01-01T00:00:00Z")]

@hookimpl
def clawhive_subscription_stores(ctx):
    return [Staff()]
"""


@pytest.fixture
def shop(clawhive):
    folder = clawhive.root / "skills" / "shop"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.yaml").write_text(MANIFEST)
    folder.joinpath("handlers.py").write_text(HANDLERS)
    return clawhive


def listed(clawhive, *words):
    rows = clawhive("subscriptions", "list", *words, "--json").json["subscriptions"]
    return [(row["user_id"], row["skill_id"]) for row in rows]


@pytest.mark.promise("P-182")
def test_a_subscription_is_added_listed_used_and_removed(shop):
    assert shop("tools", "call", "shop.buy", "--json").json["error"] == "subscription_required"
    assert shop("subscriptions", "add", "shop").out == "subscribed: local to shop\n"
    assert shop("subscriptions", "add", "shop").out == "subscribed: local to shop (already)\n"
    shop("subscriptions", "add", "shop", "--user", "bob")
    assert listed(shop) == [("bob", "shop"), ("local", "shop")]
    assert listed(shop, "shop", "--user", "bob") == [("bob", "shop")]
    assert listed(shop, "other") == []
    assert "USER" in shop("subscriptions", "list").out
    called = shop("tools", "call", "shop.buy", "--json", "--user", "bob")
    assert called.json["structured"] == {"for": "bob"}
    assert shop("subscriptions", "remove", "shop").out == "ended: local to shop\n"
    assert shop("tools", "call", "shop.buy").code == 1
    assert shop("tools", "call", "shop.buy", "--user", "bob").code == 0
    kinds = [row["kind"] for row in shop.events() if row["kind"].startswith("subscription.")]
    assert kinds == ["subscription.added"] * 2 + ["subscription.removed"]


def test_listing_makes_no_log(shop):
    assert listed(shop) == []
    assert not shop.root.joinpath(".clawhive").exists()


def test_bad_input_is_told(shop, monkeypatch):
    unknown = shop("subscriptions", "add", "shpo")
    assert (unknown.code, "did you mean `shop`?" in unknown.err) == (2, True)
    nobody = shop("subscriptions", "remove", "shop")
    assert (nobody.code, "`local` has not subscribed to `shop`" in nobody.err) == (2, True)
    for user in (" ", "a\nb", "x" * 201):
        refused = shop("subscriptions", "add", "shop", "--user", user)
        assert (refused.code, "names no user" in refused.err) == (2, True)
    free = shop("subscriptions", "add", "code")
    assert "`code` asks for no subscription" in free.err
    monkeypatch.setenv("CLAWHIVE_RUN", "run_1")
    for word in ("add", "remove"):
        inside = shop("subscriptions", word, "shop")
        assert (inside.code, "no run may change subscriptions" in inside.err) == (2, True)


@pytest.mark.promise("P-182")
def test_a_subscription_that_the_log_does_not_give_stops_everything(shop):
    shop("subscriptions", "add", "shop", "--user", "bob")
    with closing(sqlite3.connect(shop.root / ".clawhive" / "hive.db")) as database:
        database.execute("INSERT INTO subscriptions VALUES('local', 'shop', '2026')")
        database.commit()
    refused = shop("tools", "call", "shop.buy")
    assert "error[forged_rights]" in refused.err
    assert shop("audit", "rebuild").code == 0
    assert listed(shop) == [("bob", "shop")]


@pytest.mark.promise("P-182")
def test_a_plugin_keeps_the_subscriptions(shop, site):
    site.plugin("staff", STORE)
    assert listed(shop) == [("ann", "shop")]
    refused = shop("subscriptions", "add", "shop")
    assert (refused.code, "the list is kept elsewhere" in refused.err) == (1, True)
    assert shop("tools", "call", "shop.buy").code == 1
    assert shop("tools", "call", "shop.buy", "--user", "ann").code == 0
