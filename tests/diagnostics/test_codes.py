import ast
import re
import tomllib
from pathlib import Path

import pytest

import clawhive_core
from clawhive_core import errors
from clawhive_core.diagnostics.codes import all_codes, explain, nearest_code, registry
from clawhive_core.model.refusal import CODES
from tests import sources

PACKAGE = Path(clawhive_core.__file__).parent
ROOT = PACKAGE.parent
FILE = PACKAGE / "data" / "codes.toml"


def tree(error):
    yield error
    for child in error.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


MADE = {f"model_{reason}" for reason in ("content_filter", "max_tokens", "refusal")}
"""Codes that `runs/responses.py` puts together from the reason why a model stopped."""


def own_codes():
    """Every code that the source gives to a finding or an error."""
    for file in (*sources.core(), *sources.plugins()):
        for node in sources.nodes(file):
            is_code = isinstance(node, ast.keyword) and node.arg == "code"
            value = getattr(node.value if is_code else node, "value", None)
            if isinstance(value, str) and (is_code or re.fullmatch(r"CH\d{4}", value)):
                yield value
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in GIVERS:
                yield from first_text(node)


GIVERS = {"refuse", "Refusal", "model_failure", "Unusable"}
"""What takes a code as its first text."""


def first_text(call):
    texts = [each.value for each in call.args if isinstance(each, ast.Constant)]
    return [each for each in texts if isinstance(each, str)][:1]


def texts():
    """Every text of the source, but for the table of reasons, which raises nothing."""
    for file in (*sources.core(), *sources.plugins(), *sources.skills()):
        if file != PACKAGE / "model" / "refusal.py":
            nodes = sources.nodes(file)
            yield from (node.value for node in nodes if isinstance(node, ast.Constant))


def test_every_error_and_refusal_is_explained():
    codes = {*CODES, *(error.code for error in tree(errors.ClawHiveError))}
    assert [code for code in sorted(codes) if explain(code) is None] == []


def test_every_code_in_the_source_is_explained():
    assert [code for code in sorted(set(own_codes())) if explain(code) is None] == []


def test_an_explanation_is_a_few_sentences_and_a_fix():
    assert [code for code in all_codes() if not is_written_well(code)] == []


def is_written_well(code):
    found = explain(code)
    sentences = re.findall(r"[.;](?:\s|$)", found.text)
    title = found.title and not found.title.endswith(".")
    text = 1 <= len(sentences) <= 5 and len(found.text) > 60 and found.fix.endswith(".")
    return title and text and found.to_dict()["code"] == code


def test_a_code_is_raised_somewhere_or_reserved():
    named = {*texts(), *MADE}
    assert [code for code in all_codes() if code not in named and not explain(code).reserved] == []


def test_a_reserved_code_waits_for_a_part_of_the_work_that_is_planned():
    page = ROOT.joinpath("docs", "reference", "requirements.md").read_text("utf-8")
    planned = re.findall(r"\*\*planned\*\*: (\w+) \|", page)
    assert {each.reserved for each in registry().values()} <= {*planned, None}


def test_the_file_is_sorted_and_reads_the_same_as_a_whole():
    whole = tomllib.loads(FILE.read_text("utf-8"))
    assert list(whole) == sorted(whole, key=lambda code: (code.startswith("CH"), code))
    assert {*whole} == {*all_codes()}
    for code, table in whole.items():
        found = explain(code)
        assert {*table} <= {"title", "text", "fix", "reserved"}
        assert found.text.split() == table["text"].split()
        assert found.reserved == table.get("reserved")


def test_codes_have_one_of_the_known_forms():
    mcp = {"ProviderClosed", "Timeout", "ConnectionError", "ToolNotFound"}
    plain = [code for code in all_codes() if code not in mcp]
    assert [code for code in plain if not re.fullmatch(r"CH\d{4}|[a-z]+(_[a-z]+)*", code)] == []


def test_a_code_is_found_whatever_its_case():
    assert explain("ch0901") == explain("CH0901")
    assert explain(" DENIED ") == explain("denied")


def test_the_two_timeouts_stay_apart():
    assert explain("Timeout").code == "Timeout"
    assert explain("timeout").code == "timeout"
    assert explain("TIMEOUT").code == "timeout"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("tool_not_enable", "tool_not_enabled"),
        ("cho901", "CH0901"),
        ("ratelimited", "rate_limited"),
    ],
)
def test_an_unknown_code_is_answered_with_the_nearest(typed, meant):
    assert explain(typed) is None
    assert nearest_code(typed) == meant


@pytest.mark.parametrize("typed", ["", "zzzzzz", "x" * 100_000])
def test_nonsense_is_not_answered_with_a_guess(typed):
    assert explain(typed) is None
    assert nearest_code(typed) is None
