"""A run as one HTML file: a timeline, and behind each bar what was asked, decided and answered.

The file needs nothing beside it: no script, no address, one style in its head. What it shows comes
from the log, where secrets were redacted before they were written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from html import escape
from typing import Any

from clawhive_core.errors import ClawHiveError
from clawhive_core.execution.recorded import resolve_blobs
from clawhive_core.model.canonical import preview
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.late import dataclass
from clawhive_core.model.version import VERSION
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.runs.record.view import run_json

MAX_TEXT = 200_000
"""Characters of one value that are shown."""

_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;
color:#1b1f24}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}
dl{display:grid;grid-template-columns:9rem 1fr;gap:.2rem .8rem}dt{color:#667}dd{margin:0}
pre{background:#f5f6f8;padding:.6rem;overflow:auto;max-height:28rem;white-space:pre-wrap;
overflow-wrap:anywhere;margin:.3rem 0}
details{border-top:1px solid #e3e5e8;padding:.25rem 0}
summary{display:grid;grid-template-columns:22rem 7rem 1fr;gap:.6rem;cursor:pointer;
align-items:center}
summary>span{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.lane{position:relative;height:.8rem;background:#f0f1f3;display:block}
.bar{position:absolute;top:0;bottom:0;min-width:2px;background:#4a7fd4}
.model .bar{background:#8a63c9}.approval .bar{background:#d99a2b}
.failed .bar,.refused .bar,.unknown .bar{background:#c8453b}
.failed>summary>.state,.refused>summary>.state,.unknown>summary>.state{color:#b3261e}
@media(prefers-color-scheme:dark){body{background:#15171a;color:#dfe3e8}pre,.lane{background:#22262b}
details{border-color:#30353b}}
"""


@dataclass(slots=True)
class TimelineItem:
    """One bar of the timeline."""

    kind: str
    name: str
    start: str
    end: str | None = None
    status: str = "running"
    parts: list[tuple[str, Any]] = field(default_factory=list["tuple[str, Any]"])
    """The details that open below it: headings and values."""


def page(log: Ledger, run_id: str) -> str:
    """Return a run and the runs that it started as one HTML document.

    Args:
        log: The event log.
        run_id: The whole id.
    """
    run = run_json(log, run_id)
    body = "".join(_sections(log, run))
    title = escape(f"{run['title']} - {run['status']}")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>{body}"
        f"<p>Exported by ClawHive {escape(VERSION)}.</p></body></html>\n"
    )


def _sections(log: Ledger, run: Mapping[str, Any]) -> Iterator[str]:
    events = list(log.events(run_id=run["run_id"]))
    yield f"<section><h1>{escape(run['title'])}</h1>{_facts(log, run, events)}"
    yield "<h2>Timeline</h2>"
    yield from _timeline(timeline_items(log, events))
    yield "</section>"
    for child in run["children"]:
        yield from _sections(log, run_json(log, child["run_id"]))


def _facts(log: Ledger, run: Mapping[str, Any], events: list[StoredEvent]) -> str:
    start = next((each.event.body for each in events if each.event.kind == "run.start"), None)
    rows: list[tuple[str, Any]] = [
        ("run", run["run_id"]),
        ("trace", run["trace_id"]),
        ("started by", run["parent_run_id"]),
        ("status", run["status"]),
        ("started", run["started_at"]),
        ("ended", run["ended_at"]),
        ("model", None if start is None else start["model"]),
        ("policy", None if start is None else start["policy"]),
        ("usage", {name: used for name, used in run["usage"].items() if used is not None}),
        ("files", [each["path"] for each in run["artifacts"]]),
        ("log", f"rows {events[0].seq} to {events[-1].seq}, last hash {events[-1].hash}"),
    ]
    shown = "".join(
        f"<dt>{name}</dt><dd>{escape(_text(value))}</dd>"
        for name, value in rows
        if value not in (None, {}, [])
    )
    task = None if start is None else _full(log, start["task"])
    parts = [("Task", task), ("Output", run["output"]), ("Error", run["error"])]
    return f"<dl>{shown}</dl>{''.join(_values(parts))}"


def timeline_items(log: Ledger, events: Iterable[StoredEvent]) -> list[TimelineItem]:
    """Return the bars of a run in the order of their beginnings."""
    fold = _Items(log)
    for stored in events:
        fold.take(stored)
    return fold.items


class _Items:
    def __init__(self, log: Ledger) -> None:
        self._log = log
        self.items: list[TimelineItem] = []
        self._open: dict[tuple[str, str | None], TimelineItem] = {}

    def take(self, stored: StoredEvent) -> None:
        """Take one event; those without a bar of their own are left out."""
        event, body = stored.event, stored.event.body
        match event.kind:
            case "model.start":
                item = self._begin(stored, "model", str(body["model"]), event.step_id)
                item.parts += [("System", self._value(body["system"]))]
                item.parts += [("Messages", self._value(body["new"]))]
            case "model.end":
                facts = {"stop_reason": body["stop_reason"], "usage": body["usage"]}
                said = body["response"] or body.get("partial")
                answer = [("Answer", self._value(said)), ("Facts", facts)]
                self._end(stored, "model", event.step_id, [*answer, ("Error", body["error"])])
            case "embedding.start":
                item = self._begin(stored, "model", str(body["model"]), event.step_id)
                item.parts += [("Texts", self._value(body["texts"]))]
            case "embedding.end":
                facts = {name: body[name] for name in ("answered_by", "dimension", "usage")}
                self._end(
                    stored, "model", event.step_id, [("Facts", facts), ("Error", body["error"])]
                )
            case "approval.requested":
                name = f"{event.tool} asks a person"
                item = self._begin(stored, "approval", name, body.get("approval_id"))
                item.parts += [("Input", self._value(body["tool_call"]["input"]))]
            case "approval.resolved":
                facts = {name: body.get(name) for name in ("by", "reason", "scope")}
                self._end(stored, "approval", body["approval_id"], [("Answer", facts)])
            case "invocation.start":
                self._call(stored)
            case "invocation.refused":
                self._call(stored)
                self._end(stored, "call", event.invocation_id, [("Refusal", body["refusal"])])
            case "invocation.end":
                output = self._value(body.get("output"))
                parts = [("Output", output), ("Error", body["error"])]
                self._end(stored, "call", event.invocation_id, parts)
            case _:
                self._point(stored)

    def _point(self, stored: StoredEvent) -> None:
        """Take what has no length, as far as it is shown."""
        body = stored.event.body
        match stored.event.kind:
            case "plan.made":
                self._moment(stored, f"plan of {body['plan']['planner']}", [("Plan", body["plan"])])
            case "tools.enabled":
                names = [("Tools", body["tools"]), ("Not offered", body["left_out"])]
                self._moment(stored, f"{body['skill'] or 'a result'} enables tools", names)
            case "tools.changed":
                named = [each[0] for each in self._log.load(body["tools"])]
                self._moment(stored, "other tools are offered", [("Tools", named)])
            case "step.end" if body["action"] == "finish":
                name = " ".join(part for part in (body["name"], body["label"]) if part)
                self._moment(stored, name, [("Error", body["error"])])
            case _:
                pass

    def _moment(self, stored: StoredEvent, name: str, parts: list[tuple[str, Any]]) -> None:
        shown = [(heading, self._value(value)) for heading, value in parts]
        status = str(stored.event.status)
        self.items.append(TimelineItem("moment", name, stored.ts, stored.ts, status, shown))

    def _call(self, stored: StoredEvent) -> None:
        event, body = stored.event, stored.event.body
        item = self._begin(stored, "call", str(event.tool), event.invocation_id)
        names = ("decision", "rules", "requested_capabilities", "granted_capabilities", "risk")
        decided: dict[str, Any] = {"principal": event.principal}
        decided |= {name: body.get(name) for name in (*names, "approval_result")}
        item.parts += [("Input", self._value(body["tool_call"]["input"])), ("Decision", decided)]

    def _begin(self, stored: StoredEvent, kind: str, name: str, key: str | None) -> TimelineItem:
        item = TimelineItem(kind, name, stored.ts)
        self.items.append(item)
        self._open[kind, key] = item
        return item

    def _end(
        self, stored: StoredEvent, kind: str, key: str | None, parts: list[tuple[str, Any]]
    ) -> None:
        item = self._open.pop((kind, key), None)
        if item is not None:
            item.end, item.status = stored.ts, str(stored.event.status)
            item.parts += parts

    def _value(self, value: Any) -> Any:
        return _full(self._log, value)


def _full(log: Ledger, value: Any) -> Any:
    try:
        return resolve_blobs(log, value)
    except ClawHiveError as error:
        return f"[{error.code}: {error.message}]"


def _timeline(items: list[TimelineItem]) -> Iterator[str]:
    if not items:
        return
    begin = min(_seconds(item.start) for item in items)
    end = max(_seconds(item.end or item.start) for item in items)
    whole = max(end - begin, 0.001)
    for item in items:
        took = _seconds(item.end or item.start) - _seconds(item.start)
        left = 100 * (_seconds(item.start) - begin) / whole
        bar = f'<i class="bar" style="left:{left:.2f}%;width:{100 * took / whole:.2f}%"></i>'
        classes = f"{item.kind} {escape(item.status)}"
        yield (
            f'<details class="{classes}"><summary><span>{escape(preview(item.name, 80))}</span>'
            f'<span class="state">{escape(item.status)} {took:.3f} s</span>'
            f'<span class="lane">{bar}</span></summary>{"".join(_values(item.parts))}</details>'
        )


def _values(parts: Iterable[tuple[str, Any]]) -> Iterator[str]:
    for name, value in parts:
        if value not in (None, "", {}, []):
            yield f"<h3>{escape(name)}</h3><pre>{escape(_text(value))}</pre>"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n[cut: {len(text)} characters in the log]"
    return text


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
