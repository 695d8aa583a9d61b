import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.errors import PluginError
from clawhive_core.plugins.manager import sort_plugins
from clawhive_core.plugins.manifest import Manifest

IDS = "abcdef"


def made(**constraints):
    return {
        key: Manifest(key, 1, after=tuple(after), before=tuple(before))
        for key, (after, before) in constraints.items()
    }


def test_without_wishes_the_id_decides():
    assert sort_plugins(made(c=("", ""), a=("", ""), b=("", "")), []) == ["a", "b", "c"]


def test_after_and_before_move_a_plugin_and_nothing_else():
    assert sort_plugins(made(a=("c", ""), b=("", ""), c=("", "")), []) == ["b", "c", "a"]
    assert sort_plugins(made(a=("", ""), b=("", ""), c=("", "a")), []) == ["b", "c", "a"]


def test_the_configuration_comes_first_whatever_plugins_say():
    plugins = made(a=("", ""), b=("a", ""), c=("", "b"))
    assert sort_plugins(plugins, ["b", "gone", "b"]) == ["b", "a", "c"]


def test_plugins_that_are_not_installed_are_passed_over():
    assert sort_plugins(made(a=("z", "y")), ["x"]) == ["a"]


def test_a_cycle_is_printed_and_the_fix_is_a_line_of_the_configuration():
    with pytest.raises(PluginError) as caught:
        sort_plugins(made(a=("b", ""), b=("c", ""), c=("a", ""), d=("", "")), [])
    error = caught.value
    assert error.code == "plugin_order_cycle"
    assert set(error.data["cycle"]) == {"a", "b", "c"}
    assert " < ".join(error.data["cycle"]) in error.message
    assert error.fix.endswith('[plugins] order = ["a", "b", "c"]')


def test_the_configuration_breaks_a_cycle():
    assert sort_plugins(made(a=("b", ""), b=("a", "")), ["b"]) == ["b", "a"]


def test_a_plugin_after_itself_is_a_cycle():
    with pytest.raises(PluginError):
        sort_plugins(made(a=("a", "")), [])


wishes = st.dictionaries(
    st.sampled_from(IDS),
    st.tuples(st.lists(st.sampled_from(IDS)), st.lists(st.sampled_from(IDS))),
)


@given(wishes, st.lists(st.sampled_from(IDS)))
def test_every_order_holds_all_plugins_once_and_keeps_every_wish(constraints, order):
    plugins = made(**constraints)
    try:
        found = sort_plugins(plugins, order)
    except PluginError:
        return
    assert sorted(found) == sorted(plugins)
    listed = [key for key in dict.fromkeys(order) if key in plugins]
    assert found[: len(listed)] == listed
    place = {key: index for index, key in enumerate(found)}
    for key, (after, before) in constraints.items():
        if key in listed:
            continue
        assert all(place[other] < place[key] for other in after if other in plugins)
        assert all(place[key] < place[o] for o in before if o in plugins and o not in listed)
    shuffled = dict(reversed(plugins.items()))
    assert sort_plugins(shuffled, order) == found
