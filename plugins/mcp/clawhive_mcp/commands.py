"""`clawhive mcp`: the servers that there are, what they offer, and how they come and go."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clawhive_core import HookContext
from clawhive_mcp.errors import WrongUsage, printable, reason_of
from clawhive_mcp.servers import Server, pasted, read_servers

if TYPE_CHECKING:
    from clawhive_mcp.clients import Found
    from clawhive_mcp.connection import Listing
    from clawhive_mcp.findings import Told

OURS = {"mcpServers": {"clawhive": {"command": "clawhive", "args": ["serve", "mcp"]}}}
"""The one entry that a client needs in place of all that were taken over."""

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def mcp_command(ctx: HookContext) -> click.Command:
    """Return the command group, for the project and user of a context."""

    @click.group("mcp")
    def group() -> None:
        """Add, list, test and check MCP servers."""

    own = _Commands(ctx)
    group.add_command(own.list())
    group.add_command(own.test())
    group.add_command(own.doctor())
    group.add_command(own.add())
    group.add_command(own.take_over())
    for name, change, text in (
        ("remove", own.removed, "Remove a server from your configuration."),
        ("disable", own.disabled, "Leave a server alone, without forgetting it."),
        ("enable", own.enabled, "Use a disabled server again."),
    ):
        group.add_command(own.change(name, change, text))
    return group


@dataclass(frozen=True, slots=True)
class _Reached:
    """What came of reaching one server."""

    server: Server
    listing: Listing | None
    seconds: float
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        tools = [] if self.listing is None else [str(each["name"]) for each in self.listing.tools]
        return {
            "name": self.server.name,
            "ok": self.listing is not None,
            "seconds": round(self.seconds, 3),
            "server": None if self.listing is None else self.listing.server,
            "protocol": None if self.listing is None else self.listing.era,
            "tools": tools,
            "dropped": {} if self.listing is None else dict(self.listing.dropped),
            "problem": self.problem or None,
        }


class _Commands:
    """The commands, over one context."""

    def __init__(self, ctx: HookContext) -> None:
        self._ctx = ctx

    def list(self) -> click.Command:
        """Return `mcp list`."""

        @click.command("list", epilog="Example: clawhive mcp list --json")
        @_json
        def command(*, as_json: bool) -> None:
            """List the configured servers; none is started."""
            rows = [self._row(server) for server in self._servers()]
            if as_json:
                _print_json({"schema": "mcp_servers/1", "servers": rows})
                return
            for row in rows:
                tools = "never reached" if row["tools"] is None else f"{row['tools']} tools"
                facts = [row["state"], tools, row["where"], row["problem"]]
                _print(f"{row['name']}: " + ", ".join(each for each in facts if each))
            if not rows:
                _print("no server is configured: clawhive mcp add NAME -- COMMAND")

        return command

    def test(self) -> click.Command:
        """Return `mcp test`."""

        @click.command("test", epilog="Example: clawhive mcp test git")
        @click.argument("names", nargs=-1)
        @_json
        def command(names: tuple[str, ...], *, as_json: bool) -> None:
            """Reach the servers of these NAMES, or all, and list their tools."""
            reached = self._reach(self._named(names))
            if as_json:
                _print_json(
                    {"schema": "mcp_test/1", "servers": [each.to_dict() for each in reached]}
                )
            else:
                for each in reached:
                    _print_reached(each)
            raise click.exceptions.Exit(int(any(each.listing is None for each in reached)))

        return command

    def doctor(self) -> click.Command:
        """Return `mcp doctor`."""

        @click.command("doctor", epilog="Example: clawhive mcp doctor")
        @click.argument("names", nargs=-1)
        @_json
        def command(names: tuple[str, ...], *, as_json: bool) -> None:
            """Reach servers, and say what is wrong or suspicious with them and their tools."""
            found = _findings(self._reach(self._named(names)))
            if as_json:
                _print_json(
                    {"schema": "mcp_findings/1", "findings": [each.to_dict() for each in found]}
                )
            else:
                _print_findings(found)
            raise click.exceptions.Exit(1 if any(each.severity == "error" for each in found) else 0)

        return command

    def add(self) -> click.Command:
        """Return `mcp add`."""

        @click.command("add", epilog="Example: clawhive mcp add git -- uvx mcp-server-git")
        @click.argument("name")
        @click.argument("words", nargs=-1, metavar="-- COMMAND...")
        @click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable of its own.")
        @click.option("--cwd", help="Where it starts; the project root otherwise.")
        @click.option("--no-test", is_flag=True, help="Do not reach it first.")
        def command(
            name: str,
            words: tuple[str, ...],
            env: tuple[str, ...],
            cwd: str | None,
            *,
            no_test: bool,
        ) -> None:
            """Reach a server, show its tools, and write it into your configuration as NAME."""
            from clawhive_mcp.userfile import UserFile

            file = UserFile(self._ctx.user_dir, self._ctx.env)
            table = _table(words, env, cwd)
            server = self._read(name, table)
            if not no_test:
                [reached] = self._reach([server])
                _print_reached(reached)
                if reached.listing is None:
                    _print(
                        f"nothing was written; `clawhive mcp add {name} --no-test` writes it anyway"
                    )
                    raise click.exceptions.Exit(1)
                _print_findings(_findings([reached]))
            file.add(name, table)
            _print(f"{name} is in {file.path}; its tools are `mcp.{name}.*`, and each call asks:")
            _print(f"  clawhive grants issue 'tool.call:mcp.{name}.TOOL' --always")

        return command

    def take_over(self) -> click.Command:
        """Return `mcp import`."""

        @click.command("import", epilog="Example: clawhive mcp import --yes")
        @click.argument("file", required=False)
        @click.option("--yes", is_flag=True, help="Write them without asking.")
        @_json
        def command(file: str | None, *, yes: bool, as_json: bool) -> None:
            """Take over the servers of other clients, or of a FILE with `mcpServers` (`-`: stdin).

            What is found is shown and written after a yes; without a terminal, only with `--yes`.
            """
            from clawhive_mcp.clients import merged
            from clawhive_mcp.userfile import UserFile

            target = UserFile(self._ctx.user_dir, self._ctx.env)
            found, problems = self._found(file)
            new = merged(found, target.servers())
            if as_json:
                _print_json(_import_json(found, new, problems))
            else:
                _print_found(found, new, problems)
            if not new or not (yes or (not as_json and _says_yes(len(new)))):
                return
            for each in new:
                target.add(each.name, each.table)
            if not as_json:
                _print(f"{len(new)} servers are in {target.path}. In place of them, clients need:")
                _print_json(OURS)

        return command

    def change(self, name: str, doing: Callable[[str], str], text: str) -> click.Command:
        """Return a command that changes one server of the configuration."""

        @click.command(name, help=text, epilog=f"Example: clawhive mcp {name} git")
        @click.argument("server", metavar="NAME")
        def command(server: str) -> None:
            _print(doing(server))

        return command

    def removed(self, name: str) -> str:
        """Remove a server."""
        from clawhive_mcp.userfile import UserFile

        file = UserFile(self._ctx.user_dir, self._ctx.env)
        file.remove(name)
        return f"{name} is no more in {file.path}"

    def disabled(self, name: str) -> str:
        """Disable a server."""
        return self._switched(name, disabled=True)

    def enabled(self, name: str) -> str:
        """Enable a server."""
        return self._switched(name, disabled=False)

    def _switched(self, name: str, *, disabled: bool) -> str:
        from clawhive_mcp.userfile import UserFile

        file = UserFile(self._ctx.user_dir, self._ctx.env)
        file.switch(name, disabled=disabled)
        return f"{name} is {'disabled' if disabled else 'enabled'} in {file.path}"

    def _servers(self) -> Sequence[Server]:
        return read_servers(self._ctx.config, self._ctx.env, self._ctx.root)

    def _named(self, names: Sequence[str]) -> Sequence[Server]:
        """Return the servers of these names, all that are not disabled where there are none.

        Raises:
            ClawHiveError: `unknown_id`.
        """
        servers = {each.name: each for each in self._servers()}
        for name in names:
            if name not in servers:
                raise WrongUsage(
                    f"no server is called `{printable(name, 100)}`",
                    fix="clawhive mcp list",
                    code="unknown_id",
                )
        if names:
            return [servers[name] for name in names]
        return [each for each in servers.values() if not each.disabled]

    def _read(self, name: str, table: Mapping[str, Any]) -> Server:
        """Return the server of a table.

        Raises:
            ClawHiveError: `usage`: the name or the table cannot be used.
        """
        own = {key: self._ctx.config.get(key) for key in ("timeout_ms", "connect_timeout_ms")}
        [server] = read_servers({**own, "servers": {name: table}}, self._ctx.env, self._ctx.root)
        if server.name != name or server.problem:
            why = server.problem or "a server's name is made of a-z, 0-9 and _"
            fix = "clawhive mcp add git -- uvx mcp-server-git"
            raise WrongUsage(why, place=printable(name, 100), fix=fix, code="usage")
        return server

    def _row(self, server: Server) -> dict[str, Any]:
        from clawhive_mcp.cache import ListingCache

        kept = ListingCache(server, self._ctx.env).read()
        listing = None if kept is None else kept.listing
        return {
            "name": server.name,
            "provider_id": server.provider_id,
            "state": "disabled" if server.disabled else "unusable" if server.problem else "enabled",
            "where": server.where,
            "tools": None if listing is None else len(listing.tools),
            "server": None if listing is None else listing.server,
            "protocol": None if listing is None else listing.era,
            "reached_at": None if kept is None or listing is None else round(kept.at),
            "problem": server.problem or ("" if kept is None else kept.failure) or None,
        }

    def _reach(self, servers: Sequence[Server]) -> list[_Reached]:
        """Reach servers at the same time, list their tools, and end them."""
        import anyio

        found: dict[str, _Reached] = {}

        async def reach(server: Server) -> None:
            found[server.name] = await _reached(server, self._ctx)

        async def all_of_them() -> None:
            async with anyio.create_task_group() as group:
                for server in servers:
                    group.start_soon(reach, server)

        anyio.run(all_of_them)
        return [found[server.name] for server in servers]

    def _found(self, file: str | None) -> tuple[list[Found], list[str]]:
        """Return the servers of a file, or those of the clients of this machine.

        Raises:
            ClawHiveError: `invalid_config`: the file cannot be read, or holds none.
        """
        from clawhive_mcp.clients import find_servers, plain_json, servers_of

        if file is None:
            return find_servers(
                Path(self._ctx.env.get("HOME") or Path.home()), Path(self._ctx.root)
            )
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
            return servers_of("file", file, pasted(plain_json(text))), []
        except OSError as error:
            raise WrongUsage(
                f"it cannot be read: {error.strerror or error}",
                place=file,
                fix="name a file with `mcpServers`, or `-` for stdin",
                code="invalid_config",
            ) from error
        except (ValueError, RecursionError) as error:
            raise WrongUsage(
                f"it holds no servers: {printable(str(error), 300)}",
                place=file,
                fix='write `{"mcpServers": {"NAME": {"command": "...", "args": []}}}`',
                code="invalid_config",
            ) from error


async def _reached(server: Server, ctx: HookContext) -> _Reached:
    """Reach one server, whatever is kept of it, and keep what it lists."""
    from clawhive_mcp.cache import ListingCache
    from clawhive_mcp.connection import Connection
    from clawhive_mcp.dialing import ServerDial

    began = time.monotonic()
    if server.problem:
        return _Reached(server, None, 0.0, server.problem)
    cache = ListingCache(server, ctx.env)
    connection = Connection(server, ServerDial(server, ctx.env, ctx.root), cache.write)
    try:
        listing = await connection.listing()
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one server is its result
        problem = reason_of(error)
        cache.write(None, problem)
        return _Reached(server, None, time.monotonic() - began, problem)
    else:
        return _Reached(server, listing, time.monotonic() - began)
    finally:
        await connection.close()


def _table(words: Sequence[str], env: Iterable[str], cwd: str | None) -> dict[str, Any]:
    """Return the table of a server that the command line describes.

    Raises:
        ClawHiveError: `usage`.
    """
    if not words:
        raise WrongUsage(
            "there is no command",
            fix="write it after `--`: clawhive mcp add git -- uvx mcp-server-git",
            code="usage",
        )
    variables: dict[str, str] = {}
    for each in env:
        name, equals, value = each.partition("=")
        if not equals or not name:
            fix = "clawhive mcp add NAME --env KEY=VALUE -- COMMAND"
            raise WrongUsage("`--env` takes NAME=VALUE", fix=fix, code="usage")
        variables[name] = value
    program, *args = words
    table: dict[str, Any] = {"command": program}
    if args:
        table["args"] = args
    if cwd:
        table["cwd"] = cwd
    if variables:
        table["env"] = variables
    return table


def _findings(reached: Iterable[_Reached]) -> list[Told]:
    from clawhive_mcp.findings import dropped, findings_of, unreached

    found: list[Told] = []
    listed: dict[str, Sequence[Mapping[str, Any]]] = {}
    for each in reached:
        name = each.server.name
        if each.listing is None:
            found.append(unreached(name, each.problem))
            continue
        listed[name] = each.listing.tools
        found += [dropped(name, tool, why) for tool, why in each.listing.dropped.items()]
    return [*found, *findings_of(listed)]


def _print_reached(reached: _Reached) -> None:
    listing, name = reached.listing, reached.server.name
    if listing is None:
        _print(f"{name}: {reached.problem}")
        return
    _print(
        f"{name}: {listing.server or 'a server'}, protocol {listing.era}, "
        f"{len(listing.tools)} tools in {reached.seconds:.1f} s"
    )
    for each in listing.tools:
        words = printable(str(each.get("description") or ""), 100)
        _print(f"  {printable(str(each['name']), 100)}: {words}")
    for tool, why in listing.dropped.items():
        _print(f"  left out: {tool}: {why}")


def _print_findings(found: Sequence[Told]) -> None:
    for each in found:
        where = each.server if each.tool is None else f"{each.server}: {each.tool}"
        _print(f"{each.severity} {each.code} {where}: {each.message}")
        _print(f"    fix: {each.fix}")
    _print("no findings" if not found else f"{len(found)} findings")


def _print_found(found: Sequence[Found], new: Sequence[Found], problems: Iterable[str]) -> None:
    fresh = {(each.client, each.file, str(each.reached)) for each in new}
    for each in found:
        table, key = each.table, (each.client, each.file, str(each.reached))
        where = table.get("url") or " ".join([table.get("command", ""), *table.get("args", ())])
        state = each.problem or ("new" if key in fresh else "there already")
        _print(f"{each.client}: {each.name}: {where}: {state} ({each.file})")
    for problem in problems:
        _print(f"cannot be read: {problem}")
    if not found:
        _print("no client on this machine has servers")


def _import_json(
    found: Sequence[Found], new: Sequence[Found], problems: Sequence[str]
) -> dict[str, Any]:
    names = {str(each.reached): each.name for each in new}
    servers = [
        {
            "client": each.client,
            "file": each.file,
            "name": each.name,
            "imported_as": None if each.problem else names.get(str(each.reached)),
            "problem": each.problem or None,
        }
        for each in found
    ]
    return {"schema": "mcp_import/1", "servers": servers, "problems": problems, "entry": OURS}


def _says_yes(count: int) -> bool:
    """Ask a person; without a terminal nobody says yes."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        _print("nothing was written: `clawhive mcp import --yes` writes them")
        return False
    return click.confirm(f"Write {count} servers into your configuration?", err=True)


def _print(text: str) -> None:
    """Print one line, in which nobody's text steers the terminal."""
    lead = text[: len(text) - len(text.lstrip())]
    click.echo(lead + printable(text, 4_000))


def _print_json(value: Mapping[str, Any]) -> None:
    click.echo(json.dumps(value, indent=2))
