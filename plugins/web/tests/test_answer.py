"""`web.answer`: what of a model's answer its passages support."""

import pytest

from clawhive_web.answer import checked

PASSAGES = ["The tower is 41 metres tall.", "Tobias Wren's lamp was lit on 3 October 1874."]


def test_sentences_whose_passages_hold_their_names_and_numbers_are_kept():
    made = checked("The tower is 41 metres tall. [1]\n- Wren lit it in 1874 [2].", PASSAGES)
    assert made["dropped"] == []
    assert [each["cites"] for each in made["sentences"]] == [[1], [2]]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("The tower is tall.", "it cites no passage"),
        ("The tower is 41 metres tall [3].", "there is no passage 3"),
        ("The tower is 42 metres tall [1].", "its passages do not hold the number 42"),
        ("The tower is 41 metres tall [2].", "its passages do not hold the number 41"),
        ("The lamp of Edda Moore was lit [2].", "its passages do not hold the name Edda"),
    ],
)
def test_a_sentence_that_its_passages_do_not_support_is_dropped_with_the_reason(said, reason):
    made = checked(said, PASSAGES)
    assert made["sentences"] == []
    assert made["dropped"][0]["reason"] == reason


def test_an_answer_of_nothing_is_nothing():
    assert checked("\n [1] ...\n", PASSAGES) == {"sentences": [], "dropped": []}
