"""The published JSON Schemas against the reader: what one takes, the other takes."""

import json
from pathlib import Path

import pytest
import yaml

from clawhive_core.skills.discovery.reading import read_skill
from clawhive_core.skills.template import published_schema
from tests.harness import exports
from tests.skills.test_contract_fields import GOOD, USER

ROOT = Path(__file__).parents[2]
SHAPE = {"CH0202", "CH0305", "CH0306", "CH0501", "CH0503", "CH0504", "CH0507", "CH0513", "CH0605"}
SHAPE |= {"CH0307"}
"""The errors about the form of one value, which a JSON Schema can say."""

STEP = "tasks: {t: {steps: [{name: a, tool: b%s}]}}\n"
TOOL = "exports: {api_version: '1.0', tools: [{name: a, input_schema: {}, output_schema: {}%s}]}\n"
GOOD_ONES = [
    GOOD, USER, exports("a", "b"), "{}\n", STEP % "", TOOL % "", "requires: {os: [Linux, win32]}\n",
    STEP % ", needs: [a], for_each: '${input.x}', when: always, permissions: ['net.http:**']",
    TOOL % ", risk: safe, effects: {'': 'net.http:**'}, idempotent: true, timeout_ms: 5",
    exports("a").replace("}\n", ", rate_limit: 5/hour}\n"),
    "imports: [{from: a, tools: [b], min_version: '1.10'}]\n", "external_tools: [a.b]\n",
    "requires_skill_data: {a: [b]}\ndata_paths: [public_state]\nrequired_tools: [a]\n",
    "grounds: {web.search: ['items/*/url:url']}\nrequires: {tools: [web.search]}\n",
]  # fmt: skip
BAD_ONES = [
    "id: a b\n", "id: ''\n", "version: 1\n", "permissions: x\n", "permissions: [1]\n",
    "exports: {api_version: 1.0}\n", "exports: {api_version: '1'}\n", "exports: {tols: []}\n",
    "exports: {tools: {}}\n", TOOL % ", risk: harmless",
    TOOL % ", timeout_ms: 0", TOOL % ", timeout_ms: 1.5", TOOL % ", idempotent: 1",
    TOOL % ", more: 1", TOOL.replace("input_schema: {}", "input_schema: []") % "",
    TOOL.replace("input_schema: {}", "input_schema: {type: array}") % "",
    TOOL.replace("input_schema: {}", "input_schema: {type: objekt}") % "",
    TOOL.replace("output_schema: {}", "description: x") % "",
    (TOOL % "").replace("]}", "], rate_limit: often}"), (TOOL % "").replace("]}", "], access: []}"),
    (TOOL % "").replace("]}", "], access: {free: true}}"),
    (TOOL % "").replace("]}", "], deprecated: [{tool: a}]}"),
    "imports: {}\n", "imports: [{from: a}]\n", "imports: [{from: a, tools: [b], min_version: 1}]\n",
    "imports: [{from: 1, tools: [b]}]\n", "requires: {bin: [a]}\n", "requires: {os: [beos]}\n",
    "risk_policy: {max_level: L3}\n", "risk_policy: {confirm: 'yes'}\n", "risk_policy: {max: L1}\n",
    "allowed_run_types: x\n", "tasks: []\n", "tasks: {'a b': {}}\n", "tasks: {t: {stesp: []}}\n",
    STEP % ", nead: [a]", STEP % ", for_each: 1", STEP % ", input: []", "external_tools: {a: b}\n",
    "tasks: {t: {input_schema: {type: string}}}\n", "grounds: {a: b}\n",
]  # fmt: skip


def validator(part):
    import jsonschema_rs

    contract = json.loads(published_schema("contract"))
    registry = jsonschema_rs.Registry([("urn:clawhive:contract:1", contract)])
    return jsonschema_rs.validator_for(json.loads(published_schema(part)), registry=registry)


def wrong(tmp_path, manifest):
    """Return the errors of form that the reader finds."""
    file = tmp_path / "skill.yaml"
    file.write_text(manifest, "utf-8")
    found = read_skill(file, "test").findings
    return [each.code for each in found if each.severity == "error" and each.code in SHAPE]


@pytest.mark.promise("P-193")
@pytest.mark.parametrize("manifest", GOOD_ONES)
def test_what_the_reader_takes_the_schema_takes(tmp_path, manifest):
    assert wrong(tmp_path, manifest) == []
    assert [
        str(each) for each in validator("contract").iter_errors(yaml.safe_load(dated(manifest)))
    ] == []


@pytest.mark.promise("P-193")
@pytest.mark.parametrize("manifest", BAD_ONES)
def test_what_the_reader_refuses_for_its_form_the_schema_refuses(tmp_path, manifest):
    assert wrong(tmp_path, manifest) != []
    assert not validator("contract").is_valid(yaml.safe_load(dated(manifest)))


def dated(manifest):
    """Return a manifest with its dates in quotes, since PyYAML's own loader makes dates of them."""
    import re

    return re.sub(r"(\d{4}-\d\d-\d\d)", r"'\1'", manifest)


def test_every_shipped_contract_and_template_is_what_the_schema_says():
    files = [
        *ROOT.glob("skills/*/clawhive.yaml"),
        *ROOT.glob("clawhive_core/data/templates/*/clawhive.yaml"),
    ]
    assert len(files) > 4
    for file in files:
        text = file.read_text("utf-8").replace("{{id}}", "word-count").replace("{{title}}", "x")
        problems = validator("contract").iter_errors(yaml.safe_load(text))
        assert [str(each) for each in problems] == [], file


@pytest.mark.parametrize(
    ("front", "good"),
    [
        ({"name": "x", "description": "y", "anything": [1]}, True),
        ({"name": "x"}, False),
        ({"description": " "}, False),
        ({"description": "y", "metadata": {"clawhive": {"version": "1"}}}, True),
        ({"description": "y", "metadata": {"clawhive": {"version": 1}}}, False),
        ({"description": "y", "exports": {"api_version": "1.0"}}, True),
        ({"description": "y", "imports": {}}, False),
    ],
)
def test_the_schema_of_a_frontmatter_agrees_with_the_reader(tmp_path, front, good):
    folder = tmp_path / "x"
    folder.mkdir()
    folder.joinpath("SKILL.md").write_text(f"---\n{yaml.safe_dump(front)}---\n", "utf-8")
    assert read_skill(folder, "test").is_valid == good
    assert validator("frontmatter").is_valid(front) == good
