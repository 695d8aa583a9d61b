"""What is proposed for tools, by the words, schemas and annotations of real ones."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.catalog.listing import admitted
from clawhive_core.catalog.proposals import propose
from clawhive_core.model.tools import ToolMeta

READS = {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}
WRITES = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
RANK = ("safe", "guarded", "unknown", "unsafe")


def listed(name, *arguments, hints=None, description="", risk="unknown", output=None, **properties):
    """Return a tool as an MCP server's provider lists it; arguments are texts."""
    schema = {
        "type": "object",
        "properties": {**{each: {"type": "string"} for each in arguments}, **properties},
    }
    return ToolMeta(
        f"mcp.demo.{name}",
        description,
        schema,
        "mcp_demo",
        output_schema=output,
        risk=risk,
        side_effects=risk != "safe",
        requires_confirm=True,
        annotations={**(hints or {}), "mcp_name": name},
        text_counts=True,
    )


def proposed(*args, **fields):
    meta = listed(*args, **fields)
    proposal = propose(meta)
    assert proposal.declaration.problem(meta) is None
    assert proposal.reasons
    return proposal.declaration


@pytest.mark.parametrize(
    ("name", "effects"),
    [
        ("git_status", {"repo_path": "fs.read:{}/**"}),
        ("read_text_file", {"path": "fs.read"}),
        ("directory_tree", {"path": "fs.read:{}/**"}),
        ("search_files", {"path": "fs.read:{}/**"}),
        ("list_directory", {"path": "fs.read"}),
        ("get_current_time", {}),
        ("search_nodes", {}),
        ("sequentialthinking", {}),
        ("list_tables", {}),
        ("getCommit", {}),
        ("get_pull_request_comments", {}),
    ],
)
def test_what_reads_its_own_server_or_the_project_is_safe(name, effects):
    found = proposed(name, *effects)
    assert (found.risk, found.effects, found.side_effects) == ("safe", effects, False)
    assert admitted(found.of(listed(name, *effects))).risk == "safe"


@pytest.mark.parametrize(
    ("name", "arguments", "effects", "sinks"),
    [
        ("write_file", ("path", "content"), {"path": "fs.write"}, ("path:path",)),
        ("edit_file", ("path",), {"path": ("fs.read", "fs.write")}, ("path:path",)),
        (
            "move_file",
            ("source", "destination"),
            {"source": ("fs.read", "fs.delete"), "destination": "fs.write"},
            ("source:path", "destination:path"),
        ),
        ("git_add", ("repo_path", "files"), {"repo_path": "fs.write:{}/**"}, ("repo_path:path",)),
        ("fetch", ("url",), {"url": "net.http"}, ("url:url",)),
        ("send_email", ("to", "cc", "subject", "body"), {}, ("to:recipient", "cc:recipient")),
        (
            "create_issue",
            ("owner", "repo", "title", "body"),
            {},
            ("owner:selector.owner", "repo:selector.repo"),
        ),
        ("create_or_update_file", ("owner", "repo", "path", "content"), {}, None),
        ("slack_post_message", ("channel_id", "text"), {}, ("channel_id:recipient.channel",)),
        ("update_password", ("password",), {}, ("password:value!",)),
        ("make_payment", ("recipient", "amount"), {}, ("recipient:account!",)),
        ("frobnicate", ("what",), {}, ()),
        ("get_env", (), {}, ()),
        ("brave_web_search", ("query",), {}, ()),
        ("get_and_forward", ("to",), {}, ("to:recipient",)),
        ("get_or_create_page", ("page_id",), {}, ("page_id:selector.page",)),
        ("log_event", ("message",), {}, ()),
        ("history_clear", (), {}, ()),
        ("check_in", ("booking",), {}, ()),
        ("resolve_incident", ("incident_id",), {}, ("incident_id:selector.incident",)),
        ("list_keys", (), {}, ()),
    ],
)
def test_what_changes_or_reaches_something_is_guarded_with_its_destinations(
    name, arguments, effects, sinks
):
    found = proposed(name, *arguments)
    assert (found.risk, found.effects) == ("guarded", effects)
    assert sinks is None or found.sinks == sinks


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("delete_entities", "entityNames"),
        ("cancel_calendar_event", "event_id"),
        ("run_command", "command"),
        ("get_output", "cmd"),
        ("execute_sql", "query"),
        ("transfer_money", "iban"),
        ("list_and_delete_mails", "folder"),
    ],
)
def test_what_deletes_pays_or_executes_is_unsafe(name, argument):
    assert proposed(name, argument, hints=READS).risk == "unsafe"


def test_a_statement_is_no_harmless_question():
    text = {"type": "string", "description": "SELECT SQL query to execute"}
    assert proposed("read_query", query=text).risk == "guarded"
    assert proposed("write_query", query=text).risk == "unsafe"


def test_a_right_to_read_what_it_is_given_does_not_let_a_tool_do_something_with_it():
    found = proposed("send_mail", "to", "attachments")
    assert found.effects == {"attachments": "fs.read", "": "tool.call:mcp.demo.send_mail"}


def test_a_tool_that_is_said_to_search_the_web_reaches_it():
    assert proposed("look_up", description="Searches the web for pages.").risk == "guarded"


@pytest.mark.parametrize(
    "asked",
    [
        {"properties": {"delete_after": {"type": "boolean"}}},
        {"properties": {"output_path": {"type": "string"}}},
        {"description": "Creates a note and returns it."},
    ],
)
def test_a_tool_that_reads_by_its_name_and_writes_by_all_else_is_guarded(asked):
    assert proposed("get_note").risk == "safe"
    properties = asked.get("properties", {})
    found = proposed("get_note", description=asked.get("description", ""), **properties)
    assert found.risk == "guarded"


def test_an_argument_is_an_address_by_its_description_too():
    found = proposed("zip_resource", data={"type": "string", "description": "URL of the file"})
    assert (found.effects, found.sinks) == ({}, ("data:url",))


def test_fields_of_objects_in_a_list_are_sinks():
    items = {"type": "object", "properties": {"entityName": {"type": "string"}, "text": {}}}
    found = proposed("delete_observations", deletions={"type": "array", "items": items})
    assert found.sinks == ("deletions/*/entityName:selector.entity",)


def test_ids_that_a_reading_tool_of_a_closed_server_returns_are_records():
    item = {"type": "object", "properties": {"id": {"type": "string"}, "from": {"type": "string"}}}
    output = {"type": "object", "properties": {"items": {"type": "array", "items": item}}}
    assert proposed("list_events", output=output).records == ("items/*/id:selector.event",)
    online = proposed("list_events", output=output, hints={"openWorldHint": True})
    assert online.records == ()


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": True},
        {"patternProperties": {".": {}}},
        {"anyOf": [{"properties": {"path": {"type": "string"}}}]},
        {"properties": {"a\nb": {}}},
        {"properties": {"options": {"type": "object", "properties": {"path": {}}}}},
        {
            "properties": {
                "a": {
                    "type": "array",
                    "items": {"properties": {"b": {"properties": {"url": {"type": "string"}}}}},
                }
            }
        },
    ],
)
def test_what_takes_more_than_its_arguments_show_is_guarded(schema):
    meta = replace(listed("get_note"), input_schema={"type": "object", **schema})
    assert propose(meta).declaration.risk == "guarded"


def test_an_argument_is_a_path_by_its_description_too():
    text = {"type": "string", "description": "Absolute path of the document"}
    assert proposed("read_document", document=text).effects == {"document": "fs.read"}


def test_a_schema_of_any_depth_is_read():
    schema = {"type": "string"}
    for number in range(80):
        schema = {"anyOf": [schema]} if number % 2 else {"items": schema, "type": "array"}
    assert proposed("get_note", what=schema).risk == "safe"


@pytest.mark.parametrize(
    "hints", [{"readOnlyHint": False}, {"destructiveHint": True}, {"openWorldHint": True}]
)
def test_annotations_of_a_stranger_raise_a_risk(hints):
    assert proposed("read_graph").risk == "safe"
    assert proposed("read_graph", hints=hints).risk == "guarded"


@pytest.mark.parametrize("name", ["write_file", "frobnicate", "send_email", "get_env"])
def test_annotations_of_a_stranger_lower_no_risk(name):
    assert proposed(name, hints=READS).risk == "guarded"


def test_annotations_of_a_server_that_the_user_trusts_count():
    assert proposed("frobnicate", hints=READS, risk="safe").risk == "safe"
    assert proposed("read_graph", hints=WRITES, risk="guarded").risk == "guarded"
    assert proposed("delete_all", hints=READS, risk="safe").risk == "unsafe"


WORDS = st.sampled_from(
    [
        *("get", "list", "read", "send", "delete", "write", "fetch", "the", "and", "or", "url"),
        *("path", "to", "id", "env", "sql", "run", "tree", "_", "Ab"),
    ]
)
NAMES = st.lists(WORDS, min_size=1, max_size=4).map("_".join)
SCHEMAS = st.dictionaries(
    NAMES,
    st.sampled_from(
        [{}, {"type": "string"}, {"type": ["integer", "null"]}, True, {"anyOf": 3}, None, "x"]
    )
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "anyOf", "items", "properties", "enum", "path", "\ud800"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
    | st.builds(
        lambda inner: {"type": "array", "items": {"properties": inner}},
        st.dictionaries(NAMES, st.just({"type": "string"}), max_size=2),
    ),
    max_size=4,
)
HINTS = st.dictionaries(
    st.sampled_from(["readOnlyHint", "destructiveHint", "openWorldHint"]),
    st.sampled_from([True, False, None, "yes"]),
)


@given(NAMES, SCHEMAS, HINTS)
def test_whatever_a_server_lists_a_stranger_s_annotations_only_tighten(name, properties, hints):
    plain, hinted = listed(name, **properties), listed(name, hints=hints, **properties)
    one, other = propose(plain).declaration, propose(hinted).declaration
    assert RANK.index(other.risk) >= RANK.index(one.risk)
    assert other.problem(hinted) is None
    assert set(other.sinks) >= {each for each in one.sinks if not each.endswith(":path")}
