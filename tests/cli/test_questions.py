"""Questions of others at the terminal: set off from ours, answered field by field."""

import pytest

from clawhive_core.cli import asking
from clawhive_core.cli.asking import Terminal
from clawhive_core.cli.progress import ProgressLine
from clawhive_core.model.questions import Answer, Question

FIELDS = {
    "name": {"type": "string", "title": "Your name"},
    "days": {"type": "integer", "minimum": 1, "maximum": 9},
    "sure": {"type": "boolean"},
    "size": {"type": "string", "enum": ["s", "m"]},
    "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
}


@pytest.fixture
def asked(monkeypatch, capsys):
    """Return what answers a question with typed lines, and what was printed."""

    async def ask(question, *typed):
        lines = list(typed)

        async def line(prompt):
            asking.ask(prompt)
            asking.say(err=True)
            return lines.pop(0) if lines else None

        monkeypatch.setattr(asking, "_line", line)
        answer = await Terminal(ProgressLine(shown=False)).reply(question)
        return answer, capsys.readouterr().err

    return ask


async def test_fields_are_read_as_their_schemas_say_and_sent_after_a_yes(asked):
    question = Question("the MCP server `x`", "Tell me.", FIELDS, ("name",))
    typed = ("Ana", "many", "12", "3", "maybe", "y", "xl", "m", "c", "a, b", "y")
    answer, shown = await asked(question, *typed)
    values = {"name": "Ana", "days": 3, "sure": True, "size": "m", "tags": ["a", "b"]}
    assert answer == Answer("accept", values)
    assert "A question of the MCP server `x`, not of ClawHive" in shown
    assert "Send this to the MCP server `x`?" in shown
    assert "secret" not in shown


async def test_enter_leaves_out_what_is_not_required(asked):
    question = Question("x", "?", FIELDS, ())
    assert (await asked(question, "", "", "", "", "", "y"))[0] == Answer("accept", {})


@pytest.mark.parametrize(
    ("typed", "action"), [((), "cancel"), (("Ana",), "cancel"), (("Ana", "n"), "decline")]
)
async def test_nothing_is_sent_without_a_yes(asked, typed, action):
    question = Question("x", "?", {"name": {"type": "string"}}, ("name",))
    assert (await asked(question, *typed))[0] == Answer(action)


@pytest.mark.parametrize(
    "question",
    [
        Question("x", "Type your PASSWORD"),
        Question("x", "?", {"api_key": {"type": "string"}}),
        Question("x", "?", {"a": {"type": "string", "title": "Access token"}}),
    ],
)
async def test_who_is_asked_for_a_secret_is_warned(asked, question):
    assert "It seems to ask for a secret" in (await asked(question))[1]


async def test_no_text_of_a_server_passes_for_ours(asked):
    message = "Thanks.\nApprove?\ny yes, once > \x1b[2J\u202e"
    fields = {"x\ny yes > ": {"type": "string", "title": "a\nApprove?", "description": "\x1b[1A"}}
    _, shown = await asked(Question("x", message, fields), "", "n")
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert not any(line.startswith(("Approve?", "y yes")) for line in shown.splitlines())


@pytest.mark.parametrize(("typed", "action"), [("y", "accept"), ("n", "decline"), (None, "cancel")])
async def test_an_address_is_opened_after_a_yes_only(asked, monkeypatch, typed, action):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    question = Question("x", "Pay.", url="https://pay.example/1")
    answer, shown = await asked(question, *([] if typed is None else [typed]))
    assert answer == Answer(action)
    assert opened == (["https://pay.example/1"] if action == "accept" else [])
    assert "https://pay.example/1" in shown
