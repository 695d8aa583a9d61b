"""The identity of a tool: what it was when a person gave a right that names it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolMeta


@dataclass(frozen=True, slots=True)
class ToolIdentity:
    """A tool's contract, and where it comes from others also its text, at one moment."""

    name: str
    contract_hash: str
    text_hash: str
    """Empty where a changed text changes nothing: see `ToolMeta.text_counts`."""
    contract: Mapping[str, Any]
    """The hashed fields, for a person to compare; empty in what a task took over."""

    @classmethod
    def of(cls, meta: ToolMeta) -> ToolIdentity:
        """Return what a tool is now."""
        counts = meta.text_counts
        shown = {**meta.contract, **(meta.text if counts else {})}
        return cls(meta.name, meta.contract_hash, meta.text_hash if counts else "", shown)

    @classmethod
    def parse(cls, text: str) -> ToolIdentity:
        """Return what `text` gave.

        Raises:
            ValueError: It is none.
        """
        loaded: Any = json.loads(text)
        fields = cast("dict[str, Any]", loaded if isinstance(loaded, dict) else {})
        names = ("name", "contract_hash", "text_hash")
        known = all(isinstance(fields.get(name), str) for name in names)
        if not known or not isinstance(fields.get("contract"), dict):
            raise ValueError("it does not say what its tool was")
        return cls(fields["name"], fields["contract_hash"], fields["text_hash"], fields["contract"])

    @classmethod
    def read(cls, text: str) -> ToolIdentity | None:
        """Return what `text` gave, None where the log's redaction left nothing readable of it."""
        try:
            return cls.parse(text)
        except (ValueError, RecursionError):
            return None

    @property
    def text(self) -> str:
        """Return it as JSON, one text for one identity."""
        return canonical_text(
            {
                "name": self.name,
                "contract_hash": self.contract_hash,
                "text_hash": self.text_hash,
                "contract": self.contract,
            }
        )

    @property
    def brief(self) -> str:
        """Return it without what is only for a person to compare: each task's log has it again."""
        return replace(self, contract={}).text

    def is_still(self, meta: ToolMeta) -> bool:
        """Whether the tool is what it was."""
        text = meta.text_hash if meta.text_counts else ""
        return (self.contract_hash, self.text_hash) == (meta.contract_hash, text)

    def diff(self, meta: ToolMeta) -> str:
        """Return what changed since, as a unified diff of the contract; empty where nothing did.

        Where only the hashes are known, they are what is compared.
        """
        from difflib import unified_diff

        after = ToolIdentity.of(meta)
        lines = unified_diff(
            _lines(self.contract or _hashes(self)),
            _lines(after.contract if self.contract else _hashes(after)),
            f"{self.name} (as it was)",
            f"{self.name} (as it is)",
            lineterm="",
        )
        return "\n".join(lines)


def _hashes(identity: ToolIdentity) -> Mapping[str, str]:
    return {"contract_hash": identity.contract_hash, "text_hash": identity.text_hash}


def _lines(contract: Mapping[str, Any]) -> list[str]:
    return json.dumps(contract, indent=2, sort_keys=True, ensure_ascii=False).splitlines()
