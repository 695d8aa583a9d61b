import pytest

from clawhive_core.config import SETTINGS
from clawhive_core.errors import ConfigError


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("CLAWHIVE_ROUTING_MODE", "full", "routing.mode", "full"),
        ("DYN_TOOL_ROUTING_MODE", "legacy", "routing.mode", "full"),
        ("DYN_TOOL_ROUTING_MODE", "v2", "routing.mode", "search"),
        ("DYN_TOOL_ROUTER_MODEL", "tiny", "routing.router_model", "tiny"),
        ("DYN_TOOL_ROUTER_PROVIDER", "x", "routing.router_provider", "x"),
        ("DYN_TOOL_ROUTER_BASE_URL", "http://l", "routing.router_base_url", "http://l"),
        ("DYN_TOOL_ROUTER_API_KEY", "", "routing.router_api_key", ""),
        ("DYN_TOOL_ROUTER_TIMEOUT_SEC", "1.5", "routing.router_timeout_sec", 1.5),
        ("DYN_TOOL_ENABLE_DEFAULT_TTL_TURNS", "7", "routing.enable_default_ttl_turns", 7),
        ("DYN_TOOL_ROUTER_CONFIDENCE_THRESHOLD", "1", "routing.router_confidence_threshold", 1),
        ("DYN_TOOL_POLICY_STRICT", "False", "routing.policy_strict", False),
        ("WEB_SEARCH_BACKEND", "brave", "web.search_backend", "brave"),
        ("MCP_SERVER_NAME", "git", "mcp.server_name", "git"),
        ("MCP_SERVER_CMD", "uvx", "mcp.server_cmd", "uvx"),
        ("MCP_SERVER_ARGS_JSON", "not json", "mcp.server_args_json", "not json"),
        ("MCP_SERVER_ARGS", "a 'b c'", "mcp.server_args", "a 'b c'"),
        ("MCP_SERVER_CWD", "/", "mcp.server_cwd", "/"),
        ("MCP_TIMEOUT_MS", "5", "mcp.timeout_ms", 5),
        ("MCP_SERVERS_JSON", "{broken", "mcp.servers_json", "{broken"),
        ("CLAWHIVE_PLUGINS_DISABLED", "a, b,,", "plugins.disabled", ("a", "b")),
        ("CLAWHIVE_PLUGINS_DISABLED", '["a,b"]', "plugins.disabled", ("a,b",)),
        ("CLAWHIVE_SKILLS_PATHS", "", "skills.paths", ()),
        ("CLAWHIVE_USER_PROFILE", '{"a": {"b": null}}', "user.profile", {"a": {"b": None}}),
        ("CLAWHIVE_PLUGINS_STRICT", " YES ", "plugins.strict", True),
        ("CLAWHIVE_PLUGINS_STRICT", "0", "plugins.strict", False),
    ],
)
def test_a_variable_gives_its_setting(place, variable, text, key, value):
    config = place.load({variable: text})
    assert config.get(key) == value
    assert config.origin(key) == f"env {variable}"


def test_the_own_variable_goes_before_its_aliases(place):
    config = place.load({"DYN_TOOL_ROUTING_MODE": "v2", "CLAWHIVE_ROUTING_MODE": "full"})
    assert config.origin("routing.mode") == "env CLAWHIVE_ROUTING_MODE"
    assert config.get("routing.mode") == "full"


@pytest.mark.parametrize(
    "key", ["routing.mode", "mcp.timeout_ms", "plugins.strict", "plugins.enabled", "user.profile"]
)
def test_an_empty_variable_counts_as_unset(place, key):
    assert place.load({SETTINGS[key].variable: ""}).origin(key) == "default"


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("CLAWHIVE_PLUGINS_STRICT", "maybe"),
        ("CLAWHIVE_PLUGINS_STRICT", "2"),
        ("MCP_TIMEOUT_MS", "fast"),
        ("MCP_TIMEOUT_MS", "0"),
        ("MCP_TIMEOUT_MS", "1.5"),
        ("MCP_TIMEOUT_MS", "9" * 5000),
        ("DYN_TOOL_ROUTER_TIMEOUT_SEC", "nan"),
        ("DYN_TOOL_ROUTER_CONFIDENCE_THRESHOLD", "1.1"),
        ("DYN_TOOL_ROUTING_MODE", "v3"),
        ("CLAWHIVE_PLUGINS_DISABLED", "[1]"),
        ("CLAWHIVE_PLUGINS_DISABLED", "[a"),
        ("CLAWHIVE_USER_PROFILE", "x"),
        ("CLAWHIVE_USER_PROFILE", "[]"),
        ("CLAWHIVE_USER_PROFILE", '{"a": NaN}'),
        ("CLAWHIVE_USER_PROFILE", "[" * 100_000),
    ],
)
def test_a_bad_variable_is_an_error_that_names_it(place, variable, text):
    with pytest.raises(ConfigError) as caught:
        place.load({variable: text})
    assert caught.value.place == variable
    assert caught.value.fix
    assert len(caught.value.message) < 200


def test_no_two_settings_read_one_variable():
    names = [name for s in SETTINGS.values() for name in (*filter(None, (s.variable,)), *s.env)]
    assert len(names) == len(set(names))


def test_a_misspelt_variable_is_a_finding_and_a_foreign_one_is_not(place):
    config = place.load(
        {"CLAWHIVE_ROUTNG_MODE": "x", "CLAWHIVE_RUN": "run_1", "CLAWHIVE_MY_PLUGIN": "y"}
    )
    [finding] = config.findings
    assert (finding.code, finding.file) == ("CH0901", None)
    assert "CLAWHIVE_ROUTING_MODE" in finding.message


@pytest.mark.parametrize(
    ("flags", "where"),
    [
        ({"run.out": 1}, "--out"),
        ({"routing.mode": "x"}, "--routing.mode"),
        ({"no.such": 1}, "--no"),
    ],
)
def test_a_bad_flag_is_an_error_that_names_it(place, flags, where):
    with pytest.raises(ConfigError) as caught:
        place.load(flags=flags)
    assert caught.value.place.startswith(where)
