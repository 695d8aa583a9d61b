"""From a tool function's signature to JSON Schemas, and from JSON to its arguments."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Union, cast, get_args, get_origin

from clawhive_core.errors import ToolError
from clawhive_core.model.tools import ToolResult
from clawhive_core.plugins.docstring import describe
from clawhive_core.plugins.schema_title import without_titles
from clawhive_core.protocols.context import InvokeContext

if TYPE_CHECKING:
    from pydantic import BaseModel

    from clawhive_core.plugins.tool import ToolDeclaration


class ToolSchema:
    """The schemas of one tool, made by pydantic from the function's annotations.

    Raises:
        PluginError: An annotation cannot be evaluated or has no JSON Schema, or an argument with an
            effect has a default that is no JSON value.
    """

    def __init__(self, declaration: ToolDeclaration) -> None:
        self._declaration = declaration
        self._function = inspect.unwrap(declaration.function)
        self.description, self._texts = describe(declaration.function.__doc__)
        parameters = inspect.signature(declaration.function).parameters.values()
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

        def make(**options: Any) -> dict[str, Any]:
            return TypeAdapter[Any](hint).json_schema(mode="serialization", **options)

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
                self._declaration.refuse(
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
            self._declaration.refuse(
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
            self._declaration.refuse(
                f"{what} cannot be described: {error.message.splitlines()[0]}",
                "use types that JSON knows: str, int, float, bool, list, dict, Literal, "
                "dataclasses, TypedDict or pydantic models",
            )
        return without_titles(schema)

    def _refuse_annotation(self, error: Exception) -> NoReturn:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        self._declaration.refuse(
            f"a parameter's annotation has no JSON Schema: {first}",
            "use types that JSON knows, or annotate the context with `InvokeContext`",
        )

    def _check_effect_defaults(self, properties: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse a default that policy could not see."""
        effects = self._declaration.options.get("effects", {})
        for parameter in self._parameters:
            hidden = parameter.default not in (parameter.empty, None)
            if hidden and parameter.name in effects and "default" not in properties[parameter.name]:
                self._declaration.refuse(
                    f"`{parameter.name}` has an effect, and a default that is no JSON value",
                    "give it a default that JSON can write, or none",
                )


def _closure(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    for name, cell in cells:
        with contextlib.suppress(ValueError):  # not bound yet
            yield name, cell.cell_contents


def _is_structured(hint: Any) -> bool:
    """Tell whether every value of a type has a JSON form that is not plain text."""
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
