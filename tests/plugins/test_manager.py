import shutil
import sys

import pytest

from clawhive_core.errors import PluginError
from clawhive_core.plugins.choices import PluginChoices
from clawhive_core.plugins.discovery import discover
from clawhive_core.plugins.hookspecs import PROTOCOLS

CHECK = """
from clawhive_core import hookimpl

class Never:
    name = "never"
    async def check(self, request):
        return None

@hookimpl
def clawhive_policy_checks(ctx):
    {body}
"""
GREET = """
from clawhive_core import tool

@tool
def greet(name: str) -> str:
    "Greet someone."
    return f"Hello, {name}!"
"""
CHECKS = "clawhive_policy_checks"


def check(body="return [Never()]"):
    return CHECK.replace("{body}", body)


def text(id, hooks=(), more="", api=1):
    listed = ", ".join(f'"{hook}"' for hook in hooks)
    return f'[plugin]\nid = "{id}"\nhook_api = {api}\nhooks = [{listed}]\n{more}'


def record(manager, id):
    return next(record for record in manager.records() if record.id == id)


def names(contributions):
    return [(item.plugin_id, item.distribution, item.value.name) for item in contributions]


@pytest.fixture
def good(site):
    """A healthy plugin beside whatever a test breaks."""
    site.plugin("good", check() + GREET, synced=True)
    return site


def assert_good_goes_on(manager):
    assert names(manager.contributions(CHECKS)) == [("good", "dist-good", "never")]
    assert [meta.name for meta in manager.manifest_tools()] == ["good.greet"]
    assert record(manager, "good").status == "ok"


def test_records_and_tools_come_from_manifests_and_import_nothing(good):
    manager = good.manager()
    found = record(manager, "good")
    assert (found.status, found.imported, found.enabled, found.installed) == (
        "ok",
        False,
        True,
        True,
    )
    assert (found.hooks, found.tools, found.load_ms) == ((CHECKS,), ("good.greet",), None)
    assert found.source == str(good.folder / "plug_good")
    assert [meta.name for meta in manager.manifest_tools()] == ["good.greet"]
    assert [provider.provider_id for provider in manager.providers()] == ["good"]
    assert "plug_good" not in sys.modules


def test_a_record_has_the_keys_that_scripts_count_on(good):
    found = record(good.manager(), "good").to_dict(granted=True)
    assert set(found) >= {
        "id", "distribution", "version", "status", "installed", "imported", "enabled", "granted",
        "hooks", "tools", "error", "source", "load_ms",
    }  # fmt: skip
    assert found["granted"] is True
    assert found["error"] is None


def test_a_hook_imports_its_plugin_and_is_called_once(good):
    manager = good.manager()
    first = manager.contributions(CHECKS)
    assert names(first) == [("good", "dist-good", "never")]
    assert manager.contributions(CHECKS)[0].value is first[0].value
    found = record(manager, "good")
    assert found.imported
    assert found.load_ms >= 0


def test_a_hook_that_no_manifest_lists_imports_nothing(good):
    manager = good.manager()
    for hook in set(PROTOCOLS) - {CHECKS}:
        assert manager.contributions(hook) == []
    assert "plug_good" not in sys.modules


def test_a_hook_gets_its_own_settings_root_and_environment(site):
    body = "Never.name = f'{ctx.plugin_id} {ctx.settings} {ctx.root} {ctx.env}'; return [Never()]"
    site.plugin("demo", check(body), manifest=text("demo", [CHECKS]))
    settings = {"demo": {"a": 1}, "other": {"b": 2}}
    manager = site.manager(settings=settings, root="/root", env={"K": "v"})
    assert manager.contributions(CHECKS)[0].value.name == "demo {'a': 1} /root {'K': 'v'}"


def test_an_unknown_hook_is_a_mistake_of_the_caller(good):
    with pytest.raises(ValueError, match="clawhive_planners"):
        good.manager().contributions("clawhive_planer")


COROUTINE = check("return []").replace("def claw", "async def claw")
OOPS = check() + "@hookimpl\ndef clawhive_oops(ctx): return []"
PLANS = check() + "@hookimpl\ndef clawhive_planners(ctx): return []"
WRAPPER = check("yield [Never()]").replace("@hookimpl", "@hookimpl(wrapper=True)")
BROKEN = {
    "import error": ("import nonexistent_thing", "import_failed", "nonexistent_thing"),
    "error": ("1 / 0", "import_failed", "ZeroDivisionError"),
    "exit": ("raise SystemExit(3)", "import_failed", "SystemExit: 3"),
    "syntax": ("def (:", "import_failed", "SyntaxError"),
    "raising hook": (check("raise OSError('disk')"), "hook_failed", "OSError: disk"),
    "exiting hook": (check("raise SystemExit"), "hook_failed", "SystemExit"),
    "coroutine": (COROUTINE, "hook_failed", "coroutine"),
    "nothing": (check("pass"), "hook_failed", "nothing"),
    "wrong type": (check("return Never()"), "hook_failed", "Never"),
    "generator": (check("yield Never()"), "hook_failed", "generator"),
    "wrong object": (check("return [3]"), "hook_failed", "lacks name, check"),
    "class": (check("return [Never]"), "hook_failed", "class Never"),
    "wrong arguments": (check().replace("(ctx)", "(ctx, more)"), "invalid_hook", "more"),
    "unknown hook": (OOPS, "invalid_hook", "clawhive_oops"),
    "wrapper": (WRAPPER, "invalid_hook", "wrapper"),
    "hook gone": ("", "manifest_differs", CHECKS),
    "hook more": (PLANS, "manifest_differs", "clawhive_planners"),
}


@pytest.mark.parametrize(("source", "code", "words"), BROKEN.values(), ids=BROKEN)
def test_code_that_breaks_is_reported_and_breaks_no_other_plugin(good, source, code, words):
    good.plugin("bad", source, manifest=text("bad", [CHECKS]))
    manager = good.manager()
    assert record(manager, "bad").status == "ok"
    assert_good_goes_on(manager)
    found = record(manager, "bad")
    assert (found.status, found.error.code) == ("failed", code)
    assert words in found.error.message
    assert found.error.fix
    assert manager.failed_hooks(CHECKS) == [found]


def test_the_line_that_raised_is_named(good):
    good.plugin("bad", "a = 1\nb = a / 0\n", manifest=text("bad", [CHECKS]))
    manager = good.manager()
    manager.contributions(CHECKS)
    assert record(manager, "bad").error.place.endswith("plug_bad/__init__.py:2")


def test_a_missing_attribute_is_reported(good):
    good.plugin("bad", "", value="plug_bad:thing.other", manifest=text("bad", [CHECKS]))
    manager = good.manager()
    assert_good_goes_on(manager)
    assert "thing" in record(manager, "bad").error.message


RAISING_PROPERTY = (
    check()
    + """
class Plugin:
    @property
    def weather(self):
        raise RuntimeError("rain")
    @hookimpl
    def clawhive_policy_checks(self, ctx):
        return [Never()]
plugin = Plugin()
"""
)


def test_a_property_that_raises_harms_no_other_plugin(good):
    good.plugin("odd", RAISING_PROPERTY, value="plug_odd:plugin", manifest=text("odd", [CHECKS]))
    manager = good.manager()
    assert "good" in [item.plugin_id for item in manager.contributions(CHECKS)]
    found = record(manager, "odd").error  # pluggy before 1.7 reads properties
    assert found is None or "RuntimeError: rain" in found.message


def test_an_object_named_by_a_property_that_raises_fails_its_plugin_alone(good):
    value = "plug_bad:plugin.weather"
    good.plugin("bad", RAISING_PROPERTY, value=value, manifest=text("bad", [CHECKS]))
    manager = good.manager()
    assert_good_goes_on(manager)
    found = record(manager, "bad").error
    assert found.code == "import_failed"
    assert "RuntimeError: rain" in found.message


TWO_HOOKS = (
    check()
    + """
@hookimpl
def clawhive_planners(ctx):
    raise RuntimeError("late")
"""
)


def test_what_a_plugin_contributed_is_withdrawn_when_it_fails_later(good):
    more = GREET.replace("@tool", "@tool(name='bad.greet')")
    good.plugin("bad", TWO_HOOKS + more, manifest=None)
    good.packages.add("plug_bad")
    manifest = text("bad", [CHECKS, "clawhive_planners"])
    (good.folder / "plug_bad" / "clawhive-plugin.toml").write_text(manifest)
    manager = good.manager()
    assert [item.plugin_id for item in manager.contributions(CHECKS)] == ["bad", "good"]
    assert manager.contributions("clawhive_planners") == []
    assert_good_goes_on(manager)
    assert [found.id for found in manager.failed_hooks(CHECKS)] == ["bad"]


MANIFESTS = {
    "not toml": ("[plugin", "failed", "invalid_manifest"),
    "unknown key": (text("bad", more="colour = 1\n"), "failed", "invalid_manifest"),
    "other id": (text("other"), "failed", "invalid_manifest"),
    "old api": (text("bad", [CHECKS], api=0), "incompatible", "incompatible_hook_api"),
    "new api": (text("bad", [CHECKS], api=2), "incompatible", "incompatible_hook_api"),
    "none": (None, "failed", "manifest_missing"),
}


@pytest.mark.parametrize(("manifest", "status", "code"), MANIFESTS.values(), ids=MANIFESTS)
def test_a_manifest_that_cannot_be_used_is_reported_and_nothing_is_imported(
    good, manifest, status, code
):
    good.plugin("bad", "raise SystemExit", manifest=manifest)
    manager = good.manager()
    found = record(manager, "bad")
    assert (found.status, found.error.code) == (status, code)
    assert found.error.fix
    assert_good_goes_on(manager)
    assert "plug_bad" not in sys.modules


@pytest.mark.parametrize("manifest", ["[plugin", None, f'[plugin]\nhooks = ["{CHECKS}"]\n'])
def test_a_policy_check_behind_an_unreadable_manifest_is_still_seen_to_fail(good, manifest):
    good.plugin("bad", check(), manifest=manifest)
    good.plugin("harmless", GREET, manifest="[plugin")
    manager = good.manager()
    assert [found.id for found in manager.failed_hooks(CHECKS)] == ["bad"]
    assert manager.failed_hooks("clawhive_planners") == []


def test_a_missing_module_a_single_file_and_a_bad_entry_point_are_reported(good):
    good.distribution("ghost", "[clawhive.plugins]\nghost = ghost_package\n")
    good.distribution("file", "[clawhive.plugins]\nfile = single_file\n")
    (good.folder / "single_file.py").write_text("")
    good.distribution("bad-point", "[clawhive.plugins]\npoint = a/b\nin valid = x\n")
    manager = good.manager()
    found = {item.id: item.error.code for item in manager.records() if item.error}
    assert found == {
        "ghost": "module_missing",
        "file": "manifest_missing",
        "point": "invalid_entry_point",
        "in valid": "invalid_entry_point",
    }
    assert "pip install --force-reinstall ghost" in record(manager, "ghost").error.fix
    assert not record(manager, "ghost").installed
    assert_good_goes_on(manager)


def test_two_distributions_with_one_id_are_both_reported_and_neither_is_loaded(good):
    good.plugin(
        "twin", check(), distribution="one", value="twin_one", manifest=text("twin", [CHECKS])
    )
    good.plugin(
        "twin", check(), distribution="two", value="twin_two", manifest=text("twin", [CHECKS])
    )
    manager = good.manager()
    assert_good_goes_on(manager)
    twins = [item for item in manager.records() if item.id == "twin"]
    assert [item.distribution for item in twins] == ["one", "two"]
    for item in twins:
        assert item.error.code == "duplicate_plugin"
        assert "one and two" in item.error.message
        assert "clawhive plugins trust twin --distribution NAME" in item.error.fix
        assert "keep one: pip uninstall one, or pip uninstall two" in item.error.fix
    assert manager.failed_hooks(CHECKS) == twins
    assert not {"twin_one", "twin_two"} & set(sys.modules)


def test_of_two_distributions_the_chosen_one_is_loaded_and_the_other_stops_nothing(good, tmp_path):
    for name in ("dist.One", "two"):
        value = f"twin_{name[-3:].lower()}"
        good.plugin("twin", GREET, distribution=name, value=value, manifest=text("twin"))
    check_text = text("twin", [CHECKS])
    good.folder.joinpath("twin_two", "clawhive-plugin.toml").write_text(check_text, "utf-8")
    claims = [each for each in discover([str(good.folder)]) if each.id == "twin"]
    PluginChoices(tmp_path).choose("twin", "dist-one", claims, {})
    manager = good.manager(user_dir=str(tmp_path), strict=True)
    twins = {item.distribution: item for item in manager.records() if item.id == "twin"}
    assert (twins["dist.One"].status, twins["two"].status) == ("ok", "disabled")
    assert twins["two"].notes == ("two is off: you chose dist.One for the id",)
    assert manager.failed_hooks(CHECKS) == []
    assert [each.plugin_id for each in manager.contributions(CHECKS)] == ["good"]
    assert "twin_two" not in sys.modules


def test_a_chosen_id_is_not_taken_over_by_a_distribution_that_has_it_alone(good, tmp_path):
    good.plugin("twin", check(), distribution="one", value="twin_one", manifest=text("twin"))
    claims = [each for each in discover([str(good.folder)]) if each.id == "twin"]
    PluginChoices(tmp_path).choose("twin", "one", claims, {})
    shutil.rmtree(good.folder / "one-1.0.dist-info")
    good.plugin("twin", check(), distribution="two", value="twin_two", manifest=text("twin"))
    later = record(good.manager(user_dir=str(tmp_path)), "twin")
    assert (later.distribution, later.error.code) == ("two", "duplicate_plugin")
    assert "you chose one" in later.error.message


@pytest.mark.parametrize("damage", ["{", "[]", '{"schema": "plugin-choices/1"}'])
def test_a_damaged_list_of_choices_chooses_nothing_and_is_kept(good, tmp_path, damage):
    for name in ("one", "two"):
        good.plugin("twin", GREET, distribution=name, value=f"t_{name}", manifest=text("twin"))
    tmp_path.joinpath("plugins.json").write_text(damage, "utf-8")
    manager = good.manager(user_dir=str(tmp_path))
    twins = [item for item in manager.records() if item.id == "twin"]
    assert [item.error.code for item in twins] == ["duplicate_plugin"] * 2
    claims = [each for each in discover([str(good.folder)]) if each.id == "twin"]
    PluginChoices(tmp_path).choose("twin", "one", claims, {})
    assert tmp_path.joinpath("plugins.json.damaged-1").read_text("utf-8") == damage
    assert PluginChoices(tmp_path).read() == {"twin": "one"}


@pytest.mark.parametrize(
    "options", [{"disabled": frozenset({"bad"})}, {"enabled_only": frozenset({"good"})}]
)
def test_a_disabled_plugin_is_shown_and_never_imported(good, options):
    good.plugin("bad", check("raise OSError"), manifest=text("bad", [CHECKS]))
    manager = good.manager(**options)
    assert_good_goes_on(manager)
    found = record(manager, "bad")
    assert (found.status, found.enabled, found.error) == ("disabled", False, None)
    assert found.hooks == (CHECKS,)
    assert manager.failed_hooks(CHECKS) == []
    assert "plug_bad" not in sys.modules


def test_an_empty_list_of_enabled_plugins_means_none(good):
    manager = good.manager(enabled_only=frozenset())
    assert manager.contributions(CHECKS) == []
    assert manager.manifest_tools() == []
    assert manager.providers() == []


def test_ids_that_no_plugin_has_are_findings_with_a_guess(good):
    manager = good.manager(disabled=frozenset({"goood"}), order=("zzz",), settings={"good": {}})
    first, second = manager.unknown_ids()
    assert "'goood'" in first.message
    assert first.fix.title == "did you mean `good`?"
    assert "'zzz'" in second.message


def test_strict_raises_one_failure_as_it_is_and_several_as_a_group(good):
    good.plugin("bad", "1 / 0", manifest=text("bad", [CHECKS]))
    with pytest.raises(PluginError) as caught:
        good.manager(strict=True).contributions(CHECKS)
    assert caught.value.data["plugin"] == "bad"
    assert caught.value.data["distribution"] == "dist-bad"
    good.plugin("worse", "", manifest="[plugin")
    with pytest.raises(ExceptionGroup) as group:
        good.manager(strict=True).contributions(CHECKS)
    assert {error.data["plugin"] for error in group.value.exceptions} == {"bad", "worse"}
    with pytest.raises(PluginError):
        good.manager(strict=True).providers()
    good.manager(strict=True, disabled=frozenset({"bad", "worse"})).contributions(CHECKS)


def test_strict_does_not_hide_the_list(good):
    good.plugin("bad", "", manifest="[plugin")
    assert {item.id for item in good.manager(strict=True).records()} == {"good", "bad"}


def test_contributions_come_in_the_configured_order(site):
    for name, more in (("a", 'after = ["c"]\n'), ("b", ""), ("c", "")):
        site.plugin(name, check(), manifest=text(name, [CHECKS], more))
    found = [item.plugin_id for item in site.manager().contributions(CHECKS)]
    assert found == ["b", "c", "a"]
    site.forget()
    found = [item.plugin_id for item in site.manager(order=("c", "a")).contributions(CHECKS)]
    assert found == ["c", "a", "b"]


def test_plugins_in_a_cycle_are_failed_and_the_rest_goes_on(good):
    good.plugin("x", check(), manifest=text("x", [CHECKS], 'after = ["y"]\n'))
    good.plugin("y", check(), manifest=text("y", [CHECKS], 'after = ["x"]\n'))
    manager = good.manager()
    assert_good_goes_on(manager)
    assert record(manager, "x").error.code == "plugin_order_cycle"
    assert [item.id for item in manager.failed_hooks(CHECKS)] == ["x", "y"]


def test_a_failure_is_kept_and_the_code_is_not_imported_again(good):
    counter = good.folder / "counter"
    source = f"with open({str(counter)!r}, 'a') as f: f.write('x')\nraise OSError"
    good.plugin("bad", source, manifest=text("bad", [CHECKS, "clawhive_planners"]))
    manager = good.manager()
    for hook in (CHECKS, "clawhive_planners", CHECKS):
        manager.contributions(hook)
    assert counter.read_text() == "x"
