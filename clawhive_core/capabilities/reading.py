"""A reading: one text on its way to becoming a capability, and the errors it can end in."""

from __future__ import annotations

from typing import Final

from clawhive_core.capabilities.segments import ANY, REST, Segments
from clawhive_core.capabilities.verbs import Verb
from clawhive_core.errors import CapabilityError
from clawhive_core.model.late import dataclass

MAX_SEGMENTS: Final = 512
MAX_SEGMENT: Final = 4096
"""Segments and characters of one segment; whatever two patterns keep to, their meet keeps to."""

_SHOWN = 120


def shown(text: str) -> str:
    """Return `text` in quotes, fit for a terminal: cut, and unprintable characters escaped."""
    cut = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    safe = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in cut
    )
    return f"`{safe}`"


@dataclass(frozen=True, slots=True)
class Reading:
    """A verb with the resource that is being read for it."""

    text: str
    """All that was given."""
    verb: Verb
    resource: str
    literal: bool = False
    """Whether the resource is the name of one real thing, in which `*` and `?` mean themselves."""

    def error(self, message: str, *, at: str = "", fix: str) -> CapabilityError:
        """Return the error that refuses this text; `at` is the part of the resource at fault."""
        offset = len(self.verb.name) + 1
        column = offset + max(self.text[offset:].find(at), 0) + 1
        return CapabilityError(
            message,
            place=f"{shown(self.text)}, character {column}",
            fix=fix,
            data={"capability": shown(self.text)[1:-1], "column": column},
        )

    def line(self, resource: str) -> str:
        """Return `verb:resource` in quotes, as advice prints it."""
        return shown(f"{self.verb.name}:{resource}")

    def check_wildcards(self, segments: list[str], separator: str, lead: str = "") -> None:
        """Check that each `*` is a whole segment and that `**` is the last one.

        Args:
            segments: As written.
            separator: What stands between them.
            lead: What stands before the first.

        Raises:
            CapabilityError: One is not.
        """
        if self.literal or "*" not in self.resource:
            return
        for index, segment in enumerate(segments):
            if "*" not in segment or segment == ANY:
                continue
            before = lead + "".join(item + separator for item in segments[:index])
            if segment != REST:
                raise self._refuse_glob(segment, before)
            if index != len(segments) - 1:
                raise self._refuse_inner_rest(segments[index + 1 :], before, separator)

    def check_size(self, segments: Segments) -> Segments:
        """Return `segments`, which are canonical.

        Raises:
            CapabilityError: There are too many, or one is too long.
        """
        if len(segments) > MAX_SEGMENTS or any(len(item) > MAX_SEGMENT for item in segments):
            raise self.error(
                f"The resource has more than {MAX_SEGMENTS} segments, or one of more than"
                f" {MAX_SEGMENT} characters.",
                fix="Name something above it and end with `**`.",
            )
        return segments

    def _refuse_glob(self, segment: str, lead: str) -> CapabilityError:
        fix = (
            f"Write {self.line(lead + ANY)} for one segment of any name,"
            f" {self.line(lead + REST)} for everything below, or one line for each name;"
            " a name that contains a `*` spells it `%2A`."
        )
        message = "A `*` stands for one whole segment, not for a part of one as in"
        return self.error(f"{message} {shown(segment)}.", at=segment, fix=fix)

    def _refuse_inner_rest(self, after: list[str], lead: str, separator: str) -> CapabilityError:
        one = lead + separator.join([ANY, *after])
        fix = (
            f"Write {self.line(lead + REST)} for everything below,"
            f" or one line for each depth, such as {self.line(one)}."
        )
        return self.error("`**` stands only at the end of a pattern.", at=REST, fix=fix)
