"""Grants that name a tool count while it is what it was, and are given anew by a person."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.capabilities import parse
from clawhive_core.errors import RunError, UnknownId, UsageError
from clawhive_core.events import grants as grant_events
from clawhive_core.model.identity import ToolIdentity
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.policy.decision import decide
from clawhive_core.policy.grants import GrantBook, Wish, derived
from clawhive_core.policy.rules import Rules
from clawhive_core.policy.suspension import bound as bound_to
from clawhive_core.policy.suspension import named_tool, suspension
from clawhive_core.protocols.check import PolicyRequest
from clawhive_core.storage.sqlite import grants
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import tables_of
from tests.harness import grant, tool_meta

NAME = "mcp.git.push"
META = tool_meta(NAME, "mcp_git", risk="guarded", text_counts=True)
CHANGED = {
    "input_schema": {"type": "object", "properties": {"x": {}}},
    "risk": "unknown",
    "capability_level": "L2",
    "effects": {"": "net.http:example.com"},
    "sinks": ("to",),
    "idempotent": True,
    "records": ("*/id:selector.event",),
    "output_trust": "trusted",
    "requires_confirm": True,
}
NOW = datetime(2026, 11, 22, tzinfo=UTC)
TEXT = {"description": "another", "annotations": {"a": 1}, "examples": ({},)}


def bound(meta=META, **fields):
    return grant(f"tool.call:{meta.name}", tool=ToolIdentity.of(meta).text, **fields)


def decided(meta, *grants):
    return decided_by(Rules(grants), meta)


def decided_by(rules, meta, given=None):
    needs = (f"tool.call:{NAME}",)
    return decide(PolicyRequest(meta, given or {}, DEFAULT_AGENT, needs, "t", "s", "c"), rules)


def private(folder):
    found = folder / "user"
    found.mkdir(mode=0o700)
    return found


def test_it_counts_while_the_tool_is_what_it_was():
    assert decided(META, bound()).verdict == "allow"
    assert decided(META, bound()).suspended == ()


@pytest.mark.parametrize("field", [*CHANGED, *TEXT])
def test_any_change_of_an_mcp_tool_suspends_it(field):
    held = bound()
    found = decided(replace(META, **{field: {**CHANGED, **TEXT}[field]}), held)
    assert found.verdict == "deny"
    assert found.suspended == (held.grant_id,)
    assert f"suspended:{held.grant_id}" in found.rules


@pytest.mark.parametrize("field", TEXT)
def test_a_plugins_text_may_change(field):
    meta = replace(META, provider_id="git", text_counts=False)
    assert decided(replace(meta, **{field: TEXT[field]}), bound(meta)).verdict == "allow"


def test_other_grants_count_still_and_a_persons_lifts_the_ask():
    after = replace(META, description="another")
    starter = grant("tool.call:**", issuer="starter")
    assert decided(after, bound(), starter).verdict == "ask"
    found = decided(after, bound(), grant("tool.call:mcp.**"))
    assert (found.verdict, found.suspended) == ("allow", ())


def test_a_call_that_is_allowed_without_it_says_nothing_of_a_suspended_grant():
    safe, starter = replace(META, risk="safe"), grant("tool.call:**", issuer="starter")
    found = decided(replace(safe, description="another"), bound(safe), starter)
    assert (found.verdict, found.suspended) == ("allow", ())
    assert found.rules == (f"allow:{starter.grant_id}",)


def test_a_person_is_told_of_the_grant_that_they_gave():
    held = bound(parent_grant="grant_given")
    assert decided(replace(META, risk="unknown"), held).suspended == ("grant_given",)


def test_a_right_that_came_with_an_approval_is_for_its_tool():
    held = grant("fs.write:/w/a", tool=ToolIdentity.of(META).text)
    other = tool_meta("demo.other", risk="guarded")
    for meta, verdict in (
        (META, "allow"),
        (replace(META, risk="unknown"), "deny"),
        (other, "allow"),
    ):
        request = PolicyRequest(meta, {}, DEFAULT_AGENT, ("fs.write:/w/a",), "t", "s", "c")
        assert decide(request, Rules([held])).verdict == verdict


def test_rules_of_steps_and_within_bounds_suspend_too():
    rules = Rules([bound()])
    after = replace(META, risk="unknown")
    assert len(rules.suspended(after)) == 1
    assert len(rules.bounded(["tool.call:**"]).suspended(after)) == 1
    step = replace(bound(), scope="step", scope_id="run/0")
    assert len(Rules([step]).of_step("run/0").suspended(after)) == 1
    ending = Rules([replace(bound(), expires_at="2001-01-01T00:00:00.000000Z")])
    ending.expire("2002-01-01T00:00:00.000000Z")
    assert ending.suspended(after) == ()


@given(st.text(), st.text())
def test_what_was_written_is_read_and_only_the_same_is_still_it(one, other):
    meta, after = replace(META, description=one), replace(META, description=other)
    identity = ToolIdentity.parse(ToolIdentity.of(meta).text)
    assert identity.text == ToolIdentity.of(meta).text
    assert identity.is_still(after) == (one == other)
    assert bool(identity.diff(after)) == (one != other)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 1}', "null", "{" * 5000])
def test_what_is_no_identity_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        ToolIdentity.parse(text)


@pytest.mark.promise("P-117")
def test_what_children_got_of_a_suspended_right_is_suspended_too():
    held = bound(uses=2, delegate=f"tool.call:{NAME}", grant_id="grant_given")
    task = derived([held], "task_1", str(DEFAULT_AGENT))
    after = replace(META, description="another")
    child = Rules(task).bounded(["tool.call:mcp.**"])
    grandchild = child.bounded([f"tool.call:{NAME}"])
    for rules in (child, grandchild):
        assert decided_by(rules, META).verdict == "allow"
        found = decided_by(rules, after)
        assert (found.verdict, found.suspended) == ("deny", ("grant_given",))
        assert found.counted == ()


def test_a_constraint_that_a_call_does_not_satisfy_is_no_suspension():
    held = bound()
    held = replace(held, capability=f"tool.call:{NAME}?n<=1")
    after = replace(META, risk="unknown")
    for value, missed in (({"n": 1}, (held.grant_id,)), ({"n": 2}, ()), ({}, ())):
        found = decided_by(Rules([held]), after, value)
        assert (found.verdict, found.suspended) == ("deny", missed)
    assert decided_by(Rules([held]), META, {"n": 1}).verdict == "allow"


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        ("tool.call:mcp.git.push", "mcp.git.push"),
        ("tool.call:bank.pay?amount<=100", "bank.pay"),
        ("tool.call:mcp.git.*", ""),
        ("tool.call:mcp.**", ""),
        ("tool.call:**?n<=1", ""),
        ("fs.read:/mcp.git.push", ""),
        ("tool.enable:mcp.git.push", ""),
    ],
)
def test_only_a_right_to_call_one_tool_names_it(capability, name):
    assert named_tool(parse(capability).text) == name


def test_nothing_is_suspended_by_a_tool_that_is_gone_nor_where_none_was_named():
    assert suspension(bound().tool, lambda _: None) == ""
    assert suspension(None, lambda _: META) == ""
    assert suspension(bound().tool, lambda _: META) == ""
    assert suspension(bound().tool, lambda _: replace(META, risk="unknown")) != ""


def test_a_right_is_bound_to_the_tool_that_it_names_where_that_is_there():
    one, broad, find = grant(f"tool.call:{NAME}"), grant("tool.call:mcp.**"), {NAME: META}.get
    assert bound_to(one, find) == replace(one, tool=ToolIdentity.of(META).text)
    assert bound_to(one, lambda _: None) == one
    assert bound_to(broad, find) == broad


def test_what_a_task_took_over_says_by_hashes_that_its_tool_changed():
    (task,) = derived([bound()], "task_1", str(DEFAULT_AGENT))
    assert '"contract":{}' in task.tool
    identity = ToolIdentity.parse(task.tool)
    assert identity.is_still(META)
    assert identity.diff(META) == ""
    assert "contract_hash" in identity.diff(replace(META, risk="unknown"))


@pytest.mark.parametrize("scope", [("session", "s"), ("persistent", "")])
def test_a_right_given_anew_has_what_was_left_of_the_old_one(tmp_path, scope):
    log, now = EventLog.open(tmp_path / "hive.db", tables_of(grants)), NOW
    book, after = GrantBook(private(tmp_path), log), replace(META, risk="unknown")
    given = book.issue(
        Wish(
            f"tool.call:{NAME}?n<=1",
            *scope,
            life=timedelta(hours=1),
            uses=2 if scope[1] else None,
            delegate="",
            tool=ToolIdentity.of(META).text,
        ),
        {},
        now,
    )
    if scope[1]:
        log.append_now(grant_events.used([given["grant_id"]]))
    new = book.resume("last", lambda _: after, now)
    kept = ("capability", "subject", "scope", "scope_id", "mode", "expires_at", "delegate")
    assert [new[each] for each in kept] == [given[each] for each in kept]
    assert (new["uses"], new["uses_left"]) == ((1, 1) if scope[1] else (None, None))
    assert [each["grant_id"] for each in book.active(now)] == [new["grant_id"]]
    log.close()


@pytest.mark.parametrize(("scope", "ids"), [("session", ("id_1", None)), ("task", (None, "id_1"))])
def test_the_log_tells_whose_right_was_given_anew(tmp_path, scope, ids):
    log = EventLog.open(tmp_path / "hive.db", tables_of(grants))
    book = GrantBook(private(tmp_path), log)
    wish = Wish(f"tool.call:{NAME}", scope, "id_1", tool=ToolIdentity.of(META).text)
    old = book.issue(wish, {}, NOW)["grant_id"]
    new = book.resume("last", lambda _: replace(META, risk="unknown"), NOW)["grant_id"]
    given, revoked, anew = (each.event for each in log.events())
    for event in (given, anew):
        assert (event.conversation_id, event.task_id) == ids
    assert revoked.body["grant_id"] == old
    assert new in revoked.body["reason"]
    log.close()


def test_a_right_that_is_used_up_is_not_given_anew(tmp_path):
    log = EventLog.open(tmp_path / "hive.db", tables_of(grants))
    book = GrantBook(private(tmp_path), log)
    wish = Wish(f"tool.call:{NAME}", "session", "s", uses=1, tool=ToolIdentity.of(META).text)
    given = book.issue(wish, {}, NOW)
    log.append_now(grant_events.used([given["grant_id"]]))
    with pytest.raises(UsageError, match="every use"):
        book.resume("last", lambda _: replace(META, risk="unknown"), NOW)
    log.close()


def test_a_right_of_which_a_use_was_made_meanwhile_is_not_given_anew(tmp_path):
    log = EventLog.open(tmp_path / "hive.db", tables_of(grants))
    book, after = GrantBook(private(tmp_path), log), replace(META, risk="unknown")
    wish = Wish(f"tool.call:{NAME}", "session", "s", uses=3, tool=ToolIdentity.of(META).text)
    given = book.issue(wish, {}, NOW)

    def used_meanwhile(_):
        log.append_now(grant_events.used([given["grant_id"]]))
        return after

    with pytest.raises(RunError) as caught:
        book.resume("last", used_meanwhile, NOW)
    assert caught.value.code == "already_resolved"
    (left,) = book.active(NOW)
    assert (left["grant_id"], left["uses_left"]) == (given["grant_id"], 2)
    assert book.resume("last", lambda _: after, NOW)["uses"] == 2
    log.close()


def test_a_right_for_good_that_is_revoked_meanwhile_is_not_given_anew(tmp_path):
    user_dir, after = private(tmp_path), replace(META, risk="unknown")
    book = GrantBook(user_dir)
    wish = Wish(f"tool.call:{NAME}", "persistent", tool=ToolIdentity.of(META).text)
    other, given = (book.issue(wish, {}, NOW)["grant_id"] for _ in range(2))

    def revoked_meanwhile(_):
        book.revoke(given, NOW)
        return after

    with pytest.raises(UnknownId, match=f"{given} is gone"):
        book.resume(given, revoked_meanwhile, NOW)
    assert [each["grant_id"] for each in book.active(NOW)] == [other]


RENEW = """
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from clawhive_core.errors import ClawHiveError
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite import grants
from clawhive_core.storage.sqlite.tables import tables_of
from clawhive_core.model.tools import ToolMeta
from clawhive_core.events import grants as grant_events
from clawhive_core.policy.grants import GrantBook

log = EventLog.open(Path(sys.argv[2]), tables_of(grants))
book = GrantBook(Path(sys.argv[1]), log)
tool = ToolMeta("mcp.git.push", "Another.", {"type": "object"}, "mcp_git", text_counts=True)
print("ready", flush=True)
sys.stdin.readline()
try:
    book.resume(sys.argv[3], lambda _: tool, datetime.now(UTC))
    print("won")
except ClawHiveError as error:
    print(error.code)
log.close()
"""


@pytest.mark.promise("P-117")
@pytest.mark.parametrize("scope", [("session", "s"), ("persistent", "")])
def test_of_eight_processes_one_gives_a_right_anew(tmp_path, scope):
    path, user_dir, now = tmp_path / "hive.db", private(tmp_path), datetime.now(UTC)
    log = EventLog.open(path, tables_of(grants))
    wish = Wish(f"tool.call:{NAME}", *scope, tool=ToolIdentity.of(META).text)
    given = GrantBook(user_dir, log).issue(wish, {}, now)
    words = [sys.executable, "-c", RENEW, str(user_dir), str(path), given["grant_id"]]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    children = [subprocess.Popen(words, **pipes) for _ in range(8)]
    ready = [child.stdout.readline() for child in children]
    for child in children:
        child.stdin.write(b"\n")
        child.stdin.flush()
    answers = [child.communicate()[0].strip() for child in children]
    assert ready == [b"ready\n"] * 8
    assert answers.count(b"won") == 1
    assert set(answers) <= {b"won", b"already_resolved", b"unknown_id"}
    (left,) = GrantBook(user_dir, log).active(now)
    assert left["grant_id"] != given["grant_id"]
    log.close()


def test_a_right_whose_tool_cannot_be_read_any_more_counts_for_nothing(tmp_path):
    """The log's redaction may leave no JSON of it, whatever a server's description holds."""
    held = grant(f"tool.call:{NAME}", tool="{[redacted]")
    (task,) = derived([held], "task_1", str(DEFAULT_AGENT))
    for rules in (Rules([held]), Rules([task]), Rules([held]).bounded(["tool.call:**"])):
        assert decided_by(rules, META).verdict == "deny"
    assert "cannot be read" in suspension(held.tool, lambda _: META)
    log = EventLog.open(tmp_path / "hive.db", tables_of(grants))
    book = GrantBook(private(tmp_path), log)
    book.issue(Wish(f"tool.call:{NAME}", "session", "s", tool=held.tool), {}, NOW)
    with pytest.raises(UsageError, match="cannot be read"):
        book.resume("last", lambda _: META, NOW)
    log.close()
