"""Calls that wait for a person: shown in the client where somebody sits, as the user says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import anyio
from mcp import MCPError  # noqa: TID253 - imported to serve
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import ValidationError  # noqa: TID253 - imported to serve

from clawhive_core import Answer as Reply
from clawhive_mcp.errors import printable

if TYPE_CHECKING:
    from clawhive_core import Approval, Hive, Question
    from clawhive_mcp.serving.answers import Request

Context = Any
"""The SDK's context of a request."""
KEY = "approval"
"""The name of our question among those that a result asks."""
_ASKABLE = frozenset({"safe", "guarded", "unknown"})
"""The risks of calls that a client may show; a person approves unsafe ones at a terminal."""
_PATIENCE_SECONDS = 600.0
_POLL_SECONDS = 0.25
_PROGRESS_SECONDS = 5.0
_SHOWN = 2_000
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approve": {
            "type": "boolean",
            "title": "Approve this call",
            "description": "Accepting this without a no approves exactly this call, once.",
            "default": True,
        }
    },
}

Answer = Literal["approved", "open"] | InputRequiredResult
"""The state of an approval after its question was shown, or the question to be shown."""


@dataclass(frozen=True, slots=True)
class Attendance:
    """The person at a client, as the user's configuration says."""

    attended: bool = False
    """Whether somebody sits there who may approve what it shows."""
    hold_seconds: float = 0.0
    """The time for which a call is held open until somebody answers elsewhere."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Shows a client's person what waits for them."""

    hive: Hive
    client: str
    attendance: Attendance

    async def answer(self, request: Request, approval_id: str) -> Answer:
        """Return what became of an approval meanwhile, or the question that the client is to show.

        Where the question is declined or cancelled the approval stays open: clients without a
        person say so of themselves.
        """
        approval = self.hive.approvals.find(approval_id)
        if self.attendance.attended and approval.risk in _ASKABLE and _can_ask(request.ctx):
            answer = await self._ask(request, approval)
            if answer != "open":
                return answer
        if self.attendance.hold_seconds and request.wants_progress:
            return await self._hold(request.ctx, approval_id)
        return "open"

    async def reply(self, question: Question, requests: Sequence[Request]) -> Reply:
        """Return the answer of the person at the client to the question of a tool, as the tool's.

        Where several calls are under way nobody can say whose question it is, and nobody is asked.
        """
        nobody = Reply("cancel")
        if len(requests) != 1 or not self.attendance.attended or question.url is not None:
            return nobody
        ctx = requests[0].ctx
        if not (_can_ask(ctx) and ctx.session.can_send_request):
            return nobody
        text = f"{question.source} asks, and not ClawHive: {printable(question.message, _SHOWN)}"
        schema = {"type": "object", "properties": question.fields, "required": question.required}
        try:
            given = await ctx.session.elicit_form(text, schema, related_request_id=ctx.request_id)
        except (MCPError, ValidationError):
            return nobody
        return Reply(given.action, given.content or {})

    async def _ask(self, request: Request, approval: Approval) -> Answer:
        """Ask by the client's own means."""
        ctx, params = request.ctx, request.params
        text = _question(approval, self.hive.approvals.input_of(approval))
        given: Any = None
        if ctx.session.can_send_request:
            try:
                with anyio.move_on_after(_PATIENCE_SECONDS):
                    given = await ctx.session.elicit_form(
                        text, _SCHEMA, related_request_id=ctx.request_id
                    )
            except (MCPError, ValidationError):
                return "open"  # it declared what it cannot do
        elif params.input_responses is None:
            asked = ElicitRequestFormParams(message=text, requested_schema=_SCHEMA)
            return InputRequiredResult(
                input_requests={KEY: ElicitRequest(params=asked)},
                request_state=approval.approval_id,
            )
        elif params.request_state == approval.approval_id:
            given = params.input_responses.get(KEY)
        if not isinstance(given, ElicitResult) or given.action != "accept":
            return "open"
        if given.content is not None and given.content.get("approve") is False:
            return "open"
        self.hive.approvals.resolve(
            approval.approval_id,
            "approve",
            by=f"user:{self.hive.config.get('user.id')}",
            reason=f"accepted in the client {self.client}",
        )
        return "approved"

    async def _hold(self, ctx: Context, approval_id: str) -> Answer:
        """Wait for an answer from elsewhere, and let the client know that something goes on."""
        waited = 0.0
        while waited < self.attendance.hold_seconds:
            if waited % _PROGRESS_SECONDS == 0:
                await ctx.session.report_progress(waited, None, "waits for a person's approval")
            await anyio.sleep(_POLL_SECONDS)
            waited += _POLL_SECONDS
            if self.hive.approvals.find(approval_id).state != "pending":
                return "approved"  # or denied, which the repeated call is told
        return "open"


def _can_ask(ctx: Context) -> bool:
    """Whether a client declared that it shows forms; the older protocol has no other kind."""
    declared = ctx.session.client_capabilities
    kinds = None if declared is None else declared.elicitation
    return kinds is not None and (kinds.form is not None or kinds.url is None)


def _question(approval: Approval, given: Mapping[str, Any]) -> str:
    """Return what a person is asked, its parts by others on lines of their own."""
    arguments = (
        f"  {printable(name, 100)} = {printable(json.dumps(value, ensure_ascii=False), 500)}"
        for name, value in given.items()
    )
    lines = [
        f"ClawHive asks: may {approval.principal} call {approval.tool} ({approval.risk})?",
        *arguments,
        *(f"  touches {printable(each, 300)}" for each in approval.capabilities),
        *(
            f"  goes to {printable(name, 100)} = {printable(str(value), 300)}"
            for name, value in approval.sinks.items()
        ),
    ]
    text = "\n".join(lines)
    if len(text) > _SHOWN:
        more = f"\n… the whole call: clawhive approvals show {approval.approval_id}"
        text = text[: _SHOWN - len(more)] + more
    return text
