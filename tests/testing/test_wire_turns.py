"""What a turn that is sent back is compared by: all that the answer said and a client carried."""

import json

import pytest

from clawhive_core.testing.wire_turns import Heard, continues, lack, says_failure

ANSWER = {
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig-1"},
        {"type": "text", "text": "I look.", "citations": None},
        {"type": "tool_use", "id": "call-1", "name": "look", "input": {"at": "door"}},
        {"type": "tool_use", "id": "call-2", "name": "look", "input": {"at": "wall"}},
    ]
}
TURN = ANSWER["content"]


def changed(block, **fields):
    return [{**each, **fields} if at == block else each for at, each in enumerate(TURN)]


def test_the_same_turn_lacks_nothing():
    assert lack(TURN, TURN, Heard(ANSWER)) is None


@pytest.mark.parametrize(
    "sent",
    [
        changed(0, signature="sig-2"),
        changed(0, signature=None),
        changed(1, text="I looked."),
        changed(2, id="call-9"),
        changed(2, input={}),
        changed(3, input={"at": "door"}),
        changed(1, type="thinking"),
        TURN[1:],
        TURN[:-1],
        [TURN[0], TURN[1], TURN[3], TURN[2]],
        [TURN[1], TURN[0], *TURN[2:]],
        [],
        None,
    ],
)
@pytest.mark.promise("P-243")
def test_what_the_client_carried_of_the_answer_must_be_carried(sent):
    assert lack(sent, TURN, Heard(ANSWER)) is not None


@pytest.mark.parametrize(
    "recorded",
    [
        TURN[1:],
        [{"type": "text", "text": "<think>Hm.</think>"}, *TURN[1:]],
        changed(2, id="made-by-the-client"),
        changed(2, input=json.dumps({"at": "door"})),
        changed(3, cache_control={"type": "ephemeral"}),
        changed(1, index=17, extra="the client's"),
        [{"type": "text", "text": " \n"}, *TURN],
    ],
)
@pytest.mark.promise("P-243")
def test_what_the_client_made_up_or_left_out_is_asked_of_nobody(recorded):
    assert lack(TURN, recorded, Heard(ANSWER)) is None


def test_what_nobody_said_may_not_be_sent():
    wrong = lack(changed(1, note="invented"), TURN, Heard(ANSWER))
    assert wrong == "`note`: 'invented' is sent, which nobody said"


def test_of_a_stream_the_pieces_count_together():
    events = [
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "I "}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "look."}},
        {"type": "content_block_start", "content_block": {"type": "tool_use", "id": "call-1"}},
        {"type": "content_block_delta", "delta": {"partial_json": '{"at": "do'}},
        {"type": "content_block_delta", "delta": {"partial_json": 'or"}{"at": "wall"}'}},
    ]
    heard = Heard("".join(f"data: {json.dumps(each)}\n\n" for each in events))
    assert lack(TURN[1:3], TURN[1:3], heard) is None
    for wrong in (changed(1, text="I loo"), changed(2, input={"at": "do"})):
        assert lack(wrong[1:3], TURN[1:3], heard) is not None


def test_a_value_that_was_said_of_something_else_is_the_clients_own():
    recorded = changed(2, namespace="look")
    assert lack(TURN, recorded, Heard(ANSWER)) is None


def test_a_request_goes_on_where_it_begins_with_the_same_history():
    first = {"messages": [{"role": "user", "content": "a"}]}
    said = {"role": "assistant", "content": "b"}
    assert continues({"messages": [*first["messages"], said]}, first)
    assert continues({"messages": [{"role": "system", "content": "s"}, *first["messages"]]}, first)
    marked = {"role": "user", "content": "a", "cache_control": {"type": "ephemeral"}}
    assert continues({"messages": [marked, said]}, first)
    assert not continues({"messages": [{"role": "user", "content": "z"}, said]}, first)
    assert not continues({"messages": []}, first)
    assert continues({"turns": []}, {"turns": [1]})
    assert continues({"input": ["a", said]}, {"input": "a"})


@pytest.mark.parametrize(
    ("response", "failed"),
    [
        ({"error": {"message": "no"}}, True),
        ({"error": None, "status": "completed"}, False),
        ({"status": "queued"}, True),
        ({"content": []}, False),
        ('data: {"type": "response.created", "response": {"status": "in_progress"}}\n\n', True),
        ('data: {"response": {"status": "in_progress"}}\n\ndata: {"a": 1}\n\ndata: {}\n\n', False),
        ('data: {"a": 1}\n\nevent: error\ndata: {"type": "error"}\n\n', True),
        ("data: no JSON\n\n", False),
    ],
)
def test_an_answer_may_say_that_it_failed(response, failed):
    assert says_failure(response) is failed
