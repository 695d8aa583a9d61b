"""A person's own arguments for a call that waits: written in an editor, or in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import click

from clawhive_core.cli.output import confirm, print_error
from clawhive_core.errors import ClawHiveError, InvalidInput, RunError, UsageError

if TYPE_CHECKING:
    from clawhive_core.hive.hive import Hive
    from clawhive_core.model.approvals import Approval
    from clawhive_core.policy.answers import Edited

_MAX_FILE = 64 * 1024 * 1024


async def edited_by_hand(
    hive: Hive, approval: Approval, before: Edited | None = None
) -> Edited | None:
    """Let the person change a call's arguments until they can be approved, or give up.

    Returns:
        The changed call; None where nothing was changed.

    Raises:
        UsageError: The editor was closed without saving, or the person gave up.
        RunError: The call waits no more.
    """
    import anyio

    given = hive.approvals.input_of(approval) if before is None else before.input
    text = json.dumps(given, indent=2, ensure_ascii=False) + "\n"
    while True:
        text = await anyio.to_thread.run_sync(_in_editor, text)
        try:
            return await hive.edited(approval.approval_id, read_arguments(text, "--edit"), before)
        except ClawHiveError as error:
            if isinstance(error, RunError) and error.code != "denied":
                raise
            print_error(error, as_json=False)
        await anyio.to_thread.run_sync(_confirm_again)


def _in_editor(text: str) -> str:
    try:
        changed = click.edit(text, extension=".json")
    except click.ClickException as error:
        raise UsageError(
            f"the editor failed, so nothing was answered: {error.format_message()}",
            place="$VISUAL, $EDITOR",
            fix="set EDITOR to an editor that is installed, or use --edit-json FILE",
        ) from None
    if changed is None:
        raise UsageError(
            "the editor was closed without saving, so nothing was answered",
            place="--edit",
            fix="save the file, even as it is; or answer without --edit",
        )
    return changed


def _confirm_again() -> None:
    if not confirm("Edit it again?", default=True):
        raise UsageError("nothing was answered", place="--edit", fix="edit it again, or deny it")


def read_arguments(text: str, place: str) -> Mapping[str, Any]:
    """Return the arguments that a text holds.

    Raises:
        InvalidInput: It is no JSON object; with line and column.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{place}:{error.lineno}:{error.colno}"
        raise InvalidInput(
            f"this is no JSON: {error.msg}", place=where, fix="write one JSON object"
        ) from None
    except RecursionError:
        raise InvalidInput("it is nested too deeply", place=place, fix="nest it less") from None
    if not isinstance(value, dict):
        raise InvalidInput(
            "the arguments are one JSON object", place=place, fix='such as {"path": "a.md"}'
        )
    return cast("dict[str, Any]", value)


def read_file(name: str) -> str:
    """Return what a file holds, or stdin for `-`.

    Raises:
        InvalidInput: It cannot be read, or is no text.
    """
    fix = "name a UTF-8 file with one JSON object, or - for stdin"
    try:
        with click.open_file(name, encoding="utf-8") as file:
            text = file.read(_MAX_FILE)
    except OSError as error:
        message = f"{name} cannot be read: {error.strerror}"
        raise InvalidInput(message, place="--edit-json", fix=fix) from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{name} is no UTF-8 text", place="--edit-json", fix=fix) from None
    if len(text) == _MAX_FILE:
        raise InvalidInput(f"{name} is too large", place="--edit-json", fix=fix)
    return text
