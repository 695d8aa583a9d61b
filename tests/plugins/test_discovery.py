import sys

import pytest

from clawhive_core.plugins.discovery import DiscoveredPlugin, discover, package_folder


def test_a_plugin_is_found_by_its_entry_point_and_not_imported(site):
    site.plugin("demo", "raise SystemExit")
    (found,) = discover([str(site.folder)])
    assert (found.id, found.value, found.distribution, found.version) == (
        "demo",
        "plug_demo",
        "dist-demo",
        "1.0",
    )
    assert found.source == str(site.folder / "dist_demo-1.0.dist-info")
    assert "plug_demo" not in sys.modules


def test_other_groups_comments_blank_lines_and_extras_are_understood(site):
    site.distribution(
        "many",
        "# clawhive.plugins\n[console_scripts]\nx = x:main\n\n[clawhive.plugins]\n; no\n"
        "a = pack.mod:thing.attr [extra]\n\n  b=pack  \n[other]\nc = d\n",
    )
    found = discover([str(site.folder)])
    assert [(item.id, item.value) for item in found] == [
        ("a", "pack.mod:thing.attr"),
        ("b", "pack"),
    ]
    assert (found[0].module, found[0].attribute, found[0].package) == (
        "pack.mod",
        "thing.attr",
        "pack",
    )


def test_it_finds_what_the_standard_library_finds(site):
    from importlib.metadata import entry_points

    for name in ("one", "two", "three"):
        site.plugin(name)
    ours = {(item.id, item.value) for item in discover()}
    theirs = {(item.name, item.value) for item in entry_points(group="clawhive.plugins")}
    assert ours == theirs
    assert {"one", "two", "three"} <= {name for name, _ in ours}


@pytest.mark.parametrize("value", ["", "a b", "a:", ":a", "a/b", "a..b"])
def test_an_entry_point_that_names_nothing_is_a_problem_not_a_crash(site, value):
    site.distribution("bad", f"[clawhive.plugins]\nx = {value}\n")
    (found,) = discover([str(site.folder)])
    assert found.problem is not None


def test_a_line_without_an_equals_sign_and_bytes_are_problems(site):
    site.distribution("line", "[clawhive.plugins]\njust words\n")
    info = site.distribution("bytes", "")
    info.joinpath("entry_points.txt").write_bytes(b"[clawhive.plugins]\na = \xff\n")
    assert all(item.problem for item in discover([str(site.folder)]))


def test_the_same_entry_point_twice_counts_once(site):
    site.plugin("demo")
    site.distribution("copy", "[clawhive.plugins]\ndemo = plug_demo\n")
    assert len(discover([str(site.folder)])) == 1


def test_of_two_copies_of_a_distribution_the_earlier_on_the_path_counts(site, tmp_path):
    site.distribution("demo-dist", "[other]\n", version="2.0")
    later = tmp_path / "later"
    info = later / "Demo.Dist-1.0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("entry_points.txt").write_text("[clawhive.plugins]\nold = old\n")
    assert discover([str(site.folder), str(later)]) == []
    assert [item.id for item in discover([str(later)])] == ["old"]


def test_two_distributions_with_one_id_are_both_found(site):
    site.distribution("one", "[clawhive.plugins]\nx = a\n")
    site.distribution("two", "[clawhive.plugins]\nx = b\n")
    assert [item.distribution for item in discover([str(site.folder)])] == ["one", "two"]


def test_egg_info_folders_count_and_names_come_from_the_metadata_or_the_folder(tmp_path):
    egg = tmp_path / "my_plugin.egg-info"
    egg.mkdir()
    egg.joinpath("entry_points.txt").write_text("[clawhive.plugins]\na = m\n")
    egg.joinpath("PKG-INFO").write_text("Name: My-Plugin\nVersion: 3\n")
    bare = tmp_path / "bare_one-4.5.dist-info"
    bare.mkdir()
    bare.joinpath("entry_points.txt").write_text("[clawhive.plugins]\nb = m\n")
    tmp_path.joinpath("file.egg-info").write_text("Name: file\n")
    found = {item.id: (item.distribution, item.version) for item in discover([str(tmp_path)])}
    assert found == {"a": ("My-Plugin", "3"), "b": ("bare_one", "4.5")}


def test_places_that_cannot_be_listed_hold_no_plugins(tmp_path):
    file = tmp_path / "file.zip"
    file.write_bytes(b"")
    assert discover([str(file), str(tmp_path / "gone")]) == []


def test_the_empty_entry_is_the_current_folder(site, monkeypatch):
    site.plugin("demo")
    monkeypatch.chdir(site.folder)
    assert [item.id for item in discover([""])] == ["demo"]


def test_a_package_is_located_without_importing_it(site):
    site.package("located", "raise SystemExit")
    (site.folder / "single.py").write_text("")
    assert package_folder("located") == site.folder / "located"
    assert package_folder("single") is None
    assert package_folder("not_there_at_all") is None
    assert "located" not in sys.modules


def test_a_module_without_a_spec_has_no_folder(monkeypatch):
    module = type(sys)("specless")
    monkeypatch.setitem(sys.modules, "specless", module)
    assert package_folder("specless") is None


def test_a_hundred_plugins_are_read_without_importing_anything(site):
    for number in range(100):
        site.distribution(f"d{number}", f"[clawhive.plugins]\np{number} = m{number}\n")
    before = set(sys.modules)
    assert len(discover([str(site.folder)])) == 100
    assert set(sys.modules) == before


def test_a_discovered_plugin_is_a_value():
    assert DiscoveredPlugin("a", "m", "d", "1", "s") == DiscoveredPlugin("a", "m", "d", "1", "s")
