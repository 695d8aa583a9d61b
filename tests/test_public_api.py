import pytest

import clawhive_core


def test_what_is_public_is_the_table_of_homes():
    table = [name for names in clawhive_core._HOMES.values() for name in names]
    assert len(table) == len(set(table))
    assert set(clawhive_core.__all__) == {*table, "__version__"}
    assert len(clawhive_core.__all__) == len(set(clawhive_core.__all__))


@pytest.mark.parametrize("name", clawhive_core.__all__)
def test_every_public_name_can_be_imported(name):
    value = getattr(clawhive_core, name)
    assert value is not None
    assert getattr(value, "__name__", name) in {name, "HookimplMarker", "Union", "Literal"}


def test_every_public_name_says_what_it_is():
    silent = [
        name
        for name in clawhive_core.__all__
        if isinstance(value := getattr(clawhive_core, name), type) and not value.__doc__
    ]
    assert silent == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = clawhive_core.Nothing


def test_the_version_is_the_distributions():
    from importlib.metadata import version

    assert clawhive_core.__version__ == version("clawhive")
