"""`clawhive doctor`: what is installed, what is missing, and the line that adds it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import click

from clawhive_core.cli.output import print_json, say
from clawhive_core.cli.settings import Settings
from clawhive_core.errors import ClawHiveError
from clawhive_core.model.late import dataclass
from clawhive_core.model.version import VERSION

if TYPE_CHECKING:
    from clawhive_core.config import Config

State = Literal["ok", "missing", "problem"]
MIN_FREE_BYTES = 100 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    name: str
    state: State
    found: str
    fix: str | None = None


@click.command(epilog="Example: clawhive doctor --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(settings: Settings, *, as_json: bool) -> int:
    """Say what is installed, what is missing, and the line that adds it."""
    checks = list(_checks(settings))
    problems = any(check.state == "problem" for check in checks)
    if as_json:
        rows = [asdict(check) for check in checks]
        print_json({"schema": "doctor/1", "ok": not problems, "checks": rows})
    else:
        for check in checks:
            say(f"{check.state:8} {check.name:18} {check.found}")
            if check.fix:
                say(f"{'':8} {'':18} -> {check.fix}")
    return 1 if problems else 0


def _checks(settings: Settings) -> Iterator[Check]:
    yield Check("clawhive", "ok", f"{VERSION} on Python {sys.version.split()[0]}")
    try:
        config = settings.config()
    except ClawHiveError as error:
        yield Check("configuration", "problem", f"{error.place}: {error.message}", error.fix)
        return
    yield from _configuration(config)
    yield from _storage(settings, config)
    yield _log(config)
    yield _schemas()
    yield _vectors()
    yield _disk(config)
    yield from _plugins(settings)
    yield from _engines(settings)
    yield _handlers(config)
    yield from _declared(settings, config)


def _configuration(config: Config) -> Iterator[Check]:
    yield Check("project root", "ok", str(config.root))
    file = config.project_file
    if file is not None:
        trust = (
            "trusted" if config.trusted else "not trusted: grants and commands in it do not count"
        )
        fix = None if config.trusted else "clawhive trust"
        yield Check("configuration", "ok", f"{file} ({trust})", fix)
    for finding in config.findings:
        where = f"{finding.file}:{finding.line}" if finding.file else "environment"
        yield Check("configuration", "problem", f"{where}: {finding.message}")


def _storage(settings: Settings, config: Config) -> Iterator[Check]:
    from clawhive_core.audit.sinks import open_failures
    from clawhive_core.hive.project_log import SOFTWARE, open_log, require_newest

    if not settings.has_log():
        if os.access(config.root, os.W_OK):
            yield Check("storage", "ok", f"made at the first run ({SOFTWARE})")
            return
        fix = "make the folder writable, or name another project: clawhive --root DIR ..."
        yield Check("storage", "problem", f"{config.root} is not writable", fix)
        return
    try:
        with closing(open_log(config, settings.plugins)) as log:
            log.require_rights()
            require_newest(log, config.user_dir)
            failures = open_failures(log).values()
    except ClawHiveError as error:
        yield Check("storage", "problem", error.message, error.fix)
        return
    yield Check("storage", "ok", f"{log.place} ({log.software})")
    for failure in failures:
        name = f"sink {failure.sink}"
        if failure.required:
            what = f"has not taken the events since #{failure.from_seq}: {failure.message}"
            fix = "mend the sink or what it writes to: no effect happens until it has them"
            yield Check(name, "problem", what, fix)
        else:
            what = f"failed last at event #{failure.from_seq}, and was skipped"
            yield Check(name, "ok", f"{what}: {failure.message}")


def _log(config: Config) -> Check:
    from clawhive_core.audit.checkpoints import Checkpoints

    checkpoints = Checkpoints(config.user_dir, "")
    if checkpoints.key_path.exists():
        return Check("checkpoint key", "ok", str(checkpoints.key_path))
    return Check("checkpoint key", "ok", f"{checkpoints.key_path} (made at the first run's end)")


def _schemas() -> Check:
    if find_spec("jsonschema_rs") is not None:
        return Check("JSON Schema", "ok", "jsonschema-rs")
    if find_spec("jsonschema") is not None:
        return Check("JSON Schema", "ok", "jsonschema, slower", "pip install jsonschema-rs")
    return Check(
        "JSON Schema", "problem", "no library: every call is refused", "pip install jsonschema-rs"
    )


def _vectors() -> Check:
    from clawhive_core.hive.project_log import LOADS_EXTENSIONS

    if LOADS_EXTENSIONS:
        return Check("SQLite extensions", "ok", "this Python's sqlite3 can load them")
    return Check(
        "SQLite extensions",
        "missing",
        "this Python's sqlite3 cannot load them; nothing here needs them yet",
        "pip install pysqlite3",
    )


def _disk(config: Config) -> Check:
    free = shutil.disk_usage(config.root).free
    state: State = "ok" if free > MIN_FREE_BYTES else "problem"
    fix = None if state == "ok" else "free some: the log stops effects when it cannot be written"
    return Check("disk", state, f"{free // 2**20} MiB free", fix)


def _plugins(settings: Settings) -> Iterator[Check]:
    manager = settings.plugins()
    for record in manager.records():
        if record.error is not None:
            yield Check(f"plugin {record.id}", "problem", record.error.message, record.error.fix)
        else:
            is_dynamic = not record.tools and "clawhive_tool_providers" in record.hooks
            tools = "tools listed when it runs" if is_dynamic else f"{len(record.tools)} tools"
            yield Check(f"plugin {record.id}", "ok", f"{record.version}, {record.status}, {tools}")
    for finding in manager.unknown_ids():
        yield Check("plugins", "problem", finding.message)


def _engines(settings: Settings) -> Iterator[Check]:
    """Say for each listed command which engine runs it."""
    from clawhive_core.execution.sandbox.broker import engine_hint

    found = [each.value for each in settings.plugins().contributions("clawhive_sandboxes")]
    for program in settings.config().get("sandbox.commands"):
        engines = [engine for engine in found if program in engine.programs]
        if engines:
            names = ", ".join(
                f"{engine.name} {engine.version} ({engine.isolation})" for engine in engines
            )
            yield Check(f"sandbox {program}", "ok", names)
        else:
            way = engine_hint(program.split()[0], found)
            yield Check(f"sandbox {program}", "missing", "no engine runs it", way)
    if not os.environ.get("CLAWHIVE_RUN"):
        return
    yield Check("inside a run", "ok", "rights and trust cannot be changed from here")


def _handlers(config: Config) -> Check:
    """Say how well the processes of trusted skills' handlers are fenced here."""
    from clawhive_core.execution.handlers.child import lacking

    try:
        missing = lacking()
    except ClawHiveError as error:
        return Check("skill handlers", "missing", error.message, error.fix)
    if not missing:
        return Check("skill handlers", "ok", "a trusted skill's process is fenced")
    refuses = config.get("sandbox.unfenced") == "refuse"
    fix = None if refuses else 'set `[sandbox] unfenced = "refuse"` to run none without it'
    return Check("skill handlers", "missing", f"the fence lacks {'; '.join(missing)}", fix)


def _declared(settings: Settings, config: Config) -> Iterator[Check]:
    """Say which of the user's declarations of tools count no more, as the tools changed."""
    from clawhive_core.catalog.declarations import Declarations
    from clawhive_core.cli.loop import run_async

    if not Declarations.of(config):
        return

    async def found() -> dict[str, str]:
        async with settings.hive() as hive:
            metas = map(hive.catalog.current.meta_of, hive.declarations)
            return {meta.name: hive.declarations.state(meta) for meta in metas if meta is not None}

    try:
        states = run_async(found())
    except ClawHiveError as error:
        yield Check("declared tools", "problem", error.message, error.fix)
        return
    count = sum(state == "declared" for state in states.values())
    yield Check("declared tools", "ok", f"{count} by you")
    for name, state in states.items():
        fix = f"clawhive tools declare {name}"
        if state == "changed":
            yield Check(f"declared {name}", "problem", "it changed since, and each call asks", fix)
        elif state == "author":
            what = "its author declares it, and what you declare does not count"
            yield Check(f"declared {name}", "problem", what, f"{fix} --remove")
