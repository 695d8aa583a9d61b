"""Values that tools and skills keep: made by events of the project's log."""

from __future__ import annotations

from typing import Any

from clawhive_core.capabilities import concrete
from clawhive_core.errors import InvalidInput, ToolError
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.canonical import canonical
from clawhive_core.model.events import Blob, Event
from clawhive_core.model.json_values import json_copy
from clawhive_core.model.late import dataclass
from clawhive_core.policy.rules import NO_GRANT
from clawhive_core.protocols.ledger import Ledger, ValuesWhere

MAX_VALUE = 1024 * 1024
"""The canonical JSON of one value, in bytes."""
MAX_KEY = 200


@dataclass(frozen=True, slots=True)
class ValueStore:
    """The values of one namespace and one user (`clawhive_core.Store`)."""

    log: Ledger
    scope: CallScope
    namespace: str

    async def get(self, key: str, default: Any = None) -> Any:
        """Return the value, or `default`."""
        self._require("mem.read")
        for found in self.log.find(ValuesWhere(*self._owner, key)):
            return self.log.load(found.value)
        return default

    async def put(self, key: str, value: Any) -> None:
        """Keep a JSON value.

        Raises:
            ToolError: `invalid_input` for a key or value that cannot be kept, `too_large`, or
                `holds_secret`, or `denied`.
        """
        self._require("mem.write")
        _check_key(key)
        copy = self._checked(key, value)
        event = self._event("store.put", key, {"value": Blob(copy)})
        await self.log.append(event, expects=self.scope.run.owned)

    async def delete(self, key: str) -> None:
        """Forget a key; nothing happens where it is unknown."""
        self._require("mem.write")
        if key in await self.keys(key):
            event = self._event("store.delete", key, {})
            await self.log.append(event, expects=self.scope.run.owned)

    async def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that start with `prefix`, sorted."""
        self._require("mem.read")
        return [each.key for each in self.log.find(ValuesWhere(*self._owner, prefix=prefix))]

    def _require(self, verb: str) -> None:
        """Refuse what a rule denies; a namespace is its tool's own, and needs no grant.

        Raises:
            ToolError: `denied`.
        """
        needed = concrete(verb, f"own/{self.namespace}")
        authority = self.scope.rules.authority(needed)
        if authority.verdict == "deny" and authority.rule != NO_GRANT:
            raise ToolError(
                f"`{needed}` is denied",
                code="denied",
                fix="take it from `policy.deny`",
            )

    @property
    def _owner(self) -> tuple[str, str]:
        return self.scope.run.user_id, self.namespace

    def _checked(self, key: str, value: Any) -> Any:
        """Return a value as it will be read again, or refuse it."""
        try:
            copy, _ = json_copy(value, 16 * MAX_VALUE)
        except InvalidInput as error:
            place = f"{key}{error.place or ''}"
            raise ToolError(
                f"the value at {place} cannot be kept: {error.message}",
                code="invalid_input",
                place=place,
                fix="keep text, numbers, lists and dicts of them",
            ) from error
        size = len(canonical(copy))
        if size > MAX_VALUE:
            raise ToolError(
                f"the value of `{key}` takes {size} bytes, and {MAX_VALUE} are allowed",
                code="too_large",
                fix="keep it in parts, or as a file",
            )
        if self.log.redactor.value(copy) != copy:
            raise ToolError(
                f"the value of `{key}` holds a secret, and the log keeps none",
                code="holds_secret",
                fix="keep its name, and ask for the secret again where it is used",
            )
        return copy

    def _event(self, kind: str, key: str, more: dict[str, Any]) -> Event:
        body = {"user_id": self.scope.run.user_id, "namespace": self.namespace, "key": key, **more}
        return self.scope.event(kind, body, invocation_id=self.scope.invocation_id)


def _check_key(key: Any) -> None:
    if isinstance(key, str) and 0 < len(key) <= MAX_KEY and key.isprintable():
        return
    raise ToolError(
        f"{key!r} is no key",
        code="invalid_input",
        fix=f"use 1 to {MAX_KEY} printable characters",
    )
