import inspect
import os
import re
import typing
from pathlib import Path

import pluggy
import pytest

from clawhive_core import HookContext, LlmMessage, LlmRequest, hookimpl
from clawhive_core.plugins import hookspecs, reference
from clawhive_core.plugins.contribution import HookCaller
from clawhive_core.plugins.hookspecs import PROTOCOLS
from clawhive_core.testing import check_adapter

HOOKS = [
    "clawhive_tool_providers",
    "clawhive_llm_adapters",
    "clawhive_policy_checks",
    "clawhive_audit_sinks",
    "clawhive_planners",
    "clawhive_sandboxes",
    "clawhive_embedders",
    "clawhive_ledgers",
    "clawhive_skill_sources",
    "clawhive_subscription_stores",
    "clawhive_commands",
]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "hooks.md"


def context(**settings):
    return HookContext("demo", settings, str(Path.cwd()), dict(os.environ))


def test_these_are_the_hooks():
    manager = pluggy.PluginManager("clawhive")
    manager.add_hookspecs(hookspecs)
    specified = [name for name in vars(manager.hook) if not name.startswith("_")]
    assert sorted(specified) == sorted(HOOKS)
    assert list(PROTOCOLS) == HOOKS


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_takes_one_context_and_returns_a_list_of_its_protocol(hook):
    function = getattr(hookspecs, hook)
    parameters = inspect.signature(function).parameters
    assert list(parameters) == ["ctx"]
    assert not inspect.iscoroutinefunction(function)
    if PROTOCOLS[hook] is not None:
        hints = typing.get_type_hints(function)
        assert hints == {"ctx": HookContext, "return": list[PROTOCOLS[hook]]}


@pytest.mark.parametrize("hook", HOOKS)
def test_the_example_of_every_hook_runs_and_contributes(hook):
    namespace = {"__name__": "example"}
    exec(compile(reference.example(hook), hook, "exec"), namespace)
    caller = HookCaller(Namespace(namespace), "demo")
    assert caller.hooks == {hook}
    assert len(caller.call(hook, context())) == 1


async def test_the_adapter_of_the_page_keeps_to_the_protocol():
    namespace = {"__name__": "example"}
    exec(compile(reference.example("clawhive_llm_adapters"), "example", "exec"), namespace)
    (adapter,) = namespace["clawhive_llm_adapters"](context())
    await check_adapter(adapter)
    asked = LlmRequest("x", (LlmMessage.text("user", "hello"),))
    assert (await adapter.chat(asked)).text == "hello"


class Namespace:
    def __init__(self, values):
        self.__dict__.update(values)


@pytest.mark.parametrize("hook", HOOKS)
def test_the_docs_have_a_heading_and_the_exact_signature_of_every_hook(hook):
    text = PAGE.read_text("utf-8")
    section = text.partition(f"\n## {hook}\n")[2].partition("\n## ")[0]
    returns = "click.Command" if PROTOCOLS[hook] is None else PROTOCOLS[hook].__name__
    assert f"{hook}(ctx: HookContext) -> list[{returns}]" in section
    assert reference.example(hook) in section


def test_the_docs_are_what_the_specifications_say():
    assert PAGE.read_text("utf-8") == reference.render()


def test_the_docs_have_no_heading_of_a_hook_that_is_not_there():
    headings = re.findall(r"^## (\S+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert headings == HOOKS


def test_a_context_cannot_be_changed():
    with pytest.raises(AttributeError):
        context().root = "/elsewhere"


def test_the_public_names_are_these():
    assert hookimpl is hookspecs.hookimpl
    assert HookContext is hookspecs.HookContext
