"""What a decision costs: matching among 10 to 1,000 rules, deciding, finding what is touched.

Run `python benchmarks/policy_decide.py [--smoke]`. Microseconds of CPU for one of each. The floor
of matching is one dict lookup for each segment of what is asked for; of effects, `realpath`.
Where cedarpy is installed it decides about the same rules (`pip install cedarpy`), its policies
parsed once; else it is left out.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import cycle, islice
from typing import Any

import measure

from clawhive_core.capabilities import Capability, PatternIndex, parse
from clawhive_core.execution.effects import requested_capabilities
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.model.tools import ToolMeta
from clawhive_core.policy.decision import decide
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.check import PolicyRequest

SIZES = (10, 100, 1_000)
TOOL = ToolMeta(
    "demo.read", "Read.", {"type": "object"}, "demo", risk="safe", effects={"path": "fs.read"}
)


def patterns(count: int) -> list[str]:
    """Return as many rules: half of them files, half of them folders."""
    return [
        f"fs.read:/srv/team{n % 7}/project{n}/" + ("**" if n % 2 else "notes.md")
        for n in range(count)
    ]


def needs(count: int) -> list[str]:
    """Return what calls need; about four of five are granted."""
    rnd = random.Random(count)
    found: list[str] = []
    for _ in range(200):
        n = rnd.randrange(count + count // 4)
        found.append(f"fs.read:/srv/team{n % 7}/project{n}/" + ("a/b.md" if n % 2 else "notes.md"))
    return found


def rules(count: int) -> Rules:
    given = [
        CapabilityGrant(f"g{n}", text, str(DEFAULT_AGENT), "task", "t", "user")
        for n, text in enumerate(patterns(count))
    ]
    return Rules(given, ["fs.read:/srv/team0/secret/**"])


def timed(items: Iterable[Any], count: int, act: Callable[[Any], object]) -> measure.Sample:
    todo = list(islice(cycle(items), count))

    def work() -> None:
        for item in todo:
            act(item)

    return measure.clock(work).per(count)


def lookups(table: Mapping[str, int], capability: Capability) -> None:
    for segment in capability.parts[0]:
        table.get(segment)


def request(text: str) -> PolicyRequest:
    return PolicyRequest(TOOL, {"path": "a"}, DEFAULT_AGENT, (text,), "t", "s", "c")


def matching(count: int, rounds: int) -> dict[str, measure.Series]:
    cases: dict[str, Callable[[], measure.Sample]] = {}
    asked = [parse(each) for each in needs(10)]
    table = {segment: 1 for each in asked for segment in each.parts[0]}
    cases["a lookup a segment"] = partial(timed, asked, count, partial(lookups, table))
    for size in SIZES:
        held, wanted = rules(size), [parse(each) for each in needs(size)]
        index: PatternIndex[int] = PatternIndex()
        for number, text in enumerate(patterns(size)):
            index.add(parse(text), number)
        cases[f"match, {size} rules"] = partial(timed, wanted, count, index.covering)
        cases[f"authority, {size} rules"] = partial(timed, wanted, count, held.authority)
    for size in SIZES:
        asking = partial(decide, rules=rules(size))
        cases[f"decide, {size} rules"] = partial(
            timed, [request(each) for each in needs(size)], count, asking
        )
    return measure.alternate(cases, rounds)


def touching(count: int, rounds: int) -> dict[str, measure.Series]:
    with tempfile.TemporaryDirectory() as folder:
        names = [os.path.join(folder, "notes", f"{n}.md") for n in range(50)]  # noqa: PTH118 - as the code measured
        os.mkdir(os.path.join(folder, "notes"))  # noqa: PTH102, PTH118 - as above
        for name in names:
            with open(name, "w", encoding="utf-8") as file:  # noqa: PTH123 - as above
                file.write("x")
        variables = {"workspace": folder, "run": folder}

        def effects(name: str) -> tuple[str, ...]:
            return requested_capabilities(TOOL, {"path": name}, variables)

        return measure.alternate(
            {
                "realpath": partial(timed, names, count, os.path.realpath),
                "effects of a path": partial(timed, names, count, effects),
            },
            rounds,
        )


def cedar(count: int, rounds: int) -> dict[str, measure.Series]:
    """Return what cedarpy costs with the same rules; nothing where it is not installed."""
    try:
        import cedarpy
    except ImportError:
        print("cedarpy is not installed: left out")
        return {}
    cases: dict[str, Callable[[], measure.Sample]] = {}
    for size in SIZES:
        text = "\n".join(_cedar_rule(each.partition(":")[2]) for each in patterns(size))
        asked = [_cedar_request(each.partition(":")[2]) for each in needs(size)]
        policies = cedarpy.PolicySet.from_str(text)

        def ask(each: dict[str, Any], policies: Any = policies) -> object:
            return cedarpy.is_authorized(each, policies, [])

        cases[f"cedarpy, {size} rules"] = partial(timed, asked, max(count // 1_000, 5), ask)
    return measure.alternate(cases, rounds)


def _cedar_rule(path: str) -> str:
    pattern = path.replace("/**", "/*")
    return (
        'permit(principal, action == Action::"fs.read", resource)'
        f' when {{ context.path like "{pattern}" }};'
    )


def _cedar_request(path: str) -> dict[str, Any]:
    return {
        "principal": 'Agent::"default"',
        "action": 'Action::"fs.read"',
        "resource": 'File::"any"',
        "context": {"path": path},
    }


def main() -> None:
    smoke = measure.arguments(__doc__).smoke
    count, rounds = (500, 2) if smoke else (20_000, 7)
    found = matching(count, rounds)
    measure.costs(found.values(), found["a lookup a segment"], measure.micros, "us")
    paths = touching(count // 5, rounds)
    measure.costs(paths.values(), paths["realpath"], measure.micros, "us")
    others = cedar(count, rounds)
    if others:
        measure.costs(others.values(), found["decide, 10 rules"], measure.micros, "us")
    every = {**found, **paths, **others}
    measure.finish(
        "policy_decide", {name: round(each.cpu() * 1e6, 2) for name, each in every.items()}
    )


if __name__ == "__main__":
    measure.start(main)
