"""The configured servers: `[mcp.servers]`, the environment's variables, and pasted JSON."""

import json
import subprocess
import sys

import pytest

from clawhive_core import HookContext
from clawhive_core.config.load import open_config
from clawhive_core.plugins.manager import plugin_options
from clawhive_mcp import clawhive_tool_providers
from clawhive_mcp.servers import pasted, read_servers

ENV = {"TOKEN": "t0ken", "HOME": "/home/ana"}


def servers(config, env=None):
    return read_servers(config, env or ENV, "/work")


def messages(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "clawhive.mcp"]


def test_a_table_names_program_arguments_directory_and_variables():
    table = {"command": "uvx", "args": ["mcp-server-git"], "cwd": "sub", "env": {"A": "1"}}
    [found] = servers({"servers": {"git": table}, "timeout_ms": 5, "connect_timeout_ms": 6})
    assert (found.name, found.provider_id) == ("git", "mcp_git")
    assert found.command == ("uvx", "mcp-server-git")
    assert (found.cwd, dict(found.env)) == ("/work/sub", {"A": "1"})
    assert (found.timeout_ms, found.connect_timeout_ms, found.problem) == (5, 6, "")


def test_cmd_is_program_and_arguments_in_one():
    [found] = servers({"servers": {"a": {"cmd": ["x", "y"], "timeout_ms": 7}}, "timeout_ms": 5})
    assert (found.command, found.cwd, found.timeout_ms) == (("x", "y"), "/work", 7)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${TOKEN}", "t0ken"),
        ("Bearer ${env:TOKEN}!", "Bearer t0ken!"),
        ("${NOPE:-x}", "x"),
        ("${NOPE:-}", ""),
        ("$TOKEN", "$TOKEN"),
    ],
)
def test_variables_are_filled_in(text, value):
    config = {"servers": {"a": {"cmd": ["x", text], "env": {"K": text}}}}
    [found] = servers(config)
    assert (found.command[1], found.env["K"]) == (value, value)
    [found] = servers({"servers": {"a": {"url": "https://h/mcp", "headers": {"K": text}}}})
    assert found.headers == {"K": value}


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"cmd": ["x", "${NOPE}"]}, "`NOPE` is not set"),
        ({}, "neither"),
        ({"cmd": []}, "neither"),
        ({"command": "x\0y"}, "NUL"),
        ({"command": "/bin/clawhive", "args": ["serve", "mcp"]}, "start itself without end"),
        ({"cmd": ["x"], "sandbox": True}, "pip install ./plugins/sandbox"),
        ({"url": "https://h/mcp", "sandbox": True}, "runs elsewhere"),
        ({"url": "file:///etc/passwd"}, "no http"),
        ({"url": "https://h", "type": "sse"}, "streamable HTTP"),
        ({"cmd": ["x"], "env": ["A=1"]}, "`env`"),
    ],
)
async def test_a_server_that_cannot_be_reached_as_it_stands_says_why_and_has_no_tools(
    caplog, monkeypatch, table, why
):
    monkeypatch.setattr("clawhive_mcp.servers.find_spec", lambda _: None)
    config = {"servers": {"bad": table, "good": {"cmd": ["x"]}}}
    bad, good = servers(config)
    assert why in bad.problem
    assert good.problem == ""
    provider = clawhive_tool_providers(HookContext("mcp", {}, "/work", ENV, config))[0]
    assert await provider.list_tools() == []
    assert messages(caplog)[0].startswith("mcp.spawn.failed server=bad: ")


def test_a_jailed_server_sees_the_folder_that_it_names_and_no_other(monkeypatch):
    monkeypatch.setattr("clawhive_mcp.servers.find_spec", lambda _: True)
    for cwd, seen in (({}, None), ({"cwd": "sub"}, "/work/sub")):
        [found] = servers({"servers": {"a": {"cmd": ["x"], "sandbox": True, **cwd}}})
        assert (found.sandbox, found.cwd, found.problem) == (True, seen, "")


def test_a_disabled_server_is_no_provider():
    config = {"servers": {"a": {"cmd": ["x"], "disabled": True}, "b": {"cmd": ["x"]}}}
    found = clawhive_tool_providers(HookContext("mcp", {}, "/work", ENV, config))
    assert [each.provider_id for each in found] == ["mcp_b"]


def test_names_are_folded_and_equal_ones_numbered():
    names = ["sequential-thinking", "Sequential Thinking", "sequential_thinking_2", "Überweg", ""]
    found = servers({"servers": {name: {"cmd": ["x", name]} for name in names}})
    assert {each.command[1]: each.name for each in found} == {
        "sequential-thinking": "sequential_thinking",
        "Sequential Thinking": "sequential_thinking_3",
        "sequential_thinking_2": "sequential_thinking_2",
        "Überweg": "_berweg",
        "": "server",
    }


class TestTheEnvironment:
    def test_one_server_comes_from_its_variables(self):
        config = {
            "server_name": "git",
            "server_cmd": "uvx",
            "server_args": "mcp-server-git --repository 'my repo'",
            "server_cwd": "/srv",
        }
        [found] = servers(config)
        assert (found.name, found.cwd) == ("git", "/srv")
        assert found.command == ("uvx", "mcp-server-git", "--repository", "my repo")

    def test_arguments_as_json_win(self):
        config = {"server_cmd": "x", "server_args": "a", "server_args_json": '["b c", "d"]'}
        assert servers(config)[0].command == ("x", "b c", "d")

    @pytest.mark.parametrize("text", ["{", "{}", "[1]", '"a"'])
    def test_arguments_that_are_no_array_of_texts_are_told_and_the_others_used(self, caplog, text):
        config = {"server_cmd": "x", "server_args": "a", "server_args_json": text}
        assert servers(config)[0].command == ("x", "a")
        assert "mcp.server_args_json.invalid" in messages(caplog)[0]

    def test_many_come_from_json_which_wins_over_the_one(self):
        many = [{"name": "a", "cmd": ["x", "1"], "cwd": "/a"}, {"name": "b", "cmd": ["y"]}]
        config = {"servers_json": json.dumps(many), "server_cmd": "z"}
        assert [(each.name, each.command, each.cwd) for each in servers(config)] == [
            ("a", ("x", "1"), "/a"),
            ("b", ("y",), "/work"),
        ]

    @pytest.mark.parametrize("text", ["{broken" + "x" * 900, '"text"', "[" * 99_999, "{}"])
    def test_json_that_is_none_is_told_cut_and_the_one_is_used(self, caplog, text):
        found = servers({"servers_json": text, "server_cmd": "z"})
        assert [each.command for each in found] == [("z",)]
        [line] = messages(caplog)
        assert line.startswith("mcp.servers_json.invalid: ")
        assert len(line) < 600

    def test_bad_entries_are_skipped_with_a_warning_and_the_rest_stay(self, caplog):
        many = [
            {"name": "Bad-Name", "cmd": ["x"]},
            {"name": "a", "cmd": ["first"]},
            {"name": "a", "cmd": ["second"]},
            {"name": "empty", "cmd": []},
            {"name": "text", "cmd": "x"},
            {"cmd": ["x"]},
            "text",
            {"name": "b", "cmd": ["y"]},
        ]
        found = servers({"servers_json": json.dumps(many)})
        assert [(each.name, each.command[0]) for each in found] == [("a", "first"), ("b", "y")]
        assert len(messages(caplog)) == 6

    def test_a_pasted_object_is_taken_as_it_is(self):
        text = '{"mcpServers": {"My Files": {"command": "npx", "args": ["-y", "files"]}}}'
        [found] = servers({"servers_json": text})
        assert (found.name, found.command) == ("my_files", ("npx", "-y", "files"))

    def test_its_server_goes_before_one_of_the_same_name_in_a_file(self, caplog):
        config = {
            "servers_json": '[{"name": "a", "cmd": ["env"]}]',
            "servers": {"a": {"cmd": ["file"]}, "b": {"cmd": ["file"]}},
        }
        assert [each.command[0] for each in servers(config)] == ["env", "file"]
        assert "mcp.server.skipped server=a" in messages(caplog)[0]


@pytest.mark.parametrize("text", ["[]", "{}", '{"a": 1}', "1", '{"mcpServers": []}'])
def test_what_holds_no_servers_is_none(text):
    with pytest.raises(ValueError, match="mcpServers"):
        pasted(text)


def test_the_configuration_reaches_the_plugin_and_an_untrusted_project_does_not(tmp_path):
    user = tmp_path / "user" / "clawhive"
    user.mkdir(parents=True)
    (user / "config.toml").write_text('[mcp.servers.mine]\ncmd = ["x"]\ntrust = "annotations"\n')
    project = tmp_path / "project"
    project.mkdir()
    (project / "clawhive.toml").write_text('[mcp.servers.evil]\ncmd = ["y"]\n')
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "user")}
    given = plugin_options(open_config(project, {}, env), env).config["mcp"]
    [found] = read_servers(given, env, str(project))
    assert (found.name, found.trusts_annotations) == ("mine", True)


def test_the_hook_without_servers_imports_nothing_of_them():
    code = "import sys, clawhive_mcp; print('clawhive_mcp.provider' in sys.modules)"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
