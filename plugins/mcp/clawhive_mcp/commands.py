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

from clawhive_core import HookContext, UserFile
from clawhive_mcp.errors import WrongUsage, printable, reason_of
from clawhive_mcp.servers import Server, pasted, read_servers

if TYPE_CHECKING:
    from clawhive_mcp.clients import Found
    from clawhive_mcp.connection import Listing
    from clawhive_mcp.findings import Told
    from clawhive_mcp.logins import LoginFile

OURS = {"mcpServers": {"clawhive": {"command": "clawhive", "args": ["serve", "mcp"]}}}
"""The one entry that a client needs in place of all that were taken over."""

_SERVERS = ("mcp", "servers")

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
    group.add_command(own.login())
    group.add_command(own.logout())
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
                _print_json({"schema": "mcp-servers/1", "servers": rows})
                return
            for row in rows:
                tools = "never reached" if row["tools"] is None else f"{row['tools']} tools"
                login = "logged in" if row["logged_in"] else ""
                facts = [row["state"], tools, row["where"], login, row["problem"]]
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
                    {"schema": "mcp-test/1", "servers": [each.to_dict() for each in reached]}
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
                    {"schema": "mcp-findings/1", "findings": [each.to_dict() for each in found]}
                )
            else:
                _print_findings(found)
            raise click.exceptions.Exit(1 if any(each.severity == "error" for each in found) else 0)

        return command

    def add(self) -> click.Command:
        """Return `mcp add`."""

        @click.command("add", epilog="Example: clawhive mcp add git -- uvx mcp-server-git")
        @click.argument("name")
        @click.argument("words", nargs=-1, metavar="[-- COMMAND...]")
        @click.option("--url", help="The address of a server over HTTP, in place of a command.")
        @click.option(
            "--header",
            multiple=True,
            metavar="'NAME: VALUE'",
            help="A header of requests to it, such as 'Authorization: Bearer ${secret:TOKEN}'.",
        )
        @click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable of its own.")
        @click.option("--cwd", help="Where it starts; the project root otherwise.")
        @click.option("--no-test", is_flag=True, help="Do not reach it first.")
        @_json
        def command(
            name: str,
            words: tuple[str, ...],
            url: str | None,
            header: tuple[str, ...],
            env: tuple[str, ...],
            cwd: str | None,
            *,
            no_test: bool,
            as_json: bool,
        ) -> None:
            """Reach a server, show its tools, and write it into your configuration as NAME.

            Then it is proposed what each tool may touch, for you to accept, edit or leave.
            """
            file = UserFile(self._ctx.user_dir, self._ctx.env)
            table = _table(words, url, header, env, cwd)
            server = self._read(name, table)
            reached = None if no_test else self._reach([server])[0]
            found = [] if reached is None else _findings([reached])
            is_written = reached is None or reached.listing is not None
            if name in file.get(_SERVERS):
                raise WrongUsage(
                    f"there is a server `{name}` already",
                    place=str(file.path),
                    fix=f"clawhive mcp remove {name}, or another name",
                    code="already_exists",
                )
            if is_written:
                file.put({(*_SERVERS, name): table})
            if as_json:
                facts = {"name": name, "file": str(file.path), "written": is_written}
                at = None if reached is None else reached.to_dict()
                told = [each.to_dict() for each in found]
                _print_json({"schema": "mcp-add/1", **facts, "reached": at, "findings": told})
            else:
                _print_added(name, str(file.path), reached, found)
                if reached is not None and is_written:
                    _declare(name)
            raise click.exceptions.Exit(int(not is_written))

        return command

    def login(self) -> click.Command:
        """Return `mcp login`."""

        @click.command("login", epilog="Example: clawhive mcp login sentry")
        @click.argument("name")
        @click.option("--scope", help="The scopes to ask for; the server's own otherwise.")
        @click.option("--client-id", help="A client that is registered there; else one is made.")
        @click.option(
            "--client-secret-env", metavar="NAME", help="The variable with that client's secret."
        )
        @click.option("--port", type=click.IntRange(0, 65_535), default=0, help="To come back to.")
        @click.option("--no-browser", is_flag=True, help="Only print the address to open.")
        def command(
            name: str,
            scope: str | None,
            client_id: str | None,
            client_secret_env: str | None,
            port: int,
            *,
            no_browser: bool,
        ) -> None:
            """Log in to the server NAME over HTTP, by OAuth, in a browser of this machine.

            Its tokens are kept in your own directory, and renewed when they end.
            """
            secret = None
            if client_secret_env is not None:
                secret = self._ctx.env.get(client_secret_env)
                if secret is None:
                    raise WrongUsage(
                        "no such variable is set",
                        place=client_secret_env,
                        fix=f"export {client_secret_env}=...",
                        code="secret_not_found",
                    )
            server, file = self._login_of(name)
            if any(each.lower() == "authorization" for each in server.headers):
                raise WrongUsage(
                    f"`{name}` has a header `Authorization` of its own",
                    place=f"mcp.servers.{name}.headers",
                    fix="take the header out of your configuration",
                    code="usage",
                )
            self._log_in(server, file, (client_id, secret), scope, port, browser=not no_browser)
            _print(f"logged in to {name}; `clawhive mcp logout {name}` forgets it")
            [reached] = self._reach([server])
            _print_reached(reached)
            raise click.exceptions.Exit(int(reached.listing is None))

        return command

    def logout(self) -> click.Command:
        """Return `mcp logout`."""

        @click.command("logout", epilog="Example: clawhive mcp logout sentry")
        @click.argument("name")
        def command(name: str) -> None:
            """Forget the login of the server NAME; its own site can end it for all."""
            _, file = self._login_of(name)
            gone = file.remove()
            _print(f"logged out of {name}" if gone else f"nobody was logged in to {name}")

        return command

    def _login_of(self, name: str) -> tuple[Server, LoginFile]:
        """Return a server over HTTP and the file of its login.

        Raises:
            ClawHiveError: `inside_run`; `unknown_id`; `usage`: it is no server over HTTP.
        """
        from clawhive_mcp.logins import LoginFile

        UserFile(self._ctx.user_dir, self._ctx.env)
        [server] = self._named([name])
        if server.problem or not server.url:
            raise WrongUsage(
                server.problem or f"`{name}` is started by a command, and knows no login",
                place=f"mcp.servers.{name}",
                fix="clawhive mcp list",
                code="usage",
            )
        return server, LoginFile(name, server.url, self._ctx.user_dir)

    def _log_in(
        self,
        server: Server,
        file: LoginFile,
        client: tuple[str | None, str | None],
        scope: str | None,
        port: int,
        *,
        browser: bool,
    ) -> None:
        """Have a person log in.

        Raises:
            ClawHiveError: `login_failed`.
        """
        import anyio

        from clawhive_mcp.web import Person, log_in

        def told(url: str) -> None:
            click.echo(f"Log in to {server.name} with your browser:\n  {url}", err=True)
            if browser:
                import webbrowser

                webbrowser.open(url)

        async def logged_in() -> None:
            person = Person(str(server.url), told, client_id=client[0], client_secret=client[1])
            async with person.listening(port):
                await log_in(server, file, person, scope=scope)

        try:
            anyio.run(logged_in)
        except OSError as error:
            raise WrongUsage(
                f"nobody can come back to port {port}: {error.strerror or error}",
                place="--port",
                fix="another port, or none",
                code="usage",
            ) from error

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
            from clawhive_mcp.serving.entries import CLIENTS

            target = UserFile(self._ctx.user_dir, self._ctx.env)
            found, problems = self._found(file)
            new = merged(found, target.get(_SERVERS))
            if as_json:
                _print_json(_import_json(found, new, problems))
            else:
                _print_found(found, new, problems)
            if not new or not (yes or (not as_json and _says_yes(len(new)))):
                return
            target.put({(*_SERVERS, each.name): each.table for each in new})
            if not as_json:
                _print(f"{len(new)} servers are in {target.path}. In place of them, clients need:")
                _print_json(OURS)
                for client in sorted({each.client for each in found} & set(CLIENTS)):
                    _print(f"  as it writes it: clawhive serve mcp --for {client}")
                _print("each call asks until you say what tools may touch:")
                _print("  clawhive tools declare 'mcp.*'")

        return command

    def change(self, name: str, doing: Callable[[str], str], text: str) -> click.Command:
        """Return a command that changes one server of the configuration."""

        @click.command(name, help=text, epilog=f"Example: clawhive mcp {name} git")
        @click.argument("server", metavar="NAME")
        @_json
        def command(server: str, *, as_json: bool) -> None:
            said = doing(server)
            if as_json:
                path = str(Path(self._ctx.user_dir, "config.toml"))
                state = {"remove": "removed", "disable": "disabled", "enable": "enabled"}[name]
                _print_json(
                    {"schema": "mcp-change/1", "name": server, "state": state, "file": path}
                )
                return
            _print(said)

        return command

    def removed(self, name: str) -> str:
        """Remove a server."""
        file = self._file_with(name)
        file.remove((*_SERVERS, name))
        return f"{name} is no more in {file.path}"

    def disabled(self, name: str) -> str:
        """Disable a server."""
        return self._switched(name, disabled=True)

    def enabled(self, name: str) -> str:
        """Enable a server."""
        return self._switched(name, disabled=False)

    def _switched(self, name: str, *, disabled: bool) -> str:
        file = self._file_with(name)
        file.set((*_SERVERS, name), "disabled", disabled)
        return f"{name} is {'disabled' if disabled else 'enabled'} in {file.path}"

    def _file_with(self, name: str) -> UserFile:
        """Return the user's file, which has a server of this name.

        Raises:
            ClawHiveError: `unknown_id`.
        """
        file = UserFile(self._ctx.user_dir, self._ctx.env)
        if name not in file.get(_SERVERS):
            raise WrongUsage(
                f"your configuration has no server `{name}`",
                place=str(file.path),
                fix="clawhive mcp list",
                code="unknown_id",
            )
        return file

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
            "logged_in": self._is_logged_in(server),
            "reached_at": None if kept is None or listing is None else round(kept.at),
            "problem": server.problem or ("" if kept is None else kept.failure) or None,
        }

    def _is_logged_in(self, server: Server) -> bool:
        from clawhive_mcp.logins import LoginFile

        url = server.url
        return bool(url) and LoginFile(server.name, url, self._ctx.user_dir).read() is not None

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


def _declare(name: str) -> None:
    """Go on with `clawhive tools declare` for a server's tools, where this command line has it."""
    context = click.get_current_context().find_root()
    found: click.Command | None = context.command
    for word in ("tools", "declare"):
        found = found.get_command(context, word) if isinstance(found, click.Group) else None
    if found is not None:
        names = (f"mcp.{name}.*",)
        context.invoke(found, names=names, yes=False, remove=False, as_json=False)


async def _reached(server: Server, ctx: HookContext) -> _Reached:
    """Reach one server, whatever is kept of it, and keep what it lists."""
    from clawhive_mcp.cache import ListingCache
    from clawhive_mcp.connection import Connection
    from clawhive_mcp.dialing import ServerDial

    began = time.monotonic()
    if server.problem:
        return _Reached(server, None, 0.0, server.problem)
    cache = ListingCache(server, ctx.env)
    dial = ServerDial(server, ctx.env, ctx.root, ctx.user_dir)
    connection = Connection(server, dial, cache.write)
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


def _table(
    words: Sequence[str],
    url: str | None,
    headers: Iterable[str],
    env: Iterable[str],
    cwd: str | None,
) -> dict[str, Any]:
    """Return the table of a server that the command line describes.

    Raises:
        ClawHiveError: `usage`.
    """
    variables = _pairs(env, "=", "--env", "NAME=VALUE")
    sent = _pairs(headers, ":", "--header", "'NAME: VALUE'")
    if bool(words) == bool(url) or (url and (variables or cwd)) or (words and sent):
        raise WrongUsage(
            "a server has a command, with `--env` and `--cwd`, or a `--url`, with `--header`",
            fix="clawhive mcp add git -- uvx mcp-server-git, or: mcp add NAME --url https://...",
            code="usage",
        )
    if url:
        return {"url": url, "headers": sent} if sent else {"url": url}
    program, *args = words
    table: dict[str, Any] = {"command": program}
    if args:
        table["args"] = args
    if cwd:
        table["cwd"] = cwd
    if variables:
        table["env"] = variables
    return table


def _pairs(given: Iterable[str], between: str, option: str, shape: str) -> dict[str, str]:
    """Return the values of an option by their names.

    Raises:
        ClawHiveError: `usage`: one has no name.
    """
    found: dict[str, str] = {}
    for each in given:
        name, mark, value = each.partition(between)
        if not mark or not name.strip():
            fix = f"clawhive mcp add NAME {option} {shape} ..."
            raise WrongUsage(f"`{option}` takes {shape}", place=option, fix=fix, code="usage")
        found[name.strip()] = value.strip() if between == ":" else value
    return found


def _findings(reached: Iterable[_Reached]) -> list[Told]:
    from clawhive_mcp.findings import dropped, findings_of, unreached, words_of

    found: list[Told] = []
    listed: dict[str, Sequence[Mapping[str, Any]]] = {}
    words: dict[str, Sequence[Mapping[str, Any]]] = {}
    for each in reached:
        name = each.server.name
        if each.listing is None:
            found.append(unreached(name, each.problem))
            continue
        listed[name], said = each.listing.tools, each.listing
        words[name] = words_of(said.instructions, said.prompts, said.resources)
        found += [dropped(name, tool, why) for tool, why in each.listing.dropped.items()]
    return [*found, *findings_of(listed, words)]


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


def _print_added(name: str, path: str, reached: _Reached | None, found: Sequence[Told]) -> None:
    if reached is not None:
        _print_reached(reached)
        if reached.listing is None:
            _print(f"nothing was written; `clawhive mcp add {name} --no-test` writes it anyway")
            return
        _print_findings(found)
    _print(f"{name} is in {path}; its tools are `mcp.{name}.*`. Each call asks until")
    _print("you declare what the tool may touch, or give the right to call it:")
    _print(f"  clawhive tools declare 'mcp.{name}.*'")
    _print(f"  clawhive grants issue 'tool.call:mcp.{name}.TOOL' --always")


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
    return {"schema": "mcp-import/1", "servers": servers, "problems": problems, "entry": OURS}


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
