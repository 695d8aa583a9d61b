"""Every field of a contract and each check of the whole set: what passes, and what fails."""

from datetime import UTC, datetime, timedelta

import pytest

from clawhive_core.skills.checks.required import KnownTools
from clawhive_core.skills.checks.set_check import check_tools
from tests.harness import exports

TODAY = datetime.now(UTC).date()
PAST, SOON, LATER = (str(TODAY + timedelta(days=days)) for days in (-40, 10, 50))

GOOD = """\
id: zodiac
exports:
  api_version: "1.2"
  tools:
    - name: calculate
      input_schema: {type: object, properties: {at: {$ref: "#/$defs/at"}}, $defs: {at: {}}}
      output_schema: {type: object}
    - {name: old, input_schema: {type: object}, output_schema: {}}
    - {name: chart, input_schema: {type: object}, output_schema: {}, capability_level: L0}
  access: {requires_subscription: true, free_tools: [calculate, old], rate_limit: {chart: 50/day}}
  deprecated:
    - {tool: old, announced: PAST, removal_date: LATER, replacement: calculate}
    - {tool: gone, announced: 2020-01-01, removal_date: 2020-02-01, replacement: calculate}
risk_policy: {max_level: L1, max_risk: guarded, confirm: true}
tasks: {read: {steps: [{name: a, tool: zodiac.calculate}]}}
allowed_run_types: [read, zodiac.read]
""".replace("PAST", PAST).replace("LATER", LATER)

USER = """\
exports:
  api_version: "1.0"
  tools: [{name: look, input_schema: {}, output_schema: {}}]
imports: [{from: zodiac, tools: [calculate], min_version: "1.0"}]
"""


def found(place, name):
    return [(each.code, each.severity, each.place) for each in place.own()[name].findings]


def fixes(place, name):
    return {each.code: each.fix.title for each in place.own()[name].findings if each.fix}


@pytest.mark.promise("P-187")
def test_a_contract_with_every_field_is_read_whole(place):
    place.skill("zodiac", GOOD)
    place.skill("jung", USER, handlers="async def look(i, c):\n    await c.call('calculate', i)\n")
    assert found(place, "zodiac") == found(place, "jung") == []
    skill = place.own()["zodiac"].skill
    assert skill.risk_policy.beyond("L2", "safe") == "its level L2 is above max_level L1"
    assert skill.risk_policy.beyond("L1", "unknown") == "its risk unknown is above max_risk guarded"
    assert skill.risk_policy.beyond("L1", "guarded") is None
    assert [each.tool for each in skill.exports.deprecated] == ["old", "gone"]
    assert [each.name for each in skill.allowed_run_types] == ["read", "zodiac.read"]


@pytest.mark.promise("P-187")
def test_the_other_spelling_of_an_id_is_read(place):
    place.skill("folder", "skill_name: zodiac\n" + exports("a"))
    assert set(place.own()) == {"zodiac"}


TOOL = "exports: {api_version: '1.0', tools: [{name: a, input_schema: %s, output_schema: {}}]}\n"


@pytest.mark.promise("P-187")
@pytest.mark.parametrize(
    ("given", "code", "severity", "at"),
    [
        (TOOL.replace(", output_schema: {}", "") % "{}", "CH0513", "error", "1:46"),
        ("exports: {api_version: '1.0', tools: [a]}\n", "CH0513", "error", "1:39"),
        (TOOL % "{type: array}", "CH0504", "error", "1:70"),
        (TOOL % "{type: object, oneOf: [{}]}", "CH0504", "warning", "1:85"),
        (TOOL % "{properties: {'a b': {}}}", "CH0504", "warning", "1:84"),
        ("tasks: {t: {input_schema: {type: string}}}\n", "CH0504", "error", "1:34"),
        (TOOL % "{$ref: 'http://x.example/a.json'}", "CH0505", "error", "1:70"),
        (TOOL % "{properties: {x: {$ref: '#/$defs/y'}}}", "CH0505", "error", "1:87"),
        (TOOL % "{$schema: 'http://x.example/'}", "CH0503", "error", "1:73"),
        (TOOL % "{properties: {x: {pattern: '('}}}", "CH0503", "error", "1:90"),
        (exports("a-b", "a_b"), "CH0502", "error", "1:44"),
        (exports("read"), "CH0514", "warning", "1:39"),
        (TOOL % "{}, risk: safe, side_effects: true", "CH0515", "warning", "1:73"),
        (TOOL % "{}, risk: safe, capability_level: L2", "CH0515", "warning", "1:73"),
        (TOOL % "{}, capability_level: L1", "CH0515", "warning", "1:46"),
        ("id: mcp\n" + exports("a"), "CH0408", "error", "2:24"),
        (exports("a") + "risk_policy: {max_level: L3}\n", "CH0305", "error", "2:26"),
        (exports("a") + "risk_policy: {max: L1}\n", "CH0306", "error", "2:15"),
        (exports("a") + "allowed_run_types: [b]\n", "CH0312", "error", "2:21"),
        (exports("a").replace("['a", "[") + "data_paths: [public_state]\n", "CH0314", "warning",
         "2:1"),
        (exports("a") + "data_paths: [secret]\n", "CH0316", "error", "2:14"),
        (exports("a") + "requires_skill_data: [zodiac.birth]\n", "CH0313", "warning", "2:23"),
        (exports("a") + "requires_skill_data: {zodiac: [birth]}\n", "CH0313", "warning", "2:23"),
        (exports("a") + "requires_skill_data: [{skill: zodiac}]\n", "CH0313", "warning", "2:31"),
        (exports("a") + "external_tools: [calculate]\n", "CH0303", "warning", "2:18"),
        (exports("a") + "external_tools: [zodiac.chart]\n", "CH0303", "warning", "2:18"),
        (exports("a") + "external_tools: [calculat]\n", "CH0602", "error", "2:18"),
        (exports("a") + "external_tools: [same]\n", "CH0617", "error", "2:18"),
        (exports("a") + "imports: [{from: zodiac, tools: [chart]}]\n", "CH0609", "note", "2:34"),
        (exports("a") + "imports: [{from: zodiac, tools: [old]}]\n", "CH0703", "warning", "2:34"),
        (exports("a") + "imports: [{from: zodiac, tools: [gone]}]\n", "CH0602", "error", "2:34"),
        (exports("a") + "imports: [{from: one, tools: [same]}, {from: two, tools: [same]}]\n",
         "CH0614", "note", "2:59"),
        (exports("same") + "imports: [{from: one, tools: [same]}]\n", "CH0614", "note", "2:31"),
    ],
)  # fmt: skip
def test_each_mistake_of_a_field_is_found_at_its_place(place, given, code, severity, at):
    place.skill("zodiac", GOOD)
    place.skill("one", exports("same"))
    place.skill("two", exports("same"))
    place.skill("x", given)
    name = "mcp" if "mcp" in given else "x"
    where = f"skills/x/clawhive.yaml:{at}"
    assert (code, severity, where) in found(place, name)
    assert all(each[0] == code or each[1] != "error" for each in found(place, name))
    assert place.own()[name].state == ("invalid" if severity == "error" else "loaded")


@pytest.mark.promise("P-236")
@pytest.mark.parametrize(
    "given",
    [
        "risk: safe, capability_level: L0",
        "risk: guarded, side_effects: true",
        "risk: unsafe, effects: {'': 'fs.write:**'}",
        "risk: safe, side_effects: true, effects: {'': 'fs.write:${run}/a.md'}",
        "risk: safe, effects: {'': 'net.http:api.example.com/**'}",
    ],
)
def test_a_risk_that_counts_is_told_of_nowhere(place, given):
    place.skill("x", TOOL % f"{{}}, {given}")
    assert found(place, "x") == []


@pytest.mark.promise("P-237")
@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ("free_tools: [calculate,", "free_tools: [gone, calculate,", "CH0506"),
        ("{chart: 50/day}", "{gone: 50/day}", "CH0506"),
        ("tool: gone, announced: 2020-01-01", "tool: gone, announced: 1", "CH0305"),
        ("announced: 2020-01-01", "anounced: 2020-01-01", "CH0306"),
        ("tasks: {read: ", "tasks: {read: 5, more: ", "CH0305"),
    ],
)
def test_a_mistake_beside_the_exported_tools_hides_none_of_them(place, right, wrong, code):
    assert right in GOOD
    place.skill("zodiac", GOOD.replace(right, wrong))
    place.skill("jung", USER.replace("[calculate]", "[calculate, gone]"))
    place.skill("mild", USER)
    assert [each[:2] for each in found(place, "zodiac")] == [(code, "error")]
    assert found(place, "jung") == [("CH0602", "error", "skills/jung/clawhive.yaml:4:45")]
    assert [each[0] for each in found(place, "mild")] == ["CH0612"]


@pytest.mark.promise("P-237")
def test_what_a_contract_exports_is_not_known_where_its_tools_cannot_be_read(place):
    place.skill("zodiac", GOOD.replace("{name: old,", "{nam: old,"))
    place.skill("jung", USER.replace("[calculate]", "[calculate, gone]"))
    assert [each[0] for each in found(place, "jung")] == ["CH0612"]


@pytest.mark.promise("P-188")
@pytest.mark.parametrize(
    ("entry", "code", "severity", "column"),
    [
        ("{tool: a, announced: 2026-01-01, removal_date: 2026-01-30}", "CH0701", "error", 72),
        ("{tool: a, announced: 2026-01-01, removal_date: 2025-01-01}", "CH0701", "error", 72),
        ("{tool: a, announced: 2019-01-01, removal_date: 2020-01-01}", "CH0702", "warning", 72),
        ("{tool: a, removal_date: LATER}", "CH0707", "note", 32),
        ("{tool: a, announced: PAST, removal_date: LATER, replacement: c}", "CH0704", "error", 97),
        ("{tool: a, announced: PAST, removal_date: LATER, replacement: a}", "CH0704", "warning",
         97),
        ("{tool: a, announced: PAST, removal_date: 2026-13-01}", "CH0706", "error", 72),
        ("{tool: a, announced: PAST, removal_date: tomorrow}", "CH0706", "error", 72),
        ("{tool: c, announced: PAST, removal_date: LATER}", "CH0708", "warning", 32),
        ("{tool: a, removal_date: LATER}, {tool: a, removal_date: LATER}", "CH0706", "error", 69),
        ("{tool: a}", "CH0305", "error", 25),
        ("{removal_date: LATER}", "CH0305", "error", 25),
    ],
)  # fmt: skip
def test_each_mistake_of_a_deprecation_is_found_at_its_place(place, entry, code, severity, column):
    entry = entry.replace("LATER", LATER).replace("PAST", PAST)
    tools = exports("a", "b").removesuffix("}\n")
    place.skill("x", f"{tools},\n           deprecated: [{entry}]}}\n")
    (one, *others) = found(place, "x")
    assert one == (code, severity, f"skills/x/clawhive.yaml:2:{column}")
    assert not [each for each in others if each[1] == "error"]


@pytest.mark.promise("P-188")
def test_an_import_of_what_goes_says_when_and_what_comes_instead(place):
    place.skill("zodiac", GOOD)
    place.skill("x", exports("a") + "imports: [{from: zodiac, tools: [old, gone]}]\n")
    (going, gone) = place.own()["x"].findings
    assert (
        f"will be removed on {LATER}, in 50 days (skills/zodiac/clawhive.yaml:12:" in going.message
    )
    assert going.fix.title == gone.fix.title == "import `calculate` instead"
    assert "was to be removed on 2020-02-01" in gone.message


@pytest.mark.promise("P-187")
def test_what_a_finding_of_a_set_suggests(place):
    place.skill("zodiac", GOOD)
    old = "external_tools: [calculate]\nrequires_skill_data: [zodiac, zodiak, none]\n"
    place.skill("x", exports("a") + old + "allowed_run_types: [zodiac.reed]\n")
    assert fixes(place, "x")["CH0303"] == (
        "write under `imports`: {from: zodiac, tools: [calculate]}"
    )
    assert fixes(place, "x")["CH0312"] == "did you mean `zodiac.read`?"
    titles = [each.fix.title for each in place.own()["x"].findings if each.code == "CH0313"]
    assert titles == [
        "import what answers it: {from: zodiac, tools: [calculate, old, chart]}",
        "did you mean `zodiac`?",
        "install it, or remove the key",
    ]
    (external,) = place.own()["x"].skill.imports
    assert (external.skill, external.tools[0].name) == ("zodiac", "calculate")


@pytest.mark.promise("P-189")
@pytest.mark.parametrize(
    ("phase", "code", "keys"),
    [
        ("compat", "warning", "warning"),
        ("enforce", "error", "warning"),
        ("final", "error", "error"),
    ],
)
def test_the_phase_says_how_much_the_old_ways_weigh(place, phase, code, keys):
    place.write("clawhive.toml", f'[contracts]\nphase = "{phase}"\n')
    place.skill("zodiac", GOOD)
    old = "external_tools: [calculate]\nrequires_skill_data: [zodiac]\ndata_paths: [public_state]\n"
    place.skill("x", exports("a") + old, handlers=AROUND)
    entry = load(place, phase)
    weights = {each.code: each.severity for each in entry.findings}
    assert weights == {
        "CH0610": code,
        "CH0615": code,
        "CH0303": keys,
        "CH0313": keys,
        "CH0314": keys,
    }
    assert entry.state == ("loaded" if phase == "compat" else "invalid")


AROUND = """\
from skills.zodiac.services import compute

async def a(input, ctx):
    return await ctx.call("other.tool", compute(await ctx.call("calculate", {})))
"""


def load(place, phase):
    from clawhive_core.config.load import open_config
    from clawhive_core.skills.load import load_skills

    config = open_config(place.root, {"contracts.phase": phase}, place.env)
    return load_skills(config, env=place.env).find("x")


@pytest.mark.promise("P-190")
@pytest.mark.parametrize(
    ("code", "finding", "at"),
    [
        ("import skills.zodiac.handlers\n", "CH0610", "1:1"),
        ("def f():\n    from skills.zodiac import handlers\n", "CH0610", "2:5"),
        ("from skills import zodiac\n", "CH0610", "1:1"),
        ("from ..zodiac import handlers\n", "CH0610", "1:1"),
        ("from .. import zodiac\n", "CH0610", "1:1"),
        ("import importlib\nM = importlib.import_module('skills.zodiac')\n", "CH0610", "2:5"),
        ("M = __import__('skills.zodiac.x')\n", "CH0610", "1:5"),
        ("async def g(ctx):\n    await ctx.call('web.fetch', {})\n", "CH0615", "2:11"),
        ("async def g(i, c):\n    await c.call('zodiac.old', {})\n", "CH0615", "2:11"),
        ("T = 'a.b'\nasync def g(i, c):\n    await c.call(T)\n", "CH0615", "3:11"),
        ("async def g(i, c):\n    await c.save('skills.zodiac.k', 1)\n", "CH0613", "2:11"),
        ("async def g(i, c):\n    await c.read(f'skills.zodiac.{i}')\n", "CH0613", "2:11"),
        ("async def g(i, c):\n    await c.save('k', 1)\n", "CH0613", "2:11"),
    ],
)
def test_code_that_goes_around_the_contract_is_found_at_its_place(place, code, finding, at):
    place.skill("zodiac", GOOD)
    place.skill("x", exports("a"), handlers=code + "\ndef a(input, ctx): ...\n")
    assert found(place, "x") == [(finding, "error", f"skills/x/handlers.py:{at}")]


@pytest.mark.promise("P-190")
def test_code_that_keeps_to_the_contract_finds_nothing(place):
    place.skill("zodiac", GOOD)
    contract = exports("a") + "imports: [{from: zodiac, tools: [calculate]}]\n"
    contract += "requires: {tools: [web.fetch]}\ntasks: {t: {}}\n"
    place.skill(
        "x",
        contract,
        handlers="""\
from importlib import import_module

NAME = "skills.x.last"

async def a(input, ctx):
    await ctx.call("calculate", {})
    await ctx.call("zodiac.calculate", {})
    await ctx.call("x.a", {})
    await ctx.call("x.t", {})
    await ctx.call("web.fetch", {})
    await ctx.call("artifacts.write", {})
    await ctx.call("shell_exec", {})
    await ctx.call(input["tool"], {})
    await ctx.save(NAME, 1)
    await ctx.save(f"skills.x.{input}", 1)
    await ctx.save(f"{input}", 1)
    import_module(input["module"])
    open("x").read("skills.zodiac")
""",
    )
    assert found(place, "x") == []


@pytest.mark.promise("P-241")
@pytest.mark.parametrize(
    ("code", "at"),
    [
        ("import words\n", "1:1"),
        ("from words.more import stem\n", "1:1"),
        ("import json, words\n", "1:1"),
        ("from . import words\n", "1:1"),
        ("from .gone import stem\n", "1:1"),
        ("import package\n", "1:1"),
        ("import skills.x.words\n", "1:1"),
        ("def f():\n    import words\n", "2:5"),
        ("import json, textwrap, numpy, notes, handlers\n", None),
        ("try:\n    import words\nexcept ImportError:\n    words = None\n", None),
        ("if TYPE_CHECKING:\n    from words import Word\n", None),
    ],
)
def test_an_import_of_a_file_beside_the_handlers_is_told_of(place, code, at):
    place.skill("x", exports("a"), handlers=code + "\ndef a(input, ctx): ...\n")
    for name in ("words.py", "package/__init__.py", "textwrap.py", "notes/a.md"):
        place.write(f"skills/x/{name}", "")
    told = [] if at is None else [("CH0618", "warning", f"skills/x/handlers.py:{at}")]
    assert found(place, "x") == told
    assert place.own()["x"].state == "loaded"


@pytest.mark.promise("P-190")
def test_other_python_files_of_a_skill_are_looked_at_too(place):
    place.skill("x", exports("a"))
    place.write("skills/x/lib/deep.py", "from skills.zodiac.services import y\n")
    place.write("skills/x/lib/old.py", "print 'an old script'\n")
    place.write("skills/x/lib/out.py", "from ... import zodiac\nfrom .. import handlers\n")
    place.write("skills/x/tests/t.py", "import skills.zodiac\n")
    assert found(place, "x") == [
        ("CH0610", "error", "skills/x/lib/deep.py:1:1"),
        ("CH0610", "error", "skills/x/lib/out.py:1:1"),
    ]


@pytest.mark.promise("P-190")
def test_a_foreign_skill_without_a_contract_may_hold_any_code(place):
    place.text("x", "name: x\ndescription: y", handlers="from skills.zodiac import z\n")
    assert found(place, "x") == []


@pytest.mark.parametrize(
    ("handlers", "text", "codes"),
    [
        ("def a(input, ctx): ...\n", None, ["CH0616"]),
        ("async def a(input, ctx): await ctx.call('calculate')\n", None, []),
        ("async def a(input, ctx): await ctx.call(input['tool'])\n", None, []),
        ("def a(input, ctx): ...\n", "Call zodiac.calculate first.", []),
    ],
)
def test_an_import_that_nothing_names_is_noticed(place, handlers, text, codes):
    place.skill("zodiac", GOOD)
    contract = exports("a") + "imports: [{from: zodiac, tools: [calculate]}]\n"
    if text:
        place.text("x", "name: x\ndescription: y", text)
    place.skill("x", contract, handlers=handlers)
    assert [each[0] for each in found(place, "x")] == codes


def test_a_skill_that_exports_under_a_plugins_name_is_left_out_with_the_reason(place):
    place.skill("web", exports("fetch"))
    place.skill("shell_exec", exports("a"))
    place.skill("user", "imports: [{from: web, tools: [fetch]}]")
    known = KnownTools(frozenset({"web.search", "shell_exec"}))
    entries = {each.skill.id: each for each in check_tools(place.load(), known).entries}
    assert [each.state for each in map(entries.get, ("web", "user", "shell_exec"))] == [
        "invalid", "invalid", "loaded",
    ]  # fmt: skip
    (clash,) = entries["web"].findings
    assert (clash.code, clash.place) == ("CH0510", "skills/web/clawhive.yaml:1:24")
    assert "`web.search`, and those win" in clash.message


FOREIGN = """\
name: x
description: y
dependencies: [requests]
tools: [Read, {name: t, inputSchema: {}}]
requires: %s
"""


@pytest.mark.parametrize("requires", ["{mcp: [a]}", "{bins: git}", "[a]", "text", "{skills: [b]}"])
@pytest.mark.parametrize("more", ["", exports("a"), "external_tools: [calculate]\n"])
def test_what_other_tools_mean_by_a_key_never_fails_a_skill(place, requires, more):
    place.skill("zodiac", GOOD)
    place.text("x", FOREIGN % requires + more)
    entry = place.own()["x"]
    assert entry.state == "loaded"
    assert "CH0304" in [each.code for each in entry.findings]
    assert entry.skill.frontmatter["dependencies"] == ["requests"]
    assert entry.skill.frontmatter["tools"][0] == "Read"
