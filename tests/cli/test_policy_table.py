"""`clawhive policy test`: a table of calls checked against the policy of a project."""

import json

import pytest
import yaml

from tests.cli.test_json import check

READ = {"tool": "file.read", "input": {"path": "a.md"}, "expect": "allow"}
WRITE = {"tool": "file.write", "input": {"path": "a.md", "text": "x"}, "expect": "ask"}


@pytest.fixture
def held(clawhive):
    """Hold a table of these calls and return what came of it."""

    def hold(*calls, name="policy.yaml"):
        clawhive.root.joinpath(name).write_text(yaml.safe_dump({"calls": list(calls)}))
        return clawhive("policy", "test", name)

    return hold


@pytest.fixture
def one(clawhive, held):
    """Hold one call and return its codes: of the command and of its finding."""

    def hold(**call):
        held(call)
        done = clawhive("policy", "test", "policy.yaml", "--json")
        return done.code, [each["code"] for each in done.json["findings"]]

    return hold


def test_calls_that_are_decided_as_the_table_says_are_no_finding(clawhive, held):
    done = held(READ, WRITE, {**READ, "input": {"path": ".env"}, "expect": "deny"})
    assert (done.code, done.out) == (0, "no findings\n")
    assert "3 calls decided, 3 as the table says" in done.err
    assert clawhive("runs", "list", "--json").json["runs"] == []
    assert not clawhive.root.joinpath("a.md").exists()


@pytest.mark.promise("P-126")
def test_a_call_that_is_decided_otherwise_is_found_at_its_verdict_with_what_decided(held):
    done = held(READ, {**WRITE, "name": "quick notes", "expect": "allow"})
    assert done.code == 1
    (line, fix, summary) = done.out.splitlines()
    assert line.startswith("policy.yaml:6:11: error CH0912 quick notes: `file.write`: policy says ")
    assert "ask, not allow (risk.guarded, fs.write:" in line
    assert "clawhive policy explain file.write --args" in fix
    assert summary == "1 finding: 1 error"
    assert "2 calls decided, 1 as the table says" in done.err


@pytest.mark.parametrize(
    ("call", "codes"),
    [
        ({**READ, "input": {"path": ".env"}, "expect": "deny", "rule": "protected:sensitive"}, []),
        ({**READ, "input": {"path": ".env"}, "expect": "deny", "rule": "no-grant"}, ["CH0912"]),
        ({**READ, "input": {"path": "${home}/x"}, "expect": "deny", "rule": "no-grant"}, []),
        ({**READ, "input": {"path": "${home}/x"}, "grants": ["fs.read:${home}/**"]}, []),
        ({**READ, "input": {"path": "${run}/x"}, "grant": "fs.read:${run}/**"}, []),
        ({**READ, "grant": "fs.read:${workspace}/**"}, []),
        ({**READ, "grant": "fs.read:/srv/**"}, ["CH0912"]),
        ({**WRITE, "rule": "risk.guarded", "reason": "approval"}, []),
        ({**WRITE, "reason": "rights"}, ["CH0912"]),
        ({**WRITE, "expect": "allow", "grants": ["fs.write:${workspace}/a.md"]}, []),
        ({**READ, "tool": "file.raed", "expect": "deny"}, ["CH0913"]),
        ({**READ, "tool": "file.raed", "expect": "deny", "rule": "tool_not_found"}, ["CH0913"]),
        ({**READ, "input": {"path": 3}, "expect": "deny"}, ["CH0913"]),
        ({**READ, "input": {"path": 3}, "expect": "deny", "reason": "arguments"}, []),
        ({**READ, "agent": "nobody", "expect": "deny"}, ["CH0913"]),
        ({**READ, "task": "nothing.job"}, ["CH0913"]),
        ({**READ, "task": "edit_docs"}, []),
        ({**READ, "task": "edit_docs", "step": "nothing"}, ["CH0913"]),
        ({**READ, "input": {"path": "x" * 200}}, []),
    ],
)
def test_each_key_of_a_call_counts(one, call, codes):
    assert one(**call) == (1 if codes else 0, codes)


def test_an_agents_list_is_a_rule_and_a_misspelt_tool_is_none(clawhive, one):
    clawhive.root.joinpath("clawhive.toml").write_text("[agents.reader]\nallow = ['file.list']\n")
    refused = {**READ, "agent": "reader", "expect": "deny"}
    assert one(**refused) == (0, [])
    assert one(**refused, rule="agents.reader.allow") == (0, [])
    assert one(**{**refused, "tool": "file.raed"}) == (1, ["CH0913"])
    assert one(**{**refused, "tool": "file.list", "input": {}}) == (1, ["CH0912"])


def test_a_denied_pattern_is_a_rule_with_its_variables(clawhive, one):
    deny = "[policy]\ndeny = ['fs.read:${workspace}/a.md']\n"
    clawhive.root.joinpath("clawhive.toml").write_text(deny)
    assert one(**{**READ, "expect": "deny", "rule": "deny:fs.read:${workspace}/a.md"}) == (0, [])
    assert one(**{**READ, "expect": "deny", "rule": "deny:fs.read:**"}) == (1, ["CH0912"])


def test_what_the_user_said_counts_for_destinations(clawhive, one, site):
    site.plugin(
        "post",
        "from clawhive_core import tool\n"
        "@tool(risk='guarded', sinks=('url',), effects={'url': 'net.http'})\n"
        "def send(url: str) -> str:\n    'Send.'\n    return url\n",
    )
    call = {"tool": "post.send", "input": {"url": "https://a.example/x"}, "expect": "allow"}
    call["grants"] = ["net.http:https://a.example/**"]
    assert one(**call) == (1, ["CH0912"])
    assert one(**call, words="Send it to https://a.example/x") == (0, [])


def test_a_variable_counts_in_each_text_of_a_list(one, site):
    site.plugin(
        "pages",
        "from clawhive_core import tool\n"
        "@tool(risk='safe', effects={'paths': 'fs.read'})\n"
        "def join(paths: list[str]) -> str:\n    'Join.'\n    return ''.join(paths)\n",
    )
    call = {"tool": "pages.join", "input": {"paths": ["a.md", "${home}/x"]}}
    assert one(**call, expect="deny", rule="no-grant") == (0, [])
    assert one(**call, expect="allow", grants=["fs.read:${home}/**"]) == (0, [])


def test_the_rights_of_a_step_count_in_that_step(clawhive, one):
    from tests.cli.test_grants import STEPS

    skill = clawhive.root / "skills" / "keeper" / "clawhive.yaml"
    skill.parent.mkdir(parents=True)
    skill.write_text(STEPS)
    assert clawhive("skills", "trust", "keeper", "--yes").code == 0
    note = {**READ, "input": {"path": "${home}/notes/a.md"}, "task": "keeper.job"}
    assert one(**note, step="collect") == (0, [])
    assert one(**{**note, "step": "look", "expect": "deny"}) == (0, [])


@pytest.mark.promise("P-126")
@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("calls: []\n", "1:8", "holds no call"),
        ("calls:\n  - {tool: a}\n", "2:5", "a call needs `expect`"),
        ("calls:\n  - {expect: allow}\n", "2:5", "a call needs `tool`"),
        ("calls:\n  - {tool: a, expect: alow}\n", "2:23", "did you mean `allow`?"),
        ("calls:\n  - {tool: a, expect: ask, inptu: {}}\n", "2:28", "did you mean `input`?"),
        ("calls:\n  - {tool: a, expect: ask, input: x}\n", "2:35", "must be a mapping"),
        ("calls:\n  - {tool: a, expect: ask, grant: fs.reed:x}\n", "2:35", "There is no verb"),
        ("calls:\n  - {tool: a, expect: ask, rule: 'deny:fs.reed:x'}\n", "2:34", "no verb"),
        ("calls:\n  - {tool: a, expect: ask, reason: because}\n", "2:36", "one of: not_enabled"),
        ("calls:\n  - {tool: a, expect: ask, step: s}\n", "2:34", "add `task: TASK`"),
        ("calls:\n  - {tool: a, expect: ask, expect: deny}\n", "2:28", "stands twice"),
        ("cals:\n  - {tool: a, expect: ask}\n", "1:1", "did you mean `calls`?"),
        ("schema: policy-cases/2\ncalls: [{tool: a, expect: ask}]\n", "1:9", "another form"),
        ("calls: {\n", "2:1", "no YAML"),
        ("[1]\n", "1:1", "must be a mapping"),
        ("", "1:1", "holds no call"),
    ],
)
def test_a_table_that_cannot_be_read_is_answered_with_its_place_and_fix(clawhive, text, at, says):
    clawhive.root.joinpath("policy.yaml").write_text(text)
    done = clawhive("policy", "test", "policy.yaml")
    assert done.code == 2
    assert f"policy.yaml:{at}: error CH0911" in done.out
    assert says in done.out
    assert "    fix: " in done.out
    assert "nothing was decided" in done.err


def test_every_mistake_of_every_file_is_found_at_once_and_nothing_is_decided(clawhive):
    clawhive.root.joinpath("a.yaml").write_text("calls:\n  - {tool: a}\n  - {tool: b, x: 1}\n")
    clawhive.root.joinpath("b.toml").write_text('[[calls]]\ntool = "a"\nexpect = 3\n')
    clawhive.root.joinpath("c.json").write_text('{"calls": [}')
    clawhive.root.joinpath("d.toml").write_text("[[calls]\n")
    names = ("a.yaml", "b.toml", "c.json", "d.toml", "e.yaml", "f.toml", ".")
    done = clawhive("policy", "test", *names, "--json")
    assert done.code == 2
    check(clawhive, done.json, "policy-test")
    places = {(each["file"], each["line"]) for each in done.json["findings"]}
    assert places == {
        ("a.yaml", 2), ("a.yaml", 3), ("b.toml", 3), ("c.json", 1), ("d.toml", 1),
        ("e.yaml", None), ("f.toml", None), (".", None),
    }  # fmt: skip
    assert done.json["calls"] == []


def test_a_table_may_be_toml_or_json(clawhive):
    clawhive.root.joinpath("a.toml").write_text(
        '[[calls]]\ntool = "file.read"\nexpect = "allow"\ninput.path = "a.md"\n\n'
        '[[calls]]\ntool = "file.read"\nexpect = "allow"\n[calls.input]\npath = ".env"\n'
    )
    clawhive.root.joinpath("b.json").write_text(json.dumps({"calls": [READ]}))
    done = clawhive("policy", "test", "a.toml", "b.json")
    assert done.code == 1
    assert done.out.startswith("a.toml:8:1: error CH0912 `file.read`: policy says deny, not allow")
    assert "3 calls decided, 2 as the table says" in done.err


def test_with_json_there_is_one_object_of_the_schema(clawhive, held):
    held(READ, {**WRITE, "name": "w", "expect": "deny"}, {**READ, "tool": "no.tool"})
    done = clawhive("policy", "test", "policy.yaml", "--json")
    value = check(clawhive, done.json, "policy-test")
    assert (done.code, value["ok"], value["summary"]) == (1, False, {"calls": 3, "failed": 2})
    assert [each["verdict"] for each in value["calls"]] == ["allow", "ask", None]
    assert [each["ok"] for each in value["calls"]] == [True, False, False]
    assert clawhive("policy", "test", "policy.yaml", "--format", "json").json == value


def test_a_table_is_what_the_schema_of_tables_says(clawhive, held):
    import jsonschema

    schema = json.loads(clawhive("schema", "policy-cases").out)
    full = {
        **READ, "name": "n", "rule": "r", "grant": "fs.read:**", "reason": "rights", "grants": [],
        "words": "w", "task": "t", "step": "s", "agent": "a", "session": "c",
    }  # fmt: skip
    jsonschema.validate({"schema": "policy-cases/1", "calls": [full]}, schema)
    assert held(full).code == 1
    row = schema["properties"]["calls"]["items"]
    assert set(row["properties"]) == set(full)
    assert held({**full, "more": 1}).code == 2
    assert not row["additionalProperties"]


def test_an_unknown_form_is_refused_before_anything_is_read(clawhive):
    done = clawhive("policy", "test", "policy.yaml", "--format", "sariff")
    assert done.code == 2
    assert "unknown_format" in done.err
