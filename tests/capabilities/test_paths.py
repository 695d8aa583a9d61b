import os
import posixpath

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from clawhive_core.capabilities import (
    below,
    concrete,
    matches,
    normalise,
    parse,
    path_capability,
)
from clawhive_core.errors import CapabilityError

HERE = {"workspace": "/srv/project", "run": "/srv/project/clawhive-out/r1", "home": "/home/u"}

# Any bytes but slash and NUL: what a file system accepts as a name.
names = (
    st.binary(min_size=1, max_size=12)
    .map(lambda raw: raw.replace(b"/", b"").replace(b"\0", b"*"))
    .filter(lambda raw: raw not in {b"", b".", b".."})
    .map(lambda raw: raw.decode("utf-8", "surrogateescape"))
)
tricky = st.sampled_from(["*", "**", "?", "%", "%2A", "%2e%2e", "${home}", "a\nb", " ", "...", "é"])
real_paths = st.lists(names | tricky, max_size=4).map(lambda items: "/" + "/".join(items))


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("fs.read:/srv/reports/**", "fs.read:/srv/reports/**"),
        ("fs.read:/srv//reports/./a/", "fs.read:/srv/reports/a"),
        ("fs.read:/srv/%2E/a", "fs.read:/srv/a"),
        ("fs.read:/", "fs.read:/"),
        ("fs.read:**", "fs.read:/**"),
        ("fs.read:/%41%c3%a9", "fs.read:/Aé"),
        ("fs.read:/%ff", "fs.read:/%FF"),
        ("fs.read:/a b", "fs.read:/a b"),
        ("fs.read:/a /b", "fs.read:/a%20/b"),
        ("fs.read:/#[x]{y}:z", "fs.read:/#[x]{y}:z"),
        ("fs.write:${workspace}", "fs.write:/srv/project"),
        ("fs.write:${workspace}/reports/**", "fs.write:/srv/project/reports/**"),
        ("fs.delete:${home}/*", "fs.delete:/home/u/*"),
        ("fs.read:${home}/**", "fs.read:/home/u/**"),
        ("fs.read:${home}/a}/**", "fs.read:/home/u/a}/**"),
        ("sandbox.read:**", "sandbox.read:**"),
        ("sandbox.read:.", "sandbox.read:."),
        ("sandbox.write:./out//a.txt", "sandbox.write:out/a.txt"),
    ],
)
def test_a_path_has_one_spelling(written, canonical):
    assert normalise(written, HERE) == canonical
    assert normalise(canonical) == canonical


@given(real_paths)
@example("/*")
@example("/**")
@example("/a?b=1")
@example("/100%")
@example("/${workspace}/**")
@example("/\udcff\udcfe")
@example("/a\n/\u202eb")
def test_the_capability_of_a_real_file_is_concrete_and_reads_back(path):
    capability = path_capability("fs.read", path)
    assert capability.is_concrete
    assert parse(capability.text, HERE) == capability
    assert capability.text.isprintable()
    capability.text.encode("utf-8")


@given(real_paths, real_paths)
def test_two_real_files_are_one_resource_only_if_their_paths_are_one(one, other):
    same = posixpath.normpath(one) == posixpath.normpath(other)
    assert (path_capability("fs.read", one) == path_capability("fs.read", other)) == same


@given(real_paths, real_paths)
def test_no_name_of_a_file_is_read_as_a_wildcard(one, other):
    assume(posixpath.normpath(one) != posixpath.normpath(other))
    assert not matches(path_capability("fs.read", one), path_capability("fs.read", other))


@given(st.lists(st.sampled_from(["a", "b", "", ".", "%61", "*"]), max_size=5))
def test_other_spellings_of_a_path_are_met_by_the_same_deny(items):
    text = "fs.read:/" + "/".join(items)
    plain = [item.replace("%61", "a") for item in items if item not in {"", "."}]
    assert parse(text) == parse("fs.read:/" + "/".join(plain))


@pytest.mark.parametrize(
    "sly", ["/srv/x/../.clawhive/a", "/srv/%2e%2e/a", "/..", "/srv/x/%2E./a", "/srv/.%2e"]
)
def test_a_way_up_is_refused_rather_than_resolved(sly):
    with pytest.raises(CapabilityError, match=r"`\.\.` is not resolved"):
        parse(f"fs.read:{sly}")


def test_a_way_up_is_refused_in_the_path_of_a_real_file_too():
    with pytest.raises(CapabilityError, match="not resolved"):
        path_capability("fs.read", "/srv/../etc/passwd")


def test_the_value_of_a_variable_holds_no_wildcards_or_escapes():
    capability = parse("fs.read:${workspace}/a", {"workspace": "/srv/*/100%/${home}/"})
    assert capability == path_capability("fs.read", "/srv/*/100%/${home}/a")
    assert not matches(capability, parse("fs.read:/srv/x/100%25/%24{home}/a"))


def test_one_text_means_different_paths_under_different_variables():
    text = "fs.read:${workspace}/a"
    assert normalise(text, {"workspace": "/one"}) == "fs.read:/one/a"
    assert normalise(text, {"workspace": "/two"}) == "fs.read:/two/a"
    assert normalise(text, {"workspace": "/"}) == "fs.read:/a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fs.read:${workspace}x/a", "only at the beginning"),
        ("fs.read:/a/${home}", "only at the beginning"),
        ("fs.read:${home}/${home}", "only at the beginning"),
        ("fs.read:${home", "only at the beginning"),
        ("sandbox.read:${workspace}/a", "only at the beginning"),
        ("mem.read:${home}", "only at the beginning"),
        ("net.http:${home}", "only at the beginning"),
        ("fs.read:${tmp}/a", "no variable `${tmp}`"),
        ("fs.read:${}/a", "no variable `${}`"),
    ],
)
def test_a_variable_elsewhere_or_unknown_is_refused(text, message):
    with pytest.raises(CapabilityError) as caught:
        parse(text, HERE)
    assert message in caught.value.message
    assert "${workspace}" in caught.value.fix


def test_a_variable_without_a_value_is_refused():
    with pytest.raises(CapabilityError, match="no value here"):
        parse("fs.read:${run}/a", {"workspace": "/srv"})
    with pytest.raises(CapabilityError, match="no value here"):
        parse("fs.read:${run}/a")


@pytest.mark.parametrize("value", ["", "srv", "/srv/../etc", "/a\0b"])
def test_a_variable_with_an_unusable_value_is_refused(value):
    with pytest.raises(CapabilityError, match=r"value of `\$\{workspace\}` is unusable"):
        parse("fs.read:${workspace}/a", {"workspace": value})


@pytest.mark.parametrize("bad", ["a/b", "", "/a\0b", "/\ud800"])
def test_what_names_no_file_has_no_capability(bad):
    with pytest.raises(CapabilityError):
        path_capability("fs.read", bad)


def test_a_path_object_is_a_path(tmp_path):
    assert path_capability("fs.read", tmp_path) == path_capability("fs.read", os.fspath(tmp_path))


def test_paths_of_the_sandbox_are_relative():
    assert path_capability("sandbox.write", "out/*").text == "sandbox.write:out/%2A"
    with pytest.raises(CapabilityError, match="relative to the session's sandbox") as caught:
        parse("sandbox.write:/etc/passwd")
    assert "`sandbox.write:etc/passwd`" in caught.value.fix


def test_a_verb_without_paths_has_no_path_capability():
    with pytest.raises(CapabilityError, match="of kind url, not path"):
        path_capability("net.http", "/a")


def test_everything_below_a_folder_includes_the_folder():
    folder = path_capability("fs.read", "/srv/a*")
    assert below(folder).text == "fs.read:/srv/a%2A/**"
    assert matches(below(folder), folder)
    assert below(below(folder)) == below(folder)
    assert below(concrete("fs.read", "/")) == parse("fs.read:**")


def test_the_root_is_below_everything_but_not_below_one_segment():
    root = parse("fs.read:/")
    assert matches(parse("fs.read:/**"), root)
    assert not matches(parse("fs.read:/*"), root)


def test_case_and_unicode_form_of_a_name_are_kept():
    assert parse("fs.read:/A") != parse("fs.read:/a")
    assert parse("fs.read:/\u00e9") != parse("fs.read:/e\u0301")


def test_a_path_of_absurd_depth_or_width_is_refused():
    assert parse("fs.read:" + "/a" * 512).is_concrete
    assert parse("fs.read:" + "/a" * 511 + "/**").parts[0][-1] == "**"
    with pytest.raises(CapabilityError, match="more than 512 segments"):
        parse("fs.read:" + "/a" * 512 + "/**")
    for text in ("fs.read:" + "/a" * 513, "fs.read:/" + "a" * 4097):
        with pytest.raises(CapabilityError, match="more than 512 segments") as caught:
            parse(text)
        assert len(caught.value.place) < 200


def test_a_relative_path_is_answered_with_the_absolute_ones():
    with pytest.raises(CapabilityError, match="`reports/a` is no absolute path") as caught:
        parse("fs.read:reports/a")
    assert "`fs.read:${workspace}/reports/a`" in caught.value.fix
    assert "`fs.read:/reports/a`" in caught.value.fix


@given(real_paths | st.from_regex(r"(/|/\.|//|[A-Za-z0-9._@%*-]){0,9}", fullmatch=True))
@example("/a/")
@example("/" + "a/" * 400)
@example("/" + "a" * 5000)
def test_an_ordinary_path_is_read_as_any_other(path):
    assert _outcome(path_capability, path) == _outcome(concrete, path)


@pytest.mark.parametrize("verb", ["sandbox.read", "sandbox.write"])
def test_an_absolute_path_is_none_of_the_sandbox_directory(verb):
    with pytest.raises(CapabilityError):
        path_capability(verb, "/srv/a")


def _outcome(read, path):
    try:
        return read("fs.read", path)
    except CapabilityError as error:
        return str(error)
