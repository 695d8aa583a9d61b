"""Cedar policies beside the policy of ClawHive: they tighten, say which did, and fail closed."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_cedar import CedarCheck
from clawhive_cedar.request import value_of
from clawhive_cedar.settings import policy_file
from clawhive_core import CheckResult, ClawHiveError, PolicyRequest, Principal, Refusal, ToolMeta
from clawhive_core.testing import check_policy, memory_hive

POLICIES = """\
// a comment; with a semicolon
@id("no-mail")
forbid (principal, action, resource == Tool::"mail.send")
when { context.input has to && !(context.input.to like "*@example.com") };

@ask("look first; then say")
@id("net-asks")
forbid (principal in PrincipalKind::"agent", action, resource)
when { context.verbs.contains("net.http") };

@id("nothing") permit (principal, action, resource);

@id("big")
forbid (principal, action, resource in Provider::"shop")
when { context.input.amount > 100 };
"""


@pytest.fixture
def made(tmp_path):
    def make(text=POLICIES):
        path = tmp_path / "policies.cedar"
        path.write_text(text, "utf-8")
        return CedarCheck(path)

    return make


def call(name="mail.send", input=None, *capabilities, provider="mail", who="agent:default"):
    meta = ToolMeta(name, "A tool.", {"type": "object"}, provider)
    needed = capabilities or (f"tool.call:{name}",)
    return PolicyRequest(meta, input or {}, Principal.parse(who), needed, "t", "s", "c")


DEEP = "forbid (principal, action, resource) when {"


@pytest.mark.promise("P-105")
@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (call(input={"to": "a@example.com"}), None),
        (call(input={"to": "a@evil.com"}), CheckResult("deny", "no-mail")),
        (call("web.get", {}, "net.http:https://a.b/"), CheckResult("ask", "net-asks")),
        (call("web.get", {}, "net.http:https://a.b/", who="user:local"), None),
        (call("shop.buy", {"amount": 100}, provider="shop"), None),
        (call("shop.buy", {"amount": 101}, provider="shop"), CheckResult("deny", "big")),
    ],
)
async def test_a_forbid_denies_one_that_asks_asks_and_the_rest_says_nothing(
    made, request_, expected
):
    assert await made().check(request_) == expected


async def test_a_deny_wins_over_an_ask(made):
    both = replace(call(input={"to": "x"}), capabilities=("net.http:https://a/",))
    found = await made().check(both)
    assert found == CheckResult("deny", "no-mail")


async def test_a_permit_gives_nothing_and_no_policy_forbids_nothing(made):
    assert await made("permit (principal, action, resource);").check(call()) is None
    assert await made("").check(call()) is None
    assert await made("// nothing").check(call()) is None


async def test_a_forbid_needs_no_annotation(made):
    check = made('forbid (principal, action, resource) when { context.input.to == "x" };')
    assert await check.check(call(input={"to": "y"})) is None
    assert await check.check(call(input={"to": "x"})) == CheckResult("deny", "policy0")


@pytest.mark.promise("P-105")
@pytest.mark.parametrize("amount", [{}, {"amount": "1"}, {"amount": None}, {"amount": 1.5}])
async def test_a_policy_that_fails_on_a_call_denies_it(made, amount):
    found = await made().check(call("shop.buy", amount, provider="shop"))
    assert found.verdict == "deny"
    assert "big" in found.rule


@pytest.mark.promise("P-105")
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("forbid (principal, action, resource);\n\n// c;\nforbid (principal action);", ":4: "),
        ("forbid (", ":1: "),
        ("nonsense", ":1: "),
        ('@id("a")\nforbid (principal, action, resource)\nwhen { "x;" == };', ":1: "),
        ('@id("a") forbid (principal, action, resource);' * 2, "two policies"),
        ("forbid (principal == ?principal, action, resource);", "templates"),
        ("x" * 1_100_000, "bytes"),
        (f"{DEEP} context{'.a' * 3000} }};", "nested too deeply"),
        (f"{DEEP} {'(' * 300_000}", "nested too deeply"),
        (f"{DEEP} {'true == (' * 300}true{')' * 300} }};", "nested too deeply"),
    ],
)
async def test_policies_that_cannot_be_used_deny_with_the_place(made, text, place):
    found = await made(text).check(call())
    assert found.verdict == "deny"
    assert "policies.cedar" in found.rule
    assert place in found.rule


async def test_a_file_that_is_missing_or_no_text_denies_until_it_is_there(tmp_path):
    path = tmp_path / "absent.cedar"
    check = CedarCheck(path)
    assert "No such file" in (await check.check(call())).rule
    path.write_bytes(b"\xff")
    assert "UTF-8" in (await check.check(call())).rule
    path.write_text("", "utf-8")
    assert await check.check(call()) is None


@pytest.mark.parametrize("verb", ["fs.write", "fs.delete"])
async def test_no_call_may_change_the_policies_themselves(made, tmp_path, verb):
    check = made("")
    for resource in ("policies.cedar", "**", "*", "../**"):
        path = tmp_path.parent / "**" if resource == "../**" else tmp_path / resource
        found = await check.check(call("file.write", {}, f"{verb}:{path}"))
        assert found == CheckResult("deny", "own-policies"), resource
    for resource in ("other", "policies.cedar/x", "a/**"):
        assert await check.check(call("file.write", {}, f"{verb}:{tmp_path}/{resource}")) is None
    assert await check.check(call("file.read", {}, f"fs.read:{tmp_path}/policies.cedar")) is None


async def test_an_argument_cannot_pose_as_an_entity_or_an_extension(made):
    check = made('@id("x") forbid(principal, action, resource) when { context.input.a == "b" };')
    for value in ({"__entity": {"type": "T", "id": "x"}}, {"__extn": {"fn": "ip", "arg": "::"}}):
        assert await check.check(call(input={"a": value})) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text() | st.sampled_from(["__entity", "__extn", "a"]), JSON, max_size=5))
async def test_any_input_is_one_that_cedar_takes(input):
    from cedarpy import is_authorized

    asked = {
        "principal": {"type": "P", "id": "p"},
        "action": {"type": "Action", "id": "call"},
        "resource": {"type": "Tool", "id": "t"},
        "context": {"input": value_of(input)},
    }
    answer = is_authorized(asked, "permit (principal, action, resource);", [])
    assert (answer.allowed, answer.diagnostics.errors) == (True, [])


async def test_an_input_as_deep_as_none_is_denied_and_not_passed(made):
    deep = {}
    for _ in range(400):
        deep = {"a": deep}
    assert (await made().check(call(input=deep))).verdict == "deny"


async def test_the_check_keeps_to_the_protocol(made):
    await check_policy(made())
    await check_policy(made("forbid ("))


@pytest.mark.parametrize(
    ("given_", "place"),
    [({"policy": "x"}, "policy"), ({"policies": 3}, "policies"), ({"policies": " "}, "policies")],
)
def test_settings_that_cannot_be_used_say_where(given_, place):
    with pytest.raises(ClawHiveError) as caught:
        policy_file(given_, "/root", {})
    assert (caught.value.code, caught.value.place) == ("invalid_config", f"plugins.cedar.{place}")


def test_a_path_is_below_the_project_or_the_home_or_absolute():
    for name, path in (("a", "/p/a"), ("~/a", "/h/a"), ("/a", "/a")):
        assert str(policy_file({"policies": name}, "/p", {"HOME": "/h"})) == path
    assert policy_file({}, "/p", {}) is None


@pytest.mark.promise("P-105")
async def test_it_tightens_what_a_grant_allows(tmp_path):
    path = tmp_path / "p.cedar"
    path.write_text('@id("no-list") forbid (principal, action, resource == Tool::"file.list");')
    settings = {"plugins.enabled": ["builtin", "cedar"], "plugins.cedar": {"policies": str(path)}}
    async with memory_hive(settings=settings) as hive:
        explained = await hive.explain("file.list", {"path": "."})
        assert explained["verdict"] == "deny"
        assert explained["checks"] == [{"verdict": "deny", "rule": "check:cedar:no-list"}]
        _, refused = await hive.call("file.list", {"path": "."})
        assert isinstance(refused, Refusal)
        assert "no-list" not in json.dumps(refused.to_dict())
    async with memory_hive(settings={**settings, "plugins.cedar": {}}) as hive:
        assert (await hive.explain("file.list", {"path": "."}))["verdict"] == "allow"


def test_nothing_of_cedar_is_imported_before_the_first_call():
    code = "import sys, clawhive_cedar; sys.exit('cedarpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
