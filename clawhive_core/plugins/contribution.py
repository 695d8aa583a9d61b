"""The contribution of a hook: checked, and stamped with where it came from."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NoReturn, cast

import pluggy

from clawhive_core.errors import ClawHiveError, PluginError
from clawhive_core.model.canonical import preview
from clawhive_core.model.late import dataclass
from clawhive_core.plugins import hookspecs
from clawhive_core.plugins.hookspecs import PROTOCOLS, HookContext

_SPECS = ModuleType("hookspecs")
vars(_SPECS).update({name: getattr(hookspecs, name) for name in PROTOCOLS})
"""The specifications without the other names of their module, at each of which pluggy looks."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """One object that a plugin's hook returned."""

    plugin_id: str
    distribution: str
    value: Any


class HookCaller:
    """Calls the hooks of one plugin.

    Each plugin has a pluggy manager of its own: pluggy's registration is not transactional and its
    calls are not isolated, so what fails here is dropped as a whole and touches no other plugin.

    Raises:
        PluginError: `invalid_hook`: pluggy does not accept an implementation.
    """

    def __init__(self, contributor: object, plugin_id: str) -> None:
        self._plugins = pluggy.PluginManager("clawhive")
        self._plugins.add_hookspecs(_SPECS)
        try:
            self._plugins.register(contributor, name=plugin_id)
            self._plugins.check_pending()
        except (Exception, SystemExit) as error:  # the isolation boundary: getattr runs code
            raise PluginError(
                f"its hooks cannot be registered: {_described(error)}",
                fix="write a function of the hook's name that takes `ctx`: docs/reference/hooks.md",
                code="invalid_hook",
            ) from error
        callers = self._plugins.get_hookcallers(contributor) or []
        self.hooks = frozenset(caller.name for caller in callers)
        """The names of the hooks that the plugin implements."""
        for caller in callers:
            if any(impl.wrapper or impl.hookwrapper for impl in caller.get_hookimpls()):
                raise PluginError(
                    f"the hook {caller.name} is a wrapper; plugins add, they do not wrap others",
                    fix="write @hookimpl without wrapper=True",
                    code="invalid_hook",
                )

    def call(self, hook: str, ctx: HookContext) -> list[Any]:
        """Call one hook and return what it contributes.

        Raises:
            PluginError: `hook_failed`: it raised, or returned anything but a list of objects that
                have what the hook's protocol asks for.
        """
        if hook not in self.hooks:
            return []
        try:
            results: list[Any] = getattr(self._plugins.hook, hook)(ctx=ctx)
            result = results[0] if results else None
            return _checked(hook, result)
        except PluginError:
            raise
        except (Exception, SystemExit) as error:  # the isolation boundary: a plugin's code
            raise PluginError(
                f"its hook {hook} raised {_described(error)}",
                place=error.place if isinstance(error, ClawHiveError) else None,
                fix=(error.fix if isinstance(error, ClawHiveError) else None)
                or "report it to the plugin's author",
                code="hook_failed",
                data={"hook": hook},
            ) from error


def _checked(hook: str, result: Any) -> list[Any]:
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        _fail(
            hook,
            "returned a coroutine",
            "hooks are synchronous: write `def`; the methods of what it returns may be async",
        )
    if not isinstance(result, list | tuple):
        _fail(
            hook,
            f"returned {'nothing' if result is None else f'a {type(result).__name__}'}",
            "return a list, empty where there is nothing to add",
        )
    values = list(cast("list[Any]", result))
    for value in values:
        _check_value(hook, value)
    return values


def _check_value(hook: str, value: Any) -> None:
    protocol = PROTOCOLS[hook]
    if protocol is None:
        import click

        if not isinstance(value, click.Command):
            _fail(hook, f"returned a {type(value).__name__}", "return click commands")
        return
    missing = list(_missing(value, protocol))
    if missing or isinstance(value, type):
        what = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        lacks = f", which lacks {', '.join(missing)}" if missing else ""
        _fail(
            hook,
            f"returned {what}{lacks}",
            f"return objects that have what `clawhive_core.{protocol.__name__}` lists",
        )


def _missing(value: Any, protocol: type) -> Iterator[str]:
    for name in vars(protocol):
        if name.startswith("_"):
            continue
        try:
            inspect.getattr_static(value, name)
        except AttributeError:
            if not hasattr(value, name):  # a proxy may answer in __getattr__
                yield name


def _fail(hook: str, what: str, fix: str) -> NoReturn:
    raise PluginError(f"its hook {hook} {what}", fix=fix, code="hook_failed", data={"hook": hook})


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {preview(str(error), 300)}".removesuffix(": ")
