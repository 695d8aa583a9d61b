from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.catalog.assembly import DEFAULT_ORDER, Preferences, assemble, position
from clawhive_core.catalog.catalog import Tool
from tests.harness import Provider, tool_meta


def offered(name, provider_id, **fields):
    return Tool(tool_meta(name, provider_id, **fields), Provider(provider_id))


def winner(*providers, name="web.search", **preferences):
    catalog = assemble([offered(name, each) for each in providers], Preferences(**preferences))
    return catalog.tools[name].meta.provider_id


def test_the_default_order_decides():
    order = ["builtin", "web", "sandbox", "mcp_git", "stub"]
    for index, first in enumerate(order):
        assert winner(*reversed(order[index:])) == first


def test_a_provider_that_is_not_named_stands_by_id_just_before_the_stub():
    ids = ["stub", "zebra", "acme", "mcp_x", "mcp_a", "sandbox", "web", "builtin"]
    assert sorted(ids, key=lambda each: position(each, DEFAULT_ORDER)) == [
        "builtin",
        "web",
        "sandbox",
        "mcp_a",
        "mcp_x",
        "acme",
        "zebra",
        "stub",
    ]


def test_the_stub_stays_last_where_an_order_does_not_name_it():
    assert winner("stub", "tavily", order=["web"]) == "tavily"
    assert winner("stub", "tavily", order=[]) == "tavily"
    assert winner("stub", "tavily", order=["stub", "web"]) == "tavily"
    assert winner("stub", "web", order=["stub", "web"]) == "stub"


def test_a_star_matches_a_family_of_providers():
    assert winner("mcp_b", "mcpx") == "mcp_b"
    assert winner("mcp_b", "mcpx", order=["mcpx", "mcp_*"]) == "mcpx"


def test_the_safest_wins_by_risk_then_level_then_order():
    def safest(*tools):
        catalog = assemble(tools, Preferences(conflict="safest"))
        return catalog.tools["web.search"].meta.provider_id

    def at(provider_id, risk, level):
        return offered("web.search", provider_id, risk=risk, capability_level=level)

    assert safest(at("builtin", "unsafe", "L0"), at("stub", "safe", "L2")) == "stub"
    assert safest(at("builtin", "unknown", "L0"), at("stub", "guarded", "L2")) == "stub"
    assert safest(at("builtin", "safe", "L2"), at("stub", "safe", "L0")) == "stub"
    assert safest(at("stub", "safe", "L0"), at("builtin", "safe", "L0")) == "builtin"


def test_a_pin_stands_over_order_and_safety():
    for conflict in ("prefer", "safest"):
        tools = [offered("a.b", "builtin"), offered("a.b", "stub", risk="unsafe")]
        catalog = assemble(tools, Preferences(conflict=conflict, pins={"a.b": "stub"}))
        assert catalog.tools["a.b"].meta.provider_id == "stub"
        (shadow,) = catalog.shadowed
        assert (shadow.provider_id, shadow.winner) == ("builtin", "stub")
        assert shadow.reason == catalog.reasons["a.b"] == "pinned to `stub`"


def test_a_pin_to_a_provider_that_is_not_there_changes_nothing():
    assert winner("stub", "web", pins={"web.search": "nobody"}) == "web"


def test_each_loser_is_listed_with_its_reason():
    catalog = assemble([offered("a.b", each) for each in ("stub", "web", "builtin")])
    assert [(each.provider_id, each.winner) for each in catalog.shadowed] == [
        ("web", "builtin"),
        ("stub", "builtin"),
    ]
    reason = "`builtin` stands before `web` in the preferred order"
    assert catalog.shadowed[0].reason == catalog.reasons["a.b"] == reason
    safest = assemble(
        [offered("a.b", "web", risk="unsafe"), offered("a.b", "stub")],
        Preferences(conflict="safest"),
    )
    assert safest.shadowed[0].reason == "`stub` is safer (safe, L0) than `web` (unsafe, L0)"


def test_one_provider_that_lists_a_name_twice_shadows_itself():
    tools = [offered("a.b", "x", description=text) for text in ("one", "two")]
    for conflict in ("prefer", "safest"):
        results = [assemble(each, Preferences(conflict=conflict)) for each in (tools, tools[::-1])]
        assert results[0].revision == results[1].revision
        assert results[0].shadowed[0].reason == "`x` offers the name twice"


def test_an_uncontested_name_has_no_reason():
    assert assemble([offered("a.b", "x")]).reasons == {}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a.",
        ".a",
        "a..b",
        "a.b.c.d.e",
        "a b.c",
        "ä.b",
        "a.b\n",
        "a.*",
        "a/b.c",
        "a." + "b" * 200,
    ],
)
def test_an_invalid_name_is_dropped_with_the_rule(name):
    catalog = assemble([offered(name, "x"), offered("a.b", "x")])
    assert list(catalog.tools) == ["a.b"]
    (dropped,) = catalog.dropped
    assert (dropped.name, dropped.provider_id) == (name, "x")
    assert "1 to 4 segments" in dropped.reason


@pytest.mark.parametrize("name", ["a.b", "a.b.c.d", "A-1._x", "mcp.git.git_status"])
def test_valid_names_are_kept(name):
    assert list(assemble([offered(name, "x")]).tools) == [name]


def test_one_segment_is_for_core_tools():
    catalog = assemble([offered("read", "core"), offered("show", "x")])
    assert list(catalog.tools) == ["read"]
    assert catalog.dropped[0].reason.endswith("call it `x.show`")


@pytest.mark.parametrize(
    "fields",
    [
        {"risk": "harmless"},
        {"capability_level": "L9"},
        {"input_schema": ["no object"]},
        {"input_schema": {"default": {1, 2}}},
        {"effects": ["fs.read"]},
        {"examples": (object(),)},
        {"timeout_ms": 0},
        {"timeout_ms": -1},
        {"timeout_ms": "10"},
        {"timeout_ms": float("inf")},
        {"timeout_ms": True},
        {"name": 7},
        {"name": None},
        {"provider_id": 7},
        {"provider_id": None},
    ],
)
def test_a_broken_definition_is_dropped_and_leaves_the_others(fields):
    broken = offered(**{"name": "a.broken", "provider_id": "x", **fields})
    catalog = assemble([broken, offered("a.good", "x")])
    assert list(catalog.tools) == ["a.good"]
    assert catalog.dropped[0].reason
    assert catalog.revision


def test_aliases_find_the_tool():
    catalog = assemble([offered("shell.exec", "builtin", aliases=("shell_exec", "not an alias!"))])
    assert catalog.find("shell_exec") is catalog.find("shell.exec")
    assert catalog.find("not an alias!") is None


def test_a_real_name_wins_over_any_alias():
    tools = [offered("a.one", "x"), offered("a.two", "x", aliases=("a.one",))]
    catalog = assemble(tools, Preferences(aliases={"a.one": "a.two"}))
    assert catalog.find("a.one").meta.name == "a.one"


def test_a_contested_alias_follows_the_preferred_order_not_the_alphabet():
    tools = [
        offered("aaa.read", "zzz", aliases=("file_read",)),
        offered("file.read", "builtin", aliases=("file_read",)),
    ]
    assert assemble(tools).find("file_read").meta.name == "file.read"
    user = Preferences(aliases={"file_read": "aaa.read", "gone": "no.tool"})
    assert assemble(tools, user).find("file_read").meta.name == "aaa.read"
    assert assemble(tools, user).find("gone") is None


def test_a_shadowed_tools_aliases_are_not_offered():
    tools = [offered("a.b", "builtin"), offered("a.b", "stub", aliases=("old_b",))]
    assert assemble(tools).find("old_b") is None


def test_equal_content_has_an_equal_revision_and_other_content_another():
    def revision(**fields):
        return assemble([offered("a.b", **{"provider_id": "x", **fields})]).revision

    assert revision() == revision()
    different = [
        revision(),
        revision(description="other"),
        revision(risk="unsafe"),
        revision(input_schema={"type": "object", "title": "t"}),
        revision(provider_id="y"),
        revision(aliases=("old_b",)),
    ]
    assert len(set(different)) == len(different)


METAS = st.builds(
    lambda name, provider_id, risk, level, description: tool_meta(
        name, provider_id, risk=risk, capability_level=level, description=description
    ),
    st.sampled_from(["web.search", "file.read", "bad name"]),
    st.sampled_from(["builtin", "web", "mcp_a", "mcp_b", "acme", "zeta", "stub"]),
    st.sampled_from(["safe", "guarded", "unknown", "unsafe"]),
    st.sampled_from(["L0", "L1", "L2"]),
    st.sampled_from(["one", "two"]),
)
PREFERENCES = st.builds(
    Preferences,
    order=st.sampled_from([DEFAULT_ORDER, ("mcp_*",), (), ("stub", "web"), ("zeta", "*")]),
    conflict=st.sampled_from(["prefer", "safest"]),
    pins=st.sampled_from([{}, {"web.search": "stub"}, {"file.read": "nobody"}]),
)


def naive_winner(name, metas, preferences):
    """The rule, read aloud: a pin, else the safest, else the first provider of the order."""
    offers = [meta for meta in metas if meta.name == name]
    pinned = [meta for meta in offers if meta.provider_id == preferences.pins.get(name)]
    offers = pinned or offers
    if preferences.conflict == "safest":
        for key in (["safe", "guarded", "unknown", "unsafe"].index, None):
            values = [key(m.risk) if key else m.capability_level for m in offers]
            offers = [m for m, value in zip(offers, values, strict=True) if value == min(values)]
    order = list(preferences.order)
    at = order.index("stub") if "stub" in order else len(order)
    known = [pattern for pattern in order if pattern != "stub"]
    rest = sorted(
        {m.provider_id for m in metas}
        - {m.provider_id for m in metas if any(fnmatchcase(m.provider_id, p) for p in order)}
        - {"stub"}
    )
    for pattern in [*order[:at], *rest, "stub", *known[at:]]:
        fitting = sorted({m.provider_id for m in offers if fnmatchcase(m.provider_id, pattern)})
        if fitting:
            return fitting[0]
    raise AssertionError("somebody offers it")


@given(st.lists(METAS, max_size=12), PREFERENCES, st.randoms(use_true_random=False))
def test_assembly_agrees_with_the_rule_in_whatever_order_tools_come(metas, preferences, random):
    catalog = assemble([Tool(meta, Provider(meta.provider_id)) for meta in metas], preferences)
    names = {meta.name for meta in metas} - {"bad name"}
    assert {tool.meta.name: tool.meta.provider_id for tool in catalog} == {
        name: naive_winner(name, metas, preferences) for name in names
    }
    assert len(catalog.tools) + len(catalog.shadowed) + len(catalog.dropped) == len(metas)
    shuffled = list(metas)
    random.shuffle(shuffled)
    again = assemble([Tool(meta, Provider(meta.provider_id)) for meta in shuffled], preferences)
    assert again.revision == catalog.revision
    assert (again.shadowed, again.dropped, again.reasons) == (
        catalog.shadowed,
        catalog.dropped,
        catalog.reasons,
    )
