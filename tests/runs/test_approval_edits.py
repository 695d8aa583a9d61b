"""A person changes a call before approving it: what is done, what is logged, what is told."""

import json
from pathlib import Path

import anyio
import pytest

from clawhive_core.errors import InvalidInput, RunError, UsageError
from clawhive_core.hive.hive import RunOptions
from clawhive_core.protocols.check import CheckResult
from clawhive_core.testing import ScriptedModel, calling, memory_hive
from tests.runs.conftest import Stopping

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "line": {"type": "string", "maxLength": 20}},
    "required": ["path"],
    "additionalProperties": False,
}
KEEP = {
    "risk": "guarded",
    "effects": {"path": "fs.write"},
    "sinks": ("path",),
    "idempotent": True,
    "input_schema": SCHEMA,
}
BUILTIN = {"plugins.enabled": ["builtin"]}
TEXT = "one\ntwo\nthree\n"
EDIT = {"path": "a.md", "find": "two", "replace": "2"}


@pytest.fixture
def writing(tools):
    def keep(given, ctx):
        path = Path(ctx.workspace.root) / given["path"]
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{given.get('line', 'kept')}\n")
        return {"kept": given["path"]}

    return tools.add("test.keep", keep, **KEEP)


def keep(name="keep", path="a.txt", **more):
    return {"name": name, "tool": "test.keep", "input": {"path": path}, **more}


def text(hive, path):
    file = hive.root / path
    return file.read_text("utf-8") if file.exists() else None


async def approve(hive, input, approval="last", **more):
    edited = await hive.edited(approval, input)
    return hive.approvals.resolve(approval, "approve", by="user:ana", edited=edited, **more)


@pytest.mark.promise("P-081")
async def test_what_a_person_edited_is_done_and_both_are_in_the_log(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep(), output="${steps.keep}")
        await hive.run(task="job")
        before = hive.approvals.find("last")
        approved = await approve(hive, {"path": "b.txt", "line": "mine"})
        assert (approved.edited, approved.digest == before.digest) == (True, False)
        assert approved.capabilities == (f"fs.write:{hive.root}/b.txt",)
        assert approved.sinks == {"path": "b.txt"}
        run = await hive.resume("last")
        assert (text(hive, "a.txt"), text(hive, "b.txt")) == (None, "mine\n")
        assert run["output"] == {
            "status": "succeeded",
            "output": {"kept": "b.txt"},
            "error": None,
            "edited": True,
        }
        (invocation,) = run["steps"][0]["invocations"]
        assert json.loads(invocation["input_preview"]) == {"line": "mine", "path": "b.txt"}
        assert json.loads(invocation["asked_input_preview"]) == {"path": "a.txt"}
        assert invocation["requested_capabilities"] == [f"fs.write:{hive.root}/b.txt"]
        (start,) = [s for s in hive.log.events() if s.event.kind == "invocation.start"]
        body = start.event.body
        assert hive.log.load(body["tool_call"]["input"]) == {"path": "b.txt", "line": "mine"}
        assert hive.log.load(body["asked_input"]) == {"path": "a.txt"}
        assert hive.approvals.asked(approved)[0].input == {"path": "a.txt"}
        assert hive.approvals.input_of(approved) == {"path": "b.txt", "line": "mine"}
        report = await hive.replay("last")
        assert (report.ok, report.complete) == (True, True)


async def test_a_call_that_nobody_edited_says_so(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep(), output="${steps.keep.edited}")
        await hive.run(task="job")
        approved = await approve(hive, {"path": "a.txt"})
        assert not approved.edited
        run = await hive.resume("last")
        assert (run["output"], text(hive, "a.txt")) == (False, "kept\n")
        assert run["steps"][0]["invocations"][0]["asked_input_preview"] is None
        assert "approval.edited" not in [s.event.kind for s in hive.log.events()]


async def test_a_model_is_told_what_was_edited(writing):
    model = ScriptedModel([calling("test.keep", {"path": "a.txt"}), "done"])
    async with memory_hive(providers=[writing], adapters=[model]) as hive:
        await hive.run("keep it", model="scripted:x")
        await approve(hive, {"path": "b.txt"})
        run = await hive.resume("last")
        assert run["status"] == "succeeded"
        (result,) = model.requests[-1].messages[-1].content
        assert result.output.startswith(
            'A person edited the input before approving the call: /path is now "b.txt".\n'
        )
        assert result.structured == {"kept": "b.txt"}
        assert (await hive.replay("last")).ok


async def test_a_provider_cannot_say_that_a_person_edited_its_input(tools, define):
    from clawhive_core.model.tools import ToolResult

    tools.add("test.lie", lambda given, ctx: ToolResult("", "x", edited="A person agreed."))
    async with memory_hive(providers=[tools]) as hive:
        define(hive, {"name": "lie", "tool": "test.lie"}, output="${steps.lie.edited}")
        assert (await hive.run(task="job"))["output"] is False


async def test_an_edit_from_elsewhere_reaches_a_run_that_is_asking(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())

        async def ask(approval):
            await approve(hive, {"path": "b.txt"}, approval.approval_id)
            await anyio.sleep_forever()

        run = await hive.run(task="job", options=RunOptions(approve="ask", ask=ask))
        assert (run["status"], text(hive, "a.txt"), text(hive, "b.txt")) == (
            "succeeded",
            None,
            "kept\n",
        )


@pytest.mark.parametrize(
    ("input", "place"),
    [
        ({}, "the input"),
        ({"path": 1}, "/path"),
        ({"path": "a.txt", "line": "x" * 21}, "/line"),
        ({"path": "a.txt", "more": 1}, "the input"),
        ({"path": "a\0b"}, "/path"),
        ({"path": float("nan")}, "/path"),
        ({"path": {1: 2}}, "/path"),
        ([], "/"),
        ("text", "/"),
        ({"path": "x" * (17 * 1024 * 1024)}, "/path"),
    ],
)
async def test_arguments_that_the_tool_does_not_take_are_refused_at_once(
    writing, define, input, place
):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        with pytest.raises(InvalidInput) as caught:
            await hive.edited("last", input)
        assert caught.value.place == place
        assert caught.value.fix
        assert hive.approvals.find("last").state == "pending"


@pytest.mark.promise("P-082")
@pytest.mark.parametrize("path", ["denied/x.txt", ".clawhive/hive.db", ".env", "/etc/passwd"])
async def test_an_edit_lifts_no_deny(writing, define, path):
    settings = {"policy.deny": ["fs.write:${workspace}/denied/**"]}
    async with memory_hive(providers=[writing], settings=settings) as hive:
        define(hive, keep())
        await hive.run(task="job")
        with pytest.raises(RunError) as caught:
            await hive.edited("last", {"path": path})
        assert caught.value.code == "denied"
        assert caught.value.fix
        assert hive.approvals.find("last").state == "pending"


async def test_a_check_that_denies_the_edited_call_is_heard_at_once_and_again(writing, define):
    class Frozen:
        name = "frozen"
        path = "b.txt"

        async def check(self, request):
            hit = request.input.get("path") == self.path
            return CheckResult("deny", "frozen") if hit else None

    check = Frozen()
    async with memory_hive(providers=[writing], checks=[check]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        with pytest.raises(RunError) as caught:
            await hive.edited("last", {"path": "b.txt"})
        assert caught.value.code == "denied"
        await approve(hive, {"path": "c.txt"})
        check.path = "c.txt"
        run = await hive.resume("last")
        assert (run["status"], run["error"]["code"]) == ("failed", "denied")
        assert (text(hive, "a.txt"), text(hive, "c.txt")) == (None, None)
        assert (await hive.replay("last")).ok


async def test_the_edited_call_is_made_though_the_one_that_was_asked_for_is_allowed_now(
    writing, define
):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep(), keep("again", needs=[]))
        await hive.run(task="job")
        first, second = sorted(hive.approvals.pending(), key=lambda each: -len(each.step_id))
        await approve(hive, {"path": "b.txt"}, first.approval_id)
        hive.approvals.resolve(second.approval_id, "approve", by="user:ana", scope="session")
        run = await hive.resume("last")
        assert (run["status"], text(hive, "a.txt"), text(hive, "b.txt")) == (
            "succeeded",
            "kept\n",
            "kept\n",
        )


async def test_the_edited_call_is_made_though_the_one_that_was_asked_for_is_denied_now(
    writing, define
):
    class Frozen:
        name = "frozen"
        on = False

        async def check(self, request):
            hit = self.on and request.input.get("path") == "a.txt"
            return CheckResult("deny", "frozen") if hit else None

    check = Frozen()
    async with memory_hive(providers=[writing], checks=[check]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        await approve(hive, {"path": "b.txt"})
        check.on = True
        run = await hive.resume("last")
        assert (run["status"], text(hive, "b.txt")) == ("succeeded", "kept\n")


async def test_an_edited_call_whose_file_changed_meanwhile_is_not_made(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        await approve(hive, {"path": "b.txt"}, scope="task")
        (hive.root / "b.txt").write_text("another\n", "utf-8")
        run = await hive.resume("last")
        assert (run["status"], run["error"]["code"]) == ("failed", "approval_denied")
        assert (text(hive, "a.txt"), text(hive, "b.txt")) == (None, "another\n")
        assert hive.approvals.find("last").state == "drifted"


async def test_a_wider_scope_gives_the_rights_of_the_edited_call(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        approved = await approve(hive, {"path": "b.txt"}, scope="session")
        assert [each["capability"] for each in approved.grants] == [f"fs.write:{hive.root}/b.txt"]


async def test_an_unsafe_call_can_be_edited_and_is_still_approved_alone(tools, define):
    tools.add("test.wipe", lambda given, ctx: dict(given), risk="unsafe")
    async with memory_hive(providers=[tools]) as hive:
        define(hive, {"name": "wipe", "tool": "test.wipe", "input": {"what": "all"}})
        await hive.run(task="job")
        with pytest.raises(UsageError):
            await approve(hive, {"what": "little"}, scope="task")
        await approve(hive, {"what": "little"})
        await hive.resume("last")
        assert tools.calls == [("test.wipe", {"what": "little"})]


@pytest.mark.parametrize("state", ["approved", "denied", "expired", "drifted", "consumed"])
async def test_what_was_answered_cannot_be_edited(writing, define, state, monkeypatch):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep(), keep("again", "z.txt", needs=["keep"]))
        if state == "expired":
            monkeypatch.setattr(
                "clawhive_core.execution.approvals.expiry",
                lambda: "2001-01-01T00:00:00.000000Z",
            )
        await hive.run(task="job")
        wanted = hive.approvals.find("last").approval_id
        if state == "expired":
            hive.approvals.expire()
        else:
            answer = "deny" if state == "denied" else "approve"
            hive.approvals.resolve(wanted, answer, by="user:ana")
        if state == "drifted":
            (hive.root / "a.txt").write_text("another\n", "utf-8")
        if state in {"drifted", "consumed"}:
            await hive.resume("last")
        assert hive.approvals.find(wanted).state == state
        with pytest.raises(RunError) as caught:
            await hive.edited(wanted, {"path": "b.txt"})
        assert caught.value.code == "already_resolved"
        assert state in caught.value.message


async def test_an_edit_that_somebody_forestalled_changes_nothing(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        edited = await hive.edited("last", {"path": "b.txt"})
        hive.approvals.resolve("last", "approve", by="user:ben")
        with pytest.raises(RunError):
            hive.approvals.resolve("last", "approve", by="user:ana", edited=edited)
        approval = hive.approvals.find("last")
        assert (approval.edited, approval.resolved_by) == (False, "user:ben")
        await hive.resume("last")
        assert (text(hive, "a.txt"), text(hive, "b.txt")) == ("kept\n", None)


async def test_the_changes_of_one_call_are_not_taken_for_another(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep(), keep("two", needs=[]))
        await hive.run(task="job")
        first, second = hive.approvals.pending()
        edited = await hive.edited(first.approval_id, {"path": "b.txt"})
        for answer, approval in (("approve", second), ("deny", first)):
            with pytest.raises(UsageError):
                hive.approvals.resolve(approval.approval_id, answer, by="user:ana", edited=edited)


async def test_a_tool_that_changed_cannot_be_edited_for(tools, define):
    tools.add("test.keep", lambda given, ctx: "kept", **KEEP)
    async with memory_hive(providers=[tools]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        tools.metas.clear()
        tools.add("test.keep", lambda given, ctx: "kept", **{**KEEP, "sinks": ()})
        await hive.catalog.add(tools)
        with pytest.raises(RunError) as caught:
            await hive.edited("last", {"path": "b.txt"})
        assert caught.value.code == "tool_changed"


async def test_an_edited_call_that_was_broken_off_is_made_again_as_it_was_edited(
    writing, define, monkeypatch
):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())

        async def ask(approval):
            await approve(hive, {"path": "b.txt"}, approval.approval_id)

        options = RunOptions(approve="ask", ask=ask)
        await Stopping(hive, monkeypatch).run(task="job", kill="test.keep", options=options)
        run = await hive.resume("last")
        assert (run["status"], text(hive, "a.txt"), text(hive, "b.txt")) == (
            "succeeded",
            None,
            "kept\nkept\n",
        )
        assert (await hive.replay("last")).ok


async def test_the_rows_are_what_a_replay_of_the_log_gives(writing, define):

    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        await approve(hive, {"path": "b.txt"}, scope="task")
        await hive.resume("last")
        assert hive.log.compare() == ()


@pytest.fixture
async def proposed():
    async with memory_hive(settings=BUILTIN) as hive:
        (hive.root / "a.md").write_text(TEXT, "utf-8")
        run = await hive.run(task="edit_docs", input=EDIT)
        assert run["status"] == "waiting_approval"
        yield hive


def changed(hive, **changes):
    given = json.loads(json.dumps(hive.approvals.input_of(hive.approvals.find("last"))))
    given["proposal"].update(changes)
    return given


@pytest.mark.promise("P-083")
async def test_an_edited_proposal_is_what_is_shown_and_exactly_what_is_written(proposed):
    approved = await approve(proposed, changed(proposed, content="one\nZWEI\nthree\n"))
    assert "-two\n+ZWEI\n" in approved.diff
    assert text(proposed, "a.md") == TEXT
    run = await proposed.resume("last")
    assert (run["status"], text(proposed, "a.md")) == ("succeeded", "one\nZWEI\nthree\n")
    proposal = proposed.approvals.input_of(approved)["proposal"]
    assert run["output"]["sha256"] == proposal["sha256"]
    assert proposal["diff"] == approved.diff
    assert (await proposed.replay("last")).ok


async def test_an_edited_proposal_can_name_another_file(proposed):
    (proposed.root / "b.md").write_text("b\n", "utf-8")
    given = changed(proposed)
    approved = await approve(proposed, {**given, "path": "b.md"})
    assert approved.sinks == {"path": "b.md"}
    assert f"fs.write:{proposed.root}/b.md" in approved.capabilities
    await proposed.resume("last")
    assert (text(proposed, "a.md"), text(proposed, "b.md")) == (TEXT, "one\n2\nthree\n")


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"diff": "--- a\n+++ b\n"}, "/proposal/diff"),
        ({"sha256": "0" * 64}, "/proposal/sha256"),
        ({"base_sha256": "0" * 64}, "/proposal/base_sha256"),
        ({"content": TEXT}, "/proposal"),
        ({"content": 7}, "/proposal"),
        ({"more": 1}, "/proposal/more"),
        ({"path": "none.md"}, "/proposal"),
    ],
)
async def test_a_proposal_that_nobody_could_have_made_is_refused(proposed, changes, place):
    with pytest.raises(InvalidInput) as caught:
        await proposed.edited("last", changed(proposed, **changes))
    assert caught.value.place == place
    assert caught.value.fix
    assert proposed.approvals.find("last").state == "pending"
    assert text(proposed, "a.md") == TEXT


async def test_two_paths_for_one_proposal_are_refused(proposed):
    given = {**changed(proposed, path="b.md"), "path": "c.md"}
    with pytest.raises(InvalidInput) as caught:
        await proposed.edited("last", given)
    assert caught.value.place == "/path"


async def test_what_follows_from_the_rest_may_be_left_out_of_a_proposal(proposed):
    given = changed(proposed)
    del given["proposal"]["diff"], given["proposal"]["sha256"]
    assert await proposed.edited("last", given) is None
    del given["proposal"]["content"]
    with pytest.raises(InvalidInput):
        await proposed.edited("last", given)


async def test_an_approval_without_its_proposal_is_refused(proposed):
    with pytest.raises(InvalidInput):
        await proposed.edited("last", {"path": "a.md"})
    with pytest.raises(InvalidInput):
        await proposed.edited("last", {"path": "a.md", "proposal": "x"})


async def test_what_is_proposed_again_obeys_policy_and_stands_in_the_log(proposed):
    with pytest.raises(InvalidInput) as caught:
        await proposed.edited("last", changed(proposed, path=".env"))
    assert ".env" in caught.value.message
    await approve(proposed, changed(proposed, content="x\n"))
    run = await proposed.resume("last")
    again = [
        invocation
        for step in run["steps"]
        for invocation in step["invocations"]
        if invocation["tool"] == "edit.propose"
    ]
    assert [each["status"] for each in again] == ["succeeded", "refused", "succeeded"]


async def test_a_proposal_for_a_file_that_changed_since_is_made_for_the_file_as_it_is(proposed):
    (proposed.root / "a.md").write_text("another\n", "utf-8")
    approved = await approve(proposed, changed(proposed, content="mine\n"))
    assert "-another\n+mine\n" in approved.diff
    run = await proposed.resume("last")
    assert (run["status"], text(proposed, "a.md")) == ("succeeded", "mine\n")
