"""Skills as prompts and resources, and what a client may read of its own session."""

from __future__ import annotations

import hashlib
import json
import mimetypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import anyio
from mcp import MCPError  # noqa: TID253 - imported to serve
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    GetPromptResult,
    Prompt,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)

from clawhive_core import Refusal, ToolResult

if TYPE_CHECKING:
    from clawhive_core import Hive, Session, Skill

SESSION, APPROVALS, LOG = "clawhive://session", "clawhive://approvals", "clawhive://log"
EXTENSION = "io.modelcontextprotocol/skills"
"""The Skills extension of MCP (SEP-2640)."""
_SKILL = "skill://"
_TEXT = "SKILL.md"
_CALLS = 100
_EVENTS = 100
_LARGEST_FILE = 8 * 1024 * 1024
_LONGEST_DESCRIPTION = 2_000


@dataclass(frozen=True, slots=True)
class Pages:
    """The prompts and resources of one client.

    The text of a skill is opened by `skill_open`, as a model of ours would: decided and recorded,
    and only of skills that somebody vouches for.
    """

    hive: Hive
    session: Session
    client: str
    exposes_log: bool = False

    def prompts(self) -> list[Prompt]:
        """Return a prompt for each skill."""
        return [
            Prompt(name=skill.id, description=skill.description[:_LONGEST_DESCRIPTION])
            for skill in self._skills()
        ]

    async def prompt(self, name: str) -> GetPromptResult:
        """Return a skill's text as the user's words.

        Raises:
            MCPError: There is no such skill, or nobody vouches for it.
        """
        skill = self._skill(name)
        text = (await self._opened(name))["text"]
        message = PromptMessage(role="user", content=TextContent(text=text))
        return GetPromptResult(description=skill.description, messages=[message])

    def resources(self) -> list[Resource]:
        """Return what can be read: skills, and the session itself."""
        own = [(SESSION, "The calls of this session"), (APPROVALS, "What waits for a person")]
        if self.exposes_log:
            own.append((LOG, "The last events of the project's log"))
        found = [
            Resource(uri=uri, name=uri.partition("://")[2], description=text, mime_type=_JSON)
            for uri, text in own
        ]
        return found + [
            Resource(
                uri=_uri(skill.id, _TEXT),
                name=skill.id,
                description=skill.description[:_LONGEST_DESCRIPTION],
                mime_type="text/markdown",
            )
            for skill in self._skills()
            if skill.text_name
        ]

    def templates(self) -> list[ResourceTemplate]:
        """Return how the files of skills are named."""
        text = "A file of a skill, as its SKILL.md refers to it"
        return [
            ResourceTemplate(uri_template="skill://{name}/{+path}", name="skill", description=text)
        ]

    async def resource(self, uri: str) -> ReadResourceResult:
        """Return a resource.

        Raises:
            MCPError: There is none of that name, or nobody vouches for the skill.
        """
        own: dict[str, Callable[[], Any]] = {SESSION: self._session, APPROVALS: self._approvals}
        if self.exposes_log:
            own[LOG] = self._log
        if uri in own:
            text = json.dumps(own[uri](), ensure_ascii=False)
            return _text_result(uri, text, _JSON)
        if not uri.startswith(_SKILL):
            raise _missing(uri)
        name, _, path = unquote(uri.removeprefix(_SKILL)).partition("/")
        skill = self._skill(name)
        is_text = path == _TEXT and bool(skill.text_name)
        await self._opened(name, None if is_text else path)
        file = skill.folder / (skill.text_name if is_text else path)
        data = await anyio.to_thread.run_sync(_bytes, file)
        kind = mimetypes.guess_type(path)[0] or "text/markdown"
        try:
            return _text_result(uri, data.decode("utf-8"), kind)
        except UnicodeDecodeError:
            import base64

            blob = base64.b64encode(data).decode("ascii")
            contents = BlobResourceContents(uri=uri, mime_type=kind, blob=blob)
            return ReadResourceResult(contents=[contents])

    async def entries(self) -> list[dict[str, Any]]:
        """Return the skills as the Skills extension lists them, those that can be opened."""
        found: list[dict[str, Any]] = []
        for skill in self._skills():
            try:
                found.append(await self.entry(_uri(skill.id, _TEXT)))
            except MCPError:
                continue
        return found

    async def entry(self, uri: str) -> dict[str, Any]:
        """Return one skill as the Skills extension has it: frontmatter, and a digest of each file.

        Raises:
            MCPError: There is none, or nobody vouches for it.
        """
        name = unquote(uri.removeprefix(_SKILL)).partition("/")[0]
        skill = self._skill(name)
        if uri != _uri(name, _TEXT) or not skill.text_name or skill.frontmatter.get("name") != name:
            raise _missing(uri)
        page = await self._opened(name)
        files = {_uri(name, path): skill.folder / path for path in page["files"]}
        files = {uri: skill.folder / skill.text_name, **files}
        return {
            "uri": uri,
            "frontmatter": json.loads(json.dumps(dict(skill.frontmatter), default=str)),
            "resources": await anyio.to_thread.run_sync(_digests, files),
        }

    def _skills(self) -> list[Skill]:
        return sorted(self.hive.skills, key=lambda skill: skill.id)

    def _skill(self, name: str) -> Skill:
        found = next((each for each in self.hive.skills if each.id == name), None)
        if found is None:
            raise _missing(f"{_SKILL}{name}")
        return found

    async def _opened(self, name: str, path: str | None = None) -> Mapping[str, Any]:
        """Open a text of a skill as a model does.

        Raises:
            MCPError: That is refused, or it cannot be read.
        """
        given = {"name": name} if path is None else {"name": name, "path": path}
        outcome = await self.session.invoke("skill_open", given)
        if isinstance(outcome, Refusal):
            raise MCPError(INVALID_PARAMS, outcome.message, outcome.to_dict())
        if outcome.is_error:
            raise _failed(outcome)
        return outcome.structured

    def _session(self) -> dict[str, Any]:
        calls = self.hive.records.invocations(run_id=self.session.run_id, limit=_CALLS)
        rows = [
            {
                "tool": each.tool,
                "status": each.status,
                "decision": each.decision,
                "start_at": each.start_at,
                "end_at": each.end_at,
                "error": None if each.error is None else each.error.get("code"),
                "input_preview": each.input_preview,
            }
            for each in calls
        ]
        return {"run_id": self.session.run_id, "principal": self._principal, "calls": rows}

    def _approvals(self) -> dict[str, Any]:
        rows = [
            {
                "approval_id": each.approval_id,
                "state": each.state,
                "tool": each.tool,
                "preview": each.preview,
                "created_at": each.created_at,
                "expires_at": each.expires_at,
                "command": f"clawhive approvals approve {each.approval_id}",
            }
            for each in self.hive.approvals.pending()
            if each.principal == self._principal
        ]
        return {"approvals": rows}

    def _log(self) -> dict[str, Any]:
        rows = [
            {
                "seq": each.seq,
                "ts": each.ts,
                "kind": each.event.kind,
                "principal": each.event.principal,
                "tool": each.event.tool,
                "status": each.event.status,
            }
            for each in self.hive.records.events(limit=_EVENTS)
        ]
        return {"events": rows}

    @property
    def _principal(self) -> str:
        return f"client:mcp/{self.client}"


_JSON = "application/json"


def _uri(name: str, path: str) -> str:
    return f"{_SKILL}{quote(name)}/{quote(path)}"


def _text_result(uri: str, text: str, kind: str) -> ReadResourceResult:
    contents = TextResourceContents(uri=uri, mime_type=kind, text=text)
    return ReadResourceResult(contents=[contents])


def _bytes(path: Path) -> bytes:
    """Return a file that `skill_open` found to be a text of the skill.

    Raises:
        MCPError: It is gone.
    """
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_FILE)
    except OSError as error:
        raise _missing(str(path.name)) from error


def _digests(files: Mapping[str, Path]) -> list[dict[str, str]]:
    """Return the digest of each file.

    Raises:
        MCPError: One is gone.
    """
    return [
        {"uri": uri, "digest": f"sha256:{hashlib.sha256(_bytes(path)).hexdigest()}"}
        for uri, path in files.items()
    ]


def _missing(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, f"there is no resource or skill `{uri[:200]}`", {"uri": uri})


def _failed(result: ToolResult) -> MCPError:
    facts: Any = result.structured
    message = facts.get("message") if isinstance(facts, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
    return MCPError(INVALID_PARAMS, str(message or result.output)[:2_000])  # pyright: ignore[reportUnknownArgumentType] - JSON
