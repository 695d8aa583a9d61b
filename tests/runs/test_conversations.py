"""A conversation that goes on: what is read, what is recorded, and that both say the same."""

import json

import pytest

from clawhive_core.model.messages import LlmMessage
from clawhive_core.runs import conversation
from clawhive_core.runs.conversation import Conversations, messages_of, running_digest
from clawhive_core.testing import memory_hive
from clawhive_core.testing.scripted import ScriptedModel, calling
from tests.harness import Provider, echo

LONG = "x" * 2000


def model(turns):
    answers = []
    for number in range(turns):
        answers += [calling("demo.say", {"n": number}), f"Answer {number} {LONG}"]
    return ScriptedModel(answers)


def opened(turns=12):
    provider = Provider().offer("demo.say", echo)
    return memory_hive(providers=[provider], adapters=[model(turns)])


async def say(hive, number, session="conv_1"):
    run = await hive.run(f"Prompt {number}", model="scripted:x", session=session)
    assert run["status"] == "succeeded", run["error"]
    return run["run_id"]


def texts(messages):
    return [message.content[0].text for message in messages if hasattr(message.content[0], "text")]


def starts(hive, run_id):
    return [each.event.body for each in hive.log.events(run_id=run_id, kinds=("model.start",))]


async def test_each_turn_records_what_is_new_and_every_reader_finds_all():
    async with opened() as hive:
        runs = [await say(hive, number) for number in range(6)]
        sent = hive.models.adapter("scripted:x")[0].requests
        for number, run_id in enumerate(runs):
            first, second = starts(hive, run_id)
            assert first["history"]["count"] == 4 * number + 1
            assert len(first["new"]) == 1
            assert len(second["new"]) == 2
        assert [len(request.messages) for request in sent] == [
            count for number in range(6) for count in (4 * number + 1, 4 * number + 3)
        ]
        known = hive._requests._conversations.before("conv_1")
        fresh = Conversations(hive.log).before("conv_1")
        assert known.messages == fresh.messages == messages_of(hive.log, runs[-1])
        assert known.answers == fresh.answers == 12
        assert known.digest.hexdigest() == fresh.digest.hexdigest()
        assert known.digest.hexdigest() == running_digest(known.messages).hexdigest()
        assert texts(known.messages)[::2] == [f"Prompt {number}" for number in range(6)]


async def test_a_turn_reads_the_last_run_only(monkeypatch):
    async with opened() as hive:
        read = []
        real = conversation._Run.read.__func__
        monkeypatch.setattr(
            conversation._Run,
            "read",
            classmethod(lambda cls, log, run_id: read.append(run_id) or real(cls, log, run_id)),
        )
        runs = [await say(hive, number) for number in range(5)]
        assert read == runs[:4]
        read.clear()
        Conversations(hive.log).before("conv_1")
        assert read == runs[::-1]


async def test_after_many_turns_one_records_all_again(monkeypatch):
    monkeypatch.setattr(conversation, "_FURTHEST", 3)
    async with opened() as hive:
        runs = [await say(hive, number) for number in range(9)]
        whole = [number for number, run in enumerate(runs) if len(starts(hive, run)[0]["new"]) > 1]
        assert whole == [4, 8]
        assert Conversations(hive.log).before("conv_1").answers == 18
        assert len(messages_of(hive.log, runs[-1])) == 36


async def test_a_run_in_a_conversation_is_replayed_alike_by_who_knows_it_and_who_does_not():
    async with opened() as hive:
        for number in range(3):
            await say(hive, number)
        assert (await hive.replay("last")).ok
        hive._requests._conversations._known.clear()
        await say(hive, 3)
        assert (await hive.replay("last")).ok


async def test_a_conversation_goes_on_after_another_process_had_a_turn():
    async with opened() as hive:
        await say(hive, 0)
        await say(hive, 1)
        known = dict(hive._requests._conversations._known)
        await say(hive, 2)
        hive._requests._conversations._known = known  # as if another process had had that turn
        run_id = await say(hive, 3)
        assert texts(messages_of(hive.log, run_id))[::2] == [f"Prompt {n}" for n in range(4)]


async def test_what_was_said_before_a_younger_run_is_not_pruned():
    async with opened() as hive:
        for number in range(3):
            await say(hive, number)
        await say(hive, 3, session="conv_2")
        (row,) = hive.log.read("SELECT max(ts) FROM events WHERE kind = 'run.end'")
        last = await say(hive, 4)
        hive.log.prune(row[0].replace("Z", "9Z"))
        assert len(messages_of(hive.log, last)) == 16
        assert texts(Conversations(hive.log).before("conv_1").messages)[0] == "Prompt 0"


async def test_a_conversation_recorded_whole_at_each_turn_goes_on(monkeypatch):
    """As versions before recorded it."""
    monkeypatch.setattr(conversation.Transcript, "history", lambda _: None)
    async with opened() as hive:
        for number in range(3):
            run_id = await say(hive, number)
        assert len(starts(hive, run_id)[0]["new"]) == 9
        monkeypatch.undo()
        run_id = await say(hive, 3)
        assert len(starts(hive, run_id)[0]["new"]) == 1
        assert len(messages_of(hive.log, run_id)) == 16
        assert Conversations(hive.log).before("conv_1").answers == 8


def test_nothing_was_said_in_a_conversation_of_nobody():
    assert Conversations(None).before(None).history() is None


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_running_digest_goes_on_as_if_it_had_begun_anew(count):
    messages = [LlmMessage.text("user", json.dumps(number)) for number in range(4)]
    part = running_digest(messages[:count])
    assert running_digest(messages[count:], part).digest() == running_digest(messages).digest()
