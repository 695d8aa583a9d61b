"""Every exception of ClawHive, in one tree; each has a stable code.

::

    ClawHiveError
    ├── UsageError               the caller's command, argument or configuration is wrong (exit 2)
    │   ├── ConfigError          a configuration file or value
    │   ├── CapabilityError      a capability or pattern that cannot be read
    │   ├── UnknownTaskType      no loaded skill has that task type
    │   ├── UnknownModel         no adapter serves that model
    │   ├── UnknownId            an id, prefix or `last` that names nothing, or several things
    │   └── InvalidInput         a task's or tool's input fails its schema
    ├── PluginError              a plugin that cannot be loaded or used
    │   └── ManifestError        its clawhive-plugin.toml
    ├── SkillError               a skill that cannot be read
    ├── StorageError             the database cannot be opened, read or written
    │   ├── DatabaseTooNew       it was written by a newer version
    │   └── LogWriteFailed       an event was not committed; the effect must not happen
    ├── RunError                 a run that cannot be continued, repeated or found
    │   ├── RunBusy              another living process owns it
    │   └── NotReplayable        its log lacks what a replay needs
    ├── ToolError                raised by a tool: the call failed, with the tool's own code
    ├── NeedHumanApproval        a call must be answered by a person and nobody is there
    ├── ModelError               a model provider failed
    └── SandboxUnavailable       no engine may run this code here
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ClawHiveError(Exception):
    """The base of all errors that ClawHive raises on purpose.

    Args:
        message: What happened, as a sentence for its reader.
        place: Where: `file:line:column`, an argument path, or a name.
        fix: What to do about it, with the exact command where one helps.
        code: Overrides the class's stable snake_case code.
        data: Further JSON values for machines.
    """

    code = "error"
    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        place: str | None = None,
        fix: str | None = None,
        code: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.fix = fix
        self.data: Mapping[str, Any] = data or {}
        if code is not None:
            self.code = code

    def to_dict(self) -> dict[str, Any]:
        """Return the error as the JSON object that `--json` prints (schema `error/1`)."""
        return {
            "schema": "error/1",
            "error": self.code,
            "message": self.message,
            "place": self.place,
            "fix": self.fix,
            **self.data,
        }


class UsageError(ClawHiveError):
    """The command, argument or configuration is wrong; nothing was done."""

    code = "usage"
    exit_code = 2


class ConfigError(UsageError):
    """A configuration file or value cannot be used."""

    code = "invalid_config"


class CapabilityError(UsageError):
    """A capability or pattern cannot be read or normalised."""

    code = "invalid_capability"


class UnknownTaskType(UsageError):
    """No loaded skill has that task type."""

    code = "unknown_task_type"


class UnknownModel(UsageError):
    """No installed adapter serves that model."""

    code = "unknown_model"


class UnknownId(UsageError):
    """An id, prefix or `last` names nothing, or more than one thing."""

    code = "unknown_id"


class InvalidInput(UsageError):
    """An input fails its JSON Schema; `place` is the path of the argument."""

    code = "invalid_input"


class PluginError(ClawHiveError):
    """A plugin cannot be loaded or used; `data` names plugin and distribution."""

    code = "plugin_failed"


class ManifestError(PluginError):
    """A clawhive-plugin.toml cannot be read; `place` is file:line."""

    code = "invalid_manifest"


class SkillError(ClawHiveError):
    """A skill cannot be read."""

    code = "invalid_skill"


class StorageError(ClawHiveError):
    """The database cannot be opened, read or written."""

    code = "storage_failed"


class DatabaseTooNew(StorageError):
    """The database was written by a newer version; `fix` names the one to install."""

    code = "database_too_new"


class LogWriteFailed(StorageError):
    """An event was not committed, so what it announces must not happen."""

    code = "log_write_failed"


class RunError(ClawHiveError):
    """A run cannot be continued, repeated or found."""

    code = "run_failed"


class RunBusy(RunError):
    """Another living process owns the run."""

    code = "run_busy"


class SinkFailed(RunError):
    """A required audit sink has not taken an event, so what that announces must not happen."""

    code = "sink_failed"


class NotReplayable(RunError):
    """The log lacks what a replay of this run needs."""

    code = "not_replayable"


class ToolError(ClawHiveError):
    """A tool's own failure: raised inside a tool, answered to its caller as an error result."""

    code = "tool_failed"


class NeedHumanApproval(ClawHiveError):
    """A person must answer this call and nobody is there; the run parks."""

    code = "approval_required"
    exit_code = 3


class ModelError(ClawHiveError):
    """A model provider refused, failed or answered something unusable."""

    code = "provider_error"


class SandboxUnavailable(ClawHiveError):
    """No sandbox engine may run this here; `fix` names the one that can."""

    code = "sandbox_unavailable"
