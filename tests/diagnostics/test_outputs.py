import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.diagnostics import Finding, Fix
from clawhive_core.diagnostics.reports import OUTPUTS, render
from clawhive_core.errors import UsageError

FOUND = [
    Finding("CH0902", "warning", "later", "b.toml", 9),
    Finding("CH0901", "error", "the key is unknown", "a.toml", 2, 5, fix=Fix("rename it")),
    Finding("CH0903", "note", "no place"),
]


def test_text_has_a_line_a_code_one_a_finding_its_fix_below_and_a_summary():
    assert render(FOUND, "text") == (
        "CH0901  1 error    Unknown configuration key\n"
        "CH0902  1 warning  A setting of an untrusted project was ignored\n"
        "CH0903  1 note     The list of trusted projects cannot be used\n"
        "note CH0903 no place\n"
        "a.toml:2:5: error CH0901 the key is unknown\n"
        "    fix: rename it\n"
        "b.toml:9: warning CH0902 later\n"
        "3 findings: 1 error, 1 warning, 1 note"
    )


def test_no_findings_are_said_to_be_none():
    assert render([], "text") == "no findings"


def test_equal_findings_are_written_once():
    assert render([FOUND[0], FOUND[0]]).endswith("1 finding: 1 warning")


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_no_text_of_a_file_steers_the_terminal(file, message, fix):
    text = render([Finding("CH0901", "error", message, file, 1, 1, fix=Fix(fix))])
    assert text.count("\n") == 2
    assert all(line.isprintable() for line in text.split("\n"))
    text.encode("utf-8")


@given(st.text(max_size=20), st.binary(max_size=8))
def test_json_reads_back_as_the_findings(message, name):
    file = name.decode("utf-8", "surrogateescape")
    finding = Finding("CH0901", "error", message, file, 1, 1)
    text = render([finding], "json")
    document = json.loads(text.encode("utf-8"))
    assert document["schema"] == "findings/1"
    assert document["summary"] == {"errors": 1, "warnings": 0, "notes": 0}
    assert document["findings"] == [finding.to_dict()]


def test_an_unknown_output_is_answered_with_the_known_ones():
    with pytest.raises(UsageError) as caught:
        render([], "jsn")
    assert (caught.value.code, caught.value.fix) == ("unknown_format", "use json")
    with pytest.raises(UsageError) as caught:
        render([], "?")
    assert all(name in caught.value.fix for name in OUTPUTS)
