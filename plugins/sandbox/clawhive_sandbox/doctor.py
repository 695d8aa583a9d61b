"""`clawhive sandbox doctor`: the engines that run here, how strong each is, and what is missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from clawhive_core import HookContext, SandboxUnavailable
from clawhive_sandbox.attacks import FLAGS, Language, Verdict, attack, by_category
from clawhive_sandbox.engine import WasmEngine, wasm_engines
from clawhive_sandbox.jail import bubblewrap, probe
from clawhive_sandbox.jail_engine import JailEngine
from clawhive_sandbox.modules import ModuleUnusable, open_compiled

if TYPE_CHECKING:
    from clawhive_core import SandboxEngine

STRENGTHS = {
    "guest": "its programs make no system call",
    "jail": "namespaces, system call filter, limits",
    "landlock": "Landlock and system call filter: weaker than the jail",
}


@dataclass(slots=True)
class Attacked:
    """The attempts of one language in one engine."""

    language: Language
    made: int
    blocked: int
    categories: dict[str, tuple[int, int]]
    """For each how many were blocked, and how many were made."""
    breaches: list[dict[str, str]]


@dataclass(slots=True)
class Row:
    """One engine of this machine."""

    engine: str
    isolation: str
    is_default: bool
    """Whether it is used where the user chose nothing."""
    version: str = ""
    programs: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    problem: str | None = None
    fix: str | None = None
    attacks: list[Attacked] = field(default_factory=list[Attacked])

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)

    @property
    def is_breached(self) -> bool:
        """Whether an attempt succeeded."""
        return any(each.breaches for each in self.attacks)


def engines(ctx: HookContext) -> list[tuple[Row, SandboxEngine]]:
    """Return every engine that ships, in the order in which programs are tried."""
    from clawhive_builtin import MontyEngine

    commands, environment = ctx.config.get("commands", ()), ctx.config.get("environment")
    jails = [JailEngine(commands, environment, kind, ctx.env) for kind in ("jail", "landlock")]
    found: list[tuple[Row, SandboxEngine]] = [
        (Row(each.name, "guest", is_default=True), each)
        for each in (MontyEngine(), *wasm_engines(ctx.env))
    ]
    found += [(Row(each.name, each.name, is_default=each.name == "jail"), each) for each in jails]
    return found


async def examined(row: Row, engine: SandboxEngine) -> None:
    """Say of an engine whether it can start here."""
    try:
        row.version = engine.version
        row.programs = sorted(engine.programs)
        if isinstance(engine, JailEngine):
            await _jail(row, engine)
        elif isinstance(engine, WasmEngine) and not _is_compiled(engine):
            row.notes.append("compiled at its first program, or by `clawhive sandbox warm`")
    except SandboxUnavailable as error:
        row.problem, row.fix = error.message, error.fix


def _is_compiled(engine: WasmEngine) -> bool:
    try:
        handle = open_compiled(engine.module, engine.folder)
    except ModuleUnusable as error:
        raise SandboxUnavailable(str(error)) from error
    if handle is not None:
        os.close(handle)
    return handle is not None


async def _jail(row: Row, engine: JailEngine) -> None:
    if engine.name == "jail":
        found = bubblewrap()
        row.notes.append(found.path)
    facts = await probe(engine.name)
    user = "an unprivileged user" if os.geteuid() == 0 else "your user"
    row.notes.append(f"programs run as {user}")
    group = "by a control group" if facts["group"] else "process by process, and watched in all"
    row.notes.append(f"memory is limited {group}")
    absent = [name for name in ("python", "node") if engine.found(name) is None]
    row.notes += [f"there is no {name} here" for name in absent]


async def attacked(row: Row, engine: SandboxEngine, told: Callable[[Verdict], None]) -> None:
    """Make every attempt in an engine that can start here."""
    for language, flag in FLAGS.items():
        if row.problem is not None or f"{language} {flag}" not in engine.programs:
            continue
        try:
            verdicts = await attack(engine, language, told)
        except (SandboxUnavailable, RuntimeError) as error:
            row.problem = str(error)
            return
        row.attacks.append(_counted(language, verdicts))


def _counted(language: Language, verdicts: Sequence[Verdict]) -> Attacked:
    breaches = [
        {"category": each.attack.category, "name": each.attack.name, "breach": each.breach}
        for each in verdicts
        if each.breach is not None
    ]
    blocked = len(verdicts) - len(breaches)
    return Attacked(language, len(verdicts), blocked, by_category(verdicts), breaches)


def lines(row: Row) -> list[str]:
    """Return what a person reads of an engine."""
    state = "missing" if row.problem else "ok"
    found = [f"{row.engine:<14} {state:<8} {STRENGTHS[row.isolation]}"]
    found.append(f"  {row.version}: {', '.join(row.programs) or 'runs nothing'}")
    found += [f"  {note}" for note in row.notes]
    if row.problem:
        found.append(f"  {row.problem}")
        found += [f"  fix: {row.fix}"] * bool(row.fix)
    for each in row.attacks:
        found.append(f"  attacked in {each.language}: {each.blocked} of {each.made} blocked")
        found += [
            f"    not blocked: {one['category']}: {one['name']} ({one['breach']})"
            for one in each.breaches
        ]
    return found


async def diagnosed(ctx: HookContext, *, attacks: bool, told: Callable[[str], None]) -> list[Row]:
    """Examine every engine, and attack it where that is asked for.

    Args:
        ctx: The project's and user's context.
        attacks: Whether every attempt is made; that takes minutes.
        told: Told what is being done.
    """
    rows: list[Row] = []
    for row, engine in engines(ctx):
        try:
            await examined(row, engine)
            if attacks:
                told(f"attacking {row.engine}")
                await attacked(row, engine, lambda _: None)
        finally:
            await engine.close()
        rows.append(row)
    return rows
