"""Whether the tools that skills require are there.

A name that is gone may be much like one that is there. So a suggestion is certain only where the
handlers or steps of the skill name the suggested one and never the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.suggestions import did_you_mean, suggested_word
from clawhive_core.model.late import dataclass
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.discovery.shipped import SOURCE as SHIPPED


def meant(skill: Skill, word: str, words: Iterable[str], otherwise: str) -> str:
    """Return the title of a fix: `did you mean` alone where that is certain.

    Args:
        skill: Whose contract names the word.
        word: What is not there.
        words: What is.
        otherwise: What to do where it was no slip.
    """
    title = did_you_mean(word, words)
    close = None if title is None else suggested_word(title)
    if title is None:
        return otherwise
    certain = close is not None and _names(skill, close) and not _names(skill, word)
    return title if certain else f"{title} Else {otherwise}"


def _names(skill: Skill, word: str) -> bool:
    """Whether the handlers or a step name a tool, or a tool of a skill, by this word."""
    whole = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
    steps = (step["tool"] for task in skill.tasks.values() for step in task.steps)
    return any(whole.search(text) for text in (skill.handlers or "", *steps))


_CAUSES = frozenset({"CH0601", "CH0602", "CH0611"})
_RESULTS = frozenset({"CH0615", "CH0616"})


def without_consequences(findings: Sequence[Finding], causes: Iterable[Finding]) -> list[Finding]:
    """Return findings but for those that a misspelt name of another skill or tool brings about.

    Code that calls the tool by its right name is told then that the contract does not name it, and
    the misspelt import that nothing uses it.
    """
    words = {word for cause in causes for word in _names_of(cause)}
    return [each for each in findings if each.code not in _RESULTS or words.isdisjoint(each.about)]


def _names_of(cause: Finding) -> Iterator[str]:
    """Yield the misspelt name and the one that is meant: of a skill, or of a tool and its skill."""
    close = suggested_word("" if cause.fix is None else cause.fix.title)
    if cause.code not in _CAUSES or close is None:
        return
    for wrong in cause.about:
        owner, dot, _ = wrong.rpartition(".")
        yield wrong
        yield f"{owner}{dot}{close}" if cause.code == "CH0602" else close


@dataclass(frozen=True, slots=True)
class Offer:
    """The provider of a tool, and what its calls may do."""

    provider_id: str
    capability_level: str
    risk: str
    verbs: tuple[str, ...] = ()
    """The verbs of its effects, sorted."""


Locked = Mapping[str, Mapping[str, Offer | None]]
"""The providers of required tools at locking: by the skill's id and the tool's name."""

NOTHING_LOCKED: Locked = {}


@dataclass(frozen=True, slots=True)
class KnownTools:
    """The tools that skills may require; those of the loaded skills count anyway."""

    names: frozenset[str]
    """Canonical names and aliases."""
    complete: bool = True
    """Whether there are no others; False where a plugin lists some only when it runs."""
    of_skills: frozenset[str] = frozenset()
    """Those of the names that skills offer."""
    offering: Callable[[], Mapping[str, Offer]] = field(default=dict[str, Offer], compare=False)
    """Tells who offers them, as far as that is known; those of skills are left out."""
    providers: frozenset[str] = field(default=frozenset(), compare=False)
    """The ids of all providers that are here."""
    by_lock: bool = False
    """Whether the lock counts too, for tools of plugins that are not installed here."""

    @property
    def offers(self) -> Mapping[str, Offer]:
        """Return their providers, which only a lock asks for."""
        return self.offering()

    def elsewhere(self, locked: Offer | None) -> bool:
        """Whether the lock knows a tool from a provider that is not here."""
        return self.by_lock and locked is not None and locked.provider_id not in self.providers


def first_segments(known: KnownTools) -> dict[str, str]:
    """Return a tool of providers by the first segment of its name, of those that have several."""
    names = sorted(known.names - known.of_skills)
    return {name.partition(".")[0]: name for name in names if "." in name}


def taken_name(skill: Skill, taken: Mapping[str, str]) -> Finding | None:
    """Return the error for a skill that exports under a name that begins a provider's tools.

    Args:
        skill: The skill.
        taken: See `first_segments`.
    """
    place = skill.exports.place
    if skill.id not in taken or place is None or not skill.exports.tools:
        return None
    message = (
        f"`{skill.id}.` begins the names of tools that are not the skill's, such as"
        f" `{taken[skill.id]}`, and those win: a skill never takes the name of a plugin"
    )
    return place.finding("CH0510", "error", message, "rename the skill")


def missing_tools(
    skill: Skill, known: KnownTools, exported: frozenset[str], locked: Locked
) -> Iterator[Finding]:
    """Yield a finding for each tool that a skill requires and that nothing offers.

    Args:
        skill: The skill.
        known: The tools of providers.
        exported: `SKILL.TOOL` of the skills that are loaded.
        locked: Who offered what each skill requires when it was locked, by the skill's id.
    """
    requires = skill.requires
    for name, place in zip(requires.tools, requires.tool_places, strict=True):
        offered = name in known.names or name in exported
        if offered or known.elsewhere(locked.get(skill.id, {}).get(name)):
            continue
        message = f"`{skill.id}` requires the tool `{name}`, which nothing here offers"
        there = sorted(known.names | exported)
        fix = "install what offers it: clawhive plugins"
        if skill.source != SHIPPED:  # nobody here wrote that contract, so nobody misspelt the name
            fix = meant(skill, name, there, fix)
        if known.complete:
            yield place.finding("CH0611", "error", message, fix, (name,))
        else:
            message = f"{message}, unless a plugin that lists its tools only when it runs does"
            yield place.finding("CH0611", "note", message, fix, (name,))


def tools_elsewhere(skill: Skill, known: KnownTools, locked: Locked) -> Iterator[Finding]:
    """Yield a note for each required tool that only the lock knows of; see `missing_tools`."""
    requires = skill.requires
    for name, place in zip(requires.tools, requires.tool_places, strict=True):
        offer = locked.get(skill.id, {}).get(name)
        if name not in known.names and offer is not None and known.elsewhere(offer):
            message = (
                f"`{name}` is not offered here; when `{skill.id}` was locked, it was by"
                f" `{offer.provider_id}`"
            )
            fix = "install its plugin where the skill is used"
            yield place.finding("CH0821", "note", message, fix)
