"""YAML tags before values that they do not name: a finding with its place, never another error."""

import itertools

import pytest

from clawhive_core.skills.documents.document import Document
from clawhive_core.skills.documents.place import InvalidSkill

NAMES = (
    *("bool", "int", "float", "null", "str", "map", "seq", "timestamp", "binary", "set", "omap"),
    *("pairs", "merge", "value", "python/name:os.system", "python/object/apply:os.system", "foo"),
)
TAGS = ("!local", *(f"!!{name}" for name in NAMES))
VALUES = (
    *("maybe", '""', '"-"', '"0x"', "1:" * 300 + "1", "1:" * 300 + "1.0", '"é"', "~", "'0o9'"),
    *("2001-99-99", "0001-01-01T00:00:00+23:59", "2001-01-01T00:00:00+99:99", "9" * 5000),
    *("[a]", "{a: b}", "{=: x}", "{? [a] : b}", "{<<: x}", "&a [*a]", "&a {=: *a}", "[[a, b]]"),
    *("{? !!str {=: q} : r}", "{? !!bool maybe : b}", "{? !!str [a] : b}"),
)
CODES = {f"CH02{number}" for number in (24, 27, 29, 30, 31)}
FORMS = ("name: a\nlicense: {}\n", "? {}\n: x\n", "{}\n")


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_before_any_value_is_read_or_a_finding(tag):
    for value, form in itertools.product(VALUES, FORMS):
        text = form.format(f"{tag} {value}")
        found, document = [], None
        try:
            document = Document(text, "f")
            found = document.problems
        except InvalidSkill as error:
            found = [error.finding]
        assert {each.file for each in found} <= {"f"}, text
        assert {each.code for each in found} <= CODES, text
        if document is not None:
            document.place(("license", "a", 0))


@pytest.mark.parametrize(
    "value",
    ["!!bool maybe", '!!int ""', "!!float .", "!!timestamp x", "!!float " + "1:" * 300 + "1"],
)
def test_a_value_that_its_tag_does_not_name_is_told_with_its_place(value):
    with pytest.raises(InvalidSkill) as refused:
        Document(f"name: a\nlicense: {value}\n", "f")
    found = refused.value.finding
    assert (found.code, found.file, found.line, found.column) == ("CH0230", "f", 2, 10)
    tag = value.partition(" ")[0]
    assert f"`{tag}` stands before another value" in found.message


def test_a_tag_of_json_before_a_value_of_its_own_is_read():
    document = Document("a: !!bool yes\nb: !!int 12\nc: !!float 1.5\nd: !!str 12\n", "f")
    assert document.value == {"a": True, "b": 12, "c": 1.5, "d": "12"}
    assert not document.problems


@pytest.mark.parametrize("value", ["!!bool maybe", "!!timestamp x", "!!set {a}", "!!binary YQ=="])
def test_a_skill_with_such_a_value_is_told_and_ends_no_other(place, value):
    place.text("good", "name: good\ndescription: d")
    place.text("bad", f"name: bad\ndescription: d\nlicense: {value}")
    entries = place.own()
    assert entries["good"].state == "loaded"
    assert "bad" in entries
    codes = [each.code for each in place.findings() if "bad" in each.file]
    assert "CH0230" in codes
