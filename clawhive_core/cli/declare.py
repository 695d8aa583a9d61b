"""`clawhive tools declare`: what a person declares of tools that nobody else declares."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from clawhive_core.cli.loop import run_async
from clawhive_core.cli.output import (
    ask,
    is_terminal,
    lines_of_text,
    note,
    print_error,
    print_json,
    say,
)
from clawhive_core.cli.settings import Settings
from clawhive_core.errors import ConfigError, UnknownId, UsageError
from clawhive_core.model.late import dataclass

if TYPE_CHECKING:
    from clawhive_core.catalog.declarations import Declaration, State
    from clawhive_core.catalog.proposals import Proposal
    from clawhive_core.config import Config
    from clawhive_core.hive.hive import Hive
    from clawhive_core.model.tools import ToolMeta

_CHOICES = "a accept   e edit   n leave it   r accept the rest   q stop > "


@dataclass(frozen=True, slots=True)
class Offer:
    """One tool, what holds of it, and what is proposed for it."""

    meta: ToolMeta
    """As its provider lists it."""
    state: State
    declared: Declaration | None
    proposal: Proposal
    diff: Sequence[str]
    """How its definition changed since it was declared."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            **self.proposal.to_dict(),
            "state": self.state,
            "declared": None if self.declared is None else self.declared.to_table(),
            "diff": list(self.diff),
        }


@click.command("declare", epilog="Example: clawhive tools declare 'mcp.git.*'")
@click.argument("names", nargs=-1, required=True, metavar="NAME")
@click.option("--yes", "-y", is_flag=True, help="Accept all proposals; needs a terminal, too.")
@click.option("--remove", is_flag=True, help="Declare nothing of them any more.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; changes nothing.")
@click.pass_obj
def command(
    settings: Settings, names: tuple[str, ...], *, yes: bool, remove: bool, as_json: bool
) -> None:
    """Propose risk, effects, sinks and records of tools, for you to accept, edit or leave.

    NAME may be a pattern, such as `mcp.git.*`. What you accept stands in your own config.toml and
    counts while the tool's definition is what it was.
    """
    _require_person(yes=yes, remove=remove, as_json=as_json)
    if remove:
        _remove(settings.config(), names)
        return
    offers = run_async(_offers(settings, names))
    if as_json:
        tools = [each.to_dict() for each in offers]
        print_json({"schema": "tool-declarations/1", "tools": tools})
        return
    open_ = [each for each in offers if each.state != "declared" or each.meta.name in names]
    for each in offers:
        if each not in open_:
            say(f"{each.meta.name}: as you declared it")
    if _is_attended():
        accepted = dict(_accepted(open_, yes=yes))
        if accepted:
            _write(settings.config(), open_, accepted)
        return
    for each in open_:
        _print(each)
    if open_:
        note(f"accept them in a terminal: clawhive tools declare {_quoted(names)}")


def _require_person(*, yes: bool, remove: bool, as_json: bool) -> None:
    """Raise where something is to be changed and no person does it.

    Raises:
        UsageError: There is no terminal, the output is for a program, or a run asks.
    """
    if not (yes or remove):
        return
    from clawhive_core.config import refuse_inside_run

    refuse_inside_run(os.environ, "declarations")
    if as_json:
        raise UsageError("with --json nothing is changed", place="--json", fix="leave it out")
    if not _is_attended():
        raise UsageError(
            "only a person at a terminal declares tools",
            place="--yes" if yes else "--remove",
            fix="run it in a terminal, or write the tables into your config.toml yourself",
        )


def state_of(hive: Hive, meta: ToolMeta) -> dict[str, Any]:
    """Return what the user declares of a tool of the catalog, as `tools show` has it."""
    from clawhive_core.catalog.declarations import Definitions

    state, listed = hive.declarations.state(meta), hive.declarations.listed(meta)
    diff = Definitions(hive.config.user_dir).diff(listed) if state == "changed" else ()
    return {"state": state, "diff": list(diff)}


def print_state(name: str, facts: Mapping[str, Any]) -> None:
    """Print what `state_of` gave, where there is anything to say."""
    if facts["state"] == "declared":
        say("declared: by you, as it is now")
    elif facts["state"] == "undeclared":
        say(f"declared: by nobody: clawhive tools declare {name}")
    elif facts["state"] == "changed":
        say("declared: by you, and it changed since, so that each call asks:")
        for line in facts["diff"]:
            say(*lines_of_text(line))
        say(f"          look at it again: clawhive tools declare {name}")


def _is_attended() -> bool:
    return is_terminal(sys.stdin, sys.stderr) and not os.environ.get("CLAWHIVE_RUN")


def _quoted(names: Iterable[str]) -> str:
    import shlex

    return shlex.join(names)


async def _offers(settings: Settings, names: Sequence[str]) -> list[Offer]:
    """Return the tools that names and patterns choose, with their proposals.

    Raises:
        UnknownId: A name or pattern chooses none.
        UsageError: A tool that is named declares itself.
    """
    from clawhive_core.catalog.declarations import Definitions
    from clawhive_core.catalog.proposals import propose

    async with settings.hive() as hive:
        definitions, found = Definitions(hive.config.user_dir), list[Offer]()
        for meta in _chosen(hive, names):
            state, listed = hive.declarations.state(meta), hive.declarations.listed(meta)
            diff = definitions.diff(listed) if state == "changed" else ()
            declared = hive.declarations.find(meta.name)
            found.append(Offer(listed, state, declared, propose(listed), diff))
        return found


def _chosen(hive: Hive, names: Sequence[str]) -> list[ToolMeta]:
    from clawhive_core.diagnostics.suggestions import did_you_mean

    catalog, chosen = hive.catalog.current, dict[str, "ToolMeta"]()
    for name in names:
        exact = catalog.meta_of(name)
        named = (tool.meta for tool in catalog if fnmatchcase(tool.meta.name, name))
        fitting = [*named] if exact is None else [exact]
        if not fitting:
            fix = did_you_mean(name, catalog.tools) or "clawhive tools list"
            raise UnknownId(f"there is no tool `{name}`", place=name, fix=fix)
        open_ = [each for each in fitting if hive.declarations.state(each) != "author"]
        if not open_:
            raise UsageError(
                f"`{name}` is declared by its author, and you need not",
                place=name,
                fix=f"clawhive tools show {fitting[0].name}",
            )
        chosen |= {each.name: each for each in open_}
    return list(chosen.values())


def _print(offer: Offer, declaration: Declaration | None = None) -> None:
    from clawhive_core.catalog.declarations import toml_of

    name = offer.meta.name
    say("", name, *lines_of_text(offer.meta.description.strip().partition("\n")[0][:200]))
    if offer.state == "changed":
        say("its definition is not what you declared:")
        for line in offer.diff:
            say(*lines_of_text(line))
    if offer.declared is not None and declaration is None:
        say("declared now:", *toml_of(name, offer.declared).splitlines()[2:])
    if declaration is None:
        say(*(f"  {reason}" for reason in offer.proposal.reasons))
    say(*toml_of(name, declaration or offer.proposal.declaration).splitlines())


def _accepted(offers: Sequence[Offer], *, yes: bool) -> Iterator[tuple[str, Declaration]]:
    """Ask of each tool, and yield what the person declares of it."""
    rest = yes
    for offer in offers:
        _print(offer)
        found = offer.proposal.declaration
        while not rest:
            ask(_CHOICES)
            key = sys.stdin.readline()
            if not key or key.strip().lower() in {"q", "quit"}:
                return
            choice = key.strip().lower()
            if choice in {"e", "edit"}:
                found = _edited(offer, found)
                _print(offer, found)
            elif choice in {"n", "no"}:
                break
            elif choice in {"a", "y", "r"}:
                rest = choice == "r"
                yield offer.meta.name, found
                break
        else:
            yield offer.meta.name, found


def _edited(offer: Offer, before: Declaration) -> Declaration:
    """Let the person change a declaration in an editor; what cannot be used changes nothing."""
    from clawhive_core.catalog.declarations import read_toml_of, toml_of

    try:
        text = click.edit(toml_of(offer.meta.name, before), extension=".toml")
        return before if text is None else read_toml_of(text, offer.meta)
    except click.ClickException as error:
        fix = "set EDITOR to an editor that is installed"
        problem = ConfigError(f"the editor failed: {error.format_message()}", fix=fix)
        print_error(problem, as_json=False)
    except ConfigError as error:
        print_error(error, as_json=False)
    return before


def _write(config: Config, offers: Sequence[Offer], accepted: Mapping[str, Declaration]) -> None:
    """Write what was accepted, and keep the definitions that it is bound to."""
    from clawhive_core.catalog.declarations import Definitions, key_of
    from clawhive_core.config.user_file import UserFile

    file = UserFile(config.user_dir, os.environ)
    beside = isinstance(file.get(("tools",)), list)
    tables = {key_of(name, beside_tools=beside): each for name, each in accepted.items()}
    Definitions(config.user_dir).keep(each.meta for each in offers if each.meta.name in accepted)
    file.put({key: each.to_table() for key, each in tables.items()})
    say("", f"{len(accepted)} tools are declared in {file.path}")
    if named := _rights(config, accepted):
        note(f"what you granted for {', '.join(named)} is suspended: clawhive grants list")


def _rights(config: Config, names: Iterable[str]) -> list[str]:
    """Return the tools for which a right was given that names them as they were."""
    from datetime import UTC, datetime

    from clawhive_core.policy.grants import GrantBook, is_given
    from clawhive_core.policy.suspension import named_tool

    rows = GrantBook(config.user_dir, None).active(datetime.now(UTC))
    given = {named_tool(each["capability"]) for each in rows if is_given(each)}
    return [name for name in names if name in given]


def _remove(config: Config, names: Sequence[str]) -> None:
    from clawhive_core.catalog.declarations import Declarations, key_of
    from clawhive_core.config.user_file import UserFile

    file = UserFile(config.user_dir, os.environ)
    declared = Declarations.of(config)
    found = [each for each in declared if any(fnmatchcase(each, name) for name in names)]
    if not found:
        fix = f"you declare: {', '.join(declared) or 'nothing'}"
        raise UnknownId("you declare no such tool", place=" ".join(names), fix=fix)
    beside = isinstance(file.get(("tools",)), list)
    file.remove(*(key_of(each, beside_tools=beside) for each in found))
    say(f"{len(found)} tools are no more declared in {file.path}")
