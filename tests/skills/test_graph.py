"""The graph of skills, how it is drawn, and who uses what, over sets of files."""

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.errors import UnknownId
from clawhive_core.skills.checks.cycles import components
from clawhive_core.skills.checks.required import KnownTools
from clawhive_core.skills.contracts.skill import Deprecation
from clawhive_core.skills.documents.place import Named, Place
from clawhive_core.skills.graphs.drawing import as_dot, as_mermaid, as_text
from clawhive_core.skills.graphs.graph import Edge, Need, Node, SkillGraph
from clawhive_core.skills.graphs.users import Target, agents_naming
from clawhive_core.skills.graphs.why import target_of, why
from tests.harness import exports

KNOWN = KnownTools(frozenset({"web.search"}))
HOSTILE = [
    *("end", 'a"b', "x[y](z){w}", "new\nline", "<b>x</b><script>1</script>", "&amp;&lt;"),
    *('%%{init: {"theme":"dark"}}%%', "\N{GRINNING FACE}", "`md`", "a;b", "a|b", "-->", "subgraph"),
    *("click s0 href", "\\N\\l\\", "#quot;", "--- a", '"];}', "\u202eabc", "a:::b", "@{shape: x}"),
    *("", "\ud800", "style s0 fill", "s0", "direction TB", "x Direction  LR"),
]


def graph_of(place, known=KNOWN):
    return SkillGraph.of(found(place, known), known)


def found(place, known=KNOWN):
    whole = place.load(tools=known)
    return whole.only({each.skill.id for each in whole.entries if each.skill.source != "shipped"})


def importing(*tools, of="planet", version="1.0"):
    return f'imports: [{{from: {of}, tools: [{", ".join(tools)}], min_version: "{version}"}}]\n'


@pytest.fixture
def sky(place):
    """A provider, a skill that imports from it, one that imports from that, one beside."""
    place.skill("planet", f"version: 2.0.0\n{exports('chart', 'moon')}")
    place.skill("jung", importing("chart") + exports("reflect"), handlers=ASKS)
    steps = "{steps: [{name: look, tool: planet.moon}, {name: other, tool: web.search}]}"
    place.skill("daily", f"{importing('reflect', of='jung')}tasks:\n  morning: {steps}\n")
    place.skill("alone", "requires: {tools: [web.search, planet.chart]}\n")
    return place


ASKS = "async def reflect(input, ctx):\n    return await ctx.call('planet.chart', {})\n"


def edges(graph):
    return {(each.consumer, each.provider): each for each in graph.edges}


@pytest.mark.promise("P-210")
def test_a_graph_has_every_skill_import_and_required_tool_in_one_order(sky):
    graph = graph_of(sky)
    assert [node.id for node in graph.nodes] == ["alone", "daily", "jung", "planet"]
    assert list(edges(graph)) == [("daily", "jung"), ("jung", "planet")]
    edge = edges(graph)["jung", "planet"]
    assert (edge.names, edge.min_version, edge.satisfied) == (("chart",), "1.0", True)
    assert str(edge.place) == "skills/jung/clawhive.yaml:1:18"
    assert [(each.consumer, each.tool, each.provider, each.offered) for each in graph.needs] == [
        ("alone", "planet.chart", "planet", True),
        ("alone", "web.search", None, True),
    ]
    assert graph_of(sky).to_dict() == graph.to_dict()


@pytest.mark.promise("P-210")
@pytest.mark.parametrize(
    ("imported", "provider", "codes"),
    [
        (importing("chart"), "", ["CH0601"]),
        (importing("chrt"), exports("chart"), ["CH0602"]),
        (importing("chart", version="1.5"), exports("chart"), ["CH0603"]),
        (importing("chart"), f"{exports('chart')}requires: {{env: [NO_SUCH]}}\n", []),
        (importing("chart"), f"{exports('chart')}tasks: 5\n", ["CH0612"]),
    ],
    ids=["no skill", "no tool", "too old", "gated", "invalid"],
)
def test_an_import_that_does_not_work_is_told_apart(place, imported, provider, codes):
    if provider:
        place.skill("planet", provider)
    place.skill("jung", imported)
    graph = graph_of(place)
    (edge,) = graph.edges
    assert edge.satisfied is False
    assert [each.code for each in edge.problems] == codes
    state = next(node.state for node in graph.nodes if node.id == "planet")
    assert state == {"CH0601": "missing", "CH0612": "invalid"}.get(
        codes[0] if codes else "", "loaded" if codes else "gated"
    )
    assert "--x" in as_mermaid(graph)
    assert "not satisfied" in as_text(graph)


@pytest.mark.promise("P-210")
def test_a_tool_that_will_go_is_told_with_its_date(place):
    later = "deprecated: [{tool: chart, announced: 2026-01-01, removal_date: 2999-01-01}]"
    place.skill("planet", exports("chart").replace("}\n", f", {later}}}\n"))
    place.skill("jung", importing("chart"))
    (edge,) = graph_of(place).edges
    assert edge.satisfied
    assert [each.code for each in edge.problems] == ["CH0703"]
    assert edge.to_dict()["deprecated"] == [
        {"tool": "chart", "removal_date": "2999-01-01", "replacement": None}
    ]
    assert "chart will go on 2999-01-01" in as_text(graph_of(place))


@pytest.mark.promise("P-210")
def test_only_what_is_in_a_cycle_is_left_of_a_graph(sky):
    sky.skill("a", importing("x", of="b") + exports("x"))
    sky.skill("b", importing("x", of="c") + importing_too("chart") + exports("x"))
    sky.skill("c", importing("x", of="a") + exports("x"))
    sky.skill("self", importing("x", of="self") + exports("x"))
    graph = graph_of(sky).only_cycles()
    assert [node.id for node in graph.nodes] == ["a", "b", "c", "self"]
    assert list(edges(graph)) == [("a", "b"), ("b", "c"), ("c", "a"), ("self", "self")]
    assert graph.cycles == (("a", "b", "c"),)
    assert graph.needs == ()
    assert "cycle: a, b, c" in as_text(graph)


def importing_too(*tools):
    """Return an import as a second one, so that a cycle has a way out of it."""
    return f"requires: {{tools: [planet.{', planet.'.join(tools)}]}}\n"


def test_a_graph_without_cycles_has_nothing_of_them(sky):
    graph = graph_of(sky).only_cycles()
    assert (graph.nodes, graph.edges, graph.cycles, as_text(graph)) == ((), (), (), "")


def test_below_a_skill_is_what_it_needs_and_nothing_else(sky):
    graph = graph_of(sky).below(["jung"])
    assert [node.id for node in graph.nodes] == ["jung", "planet"]
    assert list(edges(graph)) == [("jung", "planet")]


@given(st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=4), max_size=10))
def test_components_are_the_names_that_reach_each_other(links):
    graph = {str(one): [str(other) for other in others] for one, others in links.items()}

    def reached(start):
        seen, waiting = set(), [start]
        while waiting:
            for each in graph.get(waiting.pop(), ()):
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
        return seen

    both = {name: {each for each in reached(name) if name in reached(each)} for name in graph}
    assert {frozenset(each) for each in both.values() if len(each) > 1} == {*components(graph)}


def hostile():
    """Return a graph whose every text is something that a drawing might take for its own."""
    at = Place("f.yaml", 1, 2)
    going = Deprecation("x", date(2999, 1, 1), at, at)
    nodes = [Node(each, "missing" if n % 3 else "loaded", each, each) for n, each in
             enumerate(HOSTILE)]  # fmt: skip
    lines = [
        Edge(
            each,
            HOSTILE[(n * 7 + 1) % len(HOSTILE)],
            at,
            (Named(each, at), Named("x", at)),
            each,
            satisfied=bool(n % 2),
            in_cycle=n % 5 == 0,
            deprecated=(going,) if n % 4 == 1 else (),
        )
        for n, each in enumerate(HOSTILE)
    ]
    needs = [Need(each, f"{each}.t", at, None, offered=(True, False, None)[n % 3]) for n, each in
             enumerate(HOSTILE)]  # fmt: skip
    return SkillGraph(tuple(nodes), tuple(lines), tuple(needs))


LABEL = r'"(?:[A-Za-z0-9_ .,:/-]|#\d+;|<br/>)+"'
MERMAID = re.compile(
    rf"(?:s\d+\[{LABEL}\]|t\d+\(\[{LABEL}\]\)):::(?:loaded|missing|tool)"
    rf"|s\d+ (?:-->|-\.->|--x)(?:\|{LABEL}\|)? s\d+|s\d+ -\.-[>x] [st]\d+"
    r"|linkStyle \d+(?:,\d+)* stroke:#[0-9a-f]{6}|classDef \w+ stroke:#[0-9a-f]{6}"
)


@pytest.mark.promise("P-211")
def test_no_text_of_a_skill_is_read_as_mermaid():
    """Checked against Mermaid's own parser when it was written; this reader takes less."""
    first, *lines = as_mermaid(hostile()).split("\n")
    assert first == "flowchart LR"
    assert [line for line in lines if MERMAID.fullmatch(line.strip()) is None] == []
    assert [line for line in lines if re.search(r"direction\s", line, re.IGNORECASE)] == []
    kinds = [line.split()[0][0] for line in lines]
    assert kinds.count("t") == kinds.count("c") + len(HOSTILE) - 6
    labels = re.findall(LABEL, "\n".join(lines))
    read = [re.sub(r"#(\d+);", lambda sign: chr(int(sign[1])), each)[1:-1] for each in labels]
    for each in HOSTILE:
        if each.isprintable() and each:
            assert any(text.startswith(f"{each} {each}, API {each}") for text in read), each


@pytest.mark.promise("P-211")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # pydot's own use of its parser
def test_no_text_of_a_skill_is_read_as_dot():
    pydot = pytest.importorskip("pydot")
    graph = hostile()
    (read,) = pydot.graph_from_dot_data(as_dot(graph))
    assert len(read.get_edges()) == 2 * len(HOSTILE)
    nodes = {each.get_name(): each for each in read.get_nodes() if each.get_name() != "node"}
    assert len(nodes) == 2 * len(HOSTILE)
    for number, name in enumerate(HOSTILE):
        label = nodes[f"s{number}"].get_label()[1:-1]
        plain = label.replace("&amp;", "&").replace('\\"', '"').replace("\\\\", "\\")
        if name.isprintable() and name:
            assert plain.partition(", API ")[0] == f"{name} {name}"
        assert label.isprintable()


@given(st.text(), st.text())
def test_every_name_makes_one_line_of_each_drawing(one, other):
    at = Place("f.yaml", 1, 2)
    nodes = (Node(f"1{one}", "loaded", other), Node(f"2{other}", "gated"))
    edge = Edge(nodes[0].id, nodes[1].id, at, (Named(other, at),), one)
    graph = SkillGraph(nodes, (edge,), (Need(nodes[0].id, one, at),))
    for lines in (as_dot(graph).split("\n"), as_mermaid(graph).split("\n")):
        assert "".join(lines).isprintable()
    assert len(as_dot(graph).split("\n")) == 9
    assert len(as_mermaid(graph).split("\n")) == 12
    as_text(graph).encode()


def ask(place, name, known=KNOWN, agents=()):
    whole = found(place, known)
    graph = SkillGraph.of(whole, known)
    target = target_of(name, whole, graph)
    return why(target, whole, graph, agents)


@pytest.mark.promise("P-212")
def test_who_imports_a_skill_is_told_by_the_shortest_way_with_each_line(sky):
    answer = ask(sky, "planet")
    assert [(each.skill, each.via, each.depth, str(each.place)) for each in answer.importers] == [
        ("jung", "planet", 1, "skills/jung/clawhive.yaml:1:18"),
        ("daily", "jung", 2, "skills/daily/clawhive.yaml:1:18"),
    ]
    assert [(each.kind, each.skill, each.where, str(each.place)) for each in answer.uses] == [
        ("requires", "alone", "", "skills/alone/clawhive.yaml:1:32"),
        ("step", "daily", "morning.look", "skills/daily/clawhive.yaml:3:40"),
    ]
    assert not answer.removable


@pytest.mark.promise("P-212")
def test_of_a_tool_only_its_own_users_are_told(sky):
    answer = ask(sky, "planet.chart")
    assert [(each.skill, str(each.place)) for each in answer.importers] == [
        ("jung", "skills/jung/clawhive.yaml:1:34"),
        ("daily", "skills/daily/clawhive.yaml:1:18"),
    ]
    assert [each.kind for each in answer.uses] == ["requires"]
    moon = ask(sky, "planet.moon")
    assert (moon.importers, [each.where for each in moon.uses]) == ((), ["morning.look"])


@pytest.mark.promise("P-212")
def test_what_nothing_uses_may_be_removed_and_its_own_steps_count_for_its_tools(place):
    place.skill("lone", f"{exports('x')}tasks: {{job: {{steps: [{{name: a, tool: lone.x}}]}}}}\n")
    assert ask(place, "lone").removable
    assert ask(place, "lone.job").removable
    assert not ask(place, "lone.x").removable


def test_replacements_and_task_types_that_may_start_are_uses(place):
    gone = "deprecated: [{tool: old, announced: 2026-01-01, removal_date: 2999-01-01, "
    place.skill("new", f"{exports('x')}tasks: {{job: {{steps: []}}}}\n")
    place.skill("old", exports("old").replace("}\n", f", {gone}replacement: new.x}}]}}\n"))
    place.skill("starter", "allowed_run_types: [new.job]\n" + exports("y"))
    assert [(each.kind, each.tool) for each in ask(place, "new").uses] == [
        ("replacement", "new.x"),
        ("run_type", "new.job"),
    ]


@pytest.mark.parametrize("base", ["metadata", "top"])
def test_a_step_in_a_text_is_found_at_its_line(sky, base):
    contract = (
        "tasks:\n  job:\n    steps:\n      - name: a\n        tool: planet.chart\nimports: []"
    )
    if base == "metadata":
        inside = "\n".join(f"    {line}" for line in contract.split("\n"))
        contract = f"metadata:\n  clawhive:\n{inside}"
    sky.text("told", f"name: told\ndescription: x\n{contract}")
    (use,) = [each for each in ask(sky, "planet.chart").uses if each.skill == "told"]
    lines = sky.root.joinpath("skills/told/SKILL.md").read_text().split("\n")
    assert "tool: planet.chart" in lines[use.place.line - 1]


@pytest.mark.promise("P-212")
def test_why_a_skill_is_not_loaded_is_told_down_to_the_first_cause(sky):
    sky.skill("planet", f"{exports('chart', 'moon')}requires: {{env: [NO_SUCH_TOKEN]}}\n")
    answer = ask(sky, "daily")
    told = [(each.skill, each.depth, each.code) for each in answer.reasons]
    assert told == [("daily", 0, "CH0612"), ("jung", 1, "CH0612"), ("planet", 2, "CH0404")]
    assert "NO_SUCH_TOKEN" in answer.reasons[-1].message
    assert answer.reasons[1].place == "skills/jung/clawhive.yaml:1:18"
    told = [(each.skill, each.depth, each.code) for each in ask(sky, "alone").reasons]
    assert told == [("alone", 0, "CH0611"), ("planet", 1, "CH0404")]
    sky.skill("planet", exports("chart", "moon"))
    assert ask(sky, "alone").reasons == ask(sky, "daily").reasons == ()


def test_each_mistake_of_an_invalid_skill_is_a_reason_and_a_cycle_ends(place):
    place.skill("a", importing("x", "y", of="b") + exports("x"))
    place.skill("b", importing("x", of="a") + exports("x"))
    told = [(each.skill, each.code) for each in ask(place, "a").reasons]
    assert {("a", "CH0602"), ("a", "CH0608"), ("b", "CH0608")} <= set(told)


def test_a_skill_that_is_off_says_how_to_switch_it_on(sky):
    from clawhive_core.skills.discovery.decisions import Switches

    Switches(sky.config()).disable("planet", sky.env)
    told = ask(sky, "jung").reasons
    assert [(each.skill, each.state) for each in told] == [
        ("jung", "gated"),
        ("planet", "disabled"),
    ]
    assert told[-1].fix == "clawhive skills enable planet"


def test_a_name_that_is_only_imported_or_required_is_answered_too(sky):
    sky.skill("lost", importing("x", of="stars") + "requires: {tools: [web.fetch]}\n")
    stars = ask(sky, "stars")
    assert (stars.state, [each.skill for each in stars.importers]) == ("missing", ["lost"])
    assert ask(sky, "stars.x").state == "missing"
    tool = ask(sky, "web.fetch")
    assert (tool.state, [each.skill for each in tool.uses]) == ("tool", ["lost"])


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("planit", "did you mean `planet`?"),
        ("planet.chrt", "did you mean `planet.chart`?"),
        ("web.serch", "did you mean `web.search`?"),
        ("nothing", "list them: clawhive skills graph"),
        ("", "list them: clawhive skills graph"),
        (".", "list them: clawhive skills graph"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(sky, name, fix):
    with pytest.raises(UnknownId) as caught:
        ask(sky, name)
    assert caught.value.fix == fix


def test_the_files_of_a_shadowed_skill_are_told(sky):
    sky.skill("planet", exports("chart"), base=".agents/skills")
    assert ask(sky, "planet").shadowed == (".agents/skills/planet/clawhive.yaml",)


def test_agents_that_name_a_skill_or_its_tool_are_users(place):
    place.write(
        "../home/.config/clawhive/config.toml",
        "[agents.a]\nskills = ['planet']\n[agents.b]\nallow = ['planet.*']\n"
        "[agents.c]\nallow = ['*', 'web.search']\n[agents.d]\nwhen = ['planet.job']\n"
        "[agents.e]\nsub_agent.allowed_tools = ['planet.chart', 'no such [']\n",
    )
    tools = ["planet.chart", "planet.job"]
    named = list(agents_naming(place.config(), Target("planet"), tools))
    assert [each.key for each in named] == [
        *("agents.a.skills", "agents.b.allow", "agents.d.when"),
        "agents.e.sub_agent.allowed_tools",
    ]
    one = agents_naming(place.config(), Target("planet", "job"), ["planet.job"])
    assert [each.agent for each in one] == ["a", "b", "d"]


def test_the_drawing_of_ten_thousand_skills_has_every_edge():
    at = Place("x.yaml", 1, 1)
    nodes = tuple(Node(f"s{number:05}", "loaded") for number in range(10_000))
    lines = tuple(
        Edge(nodes[n].id, nodes[(n * m + 1) % 10_000].id, at) for n in range(10_000) for m in (3, 7)
    )
    graph = SkillGraph(nodes, lines)
    assert as_dot(graph).count(" -> ") == as_mermaid(graph).count(" --> ") == 20_000
    assert len(graph.below(["s00000"]).edges) <= 20_000
