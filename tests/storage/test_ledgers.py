"""Every ledger keeps to the port: the SQLite file, and the reference in memory."""

import pytest

from clawhive_core import Hive, ToolMeta
from clawhive_core.audit.verify import verify
from clawhive_core.errors import StorageError
from clawhive_core.plugins.contribution import Contribution
from clawhive_core.plugins.manager import PluginManager, PluginOptions
from clawhive_core.storage.sqlite.database import open_database
from clawhive_core.storage.sqlite.inspection import DatabaseInspection
from clawhive_core.storage.sqlite.tables import SqliteLedgers
from clawhive_core.testing import (
    MemoryLedger,
    MemoryStore,
    ScriptedModel,
    calling,
    check_ledger,
)
from clawhive_core.testing.memory_ledger import MemoryInspection


async def test_a_sqlite_file_is_a_ledger(tmp_path):
    opener, looks = SqliteLedgers(), []

    def open_log(redactor):
        return opener.open("sqlite:", root=str(tmp_path), redactor=redactor, lease_seconds=15.0)

    def look(log):
        looks.append(open_database(log.path, read_only=True))
        return DatabaseInspection(looks[-1], log.path)

    try:
        await check_ledger(open_log, look)
    finally:
        for each in looks:
            each.close()


async def test_a_ledger_in_memory_is_one():
    store = MemoryStore()
    await check_ledger(
        lambda redactor: MemoryLedger(store, redactor), lambda _: MemoryInspection(store)
    )


def broken(**methods):
    return type("Broken", (MemoryLedger,), methods)


async def _unchecked(self, *events, sync=False, expects=()):
    return MemoryLedger.append_now(self, *events)


def _unordered(self, query, window=None):
    found = MemoryLedger.find(self, query)
    found.items.reverse()
    return found


FAULTS = {
    "it checks nothing": {"append": _unchecked},
    "it answers in another order": {"find": _unordered},
    "it keeps no bodies": {"blob": lambda self, sha256: None},
    "it prunes what is needed": {"prune": lambda self, before, dry_run=False: None},
    "it says another tip": {"tip": lambda self: (1, "x")},
    "nobody hears of its appends": {"owners": lambda self, run_ids: []},
}


@pytest.mark.parametrize("methods", FAULTS.values(), ids=FAULTS)
async def test_a_ledger_with_a_fault_is_none(methods):
    store, kind = MemoryStore(), broken(**methods)
    with pytest.raises((AssertionError, AttributeError, ValueError)):
        await check_ledger(
            lambda redactor: kind(store, redactor), lambda _: MemoryInspection(store)
        )


class Opener:
    scheme = "memory"

    def __init__(self, open_it=None):
        self.store = MemoryStore()
        self.open_it = open_it

    def open(self, url, *, root, redactor, lease_seconds):
        if self.open_it is not None:
            return self.open_it()
        return MemoryLedger(self.store, redactor, lease_seconds)

    def inspect(self, url, *, root):
        return MemoryLedger(self.store).inspect()

    def is_made(self, url, *, root):
        return bool(self.store.rows)


def hive_over(opener, tmp_path, adapter=None):
    class Given(PluginManager):
        def contributions(self, hook):
            given = {
                "clawhive_ledgers": [opener],
                "clawhive_llm_adapters": [adapter] if adapter else [],
            }
            return [Contribution("given", "given", each) for each in given.get(hook, ())]

    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    root = tmp_path / "project"
    root.mkdir(exist_ok=True)
    flags = {"storage.url": "memory:"}
    manager = Given((), PluginOptions())
    return Hive.open(root, flags=flags, env=env, plugins=lambda config, env: manager)


def note(text):
    return f"noted {text}"


TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


async def test_a_run_is_asked_about_resumed_replayed_and_verified_over_another_ledger(tmp_path):
    opener = Opener()
    meta = ToolMeta("t.note", "Note.", TEXT, "local", risk="guarded")
    model = ScriptedModel([calling("t.note", {"text": "a"}), "Done."])
    async with hive_over(opener, tmp_path, model) as hive:
        hive.tools.add(meta, note)
        parked = await hive.run("Note it.", model="scripted:any")
        assert parked["status"] == "waiting_approval"
    async with hive_over(opener, tmp_path, model) as hive:
        hive.tools.add(meta, note)
        (asked,) = hive.approvals.pending()
        hive.approvals.resolve(asked.approval_id, "approve", by="user:ana")
        done = await hive.resume(parked["run_id"])
        assert (done["status"], done["output"]) == ("succeeded", "Done.")
        assert done["steps"][0]["output_preview"] == "noted a"
        replayed = await hive.replay(parked["run_id"])
        assert replayed.ok
        assert replayed.compared > 5
        (run,) = hive.records.runs(run_id=parked["run_id"])
        assert run.status == "succeeded"
    assert not (tmp_path / "project" / ".clawhive" / "hive.db").exists()
    report = verify(MemoryInspection(opener.store), tmp_path / "config" / "clawhive")
    assert report.ok
    assert report.rows == len(opener.store.rows) > 10


def hangs():
    import threading

    threading.Event().wait(60)


def fails():
    raise RuntimeError("the server is away")


@pytest.mark.parametrize(
    ("open_it", "said"),
    [(fails, "the server is away"), (object, "lacks append"), (hangs, "no answer within")],
    ids=["it raises", "it gives no ledger", "it hangs"],
)
async def test_a_plugin_whose_ledger_does_not_work_is_named_by_a_coded_error(
    open_it, said, tmp_path, monkeypatch
):
    monkeypatch.setattr("clawhive_core.hive.project_log.OPEN_SECONDS", 0.05)
    with pytest.raises(StorageError, match=said) as caught:
        async with hive_over(Opener(open_it), tmp_path):
            pass
    assert caught.value.code == "ledger_failed"


async def test_an_address_that_nothing_opens_names_the_fix(tmp_path):
    opener = Opener()
    opener.scheme = "other"
    with pytest.raises(StorageError) as caught:
        async with hive_over(opener, tmp_path):
            pass
    assert caught.value.code == "unknown_ledger"
    assert "sqlite:" in caught.value.fix
