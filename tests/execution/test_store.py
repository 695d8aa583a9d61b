"""Values that tools and skills keep."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core import ToolError
from clawhive_core.execution.scope import CallScope, RunScope
from clawhive_core.execution.store import ValueStore
from clawhive_core.model.principal import Principal
from clawhive_core.policy.rules import Rules
from clawhive_core.storage.sqlite import stored_values
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import tables_of
from tests.examples import share


def open_log(folder):
    return EventLog.open(folder / "hive.db", tables_of(stored_values))


@pytest.fixture
def log(tmp_path):
    log = open_log(tmp_path)
    yield log
    log.close()


def values(log, namespace="skill_a", user="ana"):
    run = RunScope("tr", "ta", "run_1", "co", user, "/root", "/root/out", Rules(()))
    return ValueStore(log, CallScope(run, Principal("skill", "a"), "run_1/s"), namespace)


async def test_a_value_is_read_as_it_was_kept(log):
    mine = values(log)
    for value in (None, 0, "é😀", [1, {"a": None}], {"x": 2**60}, 1.5, "long" * 1000):
        await mine.put("k", value)
        assert await mine.get("k") == value
    assert await mine.get("other", "default") == "default"


async def test_users_and_namespaces_see_nothing_of_each_other(log):
    await values(log).put("k", 1)
    assert await values(log, namespace="skill_b").get("k") is None
    assert await values(log, user="ben").get("k") is None
    await values(log, user="ben").delete("k")
    assert await values(log).keys() == ["k"]


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("", 1, "invalid_input"),
        ("k" * 201, 1, "invalid_input"),
        ("a\nb", 1, "invalid_input"),
        (7, 1, "invalid_input"),
        ("k", {1, 2}, "invalid_input"),
        ("k", {"x": float("nan")}, "invalid_input"),
        ("k", "x" * (1024 * 1024), "too_large"),
        ("k", ["the token is tok-12345678"], "holds_secret"),
    ],
)
async def test_what_cannot_be_kept_is_refused_whole(log, key, value, code):
    log.redactor.add("tok-12345678")
    mine = values(log)
    await mine.put("k", "before")
    with pytest.raises(ToolError) as refused:
        await mine.put(key, value)
    assert refused.value.code == code
    assert refused.value.fix
    assert await mine.get("k") == "before"


async def test_the_largest_value_is_kept(log):
    text = "x" * (1024 * 1024 - 2)
    await values(log).put("k", text)
    assert await values(log).get("k") == text


async def test_each_change_is_an_event_of_its_run(log):
    mine = values(log)
    await mine.put("k", {"a": 1})
    await mine.delete("k")
    await mine.delete("k")
    rows = [stored.event for stored in log.events()]
    assert [(row.kind, row.run_id, row.principal) for row in rows] == [
        ("store.put", "run_1", "skill:a"),
        ("store.delete", "run_1", "skill:a"),
    ]
    assert rows[0].body["key"] == "k"


KEYS = st.sampled_from(["a", "a.b", "ab", "é", "%", "_"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.integers() | st.text(max_size=5) | st.none()),
        st.tuples(st.just("delete"), KEYS, st.none()),
    ),
    max_size=20,
)


@given(steps=STEPS)
@share(1 / 4)
def test_it_behaves_like_a_dict_and_can_be_made_anew_from_the_log(tmp_path_factory, steps):
    log = open_log(tmp_path_factory.mktemp("store"))
    model = {}

    async def work():
        mine = values(log)
        for what, key, value in steps:
            if what == "put":
                await mine.put(key, value)
                model[key] = value
            else:
                await mine.delete(key)
                model.pop(key, None)
        assert await mine.keys() == sorted(model)
        assert await mine.keys("a") == sorted(key for key in model if key.startswith("a"))
        assert {key: await mine.get(key) for key in model} == model
        assert log.compare() == ()
        log.append_now(effect=lambda c: c.execute("DELETE FROM stored_values") and None)
        log.rebuild()
        assert {key: await mine.get(key) for key in model} == model

    try:
        asyncio.run(work())
    finally:
        log.close()
