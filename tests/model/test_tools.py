import pytest

from clawhive_core.model.tools import ToolDef
from tests.harness import tool_meta

CONTRACT = {
    "name": "demo.other",
    "input_schema": {"type": "object", "title": "other"},
    "output_schema": {"type": "string"},
    "capability_level": "L2",
    "risk": "unsafe",
    "effects": {"path": "fs.read"},
    "sinks": ("to",),
    "idempotent": True,
    "requires_confirm": True,
}
TEXT = {
    "description": "other words",
    "annotations": {"title": "Other"},
    "examples": ({"a": 1},),
}
NEITHER = {"category": "x", "keywords": ("k",), "always_load": True, "timeout_ms": 5}


@pytest.mark.parametrize("field", CONTRACT)
def test_each_field_of_the_contract_changes_only_the_contract_hash(field):
    before, after = tool_meta(), tool_meta(**{field: CONTRACT[field]})
    assert after.contract_hash != before.contract_hash
    assert after.text_hash == before.text_hash


@pytest.mark.parametrize("field", TEXT)
def test_each_field_of_the_text_changes_only_the_text_hash(field):
    before, after = tool_meta(), tool_meta(**{field: TEXT[field]})
    assert after.contract_hash == before.contract_hash
    assert after.text_hash != before.text_hash


@pytest.mark.parametrize("field", NEITHER)
def test_other_fields_change_no_hash(field):
    before, after = tool_meta(), tool_meta(**{field: NEITHER[field]})
    assert (after.contract_hash, after.text_hash) == (before.contract_hash, before.text_hash)


def test_the_order_of_keys_in_a_schema_is_no_change():
    one = tool_meta(input_schema={"type": "object", "title": "t"})
    two = tool_meta(input_schema={"title": "t", "type": "object"})
    assert one.contract_hash == two.contract_hash


def test_a_model_is_shown_name_description_and_parameters():
    meta = tool_meta(description="what it does")
    assert meta.to_def() == ToolDef("demo.echo", "what it does", {"type": "object"})
