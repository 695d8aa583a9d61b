"""Which skills are switched off: by the configuration, or by `clawhive skills disable`."""

from __future__ import annotations

from collections.abc import Mapping

from clawhive_core.config.config import Config
from clawhive_core.config.trust import refuse_inside_run
from clawhive_core.errors import UsageError
from clawhive_core.model.late import dataclass
from clawhive_core.skills.finding.stored import StoredFile
from clawhive_core.storage.database import make_folder
from clawhive_core.storage.faults import storage_error


@dataclass(frozen=True, slots=True)
class Switches:
    """The project's list of skills that are off, beside `skills.disabled`."""

    config: Config

    @property
    def file(self) -> StoredFile:
        """The list on disk; tools cannot write it."""
        path = self.config.root / ".clawhive" / "skills.json"
        return StoredFile(path, "skills-off/1", "disabled")

    def reasons(self) -> dict[str, str]:
        """Return why each skill that is off is off.

        Raises:
            StorageError: The list cannot be used.
        """
        off = dict.fromkeys(self._listed(), "by `clawhive skills disable`")
        configured = self.config.value("skills.disabled")
        return off | dict.fromkeys(configured.value, f"by skills.disabled, {configured.origin}")

    def disable(self, name: str, env: Mapping[str, str]) -> None:
        """Switch a skill off.

        Raises:
            UsageError: `inside_run`, where a run asks.
            StorageError: The list cannot be written.
        """
        refuse_inside_run(env)
        file = self.file
        try:
            make_folder(file.path.parent)
        except OSError as error:
            raise storage_error(error, file.path) from error
        file.change(lambda names: sorted({*map(str, names), name}))

    def enable(self, name: str, env: Mapping[str, str]) -> None:
        """Switch a skill on.

        Raises:
            UsageError: `inside_run`, where a run asks; or the configuration switches it off.
            StorageError: The list cannot be written.
        """
        refuse_inside_run(env)
        configured = self.config.value("skills.disabled")
        if name in configured.value:
            raise UsageError(
                f"`{name}` is switched off by skills.disabled",
                place=configured.origin,
                fix=f"remove `{name}` there",
            )
        if name in self._listed():
            self.file.change(lambda names: [each for each in names if each != name])

    def _listed(self) -> list[str]:
        return [name for name in self.file.entries() if isinstance(name, str)]
