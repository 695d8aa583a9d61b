"""Whatever a file of a skill holds: an answer, never a traceback, and the same one in any order."""

import json
import random
import shutil
from pathlib import Path

import pytest

from clawhive_core.cli import main
from clawhive_core.skills.load import load_skills
from clawhive_core.skills.report import SkillReport
from tests.skills.corpus import needs_corpus, real_files

SEED = 20261122
PROFILES = ("lenient", "strict", "portable")


@pytest.fixture
def check(place, monkeypatch, capfd):
    """Run `clawhive skills check` as its entry point does, and return its output."""
    monkeypatch.setenv("HOME", str(place.home))
    monkeypatch.setenv("COLUMNS", "100")

    def run(*words):
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["skills", "check", *map(str, words)])
        out, err = capfd.readouterr()
        assert ended.value.code in {0, 1}, err
        assert "Traceback" not in out + err
        assert "internal" not in err
        return out

    return run


def without_time(out):
    found = json.loads(out)
    found["summary"].pop("seconds")
    return found


@needs_corpus
@pytest.mark.promise("P-229")
@pytest.mark.parametrize("profile", PROFILES)
def test_real_skills_are_answered_byte_by_byte_alike_in_any_order(place, check, profile):
    folders = [file.parent for file in real_files()]
    assert len(folders) > 600
    texts = set()
    for seed in range(2):
        random.Random(f"{SEED}/{seed}").shuffle(folders)
        texts.add(check("--profile", profile, *folders))
    (text,) = texts
    assert text.count("CH0") > 50


@needs_corpus
@pytest.mark.promise("P-229")
def test_the_json_of_real_skills_is_alike_in_any_order(check):
    folders = [file.parent for file in real_files()]
    first = without_time(check("--json", *folders))
    random.Random(SEED).shuffle(folders)
    assert without_time(check("--json", *folders)) == first
    assert len(first["findings"]) > 50


@needs_corpus
def test_mending_real_skills_is_done_at_once_and_leaves_no_new_error(place, check):
    for number, file in enumerate(real_files()[::3]):
        shutil.copytree(file.parent, place.root / "all" / str(number) / file.parent.name)
    before = without_time(check("--profile", "portable", "--json", "all"))["summary"]
    for _ in range(4):
        after = without_time(check("--profile", "portable", "--json", "--fix", "all"))["summary"]
        if not after["fixed"]:
            break
    assert after["fixed"] == 0
    assert after["errors"] < before["errors"]


PIECES = (
    *("---\n", "\n---", "\t", "\x00", "\x1b[31m", "\r", "\u2028", "\u202e", "\ufeff", "&a ", "*a "),
    *("!!python/object:os.system ", "{", "[", "]", "}", "'", '"', "|\n", ">\n", "? ", "- ", ": "),
    *(
        "#",
        "%YAML 9\n",
        "<<: *a\n",
        "name: \n",
        "description:",
        "exports:\n",
        "metadata: {clawhive: ",
    ),
    *("imports: [{from: ", "é", "\U0001f600", "\U000e0041", "1.0", "yes", "null", "~", "=", "0o7"),
)


def broken(rnd, data):
    """Return bytes with a few of them changed, cut, doubled, or pieces put in."""
    data = bytearray(data[:20_000])
    for _ in range(rnd.randint(1, 6)):
        near = len(data) if rnd.random() < 0.2 else min(len(data), 600)  # where the YAML is
        at = rnd.randrange(near + 1)
        kind = rnd.randrange(5)
        if kind == 0 and at < len(data):
            data[at] = rnd.randrange(256)
        elif kind == 1:
            del data[at : at + rnd.choice((1, 1, 2, 40))]
        elif kind == 2:
            data[at:at] = data[at : at + rnd.choice((1, 20, 300))]
        else:
            data[at:at] = rnd.choice(PIECES).encode()
    return bytes(data)


def sources():
    shipped = Path(__file__).parents[2] / "skills"
    files = [*shipped.glob("*/SKILL.md"), *shipped.glob("*/clawhive.yaml")]
    return sorted(files) + real_files()[::20]


@pytest.mark.promise("P-229")
def test_files_with_random_changes_are_answered_and_mended_without_a_crash(place):
    """Hundreds of broken files, all profiles; a crash names the seed of its file."""
    from clawhive_core.skills.fixing.files import fix_files

    files = sources()
    for number in range(300):
        rnd = random.Random(f"{SEED}/{number}")
        file = rnd.choice(files)
        folder = place.root / "skills" / f"s{number}"
        folder.mkdir(parents=True)
        folder.joinpath(file.name).write_bytes(broken(rnd, file.read_bytes()))
        if rnd.random() < 0.2:
            folder.joinpath("handlers.py").write_bytes(broken(rnd, b"def a(input, ctx): ...\n"))
    config = place.config()
    for profile in PROFILES:
        load = lambda: load_skills(config, env=place.env, paths=[place.root / "skills"])  # noqa: E731
        report = SkillReport.of(load, profile)
        assert len(report.skills.entries) == 300
        assert [each.code for each in report.findings if each.line == 0 or each.column == 0] == []
        json.dumps(report.to_dict()).encode()  # nothing that is no text
        fix_files(report.skills, report.findings, [place.root])


def deep(count):
    return "\n".join(f"{' ' * number}a:" for number in range(count))


@pytest.mark.promise("P-229")
@pytest.mark.parametrize(
    ("name", "data", "codes"),
    [
        ("SKILL.md", b"", {"CH0221"}),
        ("SKILL.md", b"---\n---\n", {"CH0228"}),
        ("SKILL.md", b"\x00" * 1000, {"CH0221", "CH0004"}),
        ("SKILL.md", b"\xff\xfe-\x00-\x00", {"CH0001"}),
        ("SKILL.md", b"x" * (1024 * 1024 + 1), {"CH0006"}),
        ("SKILL.md", b"---\nname: \xed\xa0\x80\n---\n", {"CH0001"}),  # a lone surrogate
        ("SKILL.md", b'---\nname: "\\ud800"\ndescription: d\n---\n', None),
        ("SKILL.md", b'---\nname: "\\e[31mred"\ndescription: "\\e]0;x\\a"\n---\n', None),
        ("SKILL.md", f"---\n{deep(500)}\n---\n".encode(), {"CH0229"}),
        ("SKILL.md", b"---\n" + b"[" * 100_000 + b"\n---\n", {"CH0229"}),
        ("SKILL.md", b"---\nname: x\n" + b"- " * 50_000 + b"\n---\n", None),
        ("clawhive.yaml", f"{deep(500)}\n".encode(), {"CH0229"}),
        ("clawhive.yaml", b"\n".join(b"k%d: 1" % each for each in range(60_000)), None),
        ("clawhive.yaml", b"\n".join(b"k: 1" for _ in range(60_000)), None),
        (
            "clawhive.yaml",
            b"a0: &a0 [x]\n"
            + b"".join(
                b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9))
                for n in range(1, 9)
            ),
            {"CH0229"},
        ),
        ("clawhive.yaml", b"a: &a [*a]\n", None),
        ("clawhive.yaml", b"&a a: *a\n? {x: 1}\n: 2\n? [1]\n: 3\n", None),
        ("clawhive.yaml", b"id: \"\\e[2J\"\nversion: '\xe2\x80\xae'\n", None),
        ("clawhive.json", b"[" * 100_000, {"CH0229"}),
        ("clawhive.json", b'{"id": ' + b"1" * 5_000 + b"}", {"CH0224"}),
        ("clawhive.json", b'{"id": "\\ud800"}', None),
        ("clawhive.json", b'{"exports": {"api_version": 1e999, "tools": [NaN]}}', None),
        ("clawhive.json", b"\xef\xbb\xbf{}", {"CH0010"}),
    ],
)
def test_hostile_files_have_a_short_answer(place, check, name, data, codes):
    folder = place.root / "skills" / "bad"
    folder.mkdir(parents=True)
    folder.joinpath(name).write_bytes(data)
    out = check("--profile", "portable", "skills/bad")
    assert not set(out) & {"\x1b", "\x07", "\x00", "\u202e"}
    assert len(out) < 100_000
    found = json.loads(check("--profile", "lenient", "--json", "skills/bad"))["findings"]
    assert found
    assert codes is None or codes <= {each["code"] for each in found}
