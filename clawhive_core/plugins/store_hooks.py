"""The hooks of plugins that keep something elsewhere: memory, runs, skills, subscriptions."""

# A hookspec is a signature and a docstring; it has no body.
# pyright: reportReturnType=false
from __future__ import annotations

from clawhive_core.plugins.hook_context import HookContext, hookspec
from clawhive_core.protocols.memory import MemoryStore
from clawhive_core.protocols.stores import RunStore, SkillSource, SubscriptionStore


@hookspec
def clawhive_memory_stores(ctx: HookContext) -> list[MemoryStore]:
    """Return stores that remember texts by partition.

    For plugins that keep memory elsewhere. Who may read which partition is decided by policy,
    before the store is asked.

    Example:
        from clawhive_core import MemoryItem, hookimpl

        class Shelf:
            def __init__(self):
                self.items = []

            async def add(self, partition, text, *, source, **facts):
                item = MemoryItem(str(len(self.items)), partition, text, source)
                self.items.append(item)
                return item.item_id

            async def search(self, query, *, partitions, limit=10):
                mine = (item for item in self.items if item.partition in partitions)
                return [item for item in mine if query in item.text][:limit]

            async def forget(self, item_id):
                before = len(self.items)
                self.items = [item for item in self.items if item.item_id != item_id]
                return len(self.items) < before

        @hookimpl
        def clawhive_memory_stores(ctx):
            return [Shelf()]
    """


@hookspec
def clawhive_run_stores(ctx: HookContext) -> list[RunStore]:
    """Return stores of runs and their events, so that several machines can share them.

    For plugins over a database server or a durable engine. A store passes the same conformance
    suite as the embedded one before it is used.

    Example:
        from clawhive_core import hookimpl

        class Forgetful:
            async def append(self, *events, sync=False):
                return list(range(1, len(events) + 1))

            async def events(self, run_id):
                return []

            async def claim(self, run_id, owner):
                return True

        @hookimpl
        def clawhive_run_stores(ctx):
            return [Forgetful()] if ctx.settings.get("forget") else []
    """


@hookspec
def clawhive_skill_sources(ctx: HookContext) -> list[SkillSource]:
    """Return further places of skills: absolute paths of folders that hold them.

    For plugins that ship skills or keep a checkout of them. Skills of plugins come after the
    project's and the user's, and before those that ClawHive ships.

    Example:
        from pathlib import PurePath

        from clawhive_core import hookimpl

        class Team:
            name = "team"

            def __init__(self, root):
                self.root = root

            def folders(self):
                return [str(PurePath(self.root) / "team-skills")]

        @hookimpl
        def clawhive_skill_sources(ctx):
            return [Team(ctx.root)]
    """


@hookspec
def clawhive_subscription_stores(ctx: HookContext) -> list[SubscriptionStore]:
    """Return a store of subscriptions, which takes the place of the project's own.

    For plugins over a shop or an account server. It is asked at each call of a tool that is for
    subscribers; where it raises, the call is denied. Of several stores the first plugin's counts.

    Example:
        from clawhive_core import Subscription, hookimpl

        class Staff:
            def __init__(self, names):
                self.names = names

            async def has(self, user_id, skill_id):
                return user_id in self.names

            async def add(self, user_id, skill_id):
                raise PermissionError("the list of the staff is kept elsewhere")

            async def remove(self, user_id, skill_id):
                raise PermissionError("the list of the staff is kept elsewhere")

            async def list(self, user_id=None, skill_id=None):
                asked = self.names if user_id is None else [user_id]
                since, skill = "2026-01-01T00:00:00Z", skill_id or "*"
                return [Subscription(each, skill, since) for each in asked if each in self.names]

        @hookimpl
        def clawhive_subscription_stores(ctx):
            return [Staff(ctx.settings.get("staff", ["local"]))]
    """
