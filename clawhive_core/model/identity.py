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
    """A tool's contract, its code, and where it comes from others also its text, at one moment."""

    name: str
    contract_hash: str
    text_hash: str
    """Empty where a changed text changes nothing: see `ToolMeta.text_counts`."""
    contract: Mapping[str, Any]
    """The hashed fields, for a person to compare; empty in what a task took over."""
    code_hash: str = ""
    """Empty where its code was not known, as before ClawHive kept it: any code is the same then."""

    @classmethod
    def of(cls, meta: ToolMeta) -> ToolIdentity:
        """Return what a tool is now."""
        counts = meta.text_counts
        code = {} if meta.code is None else {"code": dict(meta.code())}
        shown = {**meta.contract, **(meta.text if counts else {}), **code}
        text_hash = meta.text_hash if counts else ""
        return cls(meta.name, meta.contract_hash, text_hash, shown, meta.code_hash)

    @classmethod
    def parse(cls, text: str) -> ToolIdentity:
        """Return what `text` gave.

        Raises:
            ValueError: It is none.
        """
        loaded: Any = json.loads(text)
        fields = cast("dict[str, Any]", loaded if isinstance(loaded, dict) else {})
        names = ("name", "contract_hash", "text_hash")
        code_hash = fields.get("code_hash", "")
        known = all(isinstance(each, str) for each in (*map(fields.get, names), code_hash))
        if not known or not isinstance(fields.get("contract"), dict):
            raise ValueError("it does not say what its tool was")
        hashes = (fields["contract_hash"], fields["text_hash"])
        return cls(fields["name"], *hashes, fields["contract"], code_hash)

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
                **({"code_hash": self.code_hash} if self.code_hash else {}),
            }
        )

    @property
    def brief(self) -> str:
        """Return it without what is only for a person to compare: each task's log has it again."""
        return replace(self, contract={}).text

    def is_still(self, meta: ToolMeta) -> bool:
        """Whether the tool is what it was."""
        text = meta.text_hash if meta.text_counts else ""
        if (self.contract_hash, self.text_hash) != (meta.contract_hash, text):
            return False
        return not self.code_hash or self.code_hash == meta.code_hash

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
    return {
        "contract_hash": identity.contract_hash,
        "text_hash": identity.text_hash,
        "code_hash": identity.code_hash,
    }


def _lines(contract: Mapping[str, Any]) -> list[str]:
    return json.dumps(contract, indent=2, sort_keys=True, ensure_ascii=False).splitlines()
