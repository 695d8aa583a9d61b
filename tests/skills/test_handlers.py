"""Exported tools and their handlers, as `skills check` and every start find them."""

import base64
import hashlib
import os
from types import SimpleNamespace

import pytest

from clawhive_core.model.version import VERSION
from clawhive_core.skills.discovery.decisions import SkillTrust, content_digest
from clawhive_core.skills.discovery.reading import read_skill, shipped_skills
from tests.harness import exports

EXPORTS = exports("calculate")


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """Install a wheel with one skill, whose code would not pass the check."""
    package = tmp_path / "site" / "clawhive_core"
    monkeypatch.setattr("clawhive_core.skills.discovery.shipped._PACKAGE", package)
    folder = package / "data" / "skills" / "one"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.yaml").write_text(EXPORTS)
    for name in ("handlers.py", "more.py"):
        folder.joinpath(name).write_text("from skills.other import no")
    record = tmp_path / "site" / f"clawhive-{VERSION}.dist-info" / "RECORD"
    record.parent.mkdir()
    rows = [f"{each.relative_to(package.parent)},{digest(each)},9\n" for each in folder.iterdir()]
    compiled = "clawhive_core/data/skills/one/__pycache__/handlers.cpython-311.pyc,,\n"
    record.write_text("".join(["clawhive_core/__init__.py,sha256=x,1\n", *rows, compiled]))
    return SimpleNamespace(folder=folder, record=record)


def digest(file):
    """Return the digest of a file as `pip hash` and the packaging guide have it."""
    found = hashlib.sha256(file.read_bytes()).digest()
    return "sha256=" + base64.urlsafe_b64encode(found).decode().rstrip("=")


def found(place, name="one"):
    return [(each.code, each.severity, each.place) for each in place.own()[name].findings]


@pytest.mark.parametrize(
    "handlers",
    [
        "def calculate(input, ctx): ...",
        "async def calculate(input, ctx, more=None): ...",
        "def calculate(*all): ...",
        "def calculate(input, /, *rest, key=1): ...",
        "def _make(): ...\ncalculate = _make()",
        "try:\n    import x\nexcept ImportError:\n    def calculate(input, ctx): ...",
        "if True:\n    pass\nelse:\n    async def calculate(input, ctx): ...",
    ],
)
def test_a_function_of_the_tools_name_is_its_handler(place, handlers):
    place.skill("one", EXPORTS, handlers=handlers)
    assert found(place) == []
    assert place.own()["one"].skill.handlers == handlers


def test_a_tool_with_a_hyphen_is_served_by_a_function_with_an_underscore(place):
    place.skill(
        "one",
        exports("read-chart"),
        handlers="def read_chart(input, ctx): ...",
    )
    assert found(place) == []


@pytest.mark.parametrize(
    ("handlers", "code", "at", "fix"),
    [
        ("def calculat(input, ctx): ...", "CH0509", "clawhive.yaml:1:39",
         "did you mean `calculat`?"),
        ("", "CH0509", "clawhive.yaml:1:39", "async def calculate(input, ctx): ..."),
        ("class A:\n    def calculate(input, ctx): ...", "CH0509", "clawhive.yaml:1:39", ""),
        ("def calculate(ctx): ...", "CH0512", "handlers.py:1:1", "calculate(input, ctx)"),
        ("\n\nasync def calculate(a, b, c): ...", "CH0512", "handlers.py:3:1", ""),
        ("def calculate(a, b, *, c): ...", "CH0512", "handlers.py:1:1", ""),
        ("def calculate(input, ctx):\n  return (", "CH0511", "handlers.py:2:10", ""),
        ("def calculate(input, ctx): 'a\0b'", "CH0511", "handlers.py:1:30", ""),
        ("\ndef calculate(input, ctx):\n  '\0'", "CH0511", "handlers.py:3:4", ""),
    ],
)  # fmt: skip
def test_a_missing_or_broken_handler_is_an_error_at_its_place(place, handlers, code, at, fix):
    place.skill("one", EXPORTS, handlers=handlers)
    assert found(place) == [(code, "error", f"skills/one/{at}")]
    entry = place.own()["one"]
    assert entry.state == "invalid"
    assert fix in str(entry.findings[0].fix)


@pytest.mark.parametrize("name", ["import", "1st", "async"])
def test_a_tool_whose_name_no_function_can_have_is_an_error(place, name):
    place.skill("one", exports(f"'{name}'"), handlers="")
    assert found(place) == [("CH0509", "error", "skills/one/clawhive.yaml:1:39")]


def test_handlers_are_never_run_to_find_them(place):
    place.skill("one", EXPORTS, handlers="raise SystemExit\ndef calculate(input, ctx): ...")
    assert found(place) == []


def test_exports_without_a_handlers_file_are_an_error(place):
    place.skill("one", EXPORTS).with_name("handlers.py").unlink()
    assert found(place) == [("CH0509", "error", "skills/one/clawhive.yaml:1:39")]


def test_a_handlers_file_that_is_no_text_is_an_error(place):
    place.skill("one", EXPORTS).with_name("handlers.py").write_bytes(b"\xff")
    assert found(place)[0][:2] == ("CH0001", "error")


def test_a_manifest_alone_can_export_nothing(place):
    place.write("skills/one.yaml", EXPORTS)
    place.write("skills/handlers.py", "def calculate(input, ctx): ...")
    assert found(place) == [("CH0509", "error", "skills/one.yaml:1:39")]


def test_a_skill_without_exports_may_have_any_handlers_file(place):
    place.skill("one", "version: '1'\n", handlers="this is (no Python")
    assert found(place) == []
    assert place.own()["one"].skill.handlers is None


FULL = """\
exports:
  api_version: "1.0"
  tools:
    - name: t
      input_schema: {type: object, properties: {path: {type: string}}}
      capability_level: L1
      risk: guarded
      effects: {path: [fs.read, "fs.write:{}/**"], "": "net.http:api.example.com/**"}
      sinks: [path]
      requires_confirm: true
      side_effects: true
      idempotent: true
      timeout_ms: 500
      output_schema: {}
"""


def test_all_that_a_tool_says_of_its_calls_is_read(place):
    place.skill("one", FULL)
    assert found(place) == []
    facts = place.own()["one"].skill.exports.tools[0].facts
    assert (facts.level, facts.risk, facts.sinks, facts.timeout_ms) == (
        "L1", "guarded", ("path",), 500,
    )  # fmt: skip
    assert dict(facts.effects) == {
        "path": ("fs.read", "fs.write:{}/**"),
        "": "net.http:api.example.com/**",
    }
    assert (facts.requires_confirm, facts.side_effects, facts.idempotent) == (True, True, True)


@pytest.mark.parametrize(
    ("old", "new", "line", "fix"),
    [
        ("L1", "L9", 6, "use one of L0, L1, L2"),
        ("risk: guarded", "risk: harmless", 7, "use one of safe, guarded, unsafe, unknown"),
        ("fs.read,", "fs.raed,", 8, "did you mean `fs.read`?"),
        ("{path: [fs", "{paht: [fs", 8, "did you mean `path`?"),
        ('"net.http:api.example.com/**"', "net.http", 8, 'add it, such as "net.http:**"'),
        ('"net.http:api.example.com/**"', "[1]", 8, "put it in quotes"),
        ("sinks: [path]", "sinks: [url]", 9, "there are: path"),
        ("sinks: [path]", "sinks: path", 9, None),
        ("requires_confirm: true", "requires_confirm: 'yes'", 10, "write it without quotes"),
        ("idempotent: true", "idempotent: 1", 12, "write it without quotes"),
        ("500", "0", 13, None),
        ("500", "1.5", 13, None),
        ("500", "true", 13, None),
        ("500", "99999999", 13, None),
        ("timeout_ms", "timeout", 13, "did you mean `timeout_ms`?"),
    ],
)
def test_a_bad_value_is_found_at_its_place(place, old, new, line, fix):
    place.skill("one", FULL.replace(old, new))
    (finding, *_) = place.own()["one"].findings
    assert (finding.severity, finding.line) == ("error", line)
    assert fix is None or fix in str(finding.fix)


@pytest.mark.promise("P-231")
def test_the_code_of_a_skill_in_an_installed_wheel_is_read_and_was_checked_before(wheel):
    shipped = read_skill(wheel.folder, "shipped")
    assert (shipped.findings, shipped.skill.handlers) == ((), "from skills.other import no")
    given = {finding.code for finding in read_skill(wheel.folder, "flag").findings}
    assert given == {"CH0509", "CH0610"}


@pytest.mark.promise("P-240")
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("handlers.py", b"other = 1"),
        ("clawhive.yaml", EXPORTS.encode() + b"\n"),
        ("more.py", None),
        ("new.txt", b"x"),
        ("below/new.txt", b"x"),
    ],
)
def test_a_shipped_skill_that_was_changed_is_checked_and_no_more_trusted(place, wheel, name, data):
    def one():
        (entry,) = [each for each in place.load().entries if each.skill.source == "shipped"]
        return entry

    assert (one().skill.trusted, one().findings) == (True, ())
    file = wheel.folder / name
    file.parent.mkdir(exist_ok=True)
    if data is None:
        file.unlink()
    else:
        file.write_bytes(data)
    assert not one().skill.trusted
    told = {each.code: each for each in one().findings}
    assert {"CH0409", "CH0509"} <= set(told)
    assert (told["CH0409"].severity, told["CH0409"].file) == ("warning", str(file))
    assert "clawhive skills trust one" in str(told["CH0409"].fix)
    SkillTrust(place.user_dir).add(one().skill, content_digest(wheel.folder), {})
    assert one().skill.trusted
    assert "CH0409" not in {each.code for each in one().findings}


@pytest.mark.promise("P-240")
def test_what_python_compiled_changes_nothing_of_a_shipped_skill(place, wheel):
    wheel.folder.joinpath("__pycache__").mkdir()
    wheel.folder.joinpath("__pycache__", "handlers.cpython-311.pyc").write_bytes(b"x")
    assert place.load().find("one").findings == ()
    assert place.load().find("one").skill.trusted


@pytest.mark.promise("P-240")
@pytest.mark.parametrize("kind", ["pipe", "link to a folder", "dead link"])
def test_what_is_no_file_changes_a_shipped_skill(place, wheel, kind):
    new = wheel.folder / "new"
    if kind == "pipe":
        os.mkfifo(new)
    else:
        new.symlink_to(wheel.record.parent if kind == "link to a folder" else "nowhere")
    entry = place.load().find("one")
    assert not entry.skill.trusted
    assert str(new) in {each.file for each in entry.findings}


@pytest.mark.promise("P-240")
def test_a_manifest_beside_the_shipped_skills_is_trusted_by_nobody(place, wheel):
    wheel.folder.with_name("two.yaml").write_text("tasks: {t: {steps: []}}\n")
    found = place.load()
    assert (found.find("one").skill.trusted, found.find("two").skill.trusted) == (True, False)
    assert [each.code for each in found.find("two").findings] == ["CH0409"]


@pytest.mark.promise("P-240")
def test_files_that_an_installer_links_are_those_of_the_wheel(place, wheel, tmp_path):
    (wheel.folder / "more.py").rename(tmp_path / "more.py")
    (wheel.folder / "more.py").symlink_to(tmp_path / "more.py")
    assert place.load().find("one").skill.trusted


@pytest.mark.parametrize("record", [None, b"\xff", b"", b"clawhive_core/cli.py,sha256=x,1\n"])
def test_without_a_list_of_its_files_a_wheel_s_skill_is_checked_as_any_other(place, wheel, record):
    wheel.record.unlink()
    if record is not None:
        wheel.record.write_bytes(record)
    entry = place.load().find("one")
    assert {each.code for each in entry.findings} == {"CH0509", "CH0610"}
    assert entry.skill.trusted


@pytest.mark.promise("P-231")
def test_nothing_is_wrong_with_the_code_of_what_is_shipped():
    for skill in shipped_skills():
        assert read_skill(skill.folder, "flag").findings == (), skill.id


def test_the_code_of_a_checkouts_own_skills_is_checked_at_each_start(tmp_path):
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "clawhive.yaml").write_text(EXPORTS)
    (folder / "handlers.py").write_text("other = 1")
    assert [each.code for each in read_skill(folder, "shipped").findings] == ["CH0509"]
