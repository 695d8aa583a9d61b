"""Moving a contract out of a SKILL.md into a manifest of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from clawhive_core.diagnostics.files import replace_file, shown_path
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.contracts.manifest import MANIFEST, MANIFESTS
from clawhive_core.skills.discovery.reading import TOP_KEYS
from clawhive_core.skills.documents.document import Document
from clawhive_core.skills.documents.place import InvalidSkill, KeyPath
from clawhive_core.skills.documents.text import SkillText, read_skill_text

_FENCE = pattern(r"---[ \t]*(?:\r?\n|$)")


@dataclass(frozen=True, slots=True)
class Move:
    """The two files as they will be: the lines themselves, and no other byte changed."""

    text: str
    manifest: str


def contract_move(file: Path, data: str) -> Move | None:
    """Return how the contract in a SKILL.md moves out of it, None where that is not certain.

    It is where each key has lines of its own and both files then hold just the values that one
    held before.

    Args:
        file: The SKILL.md.
        data: What it holds, a byte order mark included.
    """
    text = read_skill_text(file)
    if text.document is None or any(file.with_name(name).exists() for name in MANIFESTS):
        return None
    metadata: Any = text.values.get("metadata")
    inside = isinstance(metadata, dict) and "clawhive" in metadata
    if inside == bool({"exports", "imports"} & {*text.values}):
        return None
    front = _Front(text, data)
    return front.without_metadata() if inside else front.without_keys()


class _Front:
    """The frontmatter of a SKILL.md as lines, each key with its own."""

    def __init__(self, text: SkillText, data: str) -> None:
        self._values = text.values
        self._document = cast("Document", text.document)
        self._lines = data.splitlines(keepends=True)
        self._blocks = dict(self._found((), text.values, 1, None))

    def without_keys(self) -> Move | None:
        """Move the contract's keys at the top, with what stands below each."""
        keys = [key for key in self._values if key in TOP_KEYS]
        if set(self._blocks) != set(self._values):
            return None
        moved = {number for key in keys for number in self._blocks[key]}
        manifest = "".join(self._lines[number] for number in sorted(moved))
        held = {key: self._values[key] for key in keys}
        rest = {key: self._values[key] for key in self._values if key not in keys}
        return self._checked(moved, manifest, held, rest)

    def without_metadata(self) -> Move | None:
        """Move what stands in `metadata.clawhive`, and the key itself."""
        metadata = cast("dict[str, Any]", self._values["metadata"])
        whole = self._blocks.get("metadata", range(0))
        first = self._document.place(("metadata", next(iter(metadata))), key=True)
        blocks = dict(self._found(("metadata",), metadata, first.column or 0, whole))
        if set(blocks) != set(metadata):
            return None
        moved, held = blocks["clawhive"], metadata["clawhive"]
        rest = dict(self._values)
        if len(metadata) == 1:
            del rest["metadata"]
        else:
            rest["metadata"] = {key: metadata[key] for key in metadata if key != "clawhive"}
        manifest = self._outdented(moved)
        if isinstance(held, str):
            manifest, held = f"{held}\n", _value(held)
        return self._checked(set(whole if len(metadata) == 1 else moved), manifest, held, rest)

    def _checked(
        self, moved: set[int], manifest: str, held: dict[str, Any], rest: dict[str, Any]
    ) -> Move | None:
        kept = [line for number, line in enumerate(self._lines) if number not in moved]
        front = "".join(
            self._lines[number]
            for block in self._blocks.values()
            for number in block
            if number not in moved
        )
        same = held and _value(manifest) == held and _value(front) == rest
        return Move("".join(kept), manifest) if same else None

    def _outdented(self, block: range) -> str:
        """Return the lines below a key as they stand further left; empty where they cannot."""
        lines = [self._lines[number] for number in block][1:]
        indents = [len(each) - len(each.lstrip(" ")) for each in lines if each.strip()]
        indent = min(indents, default=0)
        return "".join(each[indent:] if each.strip() else each.lstrip(" ") for each in lines)

    def _found(
        self, above: KeyPath, values: Mapping[str, Any], column: int, within: range | None
    ) -> Iterator[tuple[str, range]]:
        """Yield each key with the lines from its own to the next; nothing where one has none."""
        places = {key: self._document.place((*above, key), key=True) for key in values}
        starts = sorted((place.line or 0, key) for key, place in places.items())
        if any(place.column != column for place in places.values()) or not starts:
            return
        end = self._end(starts[-1][0]) if within is None else within.stop
        if end is None or (within is not None and starts[0][0] == within.start + 1):
            return
        for (start, key), (after, _) in pairwise([*starts, (end + 1, "")]):
            yield key, range(start - 1, after - 1)

    def _end(self, last: int) -> int | None:
        rest = range(last, len(self._lines))
        return next((at for at in rest if _FENCE.fullmatch(self._lines[at])), None)


def move_contract(file: Path, move: Move) -> None:
    """Write the manifest, then the text; where the text cannot be written, neither is.

    Raises:
        OSError: One of them cannot be written, or the manifest is there by now.
    """
    manifest = file.with_name(MANIFEST)
    stream = manifest.open("xb")
    try:
        with stream:
            stream.write(move.manifest.encode("utf-8"))
        replace_file(file, move.text.encode("utf-8"))
    except BaseException:
        manifest.unlink(missing_ok=True)
        raise


def _value(front: str) -> dict[str, Any]:
    try:
        document = Document(front, shown_path(MANIFEST))
    except InvalidSkill:
        return {}
    return cast("dict[str, Any]", document.value) if isinstance(document.value, dict) else {}
