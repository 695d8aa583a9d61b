"""Principals: users, agents, skills and clients that act."""

from __future__ import annotations

from typing import Literal, cast, get_args

from clawhive_core.model.late import dataclass

PrincipalKind = Literal["user", "agent", "skill", "client"]


@dataclass(frozen=True, slots=True)
class Principal:
    """One that acts: `user:local`, `agent:default`, `skill:zodiac`, `client:mcp/cursor`."""

    kind: PrincipalKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Return the principal that `KIND:NAME` names.

        Raises:
            ValueError: The kind is unknown or the name empty.
        """
        kind, _, name = text.partition(":")
        if kind not in get_args(PrincipalKind) or not name:
            raise ValueError(
                f"{text!r} is no principal; write user:NAME, agent:NAME, skill:NAME or client:NAME"
            )
        return cls(cast("PrincipalKind", kind), name)


LOCAL_USER = Principal("user", "local")
DEFAULT_AGENT = Principal("agent", "default")
