"""Skills as prompts and resources, the session's own calls and approvals, the log if exposed."""

import hashlib
import json

import pytest
from mcp import MCPError
from mcp.types import Request, RequestParams, Result

from .gateway_house import ERAS, House, Provider

SKILL = "skill://code/SKILL.md"


async def content(client, uri):
    """Return what a resource holds."""
    (found,) = (await client.read_resource(uri)).contents
    return found.text


@pytest.mark.parametrize("era", ERAS)
async def test_a_skill_is_a_prompt_and_a_resource_and_opening_it_is_on_record(era):
    house = House(Provider())
    async with house.client(era) as client:
        assert "code" in [each.name for each in (await client.list_prompts()).prompts]
        (message,) = (await client.get_prompt("code")).messages
        listed = {each.uri for each in (await client.list_resources()).resources}
        assert {SKILL, "clawhive://session", "clawhive://approvals"} <= listed
        assert "clawhive://log" not in listed
        text = await content(client, SKILL)
        assert text.startswith("---")
        assert message.content.text.strip() in text
        opened = [each for each in house.hive.log.events() if each.event.tool == "skill_open"]
        assert {each.event.principal for each in opened} == {"client:mcp/tester"}


NO_TEXTS = [
    "skill://none/SKILL.md",
    "skill://code/../../pyproject.toml",
    "skill://code/%2e%2e/%2e%2e/pyproject.toml",
    "skill://code/handlers.py",
    "skill://code/clawhive.yaml",
    "skill://code/",
    "skill://code//etc/passwd",
    "skill://",
    "file:///etc/passwd",
    "clawhive://log",
]


async def test_what_is_no_text_of_a_skill_is_not_there(subtests):
    async with House(Provider()).client("2026-07-28") as client:
        for uri in NO_TEXTS:
            with subtests.test(uri), pytest.raises(MCPError):
                await client.read_resource(uri)


async def test_a_client_reads_its_own_calls_and_approvals_and_no_rules():
    house = House(Provider())
    async with house.client() as client:
        await client.call_tool("test__echo", {"a": 1})
        await client.call_tool("test__keep", {"path": "a"})
        async with house.hive.session("client:mcp/other") as other:
            await other.invoke("test.keep", {"path": "b"})
        session = json.loads(await content(client, "clawhive://session"))
        assert {each["tool"] for each in session["calls"]} == {"test.echo", "test.keep"}
        (approval,) = json.loads(await content(client, "clawhive://approvals"))["approvals"]
        assert approval["tool"] == "test.keep"
        assert "rules" not in json.dumps([session, approval])
        assert "grant" not in json.dumps(session)


async def test_the_log_is_there_where_the_user_exposes_it():
    async with House(Provider(), exposes_log=True).client() as client:
        await client.call_tool("test__echo", {"a": 1})
        events = json.loads(await content(client, "clawhive://log"))["events"]
        assert "invocation.start" in [each["kind"] for each in events]
        assert all("body" not in each for each in events)


class _Any(Result, extra="allow"):
    pass


class _Params(RequestParams, extra="allow"):
    pass


async def asked(client, method, **params):
    """Return the answer to a method of an extension."""
    made = Request[_Params, str](method=method, params=_Params(**params))
    return (await client.session.send_request(made, _Any)).model_dump()


@pytest.mark.parametrize("era", ERAS)
async def test_the_skills_extension_lists_what_can_be_read_and_verified(era):
    async with House(Provider(), serves_skills=True).client(era) as client:
        skills = (await asked(client, "skills/list"))["skills"]
        entry = next(each for each in skills if each["uri"] == SKILL)
        assert entry["frontmatter"]["name"] == "code"
        for each in entry["resources"]:
            data = (await content(client, each["uri"])).encode()
            assert each["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert (await asked(client, "skills/get", uri=SKILL))["skill"] == entry
        with pytest.raises(MCPError):
            await asked(client, "skills/get", uri="skill://none/SKILL.md")
