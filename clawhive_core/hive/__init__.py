"""The composition root: the only place where every room meets.

May import every room below it. A user drives `Hive`; the rest is what it is put together of.
"""
