import json
import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.config import SETTINGS, load_config, trust_project
from tests.examples import share

LAYERS = ("user config", "project config", "env", "flag")


def values(setting):
    if setting.choices:
        return st.sampled_from(setting.choices)
    low = math.ceil(max(setting.bounds[0], -1000))
    high = math.floor(min(setting.bounds[1], 1000))
    return {
        "text": st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1),
        "integer": st.integers(low, high),
        "number": st.integers(low, high),
        "flag": st.booleans(),
        "texts": st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3),
    }[setting.kind]


SIMPLE = [
    setting
    for setting in SETTINGS.values()
    if not setting.is_family and setting.kind not in {"table", "names", "tables"}
]


@st.composite
def layered(draw):
    """For some settings, what each layer says; None where it is silent."""
    chosen = draw(st.lists(st.sampled_from(SIMPLE), min_size=1, max_size=6, unique_by=id))
    return {
        setting.key: {layer: draw(st.none() | values(setting)) for layer in LAYERS}
        for setting in chosen
    }


def toml(said, layer):
    return "\n".join(
        f"{key} = {json.dumps(by_layer[layer])}"
        for key, by_layer in said.items()
        if by_layer[layer] is not None
    )


def expected(setting, by_layer):
    """The rule in its plainest words, as a second implementation."""
    given_by = [
        (layer, by_layer[layer])
        for layer in LAYERS
        if by_layer[layer] is not None
        and not (layer == "project config" and setting.project == "never")
    ]
    if setting.union:
        joined = [item for _layer, items in given_by for item in items]
        return tuple(dict.fromkeys(joined)), {layer for layer, _items in given_by} or {"default"}
    layer, value = given_by[-1] if given_by else ("default", setting.default)
    return tuple(value) if isinstance(value, list) else value, {layer}


def env_text(value):
    return value if isinstance(value, str) else json.dumps(value)


@share(1 / 2)
@given(layered())
def test_the_highest_layer_wins_and_lists_marked_so_are_joined(said):
    with tempfile.TemporaryDirectory() as folder:
        root, home = Path(folder, "p"), Path(folder, "h", "clawhive")
        root.mkdir()
        home.mkdir(parents=True)
        (home / "config.toml").write_text(toml(said, "user config"), encoding="utf-8")
        (root / "clawhive.toml").write_text(toml(said, "project config"), encoding="utf-8")
        trust_project(root / "clawhive.toml", user_dir=home, env={})
        env = {
            SETTINGS[key].variable: env_text(by_layer["env"])
            for key, by_layer in said.items()
            if by_layer["env"] is not None
        }
        config = load_config(
            root=root,
            env={"XDG_CONFIG_HOME": str(home.parent), **env},
            flags={key: by_layer["flag"] for key, by_layer in said.items()},
        )
    for key, by_layer in said.items():
        value, layers = expected(SETTINGS[key], by_layer)
        assert config.get(key) == value
        origins = config.origin(key).split(", ")
        known = (*LAYERS, "default")
        assert {layer for layer in known for one in origins if one.startswith(layer)} == layers


def test_defaults_are_those_of_the_table(place):
    config = place.load()
    for setting in SIMPLE:
        assert config.get(setting.key) == setting.default
        assert config.origin(setting.key) == "default"
    assert config.findings == ()
    assert (config.project_file, config.trusted, config.ignored) == (None, True, ())


def test_origins_name_file_and_line_variable_or_flag(place):
    place.write(
        '\n[routing]\nlearning = "off"\n', user="[loop]\n# few\nmax_tool_rounds = 3\n", trust=True
    )
    config = place.load({"WEB_SEARCH_BACKEND": "brave"}, {"run.out": "here"})
    assert config.origin("routing.learning") == "project config clawhive.toml:3"
    assert config.origin("loop.max_tool_rounds") == f"user config {place.user}:3"
    assert config.origin("web.search_backend") == "env WEB_SEARCH_BACKEND"
    assert config.origin("run.out") == "flag --out"


def test_each_entry_of_a_joined_list_keeps_its_own_origin(place):
    place.write('policy.deny = ["b", "a"]', user='policy.deny = ["a"]')
    found = place.load({"CLAWHIVE_POLICY_DENY": "c"}).value("policy.deny")
    assert found.value == ("a", "b", "c")
    assert found.each == (
        f"user config {place.user}:1",
        "project config clawhive.toml:1",
        "env CLAWHIVE_POLICY_DENY",
    )


def test_pyproject_holds_the_configuration_where_no_other_file_does(place):
    (place.root / "pyproject.toml").write_text(
        '[project]\nname = "x"\n\n[tool.clawhive.routing]\nlearning = "off"\nmdoe = 1\n'
    )
    config = place.load()
    assert config.get("routing.learning") == "off"
    assert config.origin("routing.learning") == "project config pyproject.toml:5"
    assert config.project_file == place.root / "pyproject.toml"
    assert [finding.place for finding in config.findings] == ["pyproject.toml:6:1"]


def test_clawhive_toml_wins_over_pyproject_and_says_so(place):
    place.write('[routing]\nlearning = "on"\n')
    (place.root / "pyproject.toml").write_text('[tool.clawhive.routing]\nlearning = "off"\n')
    config = place.load()
    assert config.get("routing.learning") == "on"
    assert [finding.code for finding in config.findings] == ["CH0904"]


def test_a_broken_pyproject_of_others_is_not_our_business(place):
    (place.root / "pyproject.toml").write_text("[project\n")
    assert place.load().project_file is None
    (place.root / "pyproject.toml").write_text('[project]\nname = "clawhive"\n')
    assert place.load().project_file is None


def test_tables_are_merged_leaf_by_leaf(place):
    place.write(
        '[user.profile.identity]\nplace = "Rome"\n',
        user='[user.profile.identity]\ndate = 1990-05-17\nplace = "Oslo"\n',
        trust=True,
    )
    config = place.load()
    assert config.get("user.profile") == {"identity": {"date": "1990-05-17", "place": "Rome"}}
    assert config.get("user.profile.identity.place") == "Rome"
    assert config.origin("user.profile.identity.date").startswith("user config")
    assert config.get("user.profile.identity.nothing") is None


@pytest.mark.parametrize(
    ("below", "above", "merged"),
    [
        ("a = 1", "a = {b = 2}", {"a": {"b": 2}}),
        ("a = {b = {c = 2}}", "a = 1", {"a": 1}),
        ("a = {b = 2}", "a = {}", {"a": {"b": 2}}),
        ("a = {}", "a = {b = 2}", {"a": {"b": 2}}),
        ("a = {b = {c = 1, d = 2}}", "a = {b = {c = 3}}", {"a": {"b": {"c": 3, "d": 2}}}),
    ],
)
def test_a_table_and_a_value_at_one_place_replace_each_other(place, below, above, merged):
    place.write(f"[plugins.x]\n{above}\n", user=f"[plugins.x]\n{below}\n", trust=True)
    assert place.load().section("plugins.x") == merged


def test_a_section_holds_defaults_and_every_named_member(place):
    place.write('[agents.fast]\nmodel = "a:b"\n[models.openai]\nmax_retries = 0\n')
    config = place.load()
    assert config.section("agents") == {
        "fast": {
            "model": "a:b",
            "persona": "",
            "description": "",
            "form": "full",
            "planner": None,
            "skills": None,
            "allow": None,
            "tools": None,
            "sub_agent": {"allowed_tools": None},
            "max_depth": 3,
            "budget": {"tokens": None, "cost": None, "seconds": None},
            "when": (),
        }
    }
    assert config.section("models.openai")["max_retries"] == 0
    assert config.section("models.unheard")["max_retries"] == 2
    assert config.section("sandbox")["wall_ms"] == 5000
    assert config.section("mcp")["timeout_ms"] == 30_000


def test_what_is_returned_can_be_changed_without_changing_the_configuration(place):
    config = place.load()
    config.get("tools.alias")["x"] = "y"
    config.section("tools")["alias"]["x"] = "y"
    config.section("routing")["mode"] = "?"
    assert config.get("tools.alias") == {}
    assert config.get("routing.mode") == "search"


def test_names_with_dots_may_be_quoted_or_not(place):
    place.write('[tools.pin]\n"web.search" = "a"\nweb.fetch = "b"\n')
    config = place.load()
    assert config.get("tools.pin") == {"web.search": "a", "web.fetch": "b"}
    assert config.get('tools.pin."web.search"') == "a"
    assert config.origin('tools.pin."web.search"') == "project config clawhive.toml:2"


def test_run_time_tools_and_aliases_fit_into_one_file(place):
    place.write(
        '[[tools]]\nname = "a"\n[[tools]]\nname = "b"\n[catalog]\nconflict = "safest"\n'
        '[catalog.alias]\nold = "new"\n',
        trust=True,
    )
    config = place.load()
    assert [tool["name"] for tool in config.get("tools")] == ["a", "b"]
    assert config.get("tools.conflict") == "safest"
    assert config.section("tools")["alias"] == {"old": "new"}
    assert config.findings == ()


@pytest.mark.parametrize("key", ["routing.mod", "", "agents", ".", 'x."y', "agents.a.b.c"])
def test_asking_for_a_key_that_does_not_exist_is_an_error(place, key):
    with pytest.raises(KeyError):
        place.load().get(key)


def test_asking_for_a_table_that_does_not_exist_is_an_error(place):
    with pytest.raises(KeyError):
        place.load().section("routng")


def test_a_flag_that_is_not_given_says_nothing(place):
    assert place.load(flags={"run.out": None}).origin("run.out") == "default"


def test_secrets_are_never_shown(place):
    place.write(
        "", user='[plugins.x]\napi_key = "s3cret"\nurl = "u"\n[mcp.servers.a.env]\nE="s3cret"\n'
    )
    config = place.load({"DYN_TOOL_ROUTER_API_KEY": "s3cret"})
    assert config.get("routing.router_api_key") == "s3cret"
    assert config.get("plugins.x.api_key") == "s3cret"
    text = json.dumps(config.to_dict())
    assert "s3cret" not in text
    shown = {key: value for key, value, _origin in config.shown()}
    assert shown["routing.router_api_key"] == "[redacted]"
    assert shown["plugins.x.url"] == "u"


def test_names_are_those_that_layers_give_below_a_table(place):
    place.write('[agents.fast]\nmodel = "a:b"\n[agents.deep.budget]\ntokens = 5\n', trust=True)
    config = place.load(flags={"agents.late.model": "c:d"})
    assert set(config.names("agents")) == set(config.section("agents")) == {"fast", "deep", "late"}
    assert config.names("mcp.servers") == ()
