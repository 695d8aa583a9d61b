import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.config import SETTINGS
from clawhive_core.config.settings import dotted, find, split


@pytest.mark.parametrize(
    ("text", "key", "meant"),
    [
        ('[routng]\nmode = "full"', "routng", "routing"),
        ("routing.mdoe = 1", "routing.mdoe", "routing.mode"),
        ("plugins.disable = ['x']", "plugins.disable", "plugins.disabled"),
        ("preferred_provider_order = []", "preferred_provider_order", None),
        ("[agents.fast]\nmodl = 'a'", "agents.fast.modl", "agents.fast.model"),
        ("[mcp.servers.a]\ncomand = 'a'", "mcp.servers.a.comand", "mcp.servers.a.command"),
        ("[catalog]\nconflct = 'a'", "catalog.conflct", "catalog.conflict"),
        ("[mcp.serverz.a]\ncmd = []", "mcp.serverz", "mcp.servers"),
    ],
)
def test_an_unknown_key_is_a_finding_with_what_was_meant(place, text, key, meant):
    config = place.write(text, trust=True).load()
    [finding] = config.findings
    assert (finding.code, finding.severity, finding.file) == ("CH0901", "warning", "clawhive.toml")
    assert f"`{key}` is unknown" in finding.message
    assert meant is None or f"did you mean `{meant}`?" in finding.message


def test_a_key_of_another_table_is_suggested_with_its_table(place):
    [finding] = place.write("preferred_provider_order = []").load().findings
    assert "did you mean `tools.preferred_provider_order`?" in finding.message
    assert finding.fix.edits == ()


def test_nothing_is_suggested_for_nonsense(place):
    [finding] = place.write("zzzz = 1").load().findings
    assert finding.fix is None
    assert "did you mean" not in finding.message


def test_the_rest_of_the_file_counts(place):
    config = place.write('zzzz = 1\nrouting.learning = "off"').load()
    assert config.get("routing.learning") == "off"


def test_a_finding_spans_the_key(place):
    [finding] = place.write("[routing]\n  mdoe = 1").load().findings
    assert (finding.line, finding.column, finding.end_line, finding.end_column) == (2, 3, 2, 7)


def test_the_edit_of_a_fix_makes_the_key_known(place):
    text = '# é\r\n[routing]\r\n  "mdoe" = "search"\r\n'
    [finding] = place.write(text).load().findings
    [edit] = finding.fix.edits
    fixed = text[: edit.start] + edit.text + text[edit.end :]
    assert tomllib.loads(fixed) == {"routing": {"mode": "search"}}
    assert place.write(fixed).load().findings == ()


def test_a_fix_never_makes_a_key_twice(place):
    [finding] = place.write('[routing]\nmode = "search"\nmdoe = 1').load().findings
    assert finding.fix.edits == ()


def test_a_key_can_not_steer_the_terminal(place):
    [finding] = place.write('"\\u001b[2J" = 1').load().findings
    assert finding.message.isprintable()


def test_keys_inside_a_plugins_table_are_its_own_business(place):
    config = place.write("[plugins.web]\nanything = {goes = [1]}", trust=True).load()
    assert config.findings == ()
    assert config.get("plugins.web") == {"anything": {"goes": [1]}}


def test_many_unknown_keys_are_all_found(place):
    config = place.write("\n".join(f"routing.mode{number} = 1" for number in range(300))).load()
    assert len(config.findings) == 300
    assert len([finding for finding in config.findings if finding.fix]) == 50


def test_every_key_of_the_table_is_found_by_its_path():
    for key, setting in SETTINGS.items():
        named = tuple("some-name" if part.isupper() else part for part in key.split("."))
        assert find(named) is setting, key


def test_a_plugin_can_not_take_the_name_of_a_key():
    assert find(("plugins", "enabled")) is SETTINGS["plugins.enabled"]
    assert find(("plugins", "enabled", "x")) is None


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_a_dotted_key_reads_back_as_its_path(path):
    assert split(dotted(tuple(path))) == tuple(path)
