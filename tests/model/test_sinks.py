"""What stands in a value, as sinks and grounds read it."""

from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.model.sinks import leaves


def _told(value):
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in _told(each)]
    if isinstance(value, list | tuple):
        return [text for each in value for text in _told(each)]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return []
    return [str(value)] if value != "" else []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
        max_leaves=12,
    )
)
def test_every_text_and_number_of_a_value_is_told_in_its_order(value):
    assert list(leaves(value)) == _told(value)
    assert list(leaves(MappingProxyType({"k": value}))) == ["k", *_told(value)]
