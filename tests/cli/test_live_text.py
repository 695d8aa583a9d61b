"""A model's answer on a terminal, as it comes."""

from clawhive_core.cli.progress import LiveText, ProgressLine


def test_what_was_printed_last_is_not_printed_again(capsys):
    live = LiveText(ProgressLine(shown=False))
    live.take("r0", "I will look.")
    live.take("r1", "Hello ")
    live.take("r1", "you.")
    assert live.ended("Hello you.")
    assert capsys.readouterr().out == "I will look.\nHello you.\n"


def test_another_output_than_what_was_printed_is_still_to_be_printed():
    live = LiveText(ProgressLine(shown=False))
    live.take("r0", "Half")
    assert not live.ended("Whole")


def test_an_answer_that_begins_anew_says_so(capsys):
    live = LiveText(ProgressLine(shown=False))
    live.again("nothing was printed yet")
    live.take("r0", "Hal")
    live.again("the connection broke")
    live.take("r0", "Hello.")
    assert live.ended("Hello.")
    printed = capsys.readouterr()
    assert printed.out == "Hal\nHello.\n"
    assert printed.err == "  (the answer broke off and begins anew: the connection broke)\n"


def test_a_models_text_cannot_steer_the_terminal(capsys):
    live = LiveText(ProgressLine(shown=False))
    live.take("r0", "\x1b[2J\tred\n")
    live.ended("")
    assert capsys.readouterr().out == "\\x1b[2J\tred\n"
