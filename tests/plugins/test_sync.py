import sys

import pytest

from clawhive_core.errors import ClawHiveError, ManifestError, PluginError, UnknownId
from clawhive_core.plugins.check import CODES, check
from clawhive_core.plugins.manifest import read_manifest
from clawhive_core.plugins.sync import sync

GREET = """
from clawhive_core import tool

@tool
def greet(name: str) -> str:
    "Greet someone."
    return f"Hello, {name}!"
"""
PROVIDER = """
from clawhive_core import ToolMeta, hookimpl

class Clock:
    provider_id = "clock"
    async def list_tools(self):
        return [ToolMeta("clock.zone", "Name the zone.", {"type": "object"}, "clock", risk="safe")]
    async def invoke(self, tool_name, input, ctx): ...
    async def close(self): ...

@hookimpl
def clawhive_tool_providers(ctx):
    return [Clock()]
"""
COMMANDS = """
import click
from clawhive_core import hookimpl

@click.command("b")
def b():
    "Do b. And more."

@click.command("a")
def a(): ...

@hookimpl
def clawhive_commands(ctx):
    return [b, a]
"""
PYPROJECT = """
[project]
name = "clawhive-notes"
version = "1.0"
[project.entry-points."clawhive.plugins"]
notes = "clawhive_notes"
"""


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "checkout"
    package = folder / "clawhive_notes"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (package / "__init__.py").write_text(GREET)
    return folder


def names_in(folder):
    return sorted(path.name for path in (folder / "clawhive_notes").iterdir())


def manifest_in(folder):
    return folder / "clawhive_notes" / "clawhive-plugin.toml"


def test_a_first_sync_writes_the_manifest_and_a_second_changes_nothing(checkout):
    (first,) = sync(str(checkout))
    data = manifest_in(checkout).read_bytes()
    (second,) = sync(str(checkout))
    assert (first.plugin_id, first.created, first.changed) == ("notes", True, True)
    assert (first.tools, first.hooks) == (("notes.greet",), ())
    assert (second.created, second.changed, second.differences) == (False, False, ())
    assert manifest_in(checkout).read_bytes() == data
    assert first.path == manifest_in(checkout)
    assert second.to_dict()["changed"] is False
    assert check(str(checkout)) == []


def test_a_changed_tool_is_reported_and_written(checkout):
    sync(str(checkout))
    source = checkout / "clawhive_notes" / "__init__.py"
    source.write_text(GREET.replace("name: str", "name: str, loud: bool = False"))
    assert [finding.code for finding in check(str(checkout))] == ["CH0106"]
    (report,) = sync(str(checkout))
    assert [str(item) for item in report.differences] == ["notes.greet differs in input_schema"]
    assert report.changed
    assert check(str(checkout)) == []


def test_a_folder_leaves_no_trace_in_the_process(checkout):
    path, modules = list(sys.path), set(sys.modules)
    sync(str(checkout))
    assert sys.path == path
    assert not {name for name in set(sys.modules) - modules if name.startswith("clawhive_notes")}
    assert not list(checkout.rglob("__pycache__"))
    left = names_in(checkout)
    assert left == ["__init__.py", "clawhive-plugin.toml"]


def test_a_folder_wins_over_an_installed_package_of_the_same_name(checkout, site):
    site.package("clawhive_notes", "raise SystemExit")
    (report,) = sync(str(checkout))
    assert report.path == manifest_in(checkout)


def test_the_src_layout_works(checkout):
    (checkout / "src").mkdir()
    (checkout / "clawhive_notes").rename(checkout / "src" / "clawhive_notes")
    (report,) = sync(str(checkout))
    assert report.path == checkout / "src" / "clawhive_notes" / "clawhive-plugin.toml"


def test_what_only_the_author_knows_is_kept(checkout):
    kept = 'after = ["builtin"]\nbefore = ["web"]\ntools = "dynamic"\n'
    manifest_in(checkout).write_text(f'[plugin]\nid = "old"\nhook_api = 1\n{kept}')
    sync(str(checkout))
    found = read_manifest(manifest_in(checkout))
    assert (found.id, found.after, found.before, found.dynamic) == (
        "notes",
        ("builtin",),
        ("web",),
        True,
    )


def test_it_is_kept_too_where_the_tools_cannot_be_read(checkout):
    broken = '[[tools]]\nname = "x"\ncolour = 1\n'
    manifest_in(checkout).write_text(
        f'[plugin]\nid = "notes"\nhook_api = 1\nafter = ["builtin"]\n{broken}'
    )
    sync(str(checkout))
    assert read_manifest(manifest_in(checkout)).after == ("builtin",)


@pytest.mark.parametrize("text", ["[plugin", '[plugin]\nid = "notes"\nhook_api = 2\n'])
def test_a_manifest_that_is_not_toml_or_for_other_hooks_is_not_overwritten(checkout, text):
    manifest_in(checkout).write_text(text)
    with pytest.raises(ManifestError):
        sync(str(checkout))
    assert manifest_in(checkout).read_text() == text


def test_hooks_commands_and_the_tools_of_providers_are_written(site):
    site.plugin("all", GREET + PROVIDER + COMMANDS)
    (report,) = sync("all")
    assert report.hooks == ("clawhive_tool_providers", "clawhive_commands")
    found = read_manifest(report.path)
    assert [(command.name, command.help) for command in found.commands] == [
        ("a", ""),
        ("b", "Do b."),
    ]
    assert [(meta.name, meta.provider_id) for meta in found.tools] == [
        ("all.greet", "all"),
        ("clock.zone", "clock"),
    ]


@pytest.mark.parametrize("target", ["demo", "plug_demo", "plug_demo.inner"])
def test_an_installed_plugin_is_found_by_id_module_or_package(site, target):
    folder = site.plugin("demo", "", value="plug_demo.inner")
    (folder / "inner.py").write_text(GREET)
    (report,) = sync(target)
    assert report.path == folder / "clawhive-plugin.toml"
    assert report.tools == ("demo.greet",)


async def test_it_works_inside_a_running_event_loop(site):
    site.plugin("clocks", PROVIDER)
    (report,) = sync("clocks")
    assert report.tools == ("clock.zone",)


def test_an_unknown_target_is_answered_with_a_guess(site):
    site.plugin("hello")
    with pytest.raises(UnknownId) as caught:
        sync("helo")
    assert "did you mean `hello`?" in caught.value.fix


FOLDERS = {
    "no pyproject": (None, "no pyproject.toml"),
    "no toml": ("[project", "cannot be read"),
    "no project": ("", "declares no plugin"),
    "odd group": ("[project]\nentry-points = 3\n", "declares no plugin"),
    "no package": (PYPROJECT.replace("clawhive_notes", "clawhive_gone"), "not in this folder"),
    "installed elsewhere": (PYPROJECT.replace("clawhive_notes", "pluggy"), "not in this folder"),
}


@pytest.mark.parametrize(("pyproject", "words"), FOLDERS.values(), ids=FOLDERS)
def test_a_folder_without_a_plugin_is_an_error_with_the_fix(tmp_path, pyproject, words):
    if pyproject is not None:
        (tmp_path / "pyproject.toml").write_text(pyproject)
    with pytest.raises(PluginError) as caught:
        sync(str(tmp_path))
    assert words in caught.value.message
    assert caught.value.fix
    assert caught.value.place


TWINS = GREET + GREET.replace("def greet", "def b").replace("@tool", "@tool(name='notes.greet')")
BARE = "from clawhive_core import tool\n@tool\ndef a(x): ..."
OOPS = "from clawhive_core import hookimpl\n@hookimpl\ndef clawhive_oops(ctx): ..."
WATCH = PROVIDER.replace('provider_id = "clock"', 'provider_id = "watch"')
CANNOT_LIST = PROVIDER.replace("        return [T", "        1 / 0\n        return [T")
SOURCES = {
    "import": ("1 / 0", "ZeroDivisionError", "CH0102"),
    "bad tool": (BARE, "no annotation", "CH0111"),
    "twins": (TWINS, "two functions", "CH0111"),
    "hook": (OOPS, "clawhive_oops", "CH0109"),
    "own id": (PROVIDER.replace('"clock"', '"notes"'), "provider_id", "CH0109"),
    "other provider": (WATCH, "provider_id", "CH0109"),
    "cannot list": (CANNOT_LIST, 'tools = "dynamic"', "CH0109"),
    "bad name": (PROVIDER.replace("clock.zone", "zone"), "segments", None),
}


@pytest.mark.parametrize(("source", "words", "code"), SOURCES.values(), ids=SOURCES)
def test_code_that_cannot_be_described_writes_nothing(checkout, source, words, code):
    (checkout / "clawhive_notes" / "__init__.py").write_text(source)
    with pytest.raises(ClawHiveError) as caught:
        sync(str(checkout))
    assert words in f"{caught.value.message} {caught.value.fix}"
    assert not manifest_in(checkout).exists()
    if code is not None:
        findings = check(str(checkout))
        assert code in {finding.code for finding in findings}
        assert all(finding.fix for finding in findings)


def test_a_folder_that_cannot_be_written_is_an_error_and_nothing_is_left(checkout, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(PluginError) as caught:
        sync(str(checkout))
    assert caught.value.code == "manifest_unwritable"
    assert "No space left" in caught.value.message
    assert names_in(checkout) == ["__init__.py"]


def test_a_manifest_that_is_written_again_keeps_its_rights(checkout):
    sync(str(checkout))
    manifest = manifest_in(checkout)
    manifest.write_text(manifest.read_text() + "# more\n")
    manifest.chmod(0o600)
    (report,) = sync(str(checkout))
    assert (report.changed, manifest.stat().st_mode & 0o777) == (True, 0o600)


def codes(target):
    return [finding.code for finding in check(target)]


def test_check_tells_text_from_contract_from_hooks_from_layout(site):
    folder = site.plugin("demo", GREET + PROVIDER, synced=True)
    source, manifest = folder / "__init__.py", folder / "clawhive-plugin.toml"
    assert codes("demo") == []
    source.write_text((GREET + PROVIDER).replace("Greet", "Hail"))
    site.forget()
    (finding,) = check("demo")
    assert (finding.code, finding.severity, finding.file) == ("CH0107", "note", str(manifest))
    source.write_text(GREET)
    site.forget()
    assert codes("demo") == ["CH0106", "CH0108"]
    source.write_text(GREET + PROVIDER + COMMANDS)
    site.forget()
    assert codes("demo") == ["CH0108"]


def test_check_reports_what_a_manager_would_fail_on(site):
    site.plugin("bare", GREET)
    assert codes("bare") == ["CH0103"]
    site.plugin("torn", GREET, manifest="[plugin")
    (finding,) = check("torn")
    assert (finding.code, finding.line) == ("CH0104", 1)
    site.plugin("newer", GREET, manifest='[plugin]\nid = "newer"\nhook_api = 7\n')
    assert codes("newer") == ["CH0105"]
    site.plugin("hooked", PROVIDER.replace("return [Clock()]", "return Clock()"))
    assert "CH0109" in codes("hooked")
    site.distribution("ghost", "[clawhive.plugins]\nghost = ghost_package\n")
    assert codes("ghost") == ["CH0102"]
    site.distribution("point", "[clawhive.plugins]\npoint = a/b\n")
    assert "CH0115" in codes("point")


def test_check_warns_of_what_nobody_could_use(site):
    site.plugin("empty", "", synced=True)
    assert codes("empty") == ["CH0113"]
    site.plugin("mute", GREET.replace('"Greet someone."', ""), synced=True)
    assert codes("mute") == ["CH0112"]
    manifest = '[plugin]\nid = "vague"\nhook_api = 1\ntools = "dynamic"\n'
    site.plugin("vague", GREET, manifest=manifest, synced=True)
    assert codes("vague") == ["CH0114"]


@pytest.mark.promise("P-201")
def test_check_says_what_is_admitted_as_guarded(site):
    bold = GREET.replace("@tool", '@tool(risk="safe", effects={"name": "fs.write"})')
    site.plugin("bold", bold, synced=True)
    (finding,) = check("bold")
    assert (finding.code, finding.severity) == ("CH0116", "warning")
    assert "declares itself safe, and it writes files" in finding.message
    site.plugin("meek", bold.replace('"safe"', '"guarded"'), synced=True)
    assert codes("meek") == []


def test_check_reports_twins(site):
    site.plugin("twin", GREET, distribution="one", value="twin_one", synced=False)
    site.plugin("twin", GREET, distribution="two", value="twin_two", synced=False)
    sync("twin")
    assert set(codes("twin")) == {"CH0110"}


def test_every_code_is_described():
    assert list(CODES) == sorted(CODES)
    assert all(code.startswith("CH01") for code in CODES)
