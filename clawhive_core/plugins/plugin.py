"""One discovered plugin, from its manifest to its loaded code, and its record."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from clawhive_core.diagnostics.files import file_digests, shown_path
from clawhive_core.errors import ClawHiveError, PluginError
from clawhive_core.model.canonical import digest
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolMeta
from clawhive_core.plugins.contribution import Contribution, HookCaller
from clawhive_core.plugins.discovery import DiscoveredPlugin, package_folder
from clawhive_core.plugins.hookspecs import HookContext
from clawhive_core.plugins.loading import import_contributor, manifest_of, suspected_hooks
from clawhive_core.plugins.manifest import MANIFEST_NAME, SYNC, Manifest
from clawhive_core.plugins.tool import ToolDeclaration, declared_tools

if TYPE_CHECKING:
    from clawhive_core.plugins.comparison import ToolDifference


_SHOWN_FILES = 200
"""Files of which a right keeps the digests one by one; of more, one digest of them all."""

Status = Literal["ok", "failed", "incompatible", "disabled"]


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """The failure of a plugin, and what to do about it."""

    code: str
    message: str
    place: str | None
    fix: str | None

    @classmethod
    def of(cls, error: ClawHiveError) -> PluginFailure:
        """Return what an error says."""
        return cls(error.code, error.message, error.place, error.fix)

    def to_dict(self) -> dict[str, Any]:
        """Return the failure as JSON."""
        return {
            "code": self.code,
            "message": self.message,
            "place": self.place,
            "fix": self.fix,
        }


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """One plugin, as it is now; a value, which does not change when the plugin does."""

    id: str
    distribution: str
    version: str
    module: str
    status: Status
    installed: bool
    imported: bool
    enabled: bool
    hooks: tuple[str, ...]
    tools: tuple[str, ...]
    """The names of the tools that its manifest lists."""
    error: PluginFailure | None
    source: str
    """The folder of the package, or of its metadata where that is missing."""
    load_ms: float | None
    """Milliseconds that importing and registering took; None where it was not imported."""
    notes: tuple[str, ...] = ()
    """Remarks that are no failure: a description that differs from the manifest."""

    def to_dict(self, *, granted: bool | None = None) -> dict[str, Any]:
        """Return the record as JSON; whether its tools were granted is policy's knowledge."""
        return {
            "id": self.id,
            "distribution": self.distribution,
            "version": self.version,
            "module": self.module,
            "status": self.status,
            "installed": self.installed,
            "imported": self.imported,
            "enabled": self.enabled,
            "granted": granted,
            "hooks": list(self.hooks),
            "tools": list(self.tools),
            "error": None if self.error is None else self.error.to_dict(),
            "source": self.source,
            "load_ms": self.load_ms,
            "notes": list(self.notes),
        }


P = ParamSpec("P")
T = TypeVar("T")


def again(error: PluginError) -> PluginError:
    """Return an equal error, to raise the same failure another time."""
    return PluginError(
        error.message, place=error.place, fix=error.fix, code=error.code, data=error.data
    )


class Plugin:
    """A plugin and its state. Imported at most once, on first need; a failure is kept.

    Safe to use from several threads.
    """

    def __init__(
        self, discovered: DiscoveredPlugin, context: HookContext, *, enabled: bool
    ) -> None:
        self.discovered = discovered
        self.enabled = enabled
        self.error: PluginError | None = None
        self.manifest: Manifest | None = None
        self._context = context
        self._folder = package_folder(discovered.package) if discovered.value else None
        self._lock = threading.RLock()
        self._hooks: HookCaller | None = None
        self._contributor: object = None
        self._contributed: dict[str, list[Any]] = {}
        self._tools: dict[str, ToolDeclaration] | None = None
        self._load_ms: float | None = None
        self._notes: list[str] = []
        self._code: Mapping[str, str] | None = None
        try:
            self.manifest = manifest_of(discovered, self._folder)
        except PluginError as error:
            self.fail(error)

    @property
    def id(self) -> str:
        """The plugin's id."""
        return self.discovered.id

    @property
    def status(self) -> Status:
        """Whether it can be used, as far as is known yet."""
        if not self.enabled:
            return "disabled"
        if self.error is None:
            return "ok"
        return "incompatible" if self.error.code == "incompatible_hook_api" else "failed"

    @property
    def is_usable(self) -> bool:
        """Whether it is enabled and has not failed."""
        return self.enabled and self.error is None

    @property
    def hooks(self) -> tuple[str, ...]:
        """The hooks that its manifest lists."""
        return () if self.manifest is None else self.manifest.hooks

    def may_implement(self, hook: str) -> bool:
        """Tell whether it has a hook, or had one before its manifest became unreadable."""
        return hook in (suspected_hooks(self.discovered) if self.manifest is None else self.hooks)

    def listed_tools(self) -> tuple[ToolMeta, ...]:
        """Return the tools of the manifest, none of a plugin that cannot be used."""
        return self.manifest.tools if self.manifest is not None and self.is_usable else ()

    def code(self) -> Mapping[str, str]:
        """Return the digests of its package's files as they were when first asked for."""
        with self._lock:
            if self._code is None:
                self._code = _digests(self.discovered.package, self._folder)
            return self._code

    def fail(self, error: PluginError) -> None:
        """Take the plugin out of use: its tools and contributions are withdrawn."""
        found = self.discovered
        error.data = {"plugin": found.id, "distribution": found.distribution, **error.data}
        with self._lock:
            self.error = self.error or error
            self._contributed.clear()
            self._hooks, self._tools = None, None

    def pass_over(self, chosen: str) -> None:
        """Switch it off: the user chose another distribution for its id."""
        self.enabled = False
        self._notes.append(f"{self.discovered.distribution} is off: you chose {chosen} for the id")

    def contributions(self, hook: str) -> list[Contribution]:
        """Return what one of its hooks contributes; the hook is called once.

        Raises:
            PluginError: The plugin cannot be used; it is then failed.
        """
        with self._lock:
            if hook not in self._contributed:
                self._contributed[hook] = self._guarded(self._call, hook)
            values = self._contributed[hook]
        return [Contribution(self.id, self.discovered.distribution, value) for value in values]

    def verified_tools(self) -> dict[str, ToolDeclaration]:
        """Return its `@tool` functions by canonical name, once they agree with the manifest.

        Raises:
            PluginError: `manifest_differs` where the code's contract is not the manifest's.
        """
        with self._lock:
            tools = self._tools
            if tools is None:
                tools = self._tools = self._guarded(self._verify)
            return tools

    def check_tools(self, listed: tuple[ToolMeta, ...], found: list[ToolMeta]) -> None:
        """Compare tools with the manifest; a difference of text becomes a note.

        Raises:
            PluginError: `manifest_differs`; the plugin is then failed.
        """
        from clawhive_core.plugins.comparison import tool_differences

        differences = list(tool_differences(listed, found))
        broken = [item for item in differences if item.breaks_contract]
        if broken:
            error = self._differs(broken)
            self.fail(error)
            raise error
        self._notes += [f"{item}; refresh it with: {SYNC}" for item in differences]

    def record(self) -> PluginRecord:
        """Return what is known of it now."""
        found = self.discovered
        folder = self._folder
        tools = () if self.manifest is None else self.manifest.tools
        return PluginRecord(
            id=found.id,
            distribution=found.distribution,
            version=found.version,
            module=found.value,
            status=self.status,
            installed=self.error is None or self.error.code != "module_missing",
            imported=self._contributor is not None,
            enabled=self.enabled,
            hooks=self.hooks,
            tools=tuple(meta.name for meta in tools),
            error=None if self.error is None or not self.enabled else PluginFailure.of(self.error),
            source=found.source if folder is None else str(folder),
            load_ms=self._load_ms,
            notes=tuple(self._notes),
        )

    def _guarded(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Load, then work; a failure of either is the plugin's failure."""
        if not self.enabled:
            raise PluginError(f"the plugin {self.id} is disabled", code="plugin_disabled")
        if self.error is not None:
            raise again(self.error) from self.error
        try:
            self._load()
            return work(*arguments, **named)
        except PluginError as error:
            self.fail(error)
            raise
        except (Exception, SystemExit) as error:  # the isolation boundary: annotations run code
            failure = PluginError(
                f"its tools cannot be described: {type(error).__name__}: {error}",
                fix="report it to the plugin's author",
                code="invalid_tool",
            )
            self.fail(failure)
            raise failure from error

    def _load(self) -> None:
        """Import and register, once."""
        if self._hooks is not None:
            return
        start = time.perf_counter()
        try:
            self._contributor = import_contributor(self.discovered)
            hooks = HookCaller(self._contributor, self.id)
        finally:
            self._load_ms = round((time.perf_counter() - start) * 1000, 3)
        if hooks.hooks != frozenset(self.hooks):
            raise self._hooks_differ(hooks.hooks)
        self._hooks = hooks

    def _call(self, hook: str) -> list[Any]:
        return [] if self._hooks is None else self._hooks.call(hook, self._context)

    def _verify(self) -> dict[str, ToolDeclaration]:
        declared = declared_tools(self._contributor, self.discovered.package)
        metas = [declaration.meta(self.id) for declaration in declared]
        own = tuple(meta for meta in self.listed_tools() if meta.provider_id == self.id)
        self.check_tools(own, metas)
        return {meta.name: declaration for meta, declaration in zip(metas, declared, strict=True)}

    def _differs(self, differences: list[ToolDifference]) -> PluginError:
        return PluginError(
            "the code differs from its manifest: " + "; ".join(map(str, differences)),
            place=self._manifest_place(),
            fix=f"if you trust the new code, run: {SYNC} {self.id}",
            code="manifest_differs",
            data={"tools": [item.tool for item in differences]},
        )

    def _hooks_differ(self, found: frozenset[str]) -> PluginError:
        missing = sorted(set(self.hooks) - found)
        unlisted = sorted(found - set(self.hooks))
        parts = [
            *(f"{hook} is listed and not in the code" for hook in missing),
            *(f"{hook} is in the code and not listed" for hook in unlisted),
        ]
        return PluginError(
            f"the code differs from its manifest: {'; '.join(parts)}",
            place=self._manifest_place(),
            fix=f"if you trust the new code, run: {SYNC} {self.id}",
            code="manifest_differs",
        )

    def _manifest_place(self) -> str | None:
        folder = self._folder
        return None if folder is None else shown_path(folder / MANIFEST_NAME)


def _digests(package: str, folder: Path | None) -> Mapping[str, str]:
    """Return what the files of a package hold, or its single file; many of them by one digest."""
    if folder is None:
        from importlib.util import find_spec

        spec = find_spec(package)
        return {} if spec is None or not spec.origin else file_digests(Path(spec.origin))
    found = file_digests(folder)
    if len(found) <= _SHOWN_FILES:
        return found
    return {"files": str(len(found)), "sha256": digest(found)}
