"""Who serves `web.search`: the stub or the saved pages; changed by the configuration alone."""

import json

import pytest

from clawhive_core.testing import memory_hive


@pytest.fixture
def cli(tmp_path, monkeypatch, capfd):
    from clawhive_core.cli import main

    root, home = tmp_path / "project", tmp_path / "home"
    (root / "saved").mkdir(parents=True)
    config = home / ".config" / "clawhive"
    config.mkdir(parents=True)
    root.joinpath("saved", "a.md").write_text("url: https://a.example/\n# Logs\nlogging\n")
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.delenv("CLAWHIVE_RUN", raising=False)

    def run(user, *words, project=""):
        config.joinpath("config.toml").write_text(user)
        root.joinpath("clawhive.toml").write_text(project)
        capfd.readouterr()
        with pytest.raises(SystemExit):
            main([*words, "--json"])
        return json.loads(capfd.readouterr().out)

    return run


PAGES = '[plugins.builtin]\npages = "saved"\n'


def served(value):
    tool = value["tool"]
    return tool["provider_id"], tool["why"], [each["provider_id"] for each in tool["shadowed"]]


@pytest.mark.parametrize(
    ("more", "winner", "says"),
    [
        ("", "pages", "preferred order"),
        ('[tools]\npreferred_provider_order = ["stub", "pages"]\n', "stub", "preferred order"),
        ('[tools]\npreferred_provider_order = ["pages", "stub"]\n', "pages", "preferred order"),
        ('[tools]\nconflict = "safest"\n', "pages", "preferred order"),
        ('[tools.pin]\n"web.search" = "stub"\n', "stub", "pinned"),
    ],
)
def test_the_configuration_decides_who_serves_and_show_says_why(cli, more, winner, says):
    value = cli(PAGES + more, "tools", "show", "web.search")
    provider, why, shadowed = served(value)
    assert provider == winner
    assert says in why
    assert shadowed == [({"stub", "pages"} - {winner}).pop()]


def test_an_alias_names_the_tool_anew(cli):
    value = cli(
        PAGES + '[tools.alias]\n"find.online" = "web.search"\n', "tools", "show", "find.online"
    )
    assert value["tool"]["name"] == "web.search"


@pytest.mark.parametrize(
    ("given", "ids"), [({}, ["builtin", "stub"]), (None, ["builtin", "stub", "pages"])]
)
def test_only_with_the_setting_is_the_plugin_imported_to_list_its_providers(tmp_path, given, ids):
    from clawhive_core.plugins.discovery import discover
    from clawhive_core.plugins.manager import PluginManager, PluginOptions

    settings = {"builtin": {"pages": str(tmp_path)} if given is None else given}
    options = PluginOptions(enabled_only=frozenset({"builtin"}), settings=settings)
    manager = PluginManager(discover(), options)
    assert [provider.provider_id for provider in manager.providers()] == ids
    (record,) = [each for each in manager.records() if each.id == "builtin"]
    assert record.imported is (given is None)


def test_a_project_orders_what_the_user_has_but_names_no_folder_before_it_is_trusted(cli):
    order = '[tools]\npreferred_provider_order = ["stub", "pages"]\n'
    assert served(cli(PAGES, "tools", "show", "web.search", project=order))[0] == "stub"
    assert served(cli("", "tools", "show", "web.search", project=PAGES))[2] == []


def test_each_invocation_records_who_served_it_and_its_level(cli):
    args = ("--args", '{"query": "logging"}')
    for more, winner in (("", "pages"), ('[tools.pin]\n"web.search" = "stub"\n', "stub")):
        done = cli(PAGES + more, "tools", "call", "web.search", *args)
        (step,) = cli(PAGES + more, "runs", "show", done["run_id"])["steps"]
        (invocation,) = step["invocations"]
        for row in (step, invocation):
            assert (row["provider_id"], row["capability_level"]) == (winner, "L0")
        assert {item["provider"] for item in done["structured"]["items"]} == {winner}


async def test_the_safest_provider_serves_where_that_is_asked_for():
    from tests.harness import Provider, echo

    first = Provider("builtin").offer("web.look", echo, risk="guarded")
    second = Provider("other").offer("web.look", echo, risk="safe", capability_level="L1")
    third = Provider("third").offer("web.look", echo, risk="safe", capability_level="L0")
    for conflict, winner in (("prefer", "builtin"), ("safest", "third")):
        given = {"tools.conflict": conflict}
        async with memory_hive(providers=[first, second, third], settings=given) as hive:
            catalog = hive.catalog.current
            assert catalog.find("web.look").meta.provider_id == winner
            assert len(catalog.shadowed) == 2
