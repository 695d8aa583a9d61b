"""SKILL.md: tolerant reading, whatever the file holds."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.skills.discovery.reading import read_skill, skill_text
from clawhive_core.skills.documents.text import read_skill_text
from tests.skills.corpus import CORPUS, needs_corpus


@pytest.fixture
def text(tmp_path):
    def read(data):
        file = tmp_path / "SKILL.md"
        file.write_bytes(data if isinstance(data, bytes) else data.encode())
        return read_skill_text(file)

    return read


def test_unknown_keys_are_kept(text):
    read = text("---\nname: a\ndescription: b\nhooks: {x: [1]}\n---\n# Body\n")
    assert read.values["hooks"] == {"x": [1]}
    assert read.body == "# Body\n"
    assert read.findings == ()


def test_a_dashed_line_inside_a_value_is_no_end(text):
    read = text('---\nname: a\ndescription: "one --- two"\n---\nbody\n---\nmore\n')
    assert read.values["description"] == "one --- two"
    assert read.body == "body\n---\nmore\n"


def test_windows_line_ends_a_byte_order_mark_and_blank_lines_are_read(text):
    read = text("\ufeff\r\n---\r\nname: a\r\ndescription: b\r\n---\r\nbody\r\n")
    assert (read.values, read.body) == ({"name": "a", "description": "b"}, "body\r\n")


def test_an_unquoted_colon_is_read_as_text_and_named(text):
    read = text("---\nname: a\ndescription: Use it: often\n---\n")
    assert read.values["description"] == "Use it: often"
    (finding,) = read.findings
    assert (finding.code, finding.severity, finding.line) == ("CH0225", "warning", 3)


@pytest.mark.parametrize(
    ("data", "code", "line"),
    [
        ("", "CH0221", 1),
        ("no frontmatter", "CH0221", 1),
        ("---\nname: a\n", "CH0222", 1),
        ("---\n- a\n---\n", "CH0228", 2),
        ("---\nname: [a\n---\n", "CH0224", 3),
        ("---\n\tname: a\n---\n", "CH0232", 2),
        (b"---\nname: \xff\n---\n", "CH0001", 2),
        ("---\na: " + "[" * 100_000 + "]" * 100_000 + "\n---\n", "CH0229", None),
        ("---\nname: a\0\n---\n", "CH0224", 2),
        (b"-" * (1024 * 1024 + 1), "CH0006", None),
    ],
)
def test_what_cannot_be_read_is_an_error_at_its_line(text, data, code, line):
    finding, *_ = text(data).findings
    assert (finding.code, finding.severity, finding.line) == (code, "error", line)


def test_aliases_that_multiply_are_refused_before_they_use_memory(text):
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{one}: &a{one} [{', '.join([f'*a{one - 1}'] * 10)}]" for one in range(1, 9)]
    read = text("---\n" + "\n".join(rows) + "\n---\n")
    assert [finding.code for finding in read.findings] == ["CH0229"]


def test_an_alias_to_itself_is_refused(text):
    assert [each.code for each in text("---\na: &a [*a]\n---\n").findings] == ["CH0229"]


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reading_raise(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("skill")
    folder.joinpath("SKILL.md").write_bytes(b"---\n" + data + b"\n---\nbody")
    folder.joinpath("clawhive.yaml").write_bytes(data)
    read_skill(folder, "test")


@needs_corpus
def test_no_real_skill_makes_the_reading_raise():
    with CORPUS.joinpath("manifest.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    read = [read_skill((CORPUS / row["file"]).parent, "corpus") for row in rows]
    valid = [each for each in read if each.is_valid]
    assert len(read) == len(rows) > 600
    assert len(valid) >= 0.94 * len(read)
    assert all(each.skill.description for each in valid)
    public = [each for each, row in zip(read, rows, strict=True) if row["ref_rs_valid"] == "1"]
    assert [each.skill.id for each in public if not each.is_valid] == []
    assert sum(bool(skill_text(each.skill)) for each in valid) > 0.9 * len(valid)
