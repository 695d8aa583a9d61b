import os

import pytest

from clawhive_core.capabilities import normalise
from clawhive_core.errors import CapabilityError, InvalidInput
from clawhive_core.execution.effects import requested_capabilities
from tests.harness import tool_meta


@pytest.fixture
def ask(tmp_path):
    """Returns what a call needs, the project root written as ROOT."""
    root = tmp_path.resolve() / "root"
    root.mkdir()

    def ask(effects, input, **fields):
        meta = tool_meta(effects=effects, **fields)
        variables = {"workspace": str(root), "run": f"{root}/out/run_1"}
        found = requested_capabilities(meta, input, variables)
        return [text.replace(str(root), "ROOT") for text in found]

    ask.root = root
    return ask


def test_a_tool_without_effects_needs_the_right_to_call_it(ask):
    assert ask({}, {}) == ["tool.call:demo.echo"]
    assert ask({"path": "fs.read"}, {}) == ["tool.call:demo.echo"]


@pytest.mark.parametrize(
    ("effect", "value", "capability"),
    [
        ("fs.read", "a/b.txt", "fs.read:ROOT/a/b.txt"),
        ("fs.read", "", "fs.read:ROOT"),
        ("fs.read", "a/../b", "fs.read:ROOT/b"),
        ("fs.read", "/etc/./hosts", "fs.read:/etc/hosts"),
        ("fs.read", "*", "fs.read:ROOT/%2A"),
        ("fs.read", "${home}/x", "fs.read:ROOT/%24{home}/x"),
        ("fs.read:{}", "a", "fs.read:ROOT/a"),
        ("fs.read:{}/**", "a", "fs.read:ROOT/a/**"),
        ("fs.write:${run}/{}", "a.txt", "fs.write:ROOT/out/run_1/a.txt"),
        ("fs.read:${run}/{}", "../../x", "fs.read:ROOT/x"),
        ("fs.read:${run}/{}", "/etc/x", "fs.read:/etc/x"),
        ("fs.write:${run}/{}.json", "a", "fs.write:ROOT/out/run_1/a.json"),
        ("fs.write:${run}/**", "whatever", "fs.write:ROOT/out/run_1/**"),
        ("net.http", "HTTPS://Example.com:443/a?q=1#f", "net.http:https://example.com/a"),
        ("net.http:https://api.example.com/**", "cats", "net.http:https://api.example.com/**"),
        (
            "net.http:https://api.example.com/v1/{}",
            "a b",
            "net.http:https://api.example.com/v1/a%20b",
        ),
        (
            "net.http:https://api.example.com/v1/{}",
            "../admin",
            "net.http:https://api.example.com/admin",
        ),
        ("sandbox.exec:{0}", ["python", "-c", "1"], "sandbox.exec:python"),
        ("sandbox.write", "out/a", "sandbox.write:out/a"),
        ("secret.use:github/{}", "token", "secret.use:github/token"),
        ("tool.call", "web.search", "tool.call:web.search"),
        ("host.gmail.read", "inbox", "host.gmail.read:inbox"),
        ("env.read", 7, "env.read:7"),
    ],
)
def test_an_argument_names_one_capability(ask, effect, value, capability):
    assert ask({"x": effect}, {"x": value}) == [capability]


@pytest.mark.promise("P-201")
@pytest.mark.parametrize("effect", ["fs.write:${run}/{}", "fs.delete:${run}/{}/**"])
@pytest.mark.parametrize("value", ["../run_10/x", "../../x", "/etc/x", "a/../../x", "out/x"])
def test_what_says_that_it_keeps_to_the_runs_folder_is_kept_to_it(ask, effect, value):
    """Such a tool may be safe, so that none of its calls may change anything else."""
    folder = ask.root / "out" / "run_1"
    folder.mkdir(parents=True)
    (folder / "out").symlink_to(ask.root)
    with pytest.raises(InvalidInput, match="leads out of the run's folder") as caught:
        ask({"x": effect}, {"x": value})
    assert (caught.value.place, "relative path" in caught.value.fix) == ("/x", True)
    inside = [ask({"x": effect}, {"x": each})[0] for each in (".", "a", str(folder / "b"))]
    assert all(each.partition(":")[2].startswith("ROOT/out/run_1") for each in inside)


def test_a_list_asks_for_each_item_and_an_object_for_each_key(ask):
    assert ask({"x": "fs.read"}, {"x": ["b", "a", "b"]}) == ["fs.read:ROOT/b", "fs.read:ROOT/a"]
    assert ask({"x": "sandbox.write"}, {"x": {"m.py": "1", "n.py": "2"}}) == [
        "sandbox.write:m.py",
        "sandbox.write:n.py",
    ]


def test_several_effects_of_one_argument_and_those_of_every_call_add_up(ask):
    effects = {"": "agent.spawn:helper", "x": ("fs.read", "fs.write")}
    assert ask(effects, {"x": "a"}) == [
        "agent.spawn:helper",
        "fs.read:ROOT/a",
        "fs.write:ROOT/a",
    ]


def test_the_effect_of_every_call_may_use_variables(ask):
    assert ask({"": "fs.write:${run}/**"}, {}) == ["fs.write:ROOT/out/run_1/**"]


def test_an_argument_that_is_not_given_counts_with_its_default(ask):
    schema = {"properties": {"path": {"default": "."}, "other": True}}
    assert ask({"path": "fs.read:{}/**"}, {}, input_schema=schema) == ["fs.read:ROOT/**"]
    assert ask({"path": "fs.read"}, {"path": None}, input_schema=schema) == ["fs.read:ROOT"]
    assert ask({"other": "fs.read"}, {}, input_schema=schema) == ["tool.call:demo.echo"]
    assert ask({"x": "fs.read"}, {}, input_schema={"properties": True}) == ["tool.call:demo.echo"]


def test_a_path_is_judged_by_where_its_links_lead(ask):
    outside = ask.root.parent / "outside"
    outside.mkdir()
    (ask.root / "link").symlink_to(outside)
    (found,) = ask({"path": "fs.write"}, {"path": "link/new.txt"})
    assert found == f"fs.write:{outside}/new.txt"


@pytest.fixture
def places(ask):
    """Makes files, links that lead somewhere and nowhere, a pipe, and a name that Linux uses."""
    root = ask.root
    (root / "d" / "e").mkdir(parents=True)
    (root / "d" / "f").write_text("f")
    (root / "d" / "f (deleted)").write_text("g")
    (root / "to-dir").symlink_to("d/e")
    (root / "to-file").symlink_to(root / "to-dir" / ".." / "f")
    (root / "dangling").symlink_to("d/nowhere")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "fifo")
    return root


@pytest.mark.parametrize(
    "path",
    [
        ".",
        "d/../d//f",
        "d/f/",
        "d/f/x",
        "d/f (deleted)",
        "to-dir",
        "to-dir/..",
        "to-file",
        "to-file/x",
        "dangling",
        "dangling/x",
        "loop",
        "loop/x",
        "fifo",
        "new/x/../y",
        "a" * 300,
        "/",
        "/dev/null",
        "/proc/self/fd",
    ],
)
def test_a_path_leads_where_the_standard_library_says(ask, places, path):
    (found,) = ask({"path": "fs.read"}, {"path": path})
    assert found == f"fs.read:{os.path.realpath(places / path)}".replace(str(places), "ROOT")


def test_an_open_pipe_is_judged_by_the_path_that_names_it(ask):
    reading, writing = os.pipe()
    try:
        path = f"/proc/self/fd/{reading}"
        (found,) = ask({"path": "fs.read"}, {"path": path})
        assert found == normalise(f"fs.read:{os.path.realpath(path)}")
    finally:
        os.close(reading)
        os.close(writing)


def test_an_open_file_that_was_unlinked_is_judged_by_the_path_that_names_it(ask):
    gone = ask.root / "gone"
    with gone.open("w") as file:
        gone.unlink()
        path = f"/proc/self/fd/{file.fileno()}"
        (found,) = ask({"path": "fs.read"}, {"path": path})
        assert found == f"fs.read:{os.path.realpath(path)}".replace(str(ask.root), "ROOT")


@pytest.mark.parametrize("value", ["a\0b", "\ud800", [["a"]], [{"p": 1}], [None], True])
def test_a_value_that_names_no_file_is_an_invalid_input_at_its_argument(ask, value):
    with pytest.raises(InvalidInput) as caught:
        ask({"path": "fs.read"}, {"path": value})
    assert caught.value.place == "/path"
    assert caught.value.fix


@pytest.mark.parametrize("value", ["", "http://a@b/", "ftp://x/", "http://[::1", "a b"])
def test_a_value_that_names_no_address_is_an_invalid_input(ask, value):
    with pytest.raises(InvalidInput):
        ask({"url": "net.http"}, {"url": value})


@pytest.mark.parametrize("value", ["..", "a/../b", "a//b"])
def test_a_word_cannot_climb_out_of_its_template(ask, value):
    with pytest.raises(InvalidInput):
        ask({"x": "secret.use:github/{}"}, {"x": value})


@pytest.mark.parametrize(
    "effect",
    ["fs.nonsense", "nonsense", "fs.read:{}/{}", "fs.read:*/{}", "fs.read:{}/*", "fs.read:rel"],
)
def test_an_effect_that_cannot_be_used_is_the_tools_fault(ask, effect):
    with pytest.raises(CapabilityError):
        ask({"x": effect}, {"x": "a"})
