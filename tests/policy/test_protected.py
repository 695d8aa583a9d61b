from dataclasses import replace

import pytest

from clawhive_core.capabilities import parse, path_capability
from clawhive_core.model.identity import ToolIdentity
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.model.tools import ToolMeta
from clawhive_core.policy.decision import decide
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.check import PolicyRequest
from tests.harness import grant

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
    "/w/.git/a/hooks/x",
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
