"""A required sink, through a running Hive and the command line."""

import json
import sys

import anyio
import pytest

from clawhive_core import Hive, LlmResponse, TextBlock, ToolMeta
from clawhive_core.cli import main
from clawhive_core.model.events import Event
from clawhive_core.model.refusal import Refusal
from clawhive_core.plugins.contribution import Contribution
from clawhive_core.plugins.manager import PluginManager

OPEN = {"type": "object"}


class Siem:
    """Takes events unless the other side is gone."""

    name, required = "siem", True

    def __init__(self):
        self.is_gone = False
        self.kinds = []
        self.seqs = []

    async def write(self, events):
        if self.is_gone:
            raise ConnectionError("the other side is gone")
        self.kinds += [stored.event.kind for stored in events]
        self.seqs += [stored.seq for stored in events]

    async def close(self):
        pass


class Model:
    """Answers a prompt, and counts how often it is asked; it says that it is another host's."""

    name, host, default_host, supports_tools = "far", "model.test", "model.test", False

    def __init__(self):
        self.asked = 0

    async def chat(self, request):
        self.asked += 1
        return LlmResponse((TextBlock("Hello."),))

    async def close(self):
        pass


@pytest.fixture
def siem():
    return Siem()


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def opened(tmp_path, siem, model):
    class Plugins(PluginManager):
        def contributions(self, hook):
            found = {"clawhive_audit_sinks": siem, "clawhive_llm_adapters": model}
            return [Contribution("here", "here", found[hook])] if hook in found else []

    (tmp_path / "project").mkdir()
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}

    def hive():
        flags = {
            "policy.allow": ("net.connect:model.test", "secret.use:*", "tool.call:local.write")
        }
        return Hive.open(
            tmp_path / "project", env=env, flags=flags, plugins=lambda config, env: Plugins([])
        )

    return hive


def code(outcome):
    """Return why a call did nothing, whether its intent was written or not."""
    return outcome.error if isinstance(outcome, Refusal) else outcome.structured["error"]


def offer(hive, done):
    async def write(ctx):
        done.append("written")
        return "done"

    meta = ToolMeta("local.write", "Write.", OPEN, "local", risk="safe", side_effects=True)
    hive.tools.add(meta, write)


async def test_a_required_sink_that_fails_stops_effects_in_every_hive_until_it_is_back(
    opened, siem
):
    done = []
    siem.is_gone = True
    async with opened() as hive:
        offer(hive, done)
        codes = [code((await hive.call("local.write", {}))[1]) for _ in range(2)]
    assert codes == ["sink_failed", "sink_failed"]
    assert any("`siem` has not taken the events since #" in note for note in hive.notes)
    async with opened() as hive:
        offer(hive, done)
        _, third = await hive.call("local.write", {})
    assert (code(third), done) == ("sink_failed", [])

    siem.is_gone = False
    async with opened() as hive:
        offer(hive, done)
        _, fourth = await hive.call("local.write", {})
    assert (fourth.output, done) == ("done", ["written"])
    assert set(siem.seqs) == set(range(1, max(siem.seqs) + 1))
    assert {"sink.failed", "sink.recovered", "invocation.start"} <= set(siem.kinds)


async def test_no_request_leaves_for_a_host_that_a_required_sink_has_not_taken(opened, siem, model):
    siem.is_gone = True
    async with opened() as hive:
        failed = await hive.run("Hello?", model="far:any")
    assert (failed["error"]["code"], model.asked) == ("sink_failed", 0)
    siem.is_gone = False
    async with opened() as hive:
        run = await hive.run("Hello?", model="far:any")
    assert (run["output"], model.asked) == ("Hello.", 1)


def test_doctor_names_the_required_sink_that_stands_still(
    opened, siem, tmp_path, monkeypatch, capsys
):
    async def fail():
        async with opened() as hive:
            await hive.call("local.none", {})

    siem.is_gone = True
    anyio.run(fail)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with pytest.raises(SystemExit):
        main(["--root", str(tmp_path / "project"), "doctor", "--json"])
    checks = {each["name"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["sink siem"]["state"] == "problem"


CHILD = """
import sys
import anyio
from clawhive_core import Hive
from clawhive_core.plugins.contribution import Contribution
from clawhive_core.plugins.manager import PluginManager

class Siem:
    name, required = "siem", True

    async def write(self, events):
        print(events[0].seq, flush=True)
        await anyio.sleep_forever()

    async def close(self):
        pass

class Plugins(PluginManager):
    def contributions(self, hook):
        return [Contribution("here", "here", Siem())] if hook == "clawhive_audit_sinks" else []

async def main():
    root, home = sys.argv[1:]
    env = {"HOME": home, "XDG_CONFIG_HOME": f"{home}/config"}
    async with Hive.open(root, env=env, plugins=lambda config, env: Plugins([])) as hive:
        await hive.call("local.none", {})
        await anyio.sleep_forever()

anyio.run(main)
"""


async def test_what_a_killed_process_committed_reaches_a_required_sink_before_the_next_effect(
    opened, siem, tmp_path
):
    done = []
    async with opened() as hive:
        await hive.call("local.none", {})
    known = max(siem.seqs)
    words = [sys.executable, "-c", CHILD, str(tmp_path / "project"), str(tmp_path)]
    async with await anyio.open_process(words, stderr=None) as child:
        assert int(await child.stdout.receive()) > known
        child.kill()
    assert max(siem.seqs) == known
    async with opened() as hive:
        last = hive.log.tip()[0]
        offer(hive, done)
        await hive.call("local.write", {})
        assert set(siem.seqs) >= set(range(1, last + 1))
    assert done == ["written"]


async def test_what_no_hive_wrote_reaches_a_required_sink_and_what_it_has_is_not_sent_again(
    opened, siem
):
    async with opened() as hive:
        await hive.call("local.none", {})
    siem.seqs.clear()
    async with opened() as hive:
        pass
    assert siem.seqs == []
    async with opened() as hive:
        hive.approvals.log.append_now(Event("grant.revoked", {"grant_id": "g", "reason": "r"}))
        seq = hive.log.tip()[0]
    assert siem.kinds.count("grant.revoked") == 1
    siem.seqs.clear()
    async with opened() as hive:
        await hive.call("local.none", {})
    assert seq not in siem.seqs
