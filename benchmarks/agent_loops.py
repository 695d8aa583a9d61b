"""What a round of an agent's loop costs, and the import, here and in other frameworks.

Run `python benchmarks/agent_loops.py [--install] [--rounds N] [--only NAME]... [--smoke]`. Each
peer runs in a process of its own on packages of its own, below `$CLAWHIVE_BENCH_PEERS` (else
`~/.cache/clawhive-bench-peers`); `--install` puts there what is missing, with pip. Each has a fake
model in its process that asks for one call a round, or 100 in one round, of a tool that adds two
numbers; what was executed is counted and must be exact. Nothing is sent anywhere. What counts is
the second run of an agent, here in one project; what the first one costs more is shown beside it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import ROOT, CannotRun, arguments, finish, micros, start, table

CACHE = "CLAWHIVE_BENCH_PEERS"
FLOOR, FLOOR_ROUND, OURS = "floor_door", "floor_round", "clawhive"
SHAPES = {"few": "10x1x1", "some": "50x1x1", "many": "200x1x1"}
SHAPES |= {"at once": "1x1x100", "tools": "50x200x1"}
SMOKE = {
    "few": "5x1x1",
    "some": "10x1x1",
    "many": "20x1x1",
    "at once": "1x1x100",
    "tools": "10x200x1",
}
"""ROUNDSxTOOLSxCALLS of each figure; `tools` has the rounds of `some`."""
GOALS = {"round_to_floor": 1.6, "growth": 1.5, "tools": 0.1, "import": 1.5}


@dataclass(frozen=True, slots=True)
class Peer:
    """Something that runs an agent's loop."""

    name: str
    package: str | None = None
    """What pip installs; None for what this checkout holds."""
    note: str = ""

    @property
    def folder(self) -> Path:
        """Where its packages are."""
        below = os.environ.get(CACHE) or Path.home() / ".cache" / "clawhive-bench-peers"
        return Path(below).resolve() / self.name

    @property
    def missing(self) -> bool:
        """Whether its packages have to be installed first."""
        return self.package is not None and not self.folder.is_dir()


PEERS = (
    Peer(FLOOR, note="no model, no policy; a chained row before and after each call"),
    Peer(FLOOR_ROUND, note="no policy; the same rows, and as many for each turn of the model"),
    Peer(OURS, note="policy and log on"),
    Peer("llm", "llm", "neither policy nor log, no input validation"),
    Peer("agno", "agno", "neither policy nor log"),
    Peer("langchain", "langchain", "neither policy nor log"),
    Peer("openai_agents", "openai-agents", "neither policy nor log, tracing off"),
    Peer("pydantic_ai", "pydantic-ai-slim", "neither policy nor log, FunctionModel"),
)


def install(peer: Peer) -> str | None:
    """Install a peer's packages; return what pip said where it could not."""
    peer.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=peer.folder.parent) as name:
        target = Path(name) / "packages"
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        argv = [*pip, "--target", str(target), str(peer.package)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "pip failed"
        target.rename(peer.folder)
    return None


def argv_of(peer: Peer) -> list[str]:
    """Return the interpreter for a peer: this one, or for packages of its own a bare one."""
    own = [sys.executable] if peer.package is None else [_base_python(), "-S"]
    return [*own, "-P", str(ROOT / "benchmarks" / "peers" / "drive.py"), peer.name]


def _base_python() -> str:
    """Return the interpreter below this virtual environment, which does not see its packages."""
    return getattr(sys, "_base_executable", None) or sys.executable


def environment_of(peer: Peer, home: str) -> dict[str, str]:
    """Return a small environment; the checkout's bytecode is kept out of the checkout."""
    paths = [ROOT / "benchmarks", ROOT] if peer.package is None else [peer.folder]
    found = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "HOME": home}
    if peer.package is None:
        found["PYTHONPYCACHEPREFIX"] = f"{home}/bytecode"
    return found | {"PATH": os.environ.get("PATH", "")}


def driven(peer: Peer, shapes: Sequence[str], home: str) -> dict[str, Any]:
    """Run a peer's process and return its figures.

    Raises:
        CannotRun: It failed; the message holds the end of what it wrote.
    """
    done = subprocess.run(
        [*argv_of(peer), *shapes],
        env=environment_of(peer, home),
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise CannotRun(f"{peer.name}: exit {done.returncode}\n{done.stderr.strip()[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def gathered(
    peers: Sequence[Peer], shapes: Mapping[str, str], rounds: int
) -> dict[str, dict[str, float]]:
    """Return the medians of each peer; the processes run in turn, every second round backwards."""
    found: dict[str, list[dict[str, Any]]] = {peer.name: [] for peer in peers}
    with tempfile.TemporaryDirectory() as home:
        for peer in peers:
            driven(peer, [], home)  # writes the bytecode
        for number in range(rounds):
            for peer in peers[:: 1 if number % 2 == 0 else -1]:
                found[peer.name].append(driven(peer, list(shapes.values()), home))
    return {name: medians(each, shapes) for name, each in found.items()}


def medians(found: Sequence[Mapping[str, Any]], shapes: Mapping[str, str]) -> dict[str, float]:
    """Return the median of each figure over the rounds."""
    figures = {
        name: [each["shapes"][shape]["call"] for each in found] for name, shape in shapes.items()
    }
    figures["first"] = [each["shapes"][shapes["few"]]["first"] for each in found]
    for name in ("import_cpu", "import_mb", "peak_mb"):
        figures[name] = [each[name] for each in found]
    return {name: statistics.median(values) for name, values in figures.items()}


def usable(peers: Sequence[Peer], *, may_install: bool) -> tuple[list[Peer], dict[str, str]]:
    """Return the peers that can run, and why the others cannot."""
    out: dict[str, str] = {}
    for peer in peers:
        if peer.missing:
            reason = install(peer) if may_install else "not installed (--install)"
            if reason is not None:
                out[peer.name] = reason
    return [peer for peer in peers if peer.name not in out], out


def row(peer: Peer, found: Mapping[str, float]) -> list[str]:
    """Return a peer's line."""
    return [
        peer.name,
        *(micros(found[name]) for name in SHAPES),
        micros(found["first"]),
        f"{found['many'] / found['few']:.2f}",
        f"{found['tools'] / found['some'] - 1:+.0%}",
        f"{found['import_cpu'] * 1e3:.0f}",
        f"{found['import_mb']:.0f}",
        f"{found['peak_mb']:.0f}",
        peer.note,
    ]


def header(shapes: Mapping[str, str]) -> list[str]:
    """Return the table's header."""
    rounds = {name: shape.partition("x")[0] for name, shape in shapes.items()}
    loops = [f"of {rounds['few']}, cpu us", f"of {rounds['some']}", f"of {rounds['many']}"]
    growth = f"{rounds['many']}/{rounds['few']}"
    costs = [*loops, "100 at once, a call", f"of {rounds['tools']}, 200 tools"]
    costs += ["first run, more", growth, "tools"]
    return ["a round", *costs, "import cpu ms", "MB", "peak MB", "it has"]


def against_goals(found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return ours by the goals' measure."""
    ours, floor = found[OURS], found[FLOOR]
    return {
        "round_to_floor": round(ours["many"] / floor["many"], 2),
        "round_to_floor_round": round(ours["many"] / found[FLOOR_ROUND]["many"], 2),
        "call_at_once_to_floor": round(ours["at once"] / floor["at once"], 2),
        "growth": round(ours["many"] / ours["few"], 2),
        "tools": round(ours["tools"] / ours["some"] - 1, 2),
        "import": round(ours["import_cpu"] / floor["import_cpu"], 2),
        "import_mb": round(ours["import_mb"] / floor["import_mb"], 2),
    }


def main() -> None:
    """Measure and print."""
    options = arguments(
        __doc__,
        ("--install", {"action": "store_true", "help": "install the peers that are missing"}),
        ("--rounds", {"type": int, "default": 3, "help": "processes of each peer (3)"}),
        ("--only", {"action": "append", "metavar": "NAME", "help": "this peer beside the floor"}),
    )
    chosen = options.only or [peer.name for peer in PEERS]
    wanted = [peer for peer in PEERS if peer.name in {FLOOR, FLOOR_ROUND, OURS, *chosen}]
    if options.smoke:
        wanted = [peer for peer in wanted if peer.package is None]
    peers, missing = usable(wanted, may_install=options.install)
    shapes = SMOKE if options.smoke else SHAPES
    found = gathered(peers, shapes, 1 if options.smoke else options.rounds)
    empty = ["-"] * (len(header(shapes)) - 2)
    lines = [row(peer, found[peer.name]) for peer in peers]
    lines += [[name, *empty, reason] for name, reason in missing.items()]
    table(header(shapes), lines)
    goals = against_goals(found)
    for name, value in goals.items():
        goal = f" (goal: {GOALS[name]} or less)" if name in GOALS else ""
        print(f"{name.replace('_', ' ')}: {value}{goal}")
    rounded = {
        name: {key: round(value, 6) for key, value in figures.items()}
        for name, figures in found.items()
    }
    finish("agent_loops", {"ours": goals, "goals": GOALS, "peers": rounded, "missing": missing})


if __name__ == "__main__":
    start(main)
