import pytest

from clawhive_core.capabilities import parse, path_capability
from clawhive_core.policy.rules import Rules
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
