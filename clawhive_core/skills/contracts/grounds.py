"""Reading `grounds`: which outputs of its own calls a skill's further calls may read on from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.nearest import did_you_mean
from clawhive_core.model.sinks import SinkKind, place_of
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.document import Document
from clawhive_core.skills.documents.fields import Fields, text
from clawhive_core.skills.documents.place import KeyPath

KINDS: tuple[SinkKind, ...] = ("url", "path", "selector")
"""What is read; where mail and money go, only the user's words and records count."""


def read_grounds(contract: Fields) -> Mapping[str, tuple[str, ...]]:
    """Return the `grounds` of a contract: tool to places of its output.

    Raises:
        InvalidSkill: A place cannot be read, or is of a kind that no contract grounds.
    """
    body = contract.below("grounds")
    return {
        tool: tuple(_place(body.document, path, value) for path, value in body.items(tool))
        for tool in body.values
    }


def uncalled(skill: Skill, contract: Fields) -> Iterator[Finding]:
    """Yield a finding for each tool of `grounds` that nothing in the contract calls."""
    steps = {step["tool"] for task in skill.tasks.values() for step in task.steps}
    imported = {f"{each.skill}.{tool.name}" for each in skill.imports for tool in each.tools}
    own = {f"{skill.id}.{name}" for name in skill.exports.names()}
    called = {*steps, *imported, *own, *skill.requires.tools}
    for tool in skill.grounds:
        if tool not in called:
            free = sorted(called - {*skill.grounds})
            fix = did_you_mean(tool, free) or "name it in `requires.tools` or a step"
            place = contract.document.place(contract.at("grounds", tool), key=True)
            yield place.finding("CH0310", "warning", f"`{skill.id}` never calls `{tool}`", fix)


def _place(document: Document, path: KeyPath, value: object) -> str:
    declared = text(document, path, value)
    fix = f"write PLACE:KIND with one of {', '.join(KINDS)}, such as items/*/url:url"
    try:
        place = place_of(declared)
    except ValueError as error:
        raise document.fail(path, str(error), fix) from error
    if place.kind not in KINDS or place.strict:
        raise document.fail(path, f"`{declared}` says nothing that a contract may ground", fix)
    return declared
