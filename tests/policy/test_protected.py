from dataclasses import replace
from pathlib import Path

import pytest

from clawhive_core.capabilities import parse, path_capability
from clawhive_core.model.identity import ToolIdentity
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.model.tools import ToolMeta
from clawhive_core.policy.decision import decide
from clawhive_core.policy.protected import TABLE, changes_settings
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.check import PolicyRequest
from tests.harness import grant

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "capabilities.md"
VERBS = ["fs.read", "fs.write", "fs.delete", "fs.exec"]
OWN = [
    "/w/.clawhive",
    "/w/.clawhive/hive.db",
    "/w/a/b/c/.clawhive/x/y",
    "/.clawhive",
    "/w/clawhive.toml",
    "/w/sub/clawhive.lock",
    "/w/.git/hooks",
    "/w/.git/hooks/pre-commit",
    "/w/.git/config",
    "/w/sub/.git/hooks/x",
    "/w/.CLAWHIVE/hive.db",
    "/w/ClawHive.TOML",
    "/w/.Git/HOOKS/x",
    "/w/.git/a/hooks/x",
    "/w/.git/config.worktree",
    "/w/.git/modules/sub/config",
    "/w/.git/modules/a/b/hooks/post-checkout",
    "/w/.git/worktrees/x/config.worktree",
    "/w/GIT~1/config",
    "/w/.git /config",
    "/w/.g\u200cit/config",
]
CLOSED = [
    "/w/.git",
    "/w/src/.git",
    "/w/.GIT",
    "/w/.git/commondir",
    "/w/.git/info/attributes",
    "/w/.git/objects/info/alternates",
    "/w/.git/worktrees/x/gitdir",
    "/w/.git./index",
    "/w/.husky\u200b/x",
    "/w/.git::$INDEX_ALLOCATION/index",
    "/w/HEAD",
    "/w/a/b/head",
    "/w/.envrc",
    "/w/.husky/pre-commit",
    "/w/.githooks/pre-commit",
    "/w/a/.vscode/tasks.json",
    "/w/x.code-workspace",
    "/w/.idea/runConfigurations/x.xml",
    "/w/.devcontainer/devcontainer.json",
    "/w/.claude/settings.local.json",
    "/w/.mcp.json",
    "/w/.cursor/mcp.json",
    "/w/.venv/lib/python3.11/site-packages/x.pth",
    "/w/sitecustomize.py",
    "/home/u/.bashrc",
    "/home/u/.config/fish/config.fish",
    "/home/u/.ssh/authorized_keys",
    "/home/u/.gitconfig",
]
ASKS = [
    "/w/pyproject.toml",
    "/w/sub/PyProject.toml",
    "/w/.pre-commit-config.yaml",
    "/w/.npmrc",
    "/w/.yarnrc.yml",
    "/w/.tool-versions",
    "/w/.github/workflows/ci.yml",
    "/w/.claude/skills/x/SKILL.md",
]
SENSITIVE = [
    "/w/.env",
    "/w/.env.local",
    "/w/.ENV",
    "/w/.environment",
    "/w/a/key.pem",
    "/w/KEY.PEM",
    "/w/id_rsa",
    "/w/id_rsa/readme",
    "/w/a/.netrc",
    "/w/.env*",
]
PLAIN = [
    "/w/clawhive.toml.bak",
    "/w/my.clawhive",
    "/w/hooks/x",
    "/w/.github/CODEOWNERS",
    "/w/.gitignore",
    "/w/git/config",
    "/w/head/x",
    "/w/HEAD.txt",
    "/w/Makefile",
    "/w/conftest.py",
    "/w/package.json",
    "/w/env",
    "/w/pem",
    "/w/key.pem.txt",
    "/w/myid_rsa",
    "/w/netrc",
]


def authority(verb, path, *grants):
    return Rules([grant(f"{each}:**") for each in VERBS] + list(grants)).authority(
        path_capability(verb, path)
    )


@pytest.mark.parametrize("path", OWN)
def test_own_files_are_denied_to_every_verb_whatever_is_granted(path):
    for verb in VERBS:
        capability = path_capability(verb, path).text
        for issuer in ("user", "config", "approval"):
            found = authority(verb, path, grant(capability, issuer))
            assert (found.verdict, found.rule) == ("deny", "protected:own")


@pytest.mark.parametrize("path", SENSITIVE)
def test_sensitive_names_are_denied_unless_a_person_granted_exactly_that(path):
    for verb in VERBS:
        capability = path_capability(verb, path).text
        assert authority(verb, path).rule == "protected:sensitive"
        folder = f"{verb}:{path.rpartition('/')[0]}/**"
        assert authority(verb, path, grant(folder)).verdict == "deny"
        for issuer in ("starter", "skill"):
            assert authority(verb, path, grant(capability, issuer)).verdict == "deny"
        for issuer in ("user", "config", "approval"):
            assert authority(verb, path, grant(capability, issuer)).verdict == "allow"


@pytest.mark.parametrize("path", CLOSED)
def test_what_runs_by_itself_is_closed_to_each_change_whatever_is_granted(path):
    for verb in VERBS[1:]:
        capability = path_capability(verb, path).text
        for issuer in ("user", "config", "approval"):
            found = authority(verb, path, grant(capability, issuer))
            assert (found.verdict, found.rule) == ("deny", "protected:closed")
    assert authority("fs.read", path, grant(f"fs.read:{path}")).verdict == "allow"


@pytest.mark.parametrize("path", ASKS)
def test_a_change_that_asks_is_allowed_by_an_exact_right_of_a_person_only(path):
    for verb in VERBS[1:]:
        capability = path_capability(verb, path).text
        found = authority(verb, path)
        assert (found.verdict, found.rule) == ("ask", "protected:asks")
        assert Rules([]).authority(path_capability(verb, path)).rule == "no-grant"
        for issuer in ("starter", "skill"):
            assert authority(verb, path, grant(capability, issuer)).verdict == "ask"
        for issuer in ("user", "config", "approval"):
            assert authority(verb, path, grant(capability, issuer)).verdict == "allow"
            assert authority(verb, path, grant(capability, issuer, "ask")).verdict == "ask"
    assert authority("fs.read", path).verdict == "allow"


def test_a_bound_that_names_a_file_does_not_lift_what_it_asks():
    broad = [grant("fs.write:/w/**")]
    for name, verdict in ((".npmrc", "ask"), ("notes.txt", "allow"), (".env", "deny")):
        wanted = path_capability("fs.write", f"/w/{name}")
        assert Rules(broad).bounded((wanted.text,)).authority(wanted).verdict == verdict


@pytest.mark.parametrize("path", PLAIN)
def test_similar_names_are_not_protected(path):
    assert all(authority(verb, path).verdict == "allow" for verb in VERBS)


def test_an_exact_grant_is_for_its_verb_only():
    found = authority("fs.write", "/w/.env", grant("fs.read:/w/.env"))
    assert found.verdict == "deny"


@pytest.mark.promise("P-200")
@pytest.mark.parametrize("issuer", ["starter", "skill", "user", "config", "approval"])
@pytest.mark.parametrize("name", ["/w/.env", "/w/id_rsa/readme", "/w/.env/**"])
def test_a_broad_right_never_lifts_what_an_exact_one_asks(issuer, name):
    wanted = parse(f"fs.read:{name}")
    broad = grant("fs.read:/w/**", issuer)
    exact = grant(wanted.text, "user", "ask")
    found = Rules([broad, exact]).authority(wanted)
    assert (found.verdict, found.grant) == ("ask", exact)


def test_no_use_of_a_broad_right_is_counted_for_a_sensitive_name():
    wanted = parse("fs.read:/w/.env")
    broad, exact = grant("fs.read:/w/**", uses=1), grant(wanted.text, "approval", uses=2)
    for grants in ([broad, exact], [exact, broad]):
        rules = Rules(grants)
        assert rules.authority(wanted).grant == exact
        assert list(rules.covering(wanted, {})) == [exact]


def test_a_broad_right_is_not_named_as_one_that_would_do_for_a_sensitive_name():
    terms = "?n<=1"
    broad, exact = grant(f"fs.read:/w/**{terms}"), grant(f"fs.read:/w/.env{terms}")
    rules = Rules([broad, exact])
    wanted = parse("fs.read:/w/.env")
    assert [each for each, _ in rules.unmet(wanted, {"n": 2})] == [exact]
    assert list(rules.unmet(parse("fs.read:/w/.clawhive/x"), {"n": 2})) == []
    assert [each for each, _ in rules.unmet(parse("fs.read:/w/a"), {"n": 2})] == [broad]


def test_a_broad_right_given_for_a_tool_that_changed_is_not_missed_for_a_sensitive_name():
    tool = ToolMeta("demo.tool", "A tool.", {"type": "object"}, "demo", risk="safe")
    before = ToolIdentity.of(replace(tool, risk="guarded")).text
    broad = grant("fs.read:/w/**", tool=before)
    for path, missed in (("/w/a", (broad.grant_id,)), ("/w/.env", ()), ("/w/.clawhive/x", ())):
        needs = (f"fs.read:{path}",)
        request = PolicyRequest(tool, {}, DEFAULT_AGENT, needs, "task_1", "s", "c")
        assert decide(request, Rules([broad])).suspended == missed


def test_a_deny_stands_over_an_exact_grant():
    rules = Rules([grant("fs.read:/w/.env")], denies=["fs.read:/w/**"])
    found = rules.authority(path_capability("fs.read", "/w/.env"))
    assert (found.verdict, found.rule) == ("deny", "deny:fs.read:/w/**")


@pytest.mark.parametrize(
    "text",
    [
        "sandbox.write:out/key.pem",
        "sandbox.read:.env",
        "secret.use:id_rsa",
        "mem.write:own/.clawhive",
        "tool.call:id_card",
        "agent.spawn:clawhive.toml",
    ],
)
def test_only_files_are_protected_by_their_names(text):
    """A session's sandbox directory and other rooms' names are none of the user's files."""
    verb = text.partition(":")[0]
    assert Rules([grant(f"{verb}:**")]).authority(parse(text)).verdict == "allow"


def test_the_page_names_each_protected_file_with_its_reason_and_no_other():
    section = PAGE.read_text("utf-8").split("## Protected files\n")[1].split("\n## ")[0]
    written = [row for row in section.split("\n") if row.startswith("| `")]
    names = [", ".join(f"`{each}`" for each in row.names) for row in TABLE]
    assert written == [
        f"| {each} | {row.kind} | {row.why} |" for each, row in zip(names, TABLE, strict=True)
    ]


@pytest.mark.parametrize(
    "text", ["a." * 50_000 + "a = 1", "a = " + "[" * 50_000, "a = " + "1" * 5_000]
)
def test_a_project_file_that_cannot_be_read_in_time_counts_as_changed(text):
    assert changes_settings(b"[tool.clawhive]", text.encode())
