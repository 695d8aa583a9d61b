"""Declared effects: the level and risk that they amount to, and what they change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clawhive_core.model.tools import Effects, Level, Risk

_OWN = {"fs.delete": "${run}", "fs.write": "${run}", "mem.write": "own"}

# The executor decides these again, call by call, or they stay inside an engine: declaring one
# does not make a tool change the system.
_HARMLESS = frozenset(
    {
        "agent.spawn",
        "env.read",
        "fs.read",
        "mem.read",
        "model.call",
        "sandbox.exec",
        "sandbox.read",
        "sandbox.write",
        "secret.use",
        "tool.call",
        "tool.enable",
    }
)
_WRITING = frozenset({"fs.delete", "fs.write", "mem.write", "sandbox.write"})
_LEVELS: tuple[Level, ...] = ("L0", "L1", "L2")
_REQUEST = "net.http"
_OWN_CHANGES = _WRITING | {"sandbox.exec"}
_DOES = {
    "fs.delete": "deletes files",
    "fs.exec": "runs programs",
    "fs.write": "writes files",
    "mem.write": "writes into a memory",
    "net.connect": "opens connections",
}
_OF_LEVEL: Mapping[Level, str] = {"L1": "writes files", "L2": "runs programs or uses the network"}


def verbs_of(effects: Effects) -> Iterator[tuple[str, str]]:
    """Yield verb and resource template of each effect; an empty template is the bare argument."""
    for effect in effects.values():
        for text in (effect,) if isinstance(effect, str) else effect:
            verb, _, resource = text.partition(":")
            yield verb, resource


def level_of(effects: Effects) -> Level:
    """Return the level that effects amount to: L0 reads, L1 writes files, L2 everything else."""
    ranks = (_rank(verb) for verb, _ in verbs_of(effects))
    return _LEVELS[max(ranks, default=0)]


def _rank(verb: str) -> int:
    if verb in _WRITING:
        return 1
    return 0 if verb in _HARMLESS and verb != "sandbox.exec" else 2


def risk_of(effects: Effects) -> Risk:
    """Return the risk of a tool that declares none: safe if it only reads, else unsafe.

    Effects inside a sandbox engine, the run's own folder or the own memory do not count.
    """
    return "unsafe" if any(_changes(*effect) for effect in verbs_of(effects)) else "safe"


def beyond_own_state(effects: Effects, level: Level, *, side_effects: bool) -> str | None:
    """Return what a tool that declares this may change beyond ClawHive's own state, or None.

    A request (`net.http`) that has no side effects reads: it has to be granted, and changes
    nothing. Other changes are told by their verb, whatever else is declared.

    Returns:
        What it does, as a part of a sentence about it: `writes files`.
    """
    reached = [effect for effect in verbs_of(effects) if _changes(*effect)]
    for verb, _ in reached:
        if verb != _REQUEST:
            return _DOES.get(verb, f"uses {verb}")
    owns = any(verb in _OWN_CHANGES for verb, _ in verbs_of(effects))
    if side_effects and (reached or not owns):
        return "has side effects"
    if _LEVELS.index(level) > _LEVELS.index(level_of(effects)):
        return f"{_OF_LEVEL[level]}, and no effect says which"
    return None


def _changes(verb: str, resource: str) -> bool:
    first, _, rest = resource.partition("/")
    own = _OWN.get(verb)
    is_own = own is not None and first == own and ".." not in rest
    return verb not in _HARMLESS and not is_own
