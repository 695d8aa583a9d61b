"""Two distributions with one plugin id: ClawHive's own stays, and a person chooses the rest."""

import pytest

from tests.cli.test_json import check, one_object

SAY = (
    'from clawhive_core import tool\n\n@tool\ndef say() -> str:\n    "Say who."\n    return "{}"\n'
)
CHECK = """
from clawhive_core import hookimpl

@hookimpl
def clawhive_policy_checks(ctx):
    raise ValueError("never reached")
"""
MANIFEST = '[plugin]\nid = "builtin"\nhook_api = 1\nhooks = ["clawhive_policy_checks"]\n'


@pytest.fixture
def twins(site, clawhive):
    """Two distributions whose plugins are both called `same`."""
    for name in ("one", "two"):
        folder = site.plugin(name, SAY.format(name))
        manifest = folder / "clawhive-plugin.toml"
        text = manifest.read_text("utf-8").replace(f'"{name}', '"same')
        manifest.write_text(text, "utf-8")
        info = site.folder / f"dist_{name}-1.0.dist-info" / "entry_points.txt"
        info.write_text(f"[clawhive.plugins]\nsame = site_{name}\n", "utf-8")
    return clawhive


def say(clawhive):
    return clawhive("tools", "call", "same.say", "--args", "{}")


def test_a_distribution_that_claims_builtin_switches_nothing_off(clawhive, site):
    site.plugin("builtin_twin", CHECK, manifest=MANIFEST)
    info = site.folder / "dist_builtin_twin-1.0.dist-info" / "entry_points.txt"
    info.write_text("[clawhive.plugins]\nbuiltin = site_builtin_twin\n", "utf-8")
    clawhive.root.joinpath("a.md").write_text("still read", "utf-8")
    done = clawhive("tools", "call", "file.read", "--args", '{"path": "a.md"}')
    assert (done.code, "still read" in done.out) == (0, True), done.err
    shown = clawhive("plugins").out
    assert "the id 'builtin' is ClawHive's own, and dist-builtin_twin claims it" in shown
    assert "fix: pip uninstall dist-builtin_twin" in shown
    refused = clawhive(
        *("plugins", "trust", "builtin", "--distribution", "dist-builtin_twin", "--yes")
    )
    assert refused.code == 2
    assert "is ClawHive's own" in refused.err


def test_of_two_distributions_with_one_id_the_one_that_the_user_chose_runs(twins):
    assert say(twins).code != 0
    (told, _) = [each["error"] for each in plugins(twins)]
    assert told["code"] == "duplicate_plugin"
    assert "dist-one and dist-two" in told["message"]
    for name in ("one", "two"):
        words = ("plugins", "trust", "same", "--distribution", f"dist-{name}", "--yes", "--json")
        check(twins, one_object(twins(*words)), "plugins-trust")
        done = say(twins)
        assert (done.code, done.out.strip()) == (0, name), done.err
        assert sorted(each["status"] for each in plugins(twins)) == ["disabled", "ok"]


def plugins(clawhive):
    return [each for each in clawhive("plugins", "--json").json["plugins"] if each["id"] == "same"]


def test_nobody_else_chooses_a_distribution(twins, monkeypatch):
    words = ("plugins", "trust", "same", "--distribution", "dist-one")
    assert twins(*words).code != 0  # nobody is there to be asked
    assert "nobody is asked" in twins(*words, "--json").out
    assert "no installed distribution 'dist-three'" in twins(*words[:-1], "dist-three", "-y").err
    monkeypatch.setenv("CLAWHIVE_RUN", "run_1")
    assert "no run may change which distribution counts" in twins(*words, "--yes").err
    monkeypatch.delenv("CLAWHIVE_RUN")
    assert say(twins).code != 0
