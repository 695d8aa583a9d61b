"""`clawhive sandbox`: what engines need done beforehand, and what they hold."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from clawhive_core import HookContext, SandboxUnavailable

if TYPE_CHECKING:
    from clawhive_sandbox.engine import WasmEngine


def sandbox_command(ctx: HookContext) -> click.Command:
    """Return the command group, for the project and user of a context."""

    @click.group("sandbox")
    def group() -> None:
        """Prepare the sandbox engines, and say how strong they are."""

    group.add_command(_warm(ctx))
    group.add_command(_doctor(ctx))
    return group


def _warm(ctx: HookContext) -> click.Command:
    @click.command("warm", epilog="Example: clawhive sandbox warm")
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
    def command(*, as_json: bool) -> None:
        """Compile the interpreters for this machine, which the first program of each waits for."""
        import anyio

        from clawhive_sandbox.engine import wasm_engines

        rows = anyio.run(_warmed, wasm_engines(ctx.env))
        if as_json:
            click.echo(json.dumps({"schema": "sandbox_warm/1", "engines": rows}))
        else:
            for row in rows:
                state = row["problem"] or ("compiled now" if row["compiled"] else "ready")
                click.echo(f"{row['engine']} {row['version']}: {state}")
        raise click.exceptions.Exit(int(any(row["problem"] for row in rows)))

    return command


def _doctor(ctx: HookContext) -> click.Command:
    @click.command("doctor", epilog="Example: clawhive sandbox doctor --attack")
    @click.option("--attack", "attacks", is_flag=True, help="Try to get out of each; minutes.")
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
    def command(*, attacks: bool, as_json: bool) -> None:
        """Say which engines run here, how strong each is, and what adds what is missing.

        With --attack it exits 1 where an attempt succeeds in an engine that is used by default.
        """
        import anyio

        from clawhive_sandbox.doctor import diagnosed, lines

        def told(text: str) -> None:
            print(text, file=sys.stderr)  # noqa: T201 - a command prints

        rows = anyio.run(lambda: diagnosed(ctx, attacks=attacks, told=told))
        if as_json:
            engines = [row.to_dict() for row in rows]
            click.echo(json.dumps({"schema": "sandbox_doctor/1", "engines": engines}))
        else:
            click.echo("\n".join(line for row in rows for line in lines(row)))
        raise click.exceptions.Exit(int(any(row.is_breached and row.is_default for row in rows)))

    return command


async def _warmed(engines: list[WasmEngine]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for engine in engines:
        row: dict[str, Any] = {"engine": engine.name, "version": engine.version, "problem": None}
        try:
            row["compiled"] = await engine.prepare(lambda text: print(text, file=sys.stderr))  # noqa: T201 - a command prints
        except SandboxUnavailable as error:
            row |= {"compiled": False, "problem": error.message}
        rows.append(row)
    return rows
