"""Skills' exported tools on the command line."""

import json
import subprocess

import pytest

from tests.cli.test_json import check, one_object
from tests.harness import own_pytest

ONE = """\
id: one
exports:
  api_version: "1.0"
  tools:
    - name: greet
      input_schema: {type: object, properties: {name: {type: string}}}
      output_schema: {}
tasks:
  hello:
    steps: [{name: greet, tool: one.greet, input: {name: Ana}}]
    output: "${steps.greet.output.text}"
"""
HANDLERS = """\
async def greet(input, ctx):
    print("greeting")
    before = await ctx.read("skills.one.count") or 0
    await ctx.save("skills.one.count", before + 1)
    await ctx.show("note", {"count": before + 1, "bad": "\\x1b[31m"})
    return {"text": f"Hello {input['name']}", "count": before + 1}
"""


@pytest.fixture
def one(clawhive):
    folder = clawhive.root / "skills" / "one"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.yaml").write_text(ONE)
    folder.joinpath("handlers.py").write_text(HANDLERS)
    return clawhive


def greet(one, *more):
    return one("tools", "call", "one.greet", "--args", '{"name": "Ana"}', *more)


@pytest.mark.promise("P-056")
def test_an_exported_tool_is_listed_shown_and_called_by_name(one):
    listed = one("tools", "list", "--json").json["tools"]
    assert {"name": "one.greet", "provider_id": "skill_one"}.items() <= next(
        tool for tool in listed if tool["name"] == "one.greet"
    ).items()
    done = greet(one)
    assert (done.code, json.loads(done.out)) == (0, {"count": 1, "text": "Hello Ana"})
    done = greet(one, "--json")
    assert check(one, one_object(done), "tool-result")["structured"]["count"] == 2


@pytest.mark.promise("P-062")
def test_what_a_handler_shows_and_prints_appears_at_once_on_stderr(one):
    done = greet(one, "--json")
    assert one_object(done)
    assert "greeting" in done.err
    assert "[note]" in done.err
    assert "count: 1" in done.err
    assert "\x1b[31m" not in done.err


@pytest.mark.promise("P-057")
def test_a_task_that_calls_a_handler_replays_exactly(one):
    done = one("run", "--task", "one.hello")
    assert (done.code, done.out) == (0, "Hello Ana\n")
    done = one("runs", "replay", "last", "--json")
    assert (done.code, done.json["ok"], done.json["complete"]) == (0, True, True)
    shown = one("runs", "show", "last").out
    assert "tool.one.greet" in shown
    assert "tool.save" in shown


def test_a_handler_is_left_alone_by_a_replay(one):
    one("run", "--task", "one.hello")
    one("runs", "replay", "last")
    assert greet(one, "--json").json["structured"]["count"] == 2


@pytest.mark.promise("P-060")
def test_an_export_without_handler_fails_the_check_with_its_line(one):
    manifest = one.root / "skills" / "one" / "clawhive.yaml"
    manifest.write_text(ONE.replace("- name: greet", "- name: great"))
    done = one("skills", "check")
    assert done.code == 1
    assert "skills/one/clawhive.yaml:5:13: error CH0509" in done.out
    assert one("tools", "call", "one.great", "--json").json["error"] == "tool_not_found"


@pytest.mark.promise("P-059")
def test_a_handler_that_no_engine_runs_names_the_way_out_and_it_works(one):
    handlers = one.root / "skills" / "one" / "handlers.py"
    handlers.write_text(
        "import statistics\ndef greet(input, ctx):\n    return {'m': statistics.mean([1, 3])}\n"
    )
    done = greet(one)
    assert done.code == 1
    assert "error[sandbox_unavailable]: handlers.py:1: the engine `monty` cannot run" in done.err
    assert "clawhive skills trust one" in done.err
    trusted = one("skills", "trust", "one", "--yes")
    assert "read what you can read and use the network" in trusted.err
    assert json.loads(greet(one).out) == {"m": 2}


@pytest.mark.promise("P-058")
def test_a_handler_reaches_no_file_and_only_what_its_contract_names(one):
    handlers = one.root / "skills" / "one" / "handlers.py"
    handlers.write_text(
        "async def greet(input, ctx):\n"
        "    return [await ctx.call('file.' + 'read', {'path': 'a'})]\n"
    )
    (refused,) = json.loads(greet(one).out)
    assert refused["error"] == "tool_not_imported"
    handlers.write_text("def greet(input, ctx):\n    return open('clawhive.toml').read()\n")
    done = greet(one)
    assert done.code == 1
    assert "error[tool_failed]: handlers.py:2: " in done.err


@pytest.mark.promise("P-061")
def test_a_skill_reads_and_saves_in_its_own_namespace_only(one):
    handlers = one.root / "skills" / "one" / "handlers.py"
    handlers.write_text(
        "async def greet(input, ctx):\n    return await ctx.call('read', {'path': input['name']})\n"
    )
    args = '{"name": "skills.two.count"}'
    done = one("tools", "call", "one.greet", "--args", args, "--json")
    assert (done.code, done.json["structured"]["error"]) == (1, "denied")
    args = '{"name": "skills.one.count"}'
    assert one("tools", "call", "one.greet", "--args", args, "--json").json["structured"] == {
        "data": None
    }


@pytest.mark.promise("P-063")
def test_a_new_skill_with_a_contract_works_at_once(clawhive):
    made = clawhive("skills", "new", "word-count", "--contract")
    assert made.code == 0
    assert made.out.split() == [
        "skills/.schemas/contract.json",
        "skills/word-count/SKILL.md",
        "skills/word-count/clawhive.yaml",
        "skills/word-count/handlers.py",
        "skills/word-count/tests/test_word_count.py",
    ]
    for profile in ("lenient", "strict", "portable"):
        assert clawhive("skills", "check", "skills", "--strict", "--profile", profile).code == 0
    call = ("tools", "call", "word-count.count_words", "--args", '{"text": "one two three"}')
    assert json.loads(clawhive(*call).out) == {"words": 3, "before": None}
    assert json.loads(clawhive(*call).out) == {"words": 3, "before": 3}
    done = clawhive("run", "--task", "word-count.count_words", "--input", "text=one")
    assert json.loads(done.out) == {"words": 1, "before": 3}


@pytest.mark.promise("P-063")
def test_the_test_of_a_new_skill_passes_and_fails_with_its_handler(clawhive):
    clawhive("skills", "new", "word-count", "--contract")
    folder = clawhive.root / "skills" / "word-count"
    words = own_pytest("-q", "--clawhive-skills", ".")
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, "3 passed" in done.stdout) == (0, True), done.stdout
    handlers = folder / "handlers.py"
    handlers.write_text(handlers.read_text().replace("len(", "1 + len("))
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, "1 failed, 2 passed" in done.stdout) == (1, True), done.stdout


def test_the_editors_line_of_a_new_skill_leads_to_the_schema(clawhive):
    import jsonschema_rs
    import yaml

    clawhive("skills", "new", "one", "--contract")
    contract = clawhive.root / "skills" / "one" / "clawhive.yaml"
    line = contract.read_text().splitlines()[0]
    assert line.startswith("# yaml-language-server: $schema=")
    schema = contract.parent / line.partition("$schema=")[2]
    assert schema.read_text() == clawhive("skills", "schema").out
    validator = jsonschema_rs.validator_for(json.loads(schema.read_text()))
    assert validator.is_valid(yaml.safe_load(contract.read_text()))
    schema.write_text("{}")
    done = clawhive("skills", "new", "two", "--contract")
    assert "of another version: clawhive skills schema --out skills/.schemas/" in done.err
    assert schema.read_text() == "{}"
    assert clawhive("skills", "schema", "--out", "skills/.schemas/contract.json").code == 0
    assert schema.read_text() == clawhive("skills", "schema").out
    assert "of another version" not in clawhive("skills", "new", "three", "--contract").err
    assert clawhive("skills", "schema", "--out", "skills").code == 2


def test_a_new_skill_in_the_way_of_another_leaves_no_schema(clawhive):
    clawhive("skills", "new", "one")
    assert clawhive("skills", "new", "one", "--contract").code == 2
    assert not clawhive.root.joinpath("skills", ".schemas").exists()
    clawhive.root.joinpath("flat").write_text("")
    assert clawhive("skills", "new", "one", "--contract", "--into", "flat").code == 2
