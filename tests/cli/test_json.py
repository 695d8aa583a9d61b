"""With `--json` there is one object on stdout, and it is what its schema says."""

import json

import pytest

from clawhive_core.cli import COMMANDS
from clawhive_core.cli.schema import schema_names

NAMES = (
    *("audit-verify", "config", "doctor", "error", "event", "explanation", "findings", "plugins"),
    *("plugins-new", "plugins-sync", "plugins-trust", "refusal", "replay", "run", "runs"),
    *("check", "skill", "skills", "skills-diff", "skills-graph", "skills-lock", "skills-new"),
    *("skills-types", "skills-why"),
    *("subscriptions", "tool", "tool-result", "tools", "trust"),
    *("grants", "policy", "policy-cases", "policy-explain", "policy-test"),
    *("audit-key", "audit-prune", "audit-query", "audit-rebuild"),
)

WRITTEN_BY_PEOPLE = {"policy-cases"}


def check(clawhive, value, name):
    """Validate with the library of the core and with a second one."""
    import jsonschema
    import jsonschema_rs

    schema = json.loads(clawhive("schema", name).out)
    assert value["schema"] == f"{name}/1"
    problems = [str(error) for error in jsonschema_rs.validator_for(schema).iter_errors(value)]
    assert problems == []
    jsonschema.Draft202012Validator(schema).validate(value)
    return value


def one_object(done):
    value, end = json.JSONDecoder().raw_decode(done.out)
    assert done.out[end:] == "\n"
    return value


def test_every_schema_is_a_valid_schema_that_names_itself(clawhive):
    import jsonschema_rs

    assert set(NAMES) <= set(schema_names())
    assert clawhive("schema").out.split() == schema_names()
    for name in schema_names():
        done = clawhive("schema", name)
        schema = json.loads(done.out)
        jsonschema_rs.meta.validate(schema)
        assert schema["properties"]["schema"]["const"] == f"{name}/1"
        assert name in WRITTEN_BY_PEOPLE or "schema" in schema["required"]
        assert clawhive("schema", f"{name}/1").out == done.out


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("run", "look", "--model", "scripted:demo"), "run"),
        (("run", "look", "--model", "scripted:none"), "run"),
        (("runs", "list"), "runs"),
        (("runs", "show", "last"), "run"),
        (("runs", "replay", "last"), "replay"),
        (("tools", "list"), "tools"),
        (("tools", "list", "--all"), "tools"),
        (("tools", "show", "file.read"), "tool"),
        (("tools", "show", "sandbox.exec"), "tool"),
        (("tools", "call", "web.search", "--args", '{"query": "x"}'), "tool-result"),
        (("tools", "call", "file.read", "--args", '{"path": "none"}'), "tool-result"),
        (("tools", "call", "file.read", "--args", '{"path": "/etc/passwd"}'), "refusal"),
        (("tools", "call", "file.read", "--args", '{"path": 1}'), "refusal"),
        (("tools", "call", "none.such"), "refusal"),
        (("plugins",), "plugins"),
        (("plugins", "list"), "plugins"),
        (("plugins", "check", "builtin"), "findings"),
        (("doctor",), "doctor"),
        (("config", "show"), "config"),
        (("config", "show", "routing"), "config"),
        (("explain", "denied"), "explanation"),
        (("explain", "CH0101"), "explanation"),
        (("audit", "verify"), "audit-verify"),
        (("audit", "query"), "audit-query"),
        (("audit", "query", "--run", "last", "--decision", "deny"), "audit-query"),
        (("audit", "query", "--run", "none"), "error"),
        (("audit", "query", "--since", "some day"), "error"),
        (("audit", "rebuild"), "audit-rebuild"),
        (("audit", "rebuild", "--check"), "audit-rebuild"),
        (("audit", "key", "show"), "audit-key"),
        (("audit", "key", "rotate"), "audit-key"),
        (("audit", "prune", "--before", "1d"), "audit-prune"),
        (("audit", "prune", "--before", "2099-01-01", "--vacuum"), "audit-prune"),
        (("audit", "prune", "--before", "soon"), "error"),
        (("audit", "prune"), "error"),
        (("plugins", "new", "hello"), "plugins-new"),
        (("grants", "list"), "grants"),
        (("grants", "issue", "fs.write:${workspace}/**", "--always"), "grants"),
        (("grants", "issue", "fs.write:${workspace}/**", "--session", "s"), "grants"),
        (("grants", "issue", "fs.write:${workspace}/**"), "error"),
        (("grants", "issue", "nonsense", "--always"), "error"),
        (("grants", "revoke", "none"), "error"),
        (("policy", "show", "--grant", "fs.write:${workspace}/**"), "policy"),
        (("policy", "explain", "file.read", "--args", '{"path": "x"}'), "policy-explain"),
        (("policy", "explain", "file.read", "--args", '{"path": "/etc/x"}'), "policy-explain"),
        (("policy", "explain", "file.read", "--args", "[]"), "error"),
        (("policy", "explain", "none.such"), "error"),
        (("skills",), "skills"),
        (("skills", "show", "code"), "skill"),
        (("skills", "check"), "check"),
        (("skills", "new", "hello"), "skills-new"),
        (("skills", "lock"), "skills-lock"),
        (("skills", "lock", "--frozen"), "skills-lock"),
        (("skills", "show", "none"), "error"),
        (("subscriptions", "list"), "subscriptions"),
        (("subscriptions", "add", "nothing"), "error"),
        (("trust", "show"), "trust"),
        (("trust", "revoke"), "trust"),
        (("trust", "--yes"), "error"),
        (("runs", "show", "nothing"), "error"),
        (("run", "x", "--model", "none:x"), "error"),
        (("run", "--task", "none"), "error"),
        (("run", "--task", "run_code_snippet"), "error"),
        (("run",), "error"),
        (("run", "--none"), "error"),
        (("none",), "error"),
        (("explain", "nothing-like-it"), "error"),
        (("schema", "none"), "error"),
        (("--root", "/no/such/folder", "runs", "list"), "error"),
        (("plugins", "check", "none"), "error"),
    ],
    ids=" ".join,
)
@pytest.mark.promise("P-039")
def test_each_command_prints_what_its_schema_says(clawhive, words, name):
    if words[0] in {"runs", "audit"}:
        clawhive("run", "look", "--model", "scripted:demo")
    done = clawhive(*words, "--json") if words[0] != "schema" else clawhive("--json", *words)
    if done.code == 2 and "--json" in done.err:
        pytest.fail(done.err)
    check(clawhive, one_object(done), name)


def test_every_line_of_the_log_is_an_event(clawhive):
    import jsonschema_rs

    clawhive.snippet("print(1)")
    clawhive("run", "look", "--model", "scripted:demo")
    clawhive("runs", "replay", "last")
    rows = clawhive.events()
    assert len(rows) > 20
    schema = json.loads(clawhive("schema", "event").out)
    validator = jsonschema_rs.validator_for(schema)
    for row in rows:
        assert [str(error) for error in validator.iter_errors(row)] == []


@pytest.mark.parametrize("code", ["print(1)", "raise ValueError('x')", "def f():\n  yield"])
def test_a_task_run_prints_what_its_schema_says(clawhive, code):
    check(clawhive, one_object(clawhive.snippet(code, "--json")), "run")


def test_a_failed_plugin_is_in_the_lists_as_their_schemas_say(clawhive, site):
    site.plugin("broken", "", manifest="[plugin\n")
    check(clawhive, one_object(clawhive("plugins", "--json")), "plugins")
    check(clawhive, one_object(clawhive("doctor", "--json")), "doctor")
    check(clawhive, one_object(clawhive("plugins", "check", "broken", "--json")), "findings")


def test_a_synced_manifest_is_told_as_its_schema_says(clawhive, bad_tools):
    bad_tools.joinpath("clawhive-plugin.toml").unlink()
    value = check(
        clawhive, one_object(clawhive("plugins", "sync", "bad", "--json")), "plugins-sync"
    )
    assert value["manifests"][0]["created"]
    assert "bad.hang" in value["manifests"][0]["tools"]


def test_trust_in_json_never_asks_and_lists_what_is_trusted(clawhive):
    clawhive.root.joinpath("clawhive.toml").write_text('[policy]\nallow = ["fs.read:/x"]\n')
    refused = clawhive("trust", "--json")
    assert refused.code == 2
    check(clawhive, one_object(refused), "error")
    value = check(clawhive, one_object(clawhive("trust", "--yes", "--json")), "trust")
    assert [file["path"] for file in value["files"]] == [str(clawhive.root / "clawhive.toml")]
    assert check(clawhive, one_object(clawhive("trust", "show", "--json")), "trust") == value


def test_findings_of_the_configuration_are_as_the_schema_says(clawhive):
    clawhive.root.joinpath("clawhive.toml").write_text('[routin]\nmode = "x"\n')
    value = check(clawhive, one_object(clawhive("config", "show", "--json")), "config")
    assert value["findings"]


def test_errors_in_json_say_nothing_on_stderr_about_usage(clawhive):
    done = clawhive("run", "--none", "--json")
    assert done.code == 2
    assert done.err == ""
    assert one_object(done)["error"] == "usage"


def test_every_command_has_help_with_an_example(clawhive):
    for name in COMMANDS:
        done = clawhive(name, "--help")
        assert done.code == 0, name
        assert "Example: clawhive " in done.out, name
    from importlib import import_module

    import click

    for name in COMMANDS:
        command = import_module(f"clawhive_core.cli.{name}").command
        for below in command.commands if isinstance(command, click.Group) else ():
            done = clawhive(name, below, "--help")
            assert "Example: clawhive " in done.out, (name, below)
