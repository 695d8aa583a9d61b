import ast
import re
from pathlib import Path

import pytest

import clawhive_core
from clawhive_core import errors
from clawhive_core.diagnostics.codes import all_codes, explain, nearest_code
from clawhive_core.model.refusal import CODES

PACKAGE = Path(clawhive_core.__file__).parent


def tree(error):
    yield error
    for child in error.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


def own_codes():
    """Every code that the package's own source gives to a finding or an error."""
    for file in PACKAGE.rglob("*.py"):
        if "data" in file.relative_to(PACKAGE).parts:
            continue  # templates, not code
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            is_code = isinstance(node, ast.keyword) and node.arg == "code"
            value = getattr(node.value if is_code else node, "value", None)
            if isinstance(value, str) and (is_code or re.fullmatch(r"CH\d{4}", value)):
                yield value


@pytest.mark.parametrize("error", sorted({error.code for error in tree(errors.ClawHiveError)}))
def test_every_error_is_explained(error):
    assert explain(error) is not None


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_refusal_is_explained(code):
    assert explain(code) is not None


def test_every_code_in_the_source_is_explained():
    assert [code for code in sorted(set(own_codes())) if explain(code) is None] == []


@pytest.mark.parametrize("code", all_codes())
def test_an_explanation_is_a_few_sentences_and_a_fix(code):
    found = explain(code)
    sentences = re.findall(r"[.;](?:\s|$)", found.text)
    assert 1 <= len(sentences) <= 5
    assert len(found.text) > 60
    assert found.title
    assert not found.title.endswith(".")
    assert found.fix.endswith(".")
    assert found.to_dict()["code"] == code


def test_no_code_is_explained_twice():
    from clawhive_core.diagnostics.contract_codes import CONTRACT_FINDINGS
    from clawhive_core.diagnostics.diff_codes import DIFF_FINDINGS
    from clawhive_core.diagnostics.error_codes import ERRORS
    from clawhive_core.diagnostics.export_codes import EXPORT_FINDINGS
    from clawhive_core.diagnostics.finding_codes import FINDINGS
    from clawhive_core.diagnostics.lock_codes import LOCK_FINDINGS
    from clawhive_core.diagnostics.model_codes import MODEL_ERRORS
    from clawhive_core.diagnostics.plugin_codes import PLUGIN_ERRORS, PLUGIN_FINDINGS
    from clawhive_core.diagnostics.refusal_codes import REFUSALS
    from clawhive_core.diagnostics.skill_codes import SKILL_FINDINGS
    from clawhive_core.diagnostics.text_codes import TEXT_FINDINGS
    from clawhive_core.diagnostics.tool_codes import TOOL_ERRORS

    skills = (SKILL_FINDINGS, EXPORT_FINDINGS, CONTRACT_FINDINGS, DIFF_FINDINGS, LOCK_FINDINGS)
    findings = (FINDINGS, PLUGIN_FINDINGS, TEXT_FINDINGS, *skills)
    groups = (ERRORS, PLUGIN_ERRORS, REFUSALS, TOOL_ERRORS, MODEL_ERRORS, *findings)
    every = [item.code for group in groups for item in group]
    assert len(every) == len(set(every)) == len(all_codes())


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
