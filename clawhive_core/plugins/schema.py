"""JSON Schemas of a tool function, by its signature and docstring, and arguments from JSON."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, Union, cast, get_args, get_origin

from clawhive_core.errors import ToolError
from clawhive_core.model.patterns import pattern
from clawhive_core.model.tools import ToolResult
from clawhive_core.protocols.context import InvokeContext

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.json_schema import GenerateJsonSchema

_MAPS = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_DATA = frozenset({"default", "const", "enum", "examples", "required", "discriminator"})
_SECTION = pattern(
    r"(Args|Arguments|Parameters|Attributes|Example|Examples|Keyword Args|Note|Notes|Raises"
    r"|References|Returns|See Also|Todo|Warning|Warnings|Warns|Yields):\s*"
)
_ARGUMENT = pattern(r"\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)")
_ARGUMENT_SECTIONS = frozenset({"Args", "Arguments", "Parameters", "Keyword Args"})

Refuse = Callable[[str, str], NoReturn]
"""Raises the error of a problem, with its fix."""


class ToolSchema:
    """The schemas of one tool, made by pydantic from the function's annotations.

    Args:
        function: The tool function.
        effects: The arguments that have an effect.
        refuse: Raises the PluginError of a problem and its fix.

    Raises:
        PluginError: An annotation cannot be evaluated or has no JSON Schema, or an argument with an
            effect has a default that is no JSON value.
    """

    def __init__(
        self, function: Callable[..., Any], effects: Collection[str], refuse: Refuse
    ) -> None:
        self._effects = effects
        self._refuse = refuse
        self._function = inspect.unwrap(function)
        self.description, self._texts = describe(function.__doc__)
        parameters = inspect.signature(function).parameters.values()
        hints = {parameter.name: self._annotation(parameter) for parameter in parameters}
        self.context = next((name for name, hint in hints.items() if hint is InvokeContext), None)
        """The parameter that is given the call's context, if there is one."""
        self._parameters = [item for item in parameters if item.name != self.context]
        self._hints = hints

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments; no others are allowed."""
        schema = self._schema_of(self._model.model_json_schema, "its arguments")
        properties: dict[str, Any] = schema.setdefault("properties", {})
        for name, text in self._texts.items():
            if name in properties:
                properties[name].setdefault("description", text)
        self._check_effect_defaults(properties)
        required = [item.name for item in self._parameters if item.default is item.empty]
        return {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
            **({"$defs": schema["$defs"]} if "$defs" in schema else {}),
        }

    @cached_property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of what it returns; None where that may be text, nothing or anything."""
        annotation = inspect.signature(self._function).return_annotation
        hint = self._evaluate("return", annotation)
        if annotation is inspect.Signature.empty or not _is_structured(hint):
            return None
        from pydantic import TypeAdapter

        def make(*, schema_generator: type[GenerateJsonSchema]) -> dict[str, Any]:
            adapter = TypeAdapter[Any](hint)
            return adapter.json_schema(mode="serialization", schema_generator=schema_generator)

        return self._schema_of(make, "what it returns")

    def arguments(self, input: Mapping[str, Any], ctx: InvokeContext) -> dict[str, Any]:
        """Return what to call the function with: the input as the annotations want it, and `ctx`.

        Raises:
            ToolError: `invalid_input`; `place` is the JSON pointer of the first wrong argument.
        """
        from pydantic import ValidationError

        try:
            model = self._model.model_validate(dict(input))
        except ValidationError as error:
            raise _invalid_input(error) from error
        arguments = {
            parameter.name: getattr(model, f"argument_{index}")
            for index, parameter in enumerate(self._parameters)
            if parameter.default is parameter.empty or parameter.name in input
        }
        if self.context is not None:
            arguments[self.context] = ctx
        return arguments

    @cached_property
    def _model(self) -> type[BaseModel]:
        """A model of the arguments, under names that cannot collide with pydantic's own."""
        from pydantic import ConfigDict, Field, create_model
        from pydantic.fields import FieldInfo

        fields: dict[str, Any] = {}
        for index, parameter in enumerate(self._parameters):
            hint = self._hints[parameter.name]
            default = ... if parameter.default is parameter.empty else parameter.default
            if isinstance(default, FieldInfo):
                self._refuse(
                    f"the default of `{parameter.name}` is a pydantic Field",
                    f"write `{parameter.name}: Annotated[TYPE, Field(...)] = VALUE`",
                )
            name = parameter.name
            fields[f"argument_{index}"] = (hint, Field(default, alias=name, validation_alias=name))
        config = ConfigDict(extra="forbid", defer_build=False)
        try:
            return create_model(f"{self._function.__name__}_arguments", __config__=config, **fields)
        except Exception as error:  # noqa: BLE001 - pydantic's build errors have no common base
            self._refuse_annotation(error)

    def _annotation(self, parameter: inspect.Parameter) -> Any:
        if isinstance(parameter.annotation, str):
            last = parameter.annotation.strip("'\" ").rpartition(".")[2]
            if last == InvokeContext.__name__:
                return InvokeContext
        return self._evaluate(parameter.name, parameter.annotation)

    def _evaluate(self, name: str, annotation: Any) -> Any:
        """Return an annotation's value; strings are evaluated where the function was defined."""
        holder = types.SimpleNamespace(__annotations__={name: annotation})
        scope = {**self._function.__globals__, **dict(_closure(self._function))}
        try:
            return typing.get_type_hints(holder, globalns=scope, include_extras=True)[name]
        except (NameError, SyntaxError, TypeError, AttributeError) as error:
            self._refuse(
                f"the annotation of `{name}`, {annotation!r}, cannot be evaluated: {error}",
                "import its names at the top of the module, not under `if TYPE_CHECKING:`",
            )

    def _schema_of(self, make: Callable[..., dict[str, Any]], what: str) -> dict[str, Any]:
        from pydantic.errors import PydanticUserError
        from pydantic.json_schema import GenerateJsonSchema

        class Quiet(GenerateJsonSchema):
            ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - declared by pydantic

        try:
            schema = make(schema_generator=Quiet)
        except PydanticUserError as error:
            self._refuse(
                f"{what} cannot be described: {error.message.splitlines()[0]}",
                "use types that JSON knows: str, int, float, bool, list, dict, Literal, "
                "dataclasses, TypedDict or pydantic models",
            )
        return without_titles(schema)

    def _refuse_annotation(self, error: Exception) -> NoReturn:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        self._refuse(
            f"a parameter's annotation has no JSON Schema: {first}",
            "use types that JSON knows, or annotate the context with `InvokeContext`",
        )

    def _check_effect_defaults(self, properties: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse a default that policy could not see."""
        for parameter in self._parameters:
            hidden = parameter.default not in (parameter.empty, None)
            named = hidden and parameter.name in self._effects
            if named and "default" not in properties[parameter.name]:
                self._refuse(
                    f"`{parameter.name}` has an effect, and a default that is no JSON value",
                    "give it a default that JSON can write, or none",
                )


def _closure(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    for name, cell in cells:
        with contextlib.suppress(ValueError):  # not bound yet
            yield name, cell.cell_contents


def _is_structured(hint: Any) -> bool:
    """Tell whether every value of a type has a JSON form that is no text."""
    origin = get_origin(hint)
    if origin is typing.Annotated:
        return _is_structured(get_args(hint)[0])
    if origin in {Union, types.UnionType}:
        return all(_is_structured(item) for item in get_args(hint))
    if origin is typing.Literal:
        return not any(isinstance(item, str) or item is None for item in get_args(hint))
    kind = origin or hint
    return isinstance(kind, type) and _is_structured_class(cast("type[Any]", kind))


def _is_structured_class(kind: type[Any]) -> bool:
    if issubclass(kind, str | ToolResult):
        return False
    if issubclass(kind, int | float | list | tuple | Mapping) or dataclasses.is_dataclass(kind):
        return True
    return hasattr(kind, "model_json_schema") or typing.is_typeddict(kind)


def _invalid_input(error: Any) -> ToolError:
    problems = [
        ("".join(f"/{part}" for part in item["loc"]), item["msg"])
        for item in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    text = "; ".join(f"{place or 'the input'}: {message}" for place, message in problems[:5])
    return ToolError(
        text,
        place=problems[0][0],
        fix="correct the argument; the tool's input_schema says what it takes",
        code="invalid_input",
    )


def without_titles(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema without the keyword `title`; properties of that name stay.

    pydantic makes titles of names: noise for a model, and different from version to version.
    """
    return {key: _untitled(key, value) for key, value in schema.items() if key != "title"}


def _untitled(key: str, value: Any) -> Any:
    if key in _DATA:
        return value
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, Any]", value)
        if key in _MAPS:
            return {name: _untitled_schema(item) for name, item in inner.items()}
        return without_titles(inner)
    if isinstance(value, list):
        return [_untitled_schema(item) for item in cast("list[Any]", value)]
    return value


def _untitled_schema(value: Any) -> Any:
    return without_titles(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value


def describe(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return a Google docstring's text before its first section, and the texts of its arguments."""
    import inspect

    lines = inspect.cleandoc(docstring or "").splitlines()
    sections = [index for index, line in enumerate(lines) if _SECTION.fullmatch(line)]
    bounds = [*sections, len(lines)]
    arguments: dict[str, str] = {}
    for start, stop in pairwise(bounds):
        if lines[start].rstrip().removesuffix(":") in _ARGUMENT_SECTIONS:
            arguments.update(_arguments(lines[start + 1 : stop]))
    return "\n".join(lines[: bounds[0]]).strip(), arguments


def _arguments(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield name and text of each argument; deeper lines continue the one above."""
    body = [line for line in lines if line.strip()]
    indent = min((_indent(line) for line in body), default=0)
    name, words = "", list[str]()
    for line in body:
        match = _ARGUMENT.fullmatch(line.strip()) if _indent(line) == indent else None
        if match is None:
            words.append(line.strip())
            continue
        if name:
            yield name, " ".join(words)
        name, words = match[1], [match[2]] if match[2] else []
    if name:
        yield name, " ".join(words)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
