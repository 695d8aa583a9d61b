"""What `clawhive tools declare` proposes, beside what a careful person would declare, and the
questions that it saves.

The first table compares the proposals for the tools of `declared_tools.toml` with their labels.
The second makes ordinary calls of the eight servers of `real_servers.py` in a hive, once without
declarations and once with every proposal accepted, and counts what a person is asked. With
`--packages FOLDER` the servers are installed there and really called; without, their tools are
listed and answer nothing, and the questions are the same, for they are asked before.

It fails where a proposal is less strict than its label in more tools than are known, or where a
proposal makes a call ask that did not before.
"""

from __future__ import annotations

import argparse
import asyncio  # noqa: TID253 - a script, which nothing imports
import json
import os
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from real_servers import install, prepare, real_servers

from clawhive_core import Hive, ToolMeta, ToolResult, UserFile
from clawhive_core.catalog.declarations import SECTION, Declaration
from clawhive_core.catalog.proposals import propose
from clawhive_core.model.effects import verbs_of
from clawhive_core.model.sinks import place_of
from clawhive_core.runs.requests import RunOptions

LABELS = Path(__file__).with_suffix(".toml")
RISKS = ("safe", "guarded", "unsafe")
EIGHT = ("git", "time", "fetch", "sqlite", "everything", "filesystem", "memory")
EIGHTH = "sequential-thinking"
_STARTS = 5
LENIENT = 0.05
"""The share of tools that may be proposed as less than they are labelled."""

Call = tuple[str, str, Mapping[str, Any]]
"""Server, tool, input."""
NOTE = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
THOUGHT = {"thought": "So.", "thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": False}
ORDINARY: Sequence[Call] = (
    ("git", "git_status", {"repo_path": "."}),
    ("git", "git_log", {"repo_path": ".", "max_count": 3}),
    ("git", "git_diff_unstaged", {"repo_path": "."}),
    ("git", "git_show", {"repo_path": ".", "revision": "HEAD"}),
    ("git", "git_branch", {"repo_path": ".", "branch_type": "local"}),
    ("git", "git_add", {"repo_path": ".", "files": ["page.md"]}),
    ("time", "get_current_time", {"timezone": "UTC"}),
    (
        "time",
        "convert_time",
        {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
    ),
    ("fetch", "fetch", {"url": "https://example.org/page"}),
    ("sqlite", "create_table", {"query": "CREATE TABLE IF NOT EXISTS t(a)"}),
    ("sqlite", "list_tables", {}),
    ("sqlite", "describe_table", {"table_name": "t"}),
    ("sqlite", "write_query", {"query": "INSERT INTO t VALUES(41)"}),
    ("sqlite", "read_query", {"query": "SELECT max(a) FROM t"}),
    ("everything", "echo", {"message": "a word"}),
    ("everything", "get-sum", {"a": 40, "b": 2}),
    ("everything", "get-structured-content", {"location": "Chicago"}),
    ("everything", "get-env", {}),
    ("filesystem", "list_allowed_directories", {}),
    ("filesystem", "list_directory", {"path": "."}),
    ("filesystem", "read_text_file", {"path": "page.md"}),
    ("filesystem", "search_files", {"path": ".", "pattern": "*.md"}),
    ("filesystem", "get_file_info", {"path": "page.md"}),
    ("filesystem", "write_file", {"path": "other.md", "content": "Two."}),
    ("filesystem", "move_file", {"source": "other.md", "destination": "third.md"}),
    ("memory", "create_entities", {"entities": [NOTE]}),
    ("memory", "search_nodes", {"query": "programs"}),
    ("memory", "read_graph", {}),
    ("memory", "open_nodes", {"names": ["Ada"]}),
    ("memory", "delete_entities", {"entityNames": ["Ada"]}),
    (EIGHTH, "sequentialthinking", THOUGHT),
)


def schema_of(text: str) -> dict[str, Any]:
    """Return an argument's schema: its type, then what its description says."""
    kind, _, says = text.partition(": ")
    schema: dict[str, Any] = {"description": says} if says else {}
    base, _, fields = kind.partition(" of ")
    if fields:
        schema["items"] = {"type": "object", "properties": dict.fromkeys(fields.split(), True)}
    return {**schema, "type": base}


def listed(row: Mapping[str, Any]) -> ToolMeta:
    """Return a tool as the provider of its server lists it."""
    server = str(row["server"]).replace("-", "_")
    properties = {name: schema_of(text) for name, text in row["args"].items()}
    return ToolMeta(
        f"mcp.{server}.{row['name']}",
        str(row.get("says", "")),
        {"type": "object", "properties": properties},
        f"mcp_{server}",
        side_effects=True,
        requires_confirm=True,
        annotations={**row.get("hints", {}), "mcp_name": row["name"]},
        text_counts=True,
    )


def rights(declaration: Declaration) -> set[tuple[str, str]]:
    """Return the arguments that ask for rights, with the verb of each."""
    return {
        (argument, verb)
        for argument, effect in declaration.effects.items()
        if argument
        for verb, _ in verbs_of({argument: effect})
    }


def wanted_rights(row: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return the same of a label."""
    effects: Mapping[str, Any] = row.get("effects", {})
    return {(argument, verb) for argument, verbs in effects.items() for verb in verbs}


def kinds(sinks: Iterable[str]) -> set[tuple[str, str]]:
    """Return the places of sinks with their kinds, without types."""
    found = map(place_of, sinks)
    return {("/".join(place.path), str(place.kind)) for place in found}


class Score:
    """Proposals compared with labels."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.count: Counter[str] = Counter()
        self.lenient: list[str] = []
        for row in rows:
            self._add(row, propose(listed(row)).declaration)

    def _add(self, row: Mapping[str, Any], found: Declaration) -> None:
        mine, theirs = RISKS.index(found.risk), RISKS.index(row["risk"])
        self.count["tools"] += 1
        self.count["same risk"] += mine == theirs
        self.count["stricter"] += mine > theirs
        if mine < theirs:
            self.lenient.append(f"{row['server']}.{row['name']}: {found.risk}, not {row['risk']}")
        self._sets("safe", {0} & {mine}, {0} & {theirs})
        if not row["server"].startswith("agentdojo"):
            self._sets("effects", rights(found), wanted_rights(row))
        self._sets("sinks", kinds(found.sinks), kinds(row.get("sinks", ())))

    def _sets(self, what: str, mine: set[Any], theirs: set[Any]) -> None:
        self.count[f"{what} hit"] += len(mine & theirs)
        self.count[f"{what} mine"] += len(mine)
        self.count[f"{what} theirs"] += len(theirs)

    def figures(self) -> dict[str, float | int]:
        """Return the figures by name."""
        count = self.count
        found: dict[str, float | int] = {
            "tools": count["tools"],
            "same_risk": round(count["same risk"] / count["tools"], 3),
            "stricter": count["stricter"],
            "lenient": len(self.lenient),
        }
        for what in ("safe", "effects", "sinks"):
            hit, mine, theirs = (count[f"{what} {each}"] for each in ("hit", "mine", "theirs"))
            if mine and theirs:
                found[f"{what}_precision"] = round(hit / mine, 3)
                found[f"{what}_recall"] = round(hit / theirs, 3)
        return found


class Listed:
    """Tools that answer nothing (a ToolProvider)."""

    def __init__(self, provider_id: str, metas: list[ToolMeta]) -> None:
        self.provider_id, self._metas = provider_id, metas

    async def list_tools(self) -> list[ToolMeta]:
        """Return them."""
        return self._metas

    async def invoke(self, tool_name: str, input: Mapping[str, Any], ctx: Any) -> ToolResult:
        """Answer nothing."""
        del tool_name, input
        return ToolResult(ctx.tool_call_id, "done")

    async def close(self) -> None:
        """Nothing is held."""


async def questions(root: Path, home: Path, rows: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """Make the ordinary calls; return those that a person was asked about.

    Args:
        root: The project.
        home: The user's configuration.
        rows: The tools to list; None where the configuration names real servers.
    """
    asked: list[str] = []
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    async with Hive.open(root, env={**env, "MCP_CONNECT_TIMEOUT_MS": "60000"}) as hive:

        async def ask(approval: Any) -> None:
            asked.append(str(approval.tool))
            hive.approvals.resolve(approval.approval_id, "approve", by="user:local")

        if rows is not None:
            metas = [listed(row) for row in rows]
            for provider_id in dict.fromkeys(meta.provider_id for meta in metas):
                own = [meta for meta in metas if meta.provider_id == provider_id]
                await hive.catalog.add_foreign(Listed(provider_id, own))
        options = RunOptions(approve="ask", ask=ask)
        async with hive.session(options=options) as session:
            for server, tool, given in ORDINARY:
                name = f"mcp.{server.replace('-', '_')}.{tool}"
                outcome = await session.invoke(name, given)
                if not isinstance(outcome, ToolResult):
                    print(f"refused: {name}: {outcome.message}", file=sys.stderr)
    return asked


def counted(
    folder: Path, rows: Sequence[Mapping[str, Any]], packages: Path | None
) -> tuple[list[str], list[str]]:
    """Return the questions without declarations, and with every proposal accepted."""
    root, home = folder / "project", folder / "home"
    prepare(root)
    file = UserFile(home / "clawhive", {})
    if packages is not None:
        problems = install(packages)
        if problems:
            sys.exit(f"cannot be installed: {problems}")
        servers = {
            ("mcp", "servers", each.name.replace("thinking", "sequential_thinking")): {
                "cmd": list(each.command),
                "env": dict(each.env),
            }
            for each in real_servers(packages, root)
        }
        file.put(servers)
        for _ in range(_STARTS):  # a first start may take longer than a catalog waits
            if len({meta.provider_id for meta in asyncio.run(_catalog(root, home))}) == len(
                servers
            ):
                break
    given = None if packages is not None else rows
    without = asyncio.run(questions(root, home, given))
    accept(root, home, file, given)
    return without, asyncio.run(questions(root, home, given))


def accept(
    root: Path, home: Path, file: UserFile, rows: Sequence[Mapping[str, Any]] | None
) -> None:
    """Accept every proposal, as a person does who reads none of them."""
    metas = [listed(row) for row in rows or ()]
    if rows is None:
        metas = asyncio.run(_catalog(root, home))
    file.put({(*SECTION, each.name): propose(each).declaration.to_table() for each in metas})


async def _catalog(root: Path, home: Path) -> list[ToolMeta]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    async with Hive.open(root, env=env) as hive:
        tools = [tool.meta for tool in hive.catalog.current]
    return [meta for meta in tools if meta.provider_id.startswith("mcp_")]


def main() -> None:
    """Compare, count, and exit 1 where a proposal loosens what it must not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--smoke", action="store_true", help="the same: it takes seconds")
    parser.add_argument("--packages", type=Path, help="install the eight servers here, call them")
    parser.add_argument("--misses", action="store_true", help="print each proposal that is lenient")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = tomllib.loads(LABELS.read_text("utf-8"))["tool"]
    eight = [row for row in rows if row["server"] in {*EIGHT, EIGHTH}]
    dojo = [row for row in rows if row["server"].startswith("agentdojo")]
    others = [row for row in rows if row not in eight and row not in dojo]
    result: dict[str, Any] = {}
    bad = False
    for name, group in (("the eight servers", eight), ("others", others), ("AgentDojo", dojo)):
        score = Score(group)
        result[name] = score.figures()
        print(name, *(f"{key} {value}" for key, value in result[name].items()), sep="  ")
        bad = bad or len(score.lenient) > LENIENT * len(group)
        if given.misses:
            print(*(f"  {line}" for line in score.lenient), sep="\n")
    with tempfile.TemporaryDirectory() as folder:
        without, with_all = counted(Path(folder).resolve(), eight, given.packages)
    print(f"questions in {len(ORDINARY)} ordinary calls: {len(without)} without declarations,")
    print(f"  {len(with_all)} with all proposals accepted: {', '.join(with_all)}")
    bad = bad or bool(Counter(with_all) - Counter(without))
    result["questions"] = {"calls": len(ORDINARY), "none": len(without), "proposed": len(with_all)}
    print(json.dumps(result))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
