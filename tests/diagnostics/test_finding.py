import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.diagnostics import Edit, Finding, Fix, count, sorted_findings
from clawhive_core.diagnostics.finding import sort_key

findings = st.builds(
    Finding,
    st.sampled_from(["CH0901", "CH0902"]),
    st.sampled_from(["error", "warning", "note"]),
    st.text(max_size=5),
    st.none() | st.sampled_from(["a", "b"]),
    st.none() | st.integers(1, 3),
    st.none() | st.integers(1, 3),
)


def test_a_finding_is_json_of_exactly_the_promised_keys():
    finding = Finding(
        "CH0901",
        "warning",
        "the key is unknown",
        file="clawhive.toml",
        line=2,
        column=1,
        end_line=2,
        end_column=5,
        fix=Fix("rename it", (Edit(4, 8, "mode"),)),
        url="https://example.com/CH0901",
    )
    assert finding.to_dict() == {
        "code": "CH0901",
        "severity": "warning",
        "message": "the key is unknown",
        "file": "clawhive.toml",
        "line": 2,
        "column": 1,
        "end_line": 2,
        "end_column": 5,
        "fix": {"title": "rename it", "edits": [{"start": 4, "end": 8, "text": "mode"}]},
        "url": "https://example.com/CH0901",
    }


def test_a_finding_without_place_and_fix_has_nulls():
    found = Finding("CH0901", "note", "m").to_dict()
    assert [found[key] for key in ("file", "line", "column", "fix", "url")] == [None] * 5


@pytest.mark.parametrize(
    ("finding", "place"),
    [
        (Finding("C", "note", "m"), None),
        (Finding("C", "note", "m", line=3), None),
        (Finding("C", "note", "m", "f"), "f"),
        (Finding("C", "note", "m", "f", 3), "f:3"),
        (Finding("C", "note", "m", "f", 3, 4), "f:3:4"),
        (Finding("C", "note", "m", "f", None, 4), "f"),
    ],
)
def test_a_place_is_as_exact_as_what_is_known(finding, place):
    assert finding.place == place


@given(st.lists(findings, max_size=8))
def test_findings_are_sorted_by_place_and_each_once(some):
    ordered = sorted_findings(some + some)
    assert ordered == sorted(set(some), key=sort_key)
    assert [sort_key(one) for one in ordered] == sorted(sort_key(one) for one in set(some))


@given(st.lists(findings, max_size=8))
def test_every_finding_is_counted_under_its_severity(some):
    assert sum(count(some).values()) == len(some)
    assert count(some)["errors"] == len([one for one in some if one.severity == "error"])
