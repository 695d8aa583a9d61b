"""`requires.python`: which packages are there, told by the names of metadata folders."""

import sys
from importlib.metadata import distributions

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from clawhive_core.skills.discovery.gate import installed, lacking


@pytest.fixture
def site(tmp_path):
    for name in ("Astro_Engine-2.1.19.dist-info", "old.thing-1.0rc1-py3.11.egg-info", "x.py"):
        tmp_path.joinpath(name).mkdir()
    return [str(tmp_path / "nowhere"), str(tmp_path)]


def test_packages_are_found_by_their_normalised_names(site):
    assert installed(site) == {"astro-engine": "2.1.19", "old-thing": "1.0rc1"}


def test_the_packages_of_this_interpreter_are_those_that_the_standard_library_finds():
    theirs = {each.metadata["Name"].lower().replace("_", "-") for each in distributions()}
    assert {"pyyaml", "anyio", "click"} <= set(installed(sys.path)) & theirs


@pytest.mark.parametrize(
    "requirement",
    ["astro-engine", "ASTRO.engine >= 2, < 3", "astro-engine[x]~=2.1", "astro_engine (==2.1.*)",
     "old-thing!=2", "old-thing==1.0"],
)  # fmt: skip
def test_what_is_there_is_not_missed(site, requirement):
    assert lacking([requirement], site) == []


@pytest.mark.parametrize(
    ("requirement", "says"),
    [
        ("astro", "the Python package `astro` is not installed"),
        ("astro-engine>=3", "the Python package `astro-engine>=3` is installed as 2.1.19"),
        ("astro-engine>=2,!=2.1.19", "is installed as 2.1.19"),
        ("astro-engine; python_version > '3'", "is no requirement such as"),
        (">=3.11", "is no requirement such as"),
        ("", "is no requirement such as"),
    ],
)
def test_what_is_missing_or_unreadable_is_told(site, requirement, says):
    (words,) = lacking([requirement], site)
    assert says in words


NUMBERS = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(lambda n: ".".join(map(str, n)))


@given(NUMBERS, st.sampled_from(["==", "!=", "<=", ">=", "<", ">", "~="]), NUMBERS)
def test_releases_are_compared_as_packaging_does(tmp_path_factory, version, operator, wanted):
    if operator == "~=" and "." not in wanted:
        return
    folder = tmp_path_factory.mktemp("site")
    folder.joinpath(f"a-{version}.dist-info").mkdir()
    holds = lacking([f"a{operator}{wanted}"], [str(folder)]) == []
    assert holds == SpecifierSet(f"{operator}{wanted}").contains(version)
