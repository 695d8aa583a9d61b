"""`clawhive skills graph` and `why`: what imports what, and who would miss what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from clawhive_core.cli.output import hand_over, note, print_json, say
from clawhive_core.cli.settings import Settings
from clawhive_core.model.texts import set_off

if TYPE_CHECKING:
    from clawhive_core.skills.discovery.skill_set import SkillSet
    from clawhive_core.skills.graphs.graph import SkillGraph
    from clawhive_core.skills.graphs.users import Importer, Target
    from clawhive_core.skills.graphs.why import Why

_DEEPEST = 20
_USES = {
    "step": "calls",
    "requires": "requires",
    "run_type": "may start",
    "replacement": "has as a replacement",
}


@click.command(epilog="Example: clawhive skills graph --format mermaid")
@click.argument("names", nargs=-1, metavar="[SKILL]...")
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "dot", "mermaid", "json"]),
    default="text",
    help="A list, a drawing for Graphviz or Mermaid, or one JSON object.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--cycles", is_flag=True, help="Only skills that import each other in a cycle.")
@click.pass_obj
def graph(
    settings: Settings, names: Sequence[str], output: str, *, as_json: bool, cycles: bool
) -> None:
    """Show what every skill imports and requires, or each SKILL with all that it needs."""
    from clawhive_core.skills.graphs.drawing import MERMAID_EDGES, as_dot, as_mermaid, as_text

    found, drawn = _graph(settings)
    for name in names:
        found.find(name)
    drawn = drawn.below(names) if names else drawn
    drawn = drawn.only_cycles() if cycles else drawn
    if as_json or output == "json":
        print_json(drawn.to_dict())
        return
    draw = {"text": as_text, "dot": as_dot, "mermaid": as_mermaid}[output]
    if text := draw(drawn):
        hand_over(text + "\n")
    else:
        note("no cycles" if cycles else "no skills")
    if output == "mermaid" and len(drawn.edges) + len(drawn.needs) > MERMAID_EDGES:
        note(f"Mermaid draws more than {MERMAID_EDGES} edges only where `maxEdges` is configured")


@click.command(epilog="Example: clawhive skills why zodiac.calculate_zodiac")
@click.argument("name", metavar="SKILL[.TOOL]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def why(settings: Settings, name: str, *, as_json: bool) -> None:
    """Say who uses a skill or one of its tools, and why it is not loaded where it is not."""
    from clawhive_core.skills.graphs.users import agents_naming
    from clawhive_core.skills.graphs.why import target_of
    from clawhive_core.skills.graphs.why import why as answer_of

    found, drawn = _graph(settings)
    target = target_of(name, found, drawn)
    agents = agents_naming(settings.config(), target, _tools_of(target, found))
    answer = answer_of(target, found, drawn, agents)
    if as_json:
        print_json(answer.to_dict())
        return
    head, *rest = _lines(answer)
    say(set_off(head), *rest)


def _graph(settings: Settings) -> tuple[SkillSet, SkillGraph]:
    from clawhive_core.hive.found_skills import found_skills
    from clawhive_core.hive.known_tools import listed_tools
    from clawhive_core.skills.graphs.graph import SkillGraph

    config, plugins = settings.config(), settings.plugins()
    known = listed_tools(config, plugins)
    found = found_skills(config, plugins, tools=known)
    return found, SkillGraph.of(found, known)


def _tools_of(target: Target, found: SkillSet) -> list[str]:
    if target.tool is not None:
        return [target.name]
    skills = [each.skill for each in found.entries if each.skill.id == target.skill]
    return [
        f"{skill.id}.{name}" for skill in skills for name in (*skill.exports.names(), *skill.tasks)
    ]


def _lines(answer: Why) -> Iterator[str]:
    yield _head(answer)
    for reason in answer.reasons:
        code = f"{reason.code} " if reason.code else ""
        pad = _pad(reason.depth + 1)
        yield f"{pad}{reason.skill} is {reason.state}: {code}{reason.message}  {reason.place}"
        if reason.fix:
            yield f"{pad}  fix: {reason.fix}"
    for file in answer.shadowed:
        yield f"  it stands in {file} too, which is not used"
    yield from _imported(answer)
    for use in answer.uses:
        inside = f" in the step {use.where}" if use.where else ""
        yield f"  <- {use.skill} {_USES[use.kind]} {use.tool}{inside}  {use.place}"
    for agent in answer.agents:
        yield f"  <- the agent {agent.agent} names it: {agent.key}"
    yield _end(answer)


def _head(answer: Why) -> str:
    version = f" {answer.version}" if answer.version else ""
    api = f", API {answer.api_version}" if answer.api_version else ""
    target = answer.target
    if answer.state == "tool":
        return f"{target.name}: a tool that no skill has"
    of = f"{target.name}: of " if target.tool else ""
    state = "no skill is called so" if answer.state == "missing" else answer.state
    return f"{of}{target.skill}{version}{api} ({state})"


def _imported(answer: Why) -> Iterator[str]:
    """Yield the skills that import it as a tree: each below the one that it reaches it by."""
    below: dict[str, list[Importer]] = {}
    for each in answer.importers:
        below.setdefault(each.via, []).append(each)
    waiting = list(reversed(below.get(answer.target.skill or "", ())))
    while waiting:
        each = waiting.pop()
        tools = ", ".join(f"{each.via}.{tool}" for tool in each.edge.names)
        yield f"{_pad(each.depth)}<- {each.skill} imports {tools or each.via}  {each.place}"
        waiting += reversed(below.get(each.skill, ()))


def _pad(depth: int) -> str:
    """Return the space before a line, which no chain makes longer than a line is."""
    return "  " * min(depth, _DEEPEST)


def _end(answer: Why) -> str:
    if answer.removable:
        return "nothing here uses it: it may be removed"
    steps = sum(use.kind == "step" for use in answer.uses)
    counts = (
        (len(answer.importers), "skill imports it", "skills import it"),
        (steps, "step calls it", "steps call it"),
        (len(answer.uses) - steps, "contract names it", "contracts name it"),
        (len(answer.agents), "agent names it", "agents name it"),
    )
    said = [f"{number} {one if number == 1 else many}" for number, one, many in counts if number]
    return f"it is in use: {', '.join(said)}"
