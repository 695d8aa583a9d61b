"""The specification of contracts: every key is there, every example works, every code is known."""

import json
import re

import pytest
import yaml

from clawhive_core.diagnostics.codes import all_codes
from clawhive_core.skills.template import published_schema
from tests.docs.conftest import ROOT, block, blocks

PAGE = "docs/skill-contracts.md"
TEXT = ROOT.joinpath(PAGE).read_text("utf-8")
ROWS = {
    key: [cell.strip() for cell in cells.split("|")]
    for key, cells in re.findall(r"^\| `([\w.\[\]]+)` \|(.+)\|$", TEXT, re.MULTILINE)
}
"""By its path: what a key means, its default, its rules."""


def keys(schema, whole, prefix=""):
    """Yield the path of every key that a contract may have."""
    for part in (schema, *schema.get("anyOf", ())):
        ref = part.get("$ref", "")
        if ref.startswith("#/$defs/"):
            yield from keys(whole["$defs"][ref.rpartition("/")[2]], whole, prefix)
        for name, below in part.get("properties", {}).items():
            if "$ref" in part and not ref.startswith("#"):
                continue  # a JSON Schema of its own
            path = f"{prefix}.{name}".removeprefix(".")
            yield path
            if isinstance(below, dict):
                yield from keys(below, whole, path)
        for key, mark in (("items", "[]"), ("additionalProperties", ".NAME")):
            if isinstance(part.get(key), dict) and prefix != "exports.contracts":
                yield from keys(part[key], whole, f"{prefix}{mark}")


def test_the_page_has_a_row_for_every_key_of_the_schema_and_no_other():
    schema = json.loads(published_schema("contract"))
    assert {*ROWS} == {*keys(schema, schema)}


def test_every_row_says_meaning_default_and_rules():
    assert [key for key, row in ROWS.items() if len(row) != 3 or not all(row[:2])] == []


def test_every_code_of_the_page_is_known():
    named = set(re.findall(r"CH\d{4}|(?<=error `)[a-z_]+(?=`)", TEXT))
    assert named - {*all_codes()} == set()
    assert len(named) > 40


@pytest.fixture
def written(terminal):
    """Write the two skills of the page, as it shows them."""
    for number, name in enumerate(("tides", "harbour")):
        folder = terminal.project / "skills" / name
        folder.mkdir(parents=True)
        folder.joinpath("clawhive.yaml").write_text(block(PAGE, "yaml", number), "utf-8")
        folder.joinpath("handlers.py").write_text(block(PAGE, "python", number), "utf-8")
    return terminal


@pytest.mark.promise("P-215")
def test_the_contracts_of_the_page_work_and_its_commands_print_what_it_shows(written):
    for each in blocks(PAGE):
        if each.language == "console":
            written.run(each)
    assert written.project.joinpath("skills/.schemas/contract.json").is_file()


@pytest.mark.promise("P-215")
def test_the_contracts_of_the_page_are_what_the_schema_says():
    import jsonschema_rs

    validator = jsonschema_rs.validator_for(json.loads(published_schema("contract")))
    for number in (0, 1):
        contract = yaml.safe_load(block(PAGE, "yaml", number))
        assert [str(each) for each in validator.iter_errors(contract)] == []


@pytest.mark.promise("P-215")
@pytest.mark.parametrize("key", [key for key, row in ROWS.items() if "required" in row[1]])
def test_a_key_that_the_page_calls_required_is_so_in_the_schema(key):
    schema = json.loads(published_schema("contract"))
    above, _, name = key.rpartition(".")
    found = [below for path, below in holders(schema, schema) if path == above]
    assert any(name in each.get("required", ()) for each in found), key


def holders(schema, whole, prefix=""):
    """Yield every mapping that a contract may hold, by its path."""
    for part in (schema, *schema.get("anyOf", ())):
        ref = part.get("$ref", "")
        if ref.startswith("#/$defs/"):
            yield from holders(whole["$defs"][ref.rpartition("/")[2]], whole, prefix)
        if isinstance(part.get("properties"), dict):
            yield prefix, part
            for name, below in part["properties"].items():
                if isinstance(below, dict):
                    yield from holders(below, whole, f"{prefix}.{name}".removeprefix("."))
        for key, mark in (("items", "[]"), ("additionalProperties", ".NAME")):
            if isinstance(part.get(key), dict):
                yield from holders(part[key], whole, f"{prefix}{mark}")


def test_the_defaults_of_a_tool_are_those_of_the_page():
    from clawhive_core.skills.contracts.skill import UNCAPPED, ToolFacts

    facts = ToolFacts()
    said = {key: row[1].strip("`") for key, row in ROWS.items()}
    assert said["exports.tools[].timeout_ms"] == str(facts.timeout_ms)
    for name in ("requires_confirm", "side_effects", "idempotent"):
        assert said[f"exports.tools[].{name}"] == json.dumps(getattr(facts, name))
    for name in ("max_level", "max_risk"):
        assert said[f"risk_policy.{name}"] == getattr(UNCAPPED, name)
