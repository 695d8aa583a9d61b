"""The context of a call, which a tool gets beside its input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.messages import LlmRequest, LlmResponse
from clawhive_core.model.principal import Principal
from clawhive_core.model.questions import Answer, Question
from clawhive_core.protocols.http import HttpClient

Stream = Literal["stdout", "stderr"]


class Workspace(Protocol):
    """A directory handle: paths are relative to the project root, or absolute.

    Each access is checked against the capabilities of this call. No link is followed out of what
    was granted; names that policy denies (`.clawhive/**`, `.env*`) are refused by name and left out
    of listings.

    Raises:
        ToolError: `denied` for a path that this call may not touch, `not_found`, `not_a_file`,
            `not_a_directory`, `too_large` or `io_error`, each with the path.
    """

    @property
    def root(self) -> str:
        """The absolute path of the project root."""
        ...

    def read_bytes(self, path: str, *, limit: int) -> bytes:
        """Return at most `limit` bytes of a file.

        Raises:
            ToolError: `too_large` where the file holds more.
        """
        ...

    def read_text(self, path: str, *, limit: int) -> str:
        """Return a UTF-8 file's text; `not_text` where it is none."""
        ...

    def list(self, path: str) -> list[Entry]:
        """Return the entries of a directory, sorted by name."""
        ...

    def walk(self, path: str) -> Iterator[Entry]:
        """Yield every file and folder below a directory, depth first, sorted."""
        ...

    def write_bytes(self, path: str, data: bytes) -> None:
        """Replace or create a file atomically, creating parent folders."""
        ...


class Entry(Protocol):
    """One entry of a directory."""

    @property
    def path(self) -> str:
        """Relative to the project root where it lies inside, else absolute."""
        ...

    @property
    def kind(self) -> Literal["file", "directory", "link", "other"]:
        """The kind, links not followed."""
        ...

    @property
    def bytes(self) -> int:
        """Its size; 0 for what is no file."""
        ...


class Store(Protocol):
    """Small JSON values in the caller's own namespace, kept in the project's database."""

    async def get(self, key: str, default: Any = None) -> Any:
        """Return the value, or `default`."""
        ...

    async def put(self, key: str, value: Any) -> None:
        """Keep a JSON value."""
        ...

    async def delete(self, key: str) -> None:
        """Forget a key; nothing happens where it is unknown."""
        ...

    async def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that start with `prefix`, sorted."""
        ...


class InvokeContext(Protocol):
    """The context of the call that a tool serves: annotate a parameter with this type to get it."""

    @property
    def trace_id(self) -> str:
        """The trace of the whole run and its sub-agents."""
        ...

    @property
    def task_id(self) -> str:
        """The task."""
        ...

    @property
    def run_id(self) -> str:
        """The run."""
        ...

    @property
    def step_id(self) -> str:
        """The step."""
        ...

    @property
    def invocation_id(self) -> str:
        """This execution of the call."""
        ...

    @property
    def tool_call_id(self) -> str:
        """The call that it serves."""
        ...

    @property
    def conversation_id(self) -> str:
        """The session."""
        ...

    @property
    def principal(self) -> Principal:
        """The caller."""
        ...

    @property
    def user_id(self) -> str:
        """The user at the root of the run."""
        ...

    @property
    def skill_id(self) -> str | None:
        """The skill whose handler this is, None for other tools."""
        ...

    @property
    def profile(self) -> Mapping[str, Any]:
        """The facts about the user in the user's configuration."""
        ...

    @property
    def idempotency_key(self) -> str:
        """Equal for every execution of the same ToolCall."""
        ...

    @property
    def workspace(self) -> Workspace:
        """The project's files, as far as this call was granted them."""
        ...

    @property
    def artifacts(self) -> str:
        """The absolute path of the run's artifacts folder, created on first use."""
        ...

    @property
    def store(self) -> Store:
        """The tool's own namespace."""
        ...

    @property
    def http(self) -> HttpClient:
        """HTTP requests: each address and redirect is a right of this call, or asked for."""
        ...

    def remaining(self) -> float:
        """Return the seconds until the deadline of this call."""
        ...

    async def call(self, name: str, input: Mapping[str, Any]) -> Any:
        """Call another tool through the executor.

        Returns:
            The tool's structured value, else its text; a refusal as a dict.

        Raises:
            NeedHumanApproval: A person must answer this call, or one beside it. Let it pass: the
                tool is parked whatever its code does, and begins again when that is answered; its
                finished calls are then answered from the log.
        """
        ...

    async def read(self, path: str) -> Any:
        """Return what a skill saved under `skills.SKILL.KEY`, None where it saved nothing.

        Short for the core tool `read`; only a skill's handler has something to read.

        Raises:
            ToolError: It was refused, with the code of the refusal.
        """
        ...

    async def save(self, path: str, data: Any) -> None:
        """Save a JSON value of at most 1 MiB under `skills.SKILL.KEY`; short for `save`.

        Raises:
            ToolError: As `read`; `too_large`; `holds_secret`.
        """
        ...

    async def show(self, card_type: str, data: Mapping[str, Any] | None = None) -> None:
        """Show the user a card at once; short for the core tool `show`.

        Raises:
            ToolError: It was refused, with the code of the refusal.
        """
        ...

    async def complete(self, request: LlmRequest) -> LlmResponse:
        """Ask a model, under the run's budget, rights and log."""
        ...

    async def embed(self, texts: Sequence[str], model: str | None = None) -> Embeddings:
        """Return one vector of length 1 a text, under the run's budget, rights and log.

        Args:
            texts: The texts, none of them empty.
            model: `PROVIDER:NAME`; None for the configuration's `model.embedding`.

        Raises:
            UnknownModel: No embedder serves it.
            ModelError: It failed; `denied` where policy does not allow it.
        """
        ...

    async def require(self, capability: str) -> None:
        """Ask for a right that only shows midway, such as the address that a redirect names.

        It is decided as the call itself was: allowed, asked of a person, or denied. The call has it
        from then on, for `workspace` and `secret` too.

        Args:
            capability: `verb:resource`, such as `net.http:https://example.com/page`; no pattern.

        Raises:
            ToolError: It was refused, with the code of the refusal; let it pass, so that the caller
                is told what would allow it.
            NeedHumanApproval: A person must answer. Let it pass: the tool is parked, and begins
                again when that is answered.
        """
        ...

    async def ask(self, question: Question) -> Answer:
        """Put somebody else's question, such as a server's, to the person at the terminal.

        The person sees who asks, and that it is not ClawHive. Without a person the answer is
        `cancel`. The call's own time stands still meanwhile; the log has who asked and what for,
        and not what was answered.
        """
        ...

    def secret(self, name: str) -> str:
        """Return a secret by name; from here on its value is redacted from the log.

        The call needs `secret.use:NAME`: declared as an effect (`{"": "secret.use:NAME"}`), or
        asked for by `require`.

        Raises:
            ToolError: `denied`; `secret_not_found`, with the line that sets it.
        """
        ...

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Tell listeners how far the call is. Never blocks; capped."""
        ...

    def output(self, stream: Stream, data: bytes) -> None:
        """Give listeners output as it comes; it survives a timeout. Never blocks; capped."""
        ...
