"""Moving a contract from the top of a SKILL.md into a manifest of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from clawhive_core.diagnostics.shown import shown_path
from clawhive_core.diagnostics.whole_file import replace_whole
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.document import Document
from clawhive_core.skills.manifest import MANIFEST, MANIFESTS
from clawhive_core.skills.place import InvalidSkill
from clawhive_core.skills.reading import TOP_KEYS
from clawhive_core.skills.text import SkillText, read_skill_text

_FENCE = pattern(r"---[ \t]*(?:\r?\n|$)")


@dataclass(frozen=True, slots=True)
class Move:
    """The two files as they will be: the lines themselves, and no other byte changed."""

    text: str
    manifest: str


def contract_move(file: Path, data: str) -> Move | None:
    """Return how the contract at the top of a SKILL.md moves, None where that is not certain.

    It is where each key has lines of its own and both files then hold just the values that one
    held before.

    Args:
        file: The SKILL.md.
        data: What it holds, a byte order mark included.
    """
    text = read_skill_text(file)
    if text.document is None or any(file.with_name(name).exists() for name in MANIFESTS):
        return None
    keys = [key for key in text.values if key in TOP_KEYS]
    metadata: Any = text.values.get("metadata")
    if not {"exports", "imports"} & {*keys} or (
        isinstance(metadata, dict) and "clawhive" in metadata
    ):
        return None
    lines = data.splitlines(keepends=True)
    blocks = dict(_blocks(text, lines))
    if set(blocks) != set(text.values):
        return None
    moved = {number for key in keys for number in blocks[key]}
    kept = [line for number, line in enumerate(lines) if number not in moved]
    move = Move("".join(kept), "".join(lines[number] for number in sorted(moved)))
    front = "".join(
        lines[number] for key, block in blocks.items() if key not in keys for number in block
    )
    whole = _value(front) | _value(move.manifest)
    same = whole == text.values and set(_value(move.manifest)) == set(keys)
    return move if same else None


def move_contract(file: Path, move: Move) -> None:
    """Write the manifest, then the text; where the text cannot be written, neither is.

    Raises:
        OSError: One of them cannot be written, or the manifest is there by now.
    """
    manifest = file.with_name(MANIFEST)
    with manifest.open("xb") as stream:
        stream.write(move.manifest.encode("utf-8"))
    try:
        replace_whole(file, move.text.encode("utf-8"))
    except BaseException:
        manifest.unlink(missing_ok=True)
        raise


def _blocks(text: SkillText, lines: list[str]) -> Iterator[tuple[str, range]]:
    """Yield each key with the lines from its own to the next one's; nothing where one has none."""
    document = cast("Document", text.document)
    places = {key: document.place((key,), key=True) for key in text.values}
    starts = sorted((place.line or 0, key) for key, place in places.items())
    if any(place.column != 1 for place in places.values()) or not starts:
        return
    last = starts[-1][0]
    end = next((at for at in range(last, len(lines)) if _FENCE.fullmatch(lines[at])), None)
    if end is None:
        return
    for (start, key), (after, _) in pairwise([*starts, (end + 1, "")]):
        yield key, range(start - 1, after - 1)


def _value(front: str) -> dict[str, Any]:
    try:
        document = Document(front, shown_path(MANIFEST))
    except InvalidSkill:
        return {}
    return cast("dict[str, Any]", document.value) if isinstance(document.value, dict) else {}
