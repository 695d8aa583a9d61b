import pytest

from clawhive_core.capabilities import parse
from clawhive_core.errors import CapabilityError
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.policy.decision import decide
from clawhive_core.policy.rules import Rules
from clawhive_core.policy.starter import Target, granted_verbs, starter_grants
from clawhive_core.protocols.check import PolicyRequest
from tests.harness import tool_meta

VARIABLES = {"workspace": "/w", "run": "/w/clawhive-out/run_1"}

ROWS = [
    ("read the workspace", "fs.read:/w/src/a.py", "allow"),
    ("list the workspace", "fs.read:/w/**", "allow"),
    ("except sensitive names", "fs.read:/w/.env", "deny"),
    ("write the run's own files", "fs.write:/w/clawhive-out/run_1/report.md", "allow"),
    ("not another run's", "fs.write:/w/clawhive-out/run_2/report.md", "ask"),
    ("code in a sandbox engine", "sandbox.exec:python", "allow"),
    ("its directory", "sandbox.write:out/a", "allow"),
    ("enable safe tools", "tool.enable:web.search", "allow"),
    ("own memory", "mem.write:own/notes", "allow"),
    ("not a shared one", "mem.read:shared/notes", "deny"),
    ("a tool without effects", "tool.call:demo.echo", "allow"),
    ("write the workspace", "fs.write:/w/src/a.py", "ask"),
    ("delete in the workspace", "fs.delete:/w/src/a.py", "ask"),
    ("any network address", "net.http:https://example.com/x", "ask"),
    ("without encryption too", "net.http:http://192.0.2.1:8080/", "ask"),
    ("at any port", "net.http:https://example.com:8443/x", "ask"),
    ("by any scheme", "net.http:wss://example.com/x", "ask"),
    ("any connection", "net.connect:db.example.com:5432", "ask"),
    ("a sub-agent", "agent.spawn:researcher", "ask"),
    ("the adapter's default host", "model.call:anthropic", "allow"),
    ("another host of a model", "model.call:anthropic/proxy.example", "ask"),
    ("outside the workspace", "fs.read:/etc/hosts", "deny"),
    ("write outside", "fs.write:/etc/hosts", "deny"),
    ("programs outside a sandbox", "fs.exec:/usr/bin/git", "deny"),
    ("environment variables", "env.read:HOME", "deny"),
    ("secrets", "secret.use:github/token", "deny"),
    ("host capabilities", "host.gmail.read:inbox", "deny"),
    ("own files", "fs.read:/w/.clawhive/hive.db", "deny"),
    ("configuration", "fs.write:/w/clawhive.toml", "deny"),
    ("git hooks", "fs.write:/w/.git/hooks/pre-commit", "deny"),
]


@pytest.mark.parametrize(("what", "capability", "verdict"), ROWS, ids=[row[0] for row in ROWS])
def test_the_out_of_the_box_policy_row_by_row(what, capability, verdict):
    rules = Rules(starter_grants("task_1", str(DEFAULT_AGENT), VARIABLES))
    assert rules.authority(parse(capability)).verdict == verdict


@pytest.mark.parametrize(
    ("risk", "verdict"),
    [("safe", "allow"), ("unknown", "ask"), ("guarded", "ask"), ("unsafe", "ask")],
)
def test_out_of_the_box_a_tool_is_decided_by_its_risk(risk, verdict):
    rules = Rules(starter_grants("task_1", str(DEFAULT_AGENT), VARIABLES))
    tool = tool_meta("mcp.git.status", "mcp_git", risk=risk)
    needs = ("tool.call:mcp.git.status",)
    request = PolicyRequest(tool, {}, DEFAULT_AGENT, needs, "task_1", "step", "conv")
    assert decide(request, rules).verdict == verdict


def test_starter_grants_end_with_their_task_and_come_from_nobody():
    grants = starter_grants("task_1", str(DEFAULT_AGENT), VARIABLES)
    assert {(each.scope, each.scope_id, each.issuer) for each in grants} == {
        ("task", "task_1", "starter")
    }
    assert not any(each.by_person for each in grants)
    assert len({each.grant_id for each in grants}) == len(grants)


def test_an_unusable_pattern_is_an_error():
    with pytest.raises(CapabilityError):
        Target("task_1", "agent:default", VARIABLES).grants(["fs.read:relative"], "user")


def test_the_verbs_of_which_something_is_allowed():
    verbs = granted_verbs(["host.gmail.read:inbox"])
    assert {"fs.read", "fs.write", "host.gmail.read"} <= verbs
    assert "net.http" not in verbs
