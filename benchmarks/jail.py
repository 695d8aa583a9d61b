"""What the jail of the operating system costs over a plain process, and when it ends programs.

Run `python benchmarks/jail.py [--smoke]`. One program (`/usr/bin/true`) runs in a plain process and
in the jail, turn by turn. Programs that sleep, loop and flood their output meet a deadline of a
second, and the peak of this process's memory is read before and after the flood. Without a jail it
says so and measures nothing.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script, which nothing imports
import resource
import tempfile

from measure import (
    Sample,
    alternate,
    arguments,
    child,
    clock,
    finish,
    millis,
    start,
    table,
)

from clawhive_core import SandboxCommand, SandboxLimits, SandboxOutcome, SandboxSpec
from clawhive_core import SandboxUnavailable as Unavailable
from clawhive_sandbox.jail_engine import JailEngine

ENDED = {
    "sleep": ("sleep", "60"),
    "loop": ("sh", "-c", "while :; do :; done"),
    "ignore signals": ("sh", "-c", "trap '' TERM INT HUP; while :; do :; done"),
    "leave a session": ("sh", "-c", "setsid sleep 60 & sleep 60"),
}
FLOOD = ("sh", "-c", "yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")


def main() -> None:
    """Print the tables."""
    options = arguments(__doc__)
    rounds = 3 if options.smoke else 60
    engine = JailEngine(["true", "sleep", "sh -c"])
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:

        async def run(*argv: str) -> SandboxOutcome:
            instance = await engine.open(SandboxSpec(folder, limits=SandboxLimits(wall_ms=1_000)))
            try:
                return await instance.run(SandboxCommand(argv), lambda _stream, _data: None)
            finally:
                await instance.close()

        def jailed() -> Sample:
            return clock(lambda: runner.run(run("true")))

        try:
            runner.run(run("true"))
        except Unavailable as error:
            print(f"nothing to measure: {error.message} ({error.fix})")
            return
        cases = {"plain process": lambda: child(["/usr/bin/true"]), "jail": jailed}
        found = alternate(cases, rounds, warm=2)
        over = found["jail"].wall() - found["plain process"].wall()
        least = found["jail"].wall_min() - found["plain process"].wall_min()
        rows = [
            [each.name, millis(each.wall()), millis(each.wall_min())] for each in found.values()
        ]
        table(["program", "wall p50", "wall least"], [*rows, ["over", millis(over), millis(least)]])
        ended = {name: runner.run(run(*argv)) for name, argv in ENDED.items()}
        table(
            ["a deadline of 1,000 ms", "ended by", "after"],
            [[name, str(each.killed_by), f"{each.duration_ms} ms"] for name, each in ended.items()],
        )
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        flood = runner.run(run(*FLOOD))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(f"a flood of output: ended by {flood.killed_by}, this process grew by {grown} KiB")
        runner.run(engine.close())
    late = max(each.duration_ms for each in ended.values())
    figures = {"over_s": over, "over_least_s": least, "latest_ms": late, "flood_kib": grown}
    finish("jail", figures)


if __name__ == "__main__":
    start(main)
