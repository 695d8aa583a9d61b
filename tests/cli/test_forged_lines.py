"""Bytes of stdout and stderr, with what outsiders write in every field: no line passes for ours."""

import json
import re
from xml.etree import ElementTree as ET

import pytest

from clawhive_core.cli import output
from clawhive_core.cli.output import OthersText, print_error, say
from clawhive_core.diagnostics.finding import Finding, Fix
from clawhive_core.diagnostics.reports import OUTPUTS, render
from clawhive_core.errors import ClawHiveError
from clawhive_core.model.texts import OURS, printable, printable_json

PLAIN = "ä漢😀"
"""Ordinary text, which must come out as it is."""
PLANTED = ("error[forged]: x", "  fix: forged", "::error::forged", "refused: forged")
STEERS = (
    "\x1b[2J\r\x07\x9b31m\x85\x7f\u2028\u2029\u202e\u2066\u061c\u200b\u200c\u200d\u2060\ufeff"
    "\u3164\U000e0041\U000e0101"
)
HOSTILE = PLAIN + STEERS + "".join(f"\n{line}" for line in PLANTED)
OPENING = f"error[forged]: {PLAIN}"
"""One line, for fields that may stand at a line's begin."""
RAW = re.compile(
    f"[\x00-\x08\x0b-\x1f\x80-\x9f{re.escape(STEERS.replace('[2J', '').replace('31m', ''))}]"
)
FORGED = re.compile(r"\s*(error\[forged|fix: forged|::error::forged|refused: forged)")


def quoted(text):
    """Return a text as YAML and TOML both read it."""
    return f'"{"".join(c if c.isprintable() else f"{chr(92)}U{ord(c):08x}" for c in text)}"'


def clean(done, *, plain=True, out=True):
    for name, text in (("out", done.out if out else ""), ("err", done.err)):
        assert not (found := RAW.search(text)), (name, ascii(found[0]), ascii(text))
        forged = [line for line in text.split("\n") if FORGED.match(line)]
        assert not forged, (name, forged, text)
    if plain:
        assert PLAIN in done.out + done.err, done


@pytest.mark.parametrize("char", STEERS.replace("[2J", "").replace("31m", "") + "\n")
def test_each_character_that_steers_turns_or_hides_is_escaped(char):
    assert RAW.search(char) or char == "\n"
    assert printable(f"{PLAIN}{char}{PLAIN}") == f"{PLAIN}{ascii(char)[1:-1]}{PLAIN}"
    text = json.dumps({"a": f"{PLAIN}{char}"}, ensure_ascii=False)
    assert not RAW.search(printable_json(text))
    assert json.loads(printable_json(text)) == {"a": f"{PLAIN}{char}"}


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "👩\u200d💻",
        "❤\ufe0f\u200d🔥",
        "\u0645\u06cc\u200c\u062e\u0648",
        "1\ufe0f\u20e3",
        "☀\ufe0f",
        "e\u0301",
    ],
)
def test_ordinary_text_stays_as_it_is(text):
    assert printable(text) == text
    assert json.loads(printable_json(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize("line", [*PLANTED, "Error: x", "error CH0001 x", "Approve?", "Note: x"])
def test_what_clawhive_says_itself_is_known_by_its_begin(line):
    assert OURS.match(line)


@pytest.mark.parametrize(
    "line", ["An error: x", "Notes", "fixed: x", "Errors happen", "- error: x"]
)
def test_prose_is_not_marked(line):
    assert not OURS.match(line)


SKILLS = [
    ("skills", "list"),
    ("skills", "list", "--json"),
    ("skills", "check"),
    ("skills", "check", "--json"),
    *(("skills", "check", "--format", form) for form in OUTPUTS),
    ("skills", "graph"),
    ("skills", "graph", "--format", "dot"),
    ("skills", "graph", "--format", "mermaid"),
    ("skills", "lock"),
    ("tools", "list", "-v"),
    ("run", "x", "--model", "scripted:demo"),
    ("doctor",),
]


def folder(clawhive, value):
    path = clawhive.root / "skills" / value.replace("/", "-")[:80]
    path.mkdir(parents=True)
    path.joinpath("SKILL.md").write_text("---\nname: [\n---\n", "utf-8")


def front(clawhive, value):
    path = clawhive.root / "skills" / "some"
    path.mkdir(parents=True)
    text = quoted(value)
    fields = f"description: {text}\nlicense: {text}\ncompatibility: {text}\n"
    path.joinpath("SKILL.md").write_text(f"---\nname: some\n{fields}---\n{value}\n", "utf-8")
    other = clawhive.root / "skills" / "other"
    other.mkdir()
    fields += f"name: {text}\nallowed-tools: {text}\nmetadata: {{{text}: {text}}}\n{text}: {text}\n"
    other.joinpath("SKILL.md").write_text(f"---\n{fields}---\n{value}\n", "utf-8")


def contract(clawhive, value):
    path = clawhive.root / "skills" / "some"
    path.mkdir(parents=True)
    text = quoted(value)
    path.joinpath("clawhive.yaml").write_text(f"description: {text}\n", "utf-8")
    other = clawhive.root / "skills" / "other"
    other.mkdir()
    other.joinpath("clawhive.yaml").write_text(
        f"description: {text}\nversion: {text}\napi_version: {text}\nrequired_tools: [{text}]\n"
        f"permissions: [{text}]\nimports: [{{skill: {text}, tools: [{text}]}}]\n"
        f"tasks:\n  {text}: {{steps: [{{name: {text}, tool: {text}}}]}}\n{text}: 1\n",
        "utf-8",
    )


@pytest.mark.promise("P-249")
@pytest.mark.parametrize("value", [HOSTILE, OPENING], ids=["hostile", "opening"])
@pytest.mark.parametrize("plant", [folder, front, contract])
def test_no_skill_forges_a_line(clawhive, plant, value):
    plant(clawhive, value)
    plains = 0
    for words in (*SKILLS, ("skills", "show", "some"), ("skills", "why", "some")):
        done = clawhive(*words)
        clean(done, plain=False)
        plains += PLAIN in done.out + done.err
    assert plains > 1


PLUGIN = """
from clawhive_core import tool

@tool(description={value})
def echo(text: str) -> str:
    return text

@tool
def crash(text: str) -> str:
    "Raise."
    raise ValueError(text)

@tool
def tell(text: str) -> dict:
    "Answer fields."
    return {{text: text, "error": text}}
"""


@pytest.mark.promise("P-249")
@pytest.mark.parametrize("value", [HOSTILE, OPENING], ids=["hostile", "opening"])
def test_no_tool_forges_a_line(clawhive, site, value):
    site.plugin("bad", PLUGIN.format(value=repr(value)))
    for words in (
        ("tools", "list"),
        ("tools", "show", "bad.echo"),
        ("tools", "show", "bad.echo", "--json"),
        ("tools", "list", "--json"),
        ("plugins", "-v"),
    ):
        clean(clawhive(*words), plain=words[0] == "tools")
    given = json.dumps({"text": value})
    for tool in ("bad.crash", "bad.tell", "bad.echo"):
        done = clawhive("tools", "call", tool, "--args", given)
        clean(done, plain=tool == "bad.crash", out=tool == "bad.crash")
        clean(clawhive("tools", "call", tool, "--args", given, "--json"))
        for words in (("runs", "show", "last"), ("audit", "tail"), ("audit", "tail", "--jsonl")):
            clean(clawhive(*words), plain=False)


@pytest.mark.promise("P-249")
@pytest.mark.parametrize("value", [HOSTILE, OPENING], ids=["hostile", "opening"])
def test_no_plugin_forges_a_line(clawhive, site, value):
    site.plugin("bad", f"raise RuntimeError({value!r})", manifest="")
    package = site.plugin("worse", "", manifest=f"id = {quoted(value)}\n")
    package.joinpath("clawhive-plugin.toml").write_text(
        f"{quoted(value)} = {quoted(value)}\n", "utf-8"
    )
    for words in (("plugins",), ("plugins", "-v"), ("plugins", "check", "worse"), ("doctor",)):
        clean(clawhive(*words), plain=False)


@pytest.mark.promise("P-249")
@pytest.mark.parametrize("value", [HOSTILE, OPENING], ids=["hostile", "opening"])
def test_no_model_forges_a_line(clawhive, monkeypatch, value):
    clawhive.root.joinpath("s.json").write_text(
        json.dumps(
            [
                {"tool_calls": [{"name": "file.read", "input": {"path": value}}]},
                {"tool_calls": [{"name": value, "input": {value: value}}]},
                value,
            ]
        ),
        "utf-8",
    )
    words = ("run", value, "--model", "scripted:s.json")
    clean(clawhive(*words), plain=False, out=False)
    clean(clawhive(*words, "--json"))
    for told in (
        ("runs", "list"),
        ("runs", "show", "last"),
        ("runs", "show", "last", "--json"),
        ("audit", "tail", "-n", "99"),
        ("audit", "tail", "--jsonl", "-n", "99"),
        ("audit", "query"),
        ("audit", "query", "--json"),
    ):
        clean(clawhive(*told))
    monkeypatch.setattr(output, "is_terminal", lambda *_: True)
    monkeypatch.setenv("NO_COLOR", "1")
    clean(clawhive(*words))


@pytest.mark.promise("P-249")
@pytest.mark.parametrize("value", [HOSTILE, OPENING], ids=["hostile", "opening"])
def test_no_file_and_no_proposal_forges_a_line(clawhive, value):
    name = value[:80].replace("/", "-")
    clawhive.root.joinpath(name).write_text(f"{value}\ntwo\n", "utf-8")
    inputs = {"path": name, "find": "two", "replace": value}
    given = [word for key, each in inputs.items() for word in ("--input", f"{key}={each}")]
    assert clawhive("run", "--task", "edit_docs", *given).code == 3
    for words in (
        ("approvals", "list"),
        ("approvals", "show", "last"),
        ("approvals", "show", "last", "--json"),
        ("runs", "show", "last"),
        ("approvals", "deny", "last", "--reason", value),
        ("approvals", "show", "last"),
        ("runs", "resume", "last"),
        ("runs", "show", "last"),
    ):
        clean(clawhive(*words), plain=words[1] == "show")


@pytest.mark.promise("P-249")
@pytest.mark.parametrize("value", [HOSTILE, OPENING], ids=["hostile", "opening"])
@pytest.mark.parametrize(
    "written",
    [
        "model = {0}\n",
        "{0} = 1\n",
        "[policy]\nallow = [{0}]\n",
        "[policy]\ndeny = [{0}]\n",
        "[agents.{0}]\nprompt = {0}\n",
        "[tools.{0}]\nurl = {0}\n",
        "[run]\napprove = {0}\n",
        "# {1}\nx = \n",
    ],
)
def test_no_configuration_forges_a_line(clawhive, written, value):
    text = written.format(quoted(value), value.split("\n")[0].replace("\x7f", ""))
    clawhive.root.joinpath("clawhive.toml").write_text(text, "utf-8")
    for words in (
        ("config", "show", "--origin"),
        ("config", "show", "--json"),
        ("policy", "show"),
        ("trust", "--yes"),
        ("config", "show", "--origin"),
        ("run", "x", "--model", "scripted:demo"),
        ("tools", "list"),
        ("doctor",),
    ):
        clean(clawhive(*words), plain=False)


@pytest.mark.promise("P-249")
@pytest.mark.parametrize("value", [HOSTILE, OPENING], ids=["hostile", "opening"])
@pytest.mark.parametrize("name", ["CLAWHIVE_MODEL", "CLAWHIVE_RUN_APPROVE", "CLAWHIVE_POLICY_DENY"])
def test_no_variable_forges_a_line(clawhive, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    for words in (("config", "show", "--origin"), ("run", "x"), ("doctor",)):
        clean(clawhive(*words), plain=False)


@pytest.mark.promise("P-249")
@pytest.mark.parametrize("value", [HOSTILE, OPENING], ids=["hostile", "opening"])
@pytest.mark.parametrize(
    "words",
    [
        ("{}",),
        ("run", "--{}"),
        ("run", "x", "--model", "{}"),
        ("run", "--task", "{}"),
        ("runs", "show", "{}"),
        ("approvals", "show", "{}"),
        ("tools", "show", "{}"),
        ("tools", "call", "{}"),
        ("tools", "call", "file.read", "--args", "{}"),
        ("skills", "show", "{}"),
        ("skills", "check", "{}"),
        ("skills", "check", "--format", "{}"),
        ("skills", "new", "{}"),
        ("config", "show", "{}"),
        ("explain", "{}"),
        ("grants", "issue", "{}"),
        ("audit", "query", "--kind", "{}"),
        ("subscriptions", "add", "{}", "{}"),
    ],
)
def test_no_argument_forges_a_line(clawhive, words, value):
    given = [word.replace("{}", value) for word in words]
    done = clawhive(*given)
    clean(done, plain=False)
    assert done.code in {1, 2} or words[0] == "audit"
    clean(clawhive(*given, "--json"), plain=False)


@pytest.mark.parametrize("value", [HOSTILE, OPENING, f"%0A{PLANTED[2]}"])
@pytest.mark.parametrize("form", OUTPUTS)
def test_no_finding_forges_a_line_of_a_report(form, value):
    one = Finding(value, "error", value, file=value, line=1, fix=Fix(value))
    text = render(
        [one, Finding("CH0001", "warning", value), Finding("CH0001", "note", value)], form
    )
    assert not RAW.search(text)
    assert not [line for line in text.split("\n") if FORGED.match(line)]
    if form == "junit":
        assert PLAIN in text or PLAIN not in value
        assert ET.fromstring(text).get("failures") == "1"
    elif form == "github":
        assert len([line for line in text.split("\n") if line.startswith("::")]) == 3
        assert "%0A" not in text
    elif form != "text":
        assert json.loads(text)


def test_an_error_of_many_lines_is_one_head_and_marked_lines(capsys):
    print_error(ClawHiveError(HOSTILE, code="c", place=HOSTILE, fix=HOSTILE), as_json=False)
    lines = capsys.readouterr().err.split("\n")
    assert lines[0].startswith(f"error[c]: {PLAIN}")
    assert [line for line in lines if line.startswith("  fix: ")] == [
        f"  fix: {printable(PLAIN + STEERS)}"
    ]
    assert lines[1:5] == [f"  | {line}" for line in PLANTED]


@pytest.mark.parametrize("size", [1, 2, 7, 500])
def test_a_text_in_pieces_is_marked_like_a_whole_one(capsys, size):
    text = f"Hello\n{HOSTILE}\n   error [x]\nend"
    for err in (False, True):
        shown = OthersText(err=err)
        for at in range(0, len(text), size):
            shown.write(text[at : at + size])
        shown.close()
        printed = capsys.readouterr()
        lines = (printed.err if err else printed.out).split("\n")
        marked = [line.startswith("  | ") for line in lines]
        assert marked == ([True] * 8 if err else [False, False, *[True] * 5, False])


def test_a_line_of_ours_never_continues_one_of_others_and_none_of_theirs_begins_unmarked(capsys):
    shown = OthersText(err=True)
    shown.write("half")
    say("note: ours", err=True)
    shown.write("error[forged]: x")
    shown.close()
    assert capsys.readouterr().err == "  | half\nnote: ours\n  | error[forged]: x"
