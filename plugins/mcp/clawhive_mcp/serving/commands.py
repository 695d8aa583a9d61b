"""`clawhive serve`: the project's tools for others, and who may come over HTTP."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import click

from clawhive_core import HookContext
from clawhive_mcp.errors import WrongUsage
from clawhive_mcp.serving.entries import CLIENTS, NAME, TOKEN, entry, written

if TYPE_CHECKING:
    from clawhive_core import Hive
    from clawhive_mcp.serving.gateway import Gateway, Options
    from clawhive_mcp.serving.http import Address
    from clawhive_mcp.serving.tokens import Token, Tokens

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


class _Settings(Protocol):
    """The options that every command takes, as the command line keeps them."""

    def hive(self) -> AbstractAsyncContextManager[Hive]:
        """Open the project."""
        ...

    def command(self) -> list[str]:
        """Return the start of a command line that opens the same project in the same way."""
        ...


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of one `serve mcp`."""

    client: str | None
    for_client: str | None
    transport: str
    host: str
    port: int
    allow_host: tuple[str, ...]
    no_token: bool
    expose_log: bool
    skills_extension: bool
    as_json: bool


def serve_command(ctx: HookContext) -> click.Command:
    """Return the command group."""

    @click.group("serve")
    def group() -> None:
        """Serve this project's tools to MCP clients."""

    group.add_command(_mcp(ctx))
    group.add_command(_token(ctx))
    return group


def _mcp(ctx: HookContext) -> click.Command:
    @click.command("mcp", epilog="Example: clawhive serve mcp --for claude-code")
    @click.option("--client", metavar="NAME", help="The client's name in policy and log.")
    @click.option(
        "--for",
        "for_client",
        type=click.Choice(sorted(CLIENTS)),
        help="Print the entry for this client's configuration, and serve nothing.",
    )
    @click.option(
        "--transport", type=click.Choice(["stdio", "http"]), default="stdio", show_default=True
    )
    @click.option("--host", default="127.0.0.1", show_default=True, help="Of HTTP.")
    @click.option("--port", type=click.IntRange(0, 65535), default=8722, show_default=True)
    @click.option(
        "--allow-host",
        metavar="NAME",
        multiple=True,
        help="A name by which clients reach it over HTTP, such as a proxy's.",
    )
    @click.option("--no-token", is_flag=True, help="Let any program of this machine in over HTTP.")
    @click.option("--expose-log", is_flag=True, help="Let clients read the log's last events.")
    @click.option(
        "--skills-extension", is_flag=True, help="Serve skills by the MCP extension for them, too."
    )
    @_json
    @click.pass_obj
    def command(settings: _Settings, **words: Any) -> None:
        """Serve this project's tools to an MCP client, over stdin and stdout or HTTP.

        Every call is decided by policy and recorded; what a person must approve is answered with
        the command that approves it. Over HTTP a client is who its token says; TLS is a proxy's.
        """
        _run(ctx, settings, _Words(**words))

    return command


def _run(ctx: HookContext, settings: _Settings, words: _Words) -> None:
    if words.for_client is not None:
        _print_entry(ctx, settings, words.for_client, words)
        return
    from clawhive_mcp.serving.gateway import Gateway

    gateway = Gateway(settings.hive, _options(ctx, words))
    if words.transport == "stdio":
        anyio.run(_serve_stdio, gateway)
        return
    from clawhive_mcp.serving.http import Address
    from clawhive_mcp.serving.tokens import Tokens

    address = Address(words.host, words.port, words.allow_host, needs_token=not words.no_token)
    anyio.run(_serve_http, gateway, address, Tokens(ctx.user_dir, ctx.env))


def _options(ctx: HookContext, words: _Words) -> Options:
    from clawhive_mcp.serving.approving import Attendance
    from clawhive_mcp.serving.gateway import Options, client_name

    tables: Mapping[str, Mapping[str, Any]] = ctx.config.get("clients") or {}
    clients = {
        client_name(name): Attendance(
            attended=table.get("attended") is True,
            hold_seconds=float(table.get("hold_sec") or 0),
        )
        for name, table in tables.items()
    }
    return Options(
        client=None if words.client is None else client_name(words.client),
        clients=clients,
        exposes_log=words.expose_log,
        serves_skills=words.skills_extension,
    )


async def _serve_stdio(gateway: Gateway) -> None:
    """Serve the client of stdin and stdout until it closes them or a signal comes."""
    from clawhive_mcp.serving.stdio import standard_streams

    async with gateway.open() as server, _until_signal(), standard_streams() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _serve_http(gateway: Gateway, address: Address, tokens: Tokens) -> None:
    """Serve clients over HTTP until a signal comes."""
    from clawhive_mcp.serving.http import PATH, listen, serve_http

    if address.needs_token and not tokens.all():
        _say("no client has a token yet: clawhive serve token create NAME")
    with listen(address) as listening:
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        async with gateway.open() as server, _until_signal():
            _say(f"serving http://{shown}:{port}{PATH}")
            await serve_http(server, address, tokens, listening)


@asynccontextmanager
async def _until_signal() -> AsyncGenerator[None]:
    """End what is inside at SIGINT or SIGTERM, as if it had come to its end."""
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
                async for _ in received:
                    group.cancel_scope.cancel()

        group.start_soon(watch)
        yield
        group.cancel_scope.cancel()


def _print_entry(ctx: HookContext, settings: _Settings, client: str, words: _Words) -> None:
    """Print what a client's configuration must hold, and on stderr where that is."""
    kind = CLIENTS[client]
    line = [_program(), *settings.command()[1:]]
    if "--root" in line:
        line[line.index("--root") + 1] = ctx.root
    elif kind.starts_elsewhere:
        line += ["--root", ctx.root]
    line += ["serve", "mcp", "--client", client]
    url = None
    if words.transport == "http":
        from clawhive_mcp.serving.http import PATH

        host = f"[{words.host}]" if ":" in words.host else words.host
        named = f"https://{words.allow_host[0]}" if words.allow_host else ""
        url = f"{named or f'http://{host}:{words.port}'}{PATH}"
    value = entry(client, line, url)
    if value is None:
        raise WrongUsage(
            f"{client} takes no server over HTTP from a file",
            place="--transport",
            fix=f"clawhive serve mcp --for {client}",
            code="usage",
        )
    if words.as_json:
        _print_json(
            {"schema": "serve-entry/1", "client": client, "file": kind.file, "entry": value}
        )
        return
    sys.stdout.write(f"{written(client, value)}\n")
    _say(f"this is for {kind.file}, beside what stands there")
    if url is not None:
        _say(f"the token: clawhive serve token create {client}, in the variable {TOKEN}")


def _program() -> str:
    """Return where this command is: clients with a window do not search where a shell does."""
    own = Path(sys.argv[0])
    if own.stem == NAME and own.is_file():
        return str(own.absolute())
    return shutil.which(NAME) or NAME


def _token(ctx: HookContext) -> click.Command:
    """Return `serve token`."""
    from clawhive_mcp.serving.tokens import Tokens

    @click.group("token")
    def group() -> None:
        """Make, list and revoke the tokens of clients over HTTP."""

    @group.command("create", epilog="Example: clawhive serve token create claude-code")
    @click.argument("name")
    @_json
    def create(name: str, *, as_json: bool) -> None:
        """Make a token for the client NAME, and print it, once: only its hash is kept."""
        token = Tokens(ctx.user_dir, ctx.env).create(_checked(name))
        if as_json:
            _print_json({"schema": "serve-token/1", "name": name, "token": token})
            return
        sys.stdout.write(f"{token}\n")
        _say(
            f"it makes whoever has it client:mcp/{name}; end it: clawhive serve token revoke {name}"
        )

    @group.command("list", epilog="Example: clawhive serve token list --json")
    @_json
    def list_(*, as_json: bool) -> None:
        """List the clients that have a token."""
        found = Tokens(ctx.user_dir, ctx.env).all()
        if as_json:
            _print_tokens(found)
            return
        for each in found:
            made = datetime.fromtimestamp(each.created_at, UTC).strftime("%Y-%m-%d %H:%M")
            sys.stdout.write(f"{each.name}: made {made} UTC\n")
        if not found:
            _say("no client has a token: clawhive serve token create NAME")

    @group.command("revoke", epilog="Example: clawhive serve token revoke claude-code")
    @click.argument("name")
    @_json
    def revoke(name: str, *, as_json: bool) -> None:
        """Let the token of the client NAME count no more, at once."""
        tokens = Tokens(ctx.user_dir, ctx.env)
        tokens.revoke(name)
        if as_json:
            _print_tokens(tokens.all())
            return
        _say(f"the token of {name} counts no more")

    return group


def _print_tokens(tokens: Sequence[Token]) -> None:
    rows = [each.to_dict() for each in tokens]
    _print_json({"schema": "serve-tokens/1", "tokens": rows})


def _checked(name: str) -> str:
    """Return a client's name.

    Raises:
        ClawHiveError: `usage`: it cannot be one.
    """
    from clawhive_mcp.serving.gateway import client_name

    if client_name(name) != name:
        raise WrongUsage(
            f"`{name}` is no client's name",
            place="NAME",
            fix=f"write a-z, 0-9, `.`, `_` and `-`, such as {client_name(name)}",
            code="usage",
        )
    return name


def _print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    sys.stdout.write(f"{json.dumps(value, ensure_ascii=False)}\n")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
