"""`@tool`: a function becomes a tool, and stays a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from types import FunctionType
from typing import (
    TYPE_CHECKING,
    Any,
    NoReturn,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
    overload,
)

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.suggestions import did_you_mean
from clawhive_core.errors import PluginError
from clawhive_core.model.effects import level_of, risk_of
from clawhive_core.model.late import Caching, dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.sinks import sink_problems
from clawhive_core.model.tools import TIMEOUT_MS, JsonSchema, Level, OutputTrust, Risk, ToolMeta
from clawhive_core.plugins.effects import as_effects, effect_problems, unknown_verbs

if TYPE_CHECKING:
    from clawhive_core.plugins.schema import ToolSchema

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__clawhive_tool__"
_NAME = pattern(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+){1,3}")
_WORD = pattern(r"[A-Za-z0-9_.-]+")
_MAX_NAME = 200


class ToolOptions(TypedDict, total=False):
    """The options of `@tool`; everything else follows from the function."""

    name: str
    """The full canonical name; otherwise `<plugin id>.<function name>`."""
    description: str
    """Otherwise the docstring, up to its first section."""
    level: Level
    """Otherwise by effects."""
    risk: Risk
    """Otherwise by effects: safe for what only reads, else unsafe."""
    effects: Mapping[str, str | list[str] | tuple[str, ...]]
    """Arguments to capabilities, as `ToolMeta.effects`."""
    sinks: Sequence[str]
    records: Sequence[str]
    requires_confirm: bool
    confirms: str
    side_effects: bool
    """Otherwise whether the effects change anything."""
    idempotent: bool
    polling: bool
    timeout_ms: int
    preconditions: Sequence[str]
    output_trust: OutputTrust
    always_load: bool
    category: str
    keywords: Sequence[str]
    aliases: Sequence[str]
    examples: Sequence[Mapping[str, Any]]
    output_schema: JsonSchema
    """Otherwise from the return annotation."""


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
def tool(function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
    """Make a function a tool; it stays callable as it is.

    Name, description, schemas, level and risk follow from the function's name, docstring (Google
    style), annotations and `effects`, unless an option says otherwise. A parameter annotated
    `InvokeContext` is given the call's context and is no argument. A `def` runs in a worker
    thread, an `async def` in the event loop.

    Raises:
        PluginError: The function cannot be a tool, or an option is wrong; `place` is its
            file:line.
    """
    if function is None:
        return lambda later: _mark(later, options)
    return _mark(function, options)


def _mark(function: F, options: ToolOptions) -> F:
    if not isinstance(function, FunctionType):
        raise PluginError(
            f"@tool decorates functions, not {function!r}",
            fix="write a `def` or `async def` and decorate that",
        )
    declaration = ToolDeclaration(function, function.__name__, options)
    for problem, fix in declaration.problems():
        declaration.refuse(problem, fix)
    function.__dict__[MARK] = declaration
    return cast("F", function)


@dataclass(frozen=True, slots=True)
class ToolDeclaration(Caching):
    """A function and what `@tool` was told of it; schemas are made when first asked for."""

    function: Callable[..., Any]
    label: str
    """The function's name."""
    options: ToolOptions

    @property
    def place(self) -> str:
        """The function's place, as file:line."""
        code = inspect.unwrap(self.function).__code__
        return f"{shown_path(code.co_filename)}:{code.co_firstlineno}"

    @cached_property
    def schema(self) -> ToolSchema:
        """The schemas of input and output, and what converts between JSON and Python.

        Raises:
            PluginError: An annotation has no JSON Schema.
        """
        from clawhive_core.plugins.schema import ToolSchema

        return ToolSchema(self.function, self.options.get("effects", {}), self.refuse)

    def refuse(self, problem: str, fix: str) -> NoReturn:
        """Raise the PluginError that names the function and its place."""
        raise PluginError(
            f"the tool function `{self.label}`: {problem}",
            place=self.place,
            fix=fix,
            code="invalid_tool",
        )

    def name(self, plugin_id: str) -> str:
        """Return the canonical name that the tool has in this plugin."""
        return self.options.get("name", f"{plugin_id}.{self.label}")

    def meta(self, plugin_id: str) -> ToolMeta:
        """Return all that ClawHive knows of the tool.

        Raises:
            PluginError: An annotation has no JSON Schema, or an effect's verb is unknown.
        """
        given = self.options
        effects = as_effects(given.get("effects", {}))
        for problem, fix in unknown_verbs(effects):
            self.refuse(problem, fix)
        risk = risk_of(effects)
        self._check_json()
        return ToolMeta(
            name=self.name(plugin_id),
            description=given.get("description", self.schema.description),
            input_schema=self.schema.input_schema,
            provider_id=plugin_id,
            output_schema=given.get("output_schema", self.schema.output_schema),
            capability_level=given.get("level", level_of(effects)),
            risk=given.get("risk", risk),
            effects=effects,
            sinks=tuple(given.get("sinks", ())),
            records=tuple(given.get("records", ())),
            requires_confirm=given.get("requires_confirm", False),
            confirms=given.get("confirms"),
            side_effects=given.get("side_effects", risk == "unsafe"),
            idempotent=given.get("idempotent", False),
            polling=given.get("polling", False),
            timeout_ms=given.get("timeout_ms", TIMEOUT_MS),
            preconditions=tuple(given.get("preconditions", ())),
            output_trust=given.get("output_trust", "untrusted"),
            always_load=given.get("always_load", False),
            category=given.get("category", ""),
            keywords=tuple(given.get("keywords", ())),
            aliases=tuple(given.get("aliases", ())),
            examples=tuple(given.get("examples", ())),
        )

    def _check_json(self) -> None:
        """Refuse what the manifest could not hold."""
        import json

        given = self.options
        values = [given.get("examples"), given.get("output_schema"), self.schema.input_schema]
        try:
            json.dumps(values, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            self.refuse(
                f"its examples or schemas hold something that is no JSON value: {error}",
                "use texts, finite numbers, true, false, null, lists and dicts",
            )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with signature and options, as pairs of problem and fix."""
        yield from _kind_problems(self.function, self.label)
        parameters = inspect.signature(self.function).parameters
        for parameter in parameters.values():
            yield from _parameter_problems(parameter)
        yield from _option_problems(self.options)
        yield from effect_problems(as_effects(self.options.get("effects", {})), parameters)
        yield from sink_problems(self.options.get("sinks", ()), parameters)
        yield from sink_problems(self.options.get("records", ()), None, records=True)


def _kind_problems(function: Callable[..., Any], label: str) -> Iterator[tuple[str, str]]:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        yield "it yields", "return a list; for output while it runs, use `ctx.output`"
    if label == "<lambda>":
        yield "a lambda has no name, annotations or docstring", "write a `def`"


def _parameter_problems(parameter: inspect.Parameter) -> Iterator[tuple[str, str]]:
    name = parameter.name
    if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        yield (
            f"`{stars}{name}` has no JSON Schema",
            f"name each parameter, or take `{name}: list[str]` or `{name}: dict[str, str]`",
        )
    elif parameter.kind is parameter.POSITIONAL_ONLY:
        yield f"`{name}` is positional-only, arguments come by name", "remove the `/`"
    elif parameter.annotation is parameter.empty:
        yield f"the parameter `{name}` has no annotation", f"annotate it, such as `{name}: str`"


def _option_problems(options: ToolOptions) -> Iterator[tuple[str, str]]:
    known = ToolOptions.__annotations__
    for option in options:
        if option not in known:
            meant = did_you_mean(option, known) or f"use one of: {', '.join(known)}"
            yield f"`@tool` has no option `{option}`", meant
    yield from _text_list_problems(options)
    yield from _name_problems(options)
    choices: dict[str, tuple[Any, ...]] = {
        "level": get_args(Level),
        "risk": get_args(Risk),
        "output_trust": get_args(OutputTrust),
    }
    for option, values in choices.items():
        if option in options and options[option] not in values:
            yield f"`{option}` is {options[option]!r}", f"use one of: {', '.join(values)}"
    timeout = options.get("timeout_ms", 1)
    if not isinstance(timeout, int) or isinstance(timeout, bool) or timeout < 1:
        yield f"`timeout_ms` is {timeout!r}", "use a positive number of milliseconds"
    if not isinstance(options.get("effects", {}), Mapping):
        yield "`effects` is no mapping", 'write a dict, such as `effects={"path": "fs.read"}`'


def _name_problems(options: ToolOptions) -> Iterator[tuple[str, str]]:
    name = options.get("name")
    if name is not None and (len(name) > _MAX_NAME or _NAME.fullmatch(name) is None):
        yield (
            f"{name!r} is no canonical name",
            "use 2 to 4 segments of letters, digits, `_` and `-`, joined by dots: `web.search`",
        )
    for option in ("aliases", "preconditions"):
        for item in options.get(option, ()):
            if not isinstance(item, str) or _WORD.fullmatch(item) is None:
                yield f"`{option}` holds {item!r}, which is no tool's name", "name a tool"


def _text_list_problems(options: ToolOptions) -> Iterator[tuple[str, str]]:
    for option in ("aliases", "keywords", "preconditions", "sinks", "records", "examples"):
        value = options.get(option, ())
        if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
            yield f"`{option}` is {value!r}", f"write a list, such as `{option}=[...]`"


def declaration_of(value: object) -> ToolDeclaration | None:
    """Return what `@tool` declared of a function, None where it declared nothing.

    Raises:
        PluginError: Another decorator stands above `@tool`, so that calls would go around it.
    """
    declaration = value.__dict__.get(MARK) if isinstance(value, FunctionType) else None
    if isinstance(declaration, ToolDeclaration) and declaration.function is not value:
        declaration.refuse(
            "another decorator stands above `@tool`, and calls would go around it",
            "write `@tool` on top of the other decorators",
        )
    return declaration


def declared_tools(contributor: object, package: str) -> list[ToolDeclaration]:
    """Return the tools of a module or object, sorted by place of definition, each once.

    Functions imported from outside the plugin's own top-level package are not its tools.

    Raises:
        PluginError: As `declaration_of`.
    """
    found: dict[int, ToolDeclaration] = {}
    for value in list(getattr(contributor, "__dict__", {}).values()):
        declaration = declaration_of(value)
        if declaration is not None and declaration.function.__module__.split(".")[0] == package:
            found[id(declaration)] = declaration
    return list(found.values())
