"""The rights that a program is given from outside, and its calls, which go through the executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawhive_core.errors import ToolError
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.protocols.context import InvokeContext

HTTP_REQUEST = "http.request"
"""The name by which a program sends a request."""
_SECRET = pattern(r"\$\{secret:([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Given:
    """The tools, hosts, secrets and variables that a program is given, by name."""

    tools: tuple[str, ...]
    hosts: tuple[str, ...]
    secrets: tuple[str, ...]
    env: tuple[str, ...]

    @classmethod
    def of(cls, input: Mapping[str, Any]) -> Given:
        """Return what the input of a `sandbox.*` tool names."""
        names = (tuple(input.get(each, ())) for each in ("tools", "hosts", "secrets", "env"))
        return cls(*names)


class GuestCalls:
    """The calls of a program in a sandbox (`clawhive_core.SandboxHost`): tools, and requests.

    Args:
        ctx: The call that runs the program; each call is made on its behalf and decided by itself.
        given: What the program may call, and what its requests may carry.
        asks: Whether the call was not decided with these secrets, so that each is asked for.
    """

    def __init__(self, ctx: InvokeContext, given: Given, *, asks: bool = False) -> None:
        self._ctx, self._given, self._asks = ctx, given, asks

    async def __call__(self, name: str, input: Mapping[str, Any]) -> Any:
        """Answer one call; of a tool its value, or its refusal.

        Raises:
            ToolError: `denied`: the program was not given that; or why a request failed.
        """
        if name == HTTP_REQUEST and self._given.hosts:
            return await self._request(input)
        if name not in self._given.tools:
            raise ToolError(
                f"the program was not given `{name}`",
                code="denied",
                fix=f'run it with "tools": ["{name}"]',
            )
        return await self._ctx.call(name, input)

    async def _request(self, input: Mapping[str, Any]) -> dict[str, Any]:
        from urllib.parse import urlsplit

        url = str(input.get("url", ""))
        parts = urlsplit(url)
        host = parts.netloc if parts.scheme == "https" else f"{parts.scheme}://{parts.netloc}"
        if host not in self._given.hosts:
            raise ToolError(
                f"the program was not given the host `{host}`",
                code="denied",
                fix=f'run it with "hosts": ["{host}"]',
            )
        given: Mapping[str, Any] = input.get("headers") or {}
        named = {name for value in given.values() for name in _SECRET.findall(str(value))}
        used = {name: await self._secret(name) for name in sorted(named)}
        headers = {
            key: _SECRET.sub(lambda found: used[found[1]], str(value))
            for key, value in given.items()
        }
        answer = await self._ctx.http.request(
            str(input.get("method", "GET")),
            url,
            headers=headers,
            content=input.get("body"),
            follow=False,
        )
        body = answer.text
        sent = dict(answer.headers)
        for name, value in used.items():  # a host may say what it was sent
            body = body.replace(value, f"[{name}]")
            sent = {key: each.replace(value, f"[{name}]") for key, each in sent.items()}
        return {"status": answer.status, "headers": sent, "body": body}

    async def _secret(self, name: str) -> str:
        if name not in self._given.secrets:
            raise ToolError(
                f"the program was not given the secret `{name}`",
                code="denied",
                fix=f'run it with "secrets": ["{name}"]',
            )
        if self._asks:
            await self._ctx.require(f"secret.use:{name}")
        return self._ctx.secret(name)
