"""The page `docs/reference/configuration.md`, written from the table of settings."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from clawhive_core.config.setting import Setting, Tighter
from clawhive_core.config.settings import SETTINGS

_INTRO = """\
# Configuration

This page is written by `clawhive_core.config.reference.render()`; a test compares the two.

## Where values come from

The highest that gives a value wins:

1. flags of the command line;
2. environment variables: `routing.mode` is `CLAWHIVE_ROUTING_MODE`, then the aliases in the tables;
3. the project's file: `clawhive.toml` in the project root, or `[tool.clawhive]` in its
   `pyproject.toml` (`clawhive.toml` wins where both are there);
4. the user's own file: `$XDG_CONFIG_HOME/clawhive/config.toml`, else
   `~/.config/clawhive/config.toml`;
5. the default.

Lists marked *joined* are not replaced: every layer adds to them. `clawhive config show --origin`
prints each value and where it came from.

The project root is the nearest folder, from the current one upwards, that holds `clawhive.toml`,
`.clawhive` or `.git`; without one it is the current folder. `--root DIR` names another.

## What a project may set

A project's file counts in full only after `clawhive trust`, and again not after it has changed.
Until then each key may do what its column *untrusted project* says:

- *as it likes*: names and orders, which give no right;
- a condition: only values for which it holds, compared with your own configuration;
- *nothing*: base URLs, commands, allows, enabled plugins and whatever else could give a right.

What is left out is a finding, and the rest of the file counts. *Never* means that not even a
trusted project's file may set it.

## Values

- Files are TOML 1.0, in UTF-8 without byte order mark, at most 1 MiB. A key that is unknown is a
  finding; a file that is not TOML and a value of the wrong type are errors (exit code 2) with
  `file:line:column` and the fix.
- In variables, flags are `1 true yes on` or `0 false no off`, lists are `a,b` or a JSON array, and
  tables JSON objects. An empty variable counts as unset, except where the default is empty too.
- A segment in capitals stands for any name: `[agents.researcher]` holds `agents.NAME.*`. Such keys
  have no variable.
- Run-time tools are an array, `[[tools]]`, and TOML allows no `[tools.alias]` beside an array
  `tools` in one file. There, write `[catalog]`, `[catalog.alias]` and `[catalog.pin]`: they mean
  the same as `[tools]`, `[tools.alias]` and `[tools.pin]`.
- Names with dots may be quoted or not: `"web.search" = "brave"` and `web.search = "brave"` below
  `[tools.pin]` are equal.
"""

_RULES: dict[Tighter, str] = {
    "lower": "only a lower value",
    "true": "only `true`",
    "false": "only `false`",
    "adds": "may add",
    "subset": "only fewer",
    "later": "only a later choice",
    "inside": "only inside the project",
}


def render() -> str:
    """Return the page, ending in a newline."""
    parts = [_INTRO]
    settings = sorted(SETTINGS.values(), key=lambda setting: setting.path[0])
    for table, group in groupby(settings, key=lambda setting: setting.path[0]):
        parts.append(_section(table, list(group)))
    return "\n".join(parts)


def _section(table: str, settings: list[Setting]) -> str:
    lines = [
        f"## `[{table}]`",
        "",
        "| key | type | default | variables | untrusted project | meaning |",
        "| --- | --- | --- | --- | --- | --- |",
        *map(_row, settings),
        "",
    ]
    return "\n".join(lines)


def _row(setting: Setting) -> str:
    own = () if setting.variable is None else (setting.variable,)
    variables = " ".join(f"`{name}`" for name in (*own, *setting.env))
    cells = (
        f"`{setting.key}`",
        _type(setting),
        _default(setting.default),
        variables,
        _untrusted(setting),
        setting.text,
    )
    return "| " + " | ".join(cells) + " |"


def _type(setting: Setting) -> str:
    if setting.choices:
        return " ".join(f"`{choice}`" for choice in setting.choices)
    return f"{setting.kind}, joined" if setting.union else setting.kind


def _default(value: Any) -> str:
    if value is None:
        return "unset"
    if value in ("", (), {}):
        return "empty"
    import json

    return f"`{json.dumps(value)}`"


def _untrusted(setting: Setting) -> str:
    if setting.tighter is not None:
        return _RULES[setting.tighter]
    return {"name": "as it likes", "order": "as it likes", "never": "never"}.get(
        setting.project, "nothing"
    )
