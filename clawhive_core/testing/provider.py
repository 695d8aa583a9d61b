"""The conformance suite for tool providers."""

# ruff: noqa: S101 - what the suite finds wrong is an AssertionError, as in the tests that call it

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from clawhive_core.capabilities import verb_of
from clawhive_core.catalog.listing import problem_of
from clawhive_core.catalog.validation import compile_schema, describe
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.sinks import sink_problems
from clawhive_core.model.tools import Level, Risk, ToolMeta
from clawhive_core.protocols.provider import ToolProvider
from clawhive_core.testing.memory import memory_hive

_BUGS = frozenset({"tool_failed", "invalid_output", "timeout"})


async def check_provider(provider: ToolProvider) -> None:
    """Check a tool provider against its protocol.

    Every definition is checked: names, schemas, effects, examples. Then each tool that is safe,
    only reads and has examples is called with them, through a real executor, whose checks of
    results apply. The provider is closed after.

    Raises:
        AssertionError: With the tool and what was wrong.
    """
    name: Any = getattr(provider, "provider_id", None)
    assert isinstance(name, str), f"`provider_id` must be a text, not {name!r}"
    assert name, "`provider_id` must not be empty"
    tools = await provider.list_tools()
    _check_list(tools, name)
    for meta in tools:
        _check_tool(meta)
    again = await provider.list_tools()
    assert _contracts(again) == _contracts(tools), "`list_tools` answers something else each time"
    await _call_examples(provider, [meta for meta in tools if _only_reads(meta)])


def _check_list(tools: Any, provider_id: str) -> None:
    assert isinstance(tools, list), f"`list_tools` must answer a list, not {type(tools).__name__}"
    metas: list[Any] = list(tools)  # pyright: ignore[reportUnknownArgumentType] - checked below
    for meta in metas:
        assert isinstance(meta, ToolMeta), f"`list_tools` holds {type(meta).__name__}"
        assert meta.provider_id == provider_id, (
            f"{meta.name}: its `provider_id` is {meta.provider_id!r}, not {provider_id!r}"
        )
    names = [meta.name for meta in metas]
    assert len(set(names)) == len(names), f"two tools have one name: {sorted(names)}"


def _check_tool(meta: ToolMeta) -> None:
    problem = problem_of(meta.name, meta.provider_id)
    assert problem is None, f"{meta.name!r}: {problem}"
    assert meta.description.strip(), f"{meta.name}: a model chooses by the description; write one"
    assert meta.capability_level in get_args(Level), f"{meta.name}: {meta.capability_level!r}"
    assert meta.risk in get_args(Risk), f"{meta.name}: the risk {meta.risk!r} is unknown"
    assert meta.timeout_ms > 0, f"{meta.name}: `timeout_ms` must be positive"
    _check_schema(meta, "input_schema", meta.input_schema)
    assert meta.input_schema.get("type") == "object", f"{meta.name}: an input is an object"
    if meta.output_schema is not None:
        _check_schema(meta, "output_schema", meta.output_schema)
    _check_arguments(meta)
    for example in meta.examples:
        problems = compile_schema(meta.input_schema)(example)
        assert not problems, f"{meta.name}: the example {example} is refused: {describe(problems)}"


def _check_schema(meta: ToolMeta, field: str, schema: Any) -> None:
    """Check that a schema compiles: the draft 2020-12 metaschema accepts it."""
    import jsonschema_rs

    assert isinstance(schema, Mapping), f"{meta.name}: `{field}` must be an object"
    try:
        canonical_text(schema)
        jsonschema_rs.validator_for(dict(schema))  # pyright: ignore[reportUnknownArgumentType] - JSON
    except (jsonschema_rs.ValidationError, ValueError, TypeError) as error:
        raise AssertionError(f"{meta.name}: `{field}` is no JSON Schema: {error}") from error


def _check_arguments(meta: ToolMeta) -> None:
    known = meta.input_schema.get("properties", {})
    for argument, effect in meta.effects.items():
        assert not argument or argument in known, (
            f"{meta.name}: `effects` names {argument!r}, which is no argument"
        )
        for template in (effect,) if isinstance(effect, str) else effect:
            verb = template.partition(":")[0]
            assert verb_of(verb) is not None, f"{meta.name}: {verb!r} is no verb of a capability"
    records = sink_problems(meta.records, None, records=True)
    for problem, fix in (*sink_problems(meta.sinks, known), *records):
        raise AssertionError(f"{meta.name}: {problem}; {fix}")


def _contracts(tools: Sequence[ToolMeta]) -> dict[str, str]:
    return {meta.name: meta.contract_hash for meta in tools}


def _only_reads(meta: ToolMeta) -> bool:
    return meta.risk == "safe" and meta.capability_level == "L0" and not meta.side_effects


async def _call_examples(provider: ToolProvider, tools: Sequence[ToolMeta]) -> None:
    async with memory_hive(providers=[provider]) as hive, hive.session() as session:
        for meta in tools:
            for example in meta.examples:
                outcome = await session.invoke(meta.name, example)
                if isinstance(outcome, Refusal):
                    assert outcome.error == "denied", f"{meta.name}: {outcome.message}"
                    continue
                value = outcome.structured
                code = value.get("error") if outcome.is_error and isinstance(value, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
                assert code not in _BUGS, f"{meta.name} with {example}: {outcome.output}"
