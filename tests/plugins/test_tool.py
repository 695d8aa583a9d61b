import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from clawhive_core import InvokeContext, ToolError, ToolResult, tool
from clawhive_core.errors import PluginError
from clawhive_core.plugins.tool import declaration_of


def meta(function, plugin_id="demo"):
    return declaration_of(function).meta(plugin_id)


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    title: str = "p"


class Found(BaseModel):
    items: list[Point]


class Row(TypedDict):
    name: str


def test_a_bare_decorator_makes_a_tool_that_stays_a_function():
    @tool
    def word_count(text: str) -> int:
        """Count words."""
        return len(text.split())

    assert word_count("a b") == 2
    assert inspect.isfunction(word_count)
    made = meta(word_count)
    assert made.name == "demo.word_count"
    assert made.provider_id == "demo"
    assert made.description == "Count words."
    assert made.input_schema == {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    assert made.output_schema == {"type": "integer"}
    assert (made.capability_level, made.risk, made.side_effects) == ("L0", "safe", False)


def test_every_option_arrives_in_the_meta():
    @tool(
        name="web.search",
        description="Search.",
        level="L2",
        risk="guarded",
        effects={"url": ["net.http", "fs.write:${run}/{}"], "": "env.read:KEY"},
        sinks=["url"],
        requires_confirm=True,
        confirms="web.propose",
        side_effects=False,
        idempotent=True,
        polling=True,
        timeout_ms=5,
        preconditions=["web.open"],
        output_trust="trusted",
        always_load=True,
        category="web",
        keywords=["find"],
        aliases=["web_search"],
        examples=[{"url": "https://example.com"}],
        output_schema={"type": "object"},
    )
    def search(url: str) -> str:
        return url

    made = meta(search)
    assert made.name == "web.search"
    assert made.effects == {"url": ("net.http", "fs.write:${run}/{}"), "": "env.read:KEY"}
    assert made.output_schema == {"type": "object"}
    assert (made.capability_level, made.risk) == ("L2", "guarded")
    assert (made.requires_confirm, made.confirms, made.side_effects) == (True, "web.propose", False)
    assert (made.idempotent, made.polling, made.timeout_ms, made.always_load) == (
        True,
        True,
        5,
        True,
    )
    assert (made.sinks, made.preconditions) == (("url",), ("web.open",))
    assert (made.category, made.keywords, made.aliases) == ("web", ("find",), ("web_search",))
    assert made.output_trust == "trusted"
    assert made.examples == ({"url": "https://example.com"},)


@pytest.mark.parametrize(
    ("effects", "level", "risk"),
    [
        ({}, "L0", "safe"),
        ({"path": "fs.read"}, "L0", "safe"),
        ({"path": "fs.write"}, "L1", "unsafe"),
        ({"path": ["fs.read", "fs.delete"]}, "L1", "unsafe"),
        ({"path": "fs.exec"}, "L2", "unsafe"),
        ({"path": "net.http"}, "L2", "unsafe"),
        ({"path": "sandbox.exec"}, "L2", "safe"),
        ({"path": "sandbox.write"}, "L1", "safe"),
        ({"path": "fs.write:${run}/{}"}, "L1", "safe"),
        ({"path": "fs.write:${run}/../{}"}, "L1", "unsafe"),
        ({"path": "fs.write:${running}/{}"}, "L1", "unsafe"),
        ({"path": "host.gmail.send"}, "L2", "unsafe"),
        ({"path": "fs.exec:${run}/{}"}, "L2", "unsafe"),
        ({"path": "mem.write:own/{}"}, "L1", "safe"),
        ({"path": "mem.write:own/../{}"}, "L1", "unsafe"),
        ({"path": "mem.write"}, "L1", "unsafe"),
    ],
)
def test_level_and_risk_follow_from_effects(effects, level, risk):
    @tool(effects=effects)
    def act(path: str) -> str:
        """Act."""
        return path

    made = meta(act)
    assert (made.capability_level, made.risk) == (level, risk)
    assert made.side_effects == (risk == "unsafe")


def test_the_docstring_gives_the_description_and_the_arguments():
    @tool
    def act(path: str, mode: Annotated[str, Field(description="own words")] = "r") -> str:
        """Read a file.

        Note that: it is read whole.

        Args:
            path (str): Which file,
                relative to the root.
            mode: not shown
            gone: no such parameter

        Returns:
            Its text.
        """
        return path + mode

    made = meta(act)
    assert made.description == "Read a file.\n\nNote that: it is read whole."
    properties = made.input_schema["properties"]
    assert properties["path"]["description"] == "Which file, relative to the root."
    assert properties["mode"]["description"] == "own words"


def test_defaults_make_arguments_optional_and_null_stays_null():
    @tool
    def act(a: int, b: int = 3, c: str | None = None, *, d: bool = False) -> None:
        """Act."""

    schema = meta(act).input_schema
    assert schema["required"] == ["a"]
    assert schema["properties"]["b"] == {"default": 3, "type": "integer"}
    assert schema["properties"]["c"]["default"] is None
    assert meta(act).output_schema is None


def test_names_that_pydantic_uses_itself_are_fine_as_arguments():
    @tool
    def act(model_dump: int, copy: int, title: str, schema: str, _hidden: int = 1) -> str:
        """Act."""
        return title

    properties = meta(act).input_schema["properties"]
    assert list(properties) == ["model_dump", "copy", "title", "schema", "_hidden"]
    given = {"model_dump": 1, "copy": 2, "title": "t", "schema": "s"}
    assert declaration_of(act).schema.arguments(given, None) == given


@pytest.mark.parametrize(
    ("returns", "schema_type"),
    [
        (dict[str, int], "object"),
        (list[int], "array"),
        (Point, "object"),
        (Found, "object"),
        (Row, "object"),
        (int | float, None),
        (bool, "boolean"),
    ],
)
def test_structured_returns_have_an_output_schema(returns, schema_type):
    @tool
    def act() -> returns:
        """Act."""

    made = meta(act).output_schema
    assert made is not None
    assert made.get("type") == schema_type


@pytest.mark.parametrize("returns", [str, None, Any, ToolResult, str | None, dict | str, object])
def test_returns_that_may_be_text_or_nothing_have_none(returns):
    @tool
    def act() -> returns:
        """Act."""

    assert meta(act).output_schema is None


def test_a_function_without_a_return_annotation_has_no_output_schema():
    @tool
    def act():
        """Act."""

    assert meta(act).output_schema is None


def test_the_context_is_no_argument():
    @tool
    def act(path: str, ctx: InvokeContext) -> str:
        """Act."""
        return path

    assert list(meta(act).input_schema["properties"]) == ["path"]
    assert declaration_of(act).schema.arguments({"path": "p"}, "CTX") == {"path": "p", "ctx": "CTX"}


def test_the_context_may_be_annotated_with_a_name_that_is_only_imported_for_types():
    def act(path, context):
        """Act."""

    act.__annotations__ = {"path": "str", "context": "protocols.InvokeContext"}
    assert list(meta(tool(act)).input_schema["properties"]) == ["path"]


def test_arguments_become_what_the_annotations_say():
    @tool
    def act(
        where: Path, point: Point, colour: Colour, found: Found, tags: tuple[str, ...] = ()
    ) -> str:
        """Act."""
        return ""

    given = {
        "where": "a/b",
        "point": {"x": 1},
        "colour": "red",
        "found": {"items": [{"x": 2, "title": "q"}]},
    }
    assert declaration_of(act).schema.arguments(given, None) == {
        "where": Path("a/b"),
        "point": Point(1),
        "colour": Colour.RED,
        "found": Found(items=[Point(2, "q")]),
    }


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"points": [{"x": 1}, {"x": "one"}]}, "/points/1/x"),
        ({"points": [], "other": 1}, "/other"),
        ({}, "/points"),
        ({"points": None}, "/points"),
    ],
)
def test_a_wrong_argument_is_named_by_its_path(given, place):
    @tool
    def act(points: list[Point]) -> str:
        """Act."""
        return ""

    with pytest.raises(ToolError) as caught:
        declaration_of(act).schema.arguments(given, None)
    assert caught.value.code == "invalid_input"
    assert caught.value.place == place
    assert place in caught.value.message
    assert caught.value.fix


def test_a_schema_has_no_titles_and_keeps_a_property_called_title():
    @tool
    def act(point: Point, kind: Literal["title"] = "title") -> list[Found]:
        """Act."""
        return []

    made = meta(act)
    point = made.input_schema["$defs"]["Point"]
    assert "title" not in point
    assert point["properties"]["title"] == {"default": "p", "type": "string"}
    assert made.input_schema["properties"]["kind"]["default"] == "title"
    assert "title" not in made.output_schema["$defs"]["Found"]


def refusal(make) -> PluginError:
    with pytest.raises(PluginError) as caught:
        make()
    error = caught.value
    assert error.fix
    return error


def positional(a: int, /) -> str: ...
def star(*args: int) -> str: ...
def stars(**kwargs: int) -> str: ...
def bare(a) -> str: ...
def yielding(a: int):
    yield a


async def ayielding(a: int):
    yield a


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (positional, "positional-only"),
        (star, "`*args`"),
        (stars, "`**kwargs`"),
        (bare, "no annotation"),
        (yielding, "yields"),
        (ayielding, "yields"),
        (lambda: 1, "lambda"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_where_it_stands(function, word):
    error = refusal(lambda: tool(function))
    assert word in error.message
    line = function.__code__.co_firstlineno
    assert error.place.endswith(f"tests/plugins/test_tool.py:{line}")
    assert error.code == "invalid_tool"


@pytest.mark.parametrize("value", [int, len, functools.partial(print), "text"])
def test_only_functions_are_decorated(value):
    assert "functions" in refusal(lambda: tool(value)).message


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"name": "search"}, "canonical name"),
        ({"name": "a.b.c.d.e"}, "canonical name"),
        ({"name": "web search.x"}, "canonical name"),
        ({"name": "a." + "b" * 300}, "canonical name"),
        ({"level": "L3"}, "L0, L1, L2"),
        ({"risk": "low"}, "safe, guarded, unsafe, unknown"),
        ({"output_trust": "yes"}, "trusted, named, untrusted"),
        ({"timeout_ms": 0}, "milliseconds"),
        ({"timeout_ms": True}, "milliseconds"),
        ({"effects": {"pth": "fs.read"}}, "path"),
        ({"effects": {"path": "read"}}, "fs.read"),
        ({"effects": {"path": 3}}, "fs.read"),
        ({"effects": {"path": "fs.read:"}}, "fs.read"),
        ({"effects": {"": "net.http"}}, "net.http:**"),
        ({"effects": {"": "fs.read:{}"}}, "argument"),
        ({"effects": ["fs.read"]}, "dict"),
        ({"sinks": ["url"]}, "path"),
        ({"sinks": "path"}, "list"),
        ({"aliases": ["with space"]}, "tool"),
        ({"efects": {}}, "effects"),
        ({"colour": "red"}, "use one of"),
    ],
)
def test_a_wrong_option_is_refused_with_what_works(options, word):
    def act(path: str) -> str:
        return path

    error = refusal(lambda: tool(**options)(act))
    assert word in error.message + error.fix
    assert "act" in error.message


@pytest.mark.parametrize(("verb", "meant"), [("fs.raed", "fs.read"), ("zz.zz", "fs.read")])
def test_an_unknown_verb_is_refused_with_the_ones_there_are(verb, meant):
    @tool(effects={"path": verb})
    def act(path: str) -> str:
        """Act."""
        return path

    error = refusal(lambda: meta(act))
    assert verb in error.message
    assert meant in error.fix


def test_an_annotation_without_a_schema_is_refused():
    @tool
    def act(work: Callable[[], int], thing: object.__class__) -> str:
        """Act."""
        return ""

    assert refusal(lambda: meta(act)).place


def test_an_annotation_that_cannot_be_evaluated_is_refused():
    def act(thing): ...

    act.__annotations__ = {"thing": "Missing"}
    error = refusal(lambda: meta(tool(act)))
    assert "`thing`" in error.message
    assert "TYPE_CHECKING" in error.fix


def test_a_pydantic_field_as_a_default_is_refused():
    @tool
    def act(count: int = Field(3, ge=1)) -> str:
        """Act."""
        return ""

    assert "Annotated" in refusal(lambda: meta(act)).fix


class Opaque:
    pass


def test_a_default_that_policy_could_not_see_is_refused():
    @tool(effects={"path": "fs.read"})
    def act(path: Annotated[Any, "a path"] = Opaque()) -> str:  # noqa: B008 - the point of the test
        """Act."""
        return ""

    assert "effect" in refusal(lambda: meta(act)).message


@pytest.mark.parametrize("value", [float("nan"), Path("x"), {1, 2}])
def test_examples_that_are_no_json_are_refused(value):
    @tool(examples=[{"a": value}])
    def act(a: int) -> str:
        """Act."""
        return ""

    assert "JSON" in refusal(lambda: meta(act)).message


def test_a_decorator_above_tool_is_refused_since_calls_would_go_around_it():
    def guard(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            return function(*args, **kwargs)

        return inner

    @guard
    @tool
    def outside(a: int) -> str:
        """Act."""
        return ""

    @tool
    @guard
    def inside(a: int) -> str:
        """Act."""
        return ""

    assert "on top" in refusal(lambda: declaration_of(outside)).fix
    assert meta(inside).input_schema["required"] == ["a"]
