"""The refusals of the executor, each with its next step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clawhive_core.catalog.validation import SchemaProblem, describe
from clawhive_core.diagnostics.suggestions import nearest_words
from clawhive_core.errors import SinkFailed
from clawhive_core.execution.outcomes import Refused
from clawhive_core.execution.pending import PendingCall
from clawhive_core.execution.scope import Enabled
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.refusal import Refusal

_LONGEST_ARGUMENTS = 2000
"""Characters of a call's input that a command may repeat."""


def refuse(
    error: str, message: str, next: Mapping[str, Any], extra: Mapping[str, Any] | None = None
) -> Refused:
    """Return the exception that ends a call with a refusal."""
    return Refused(Refusal(error, message, next, extra or {}))


def not_found(name: str, names: Iterable[str]) -> Refused:
    """No tool of that name is there for this caller."""
    close = nearest_words(name, names)
    hint = f"; did you mean {', '.join(f'`{each}`' for each in close)}?" if close else ""
    return refuse(
        "tool_not_found",
        f"there is no tool `{name}`{hint}",
        {"action": "search", "command": "clawhive tools list", "suggestions": close},
    )


def bad_input(name: str, problems: list[SchemaProblem]) -> Refused:
    """The input is not what the tool's schema says."""
    return refuse(
        "invalid_input",
        f"`{name}`: {describe(problems)}",
        {"action": "fix_arguments", "paths": [problem.path for problem in problems]},
    )


def require_enabled(name: str, enabled: Enabled | None) -> None:
    """Refuse a tool that the model which asks was not offered, where it begins with a list.

    Raises:
        Refused: `tool_not_enabled`, with the skills that bring it.
    """
    if enabled is None or name in enabled.names:
        return
    if enabled.by:
        raise refuse(
            "tool_not_enabled",
            f'`{name}` is not enabled: call {enabled.by} {{"names": ["{name}"]}} first',
            {"action": "enable", "tool": enabled.by, "names": [name]},
        )
    skills = enabled.skills.get(name, [])
    how = f"open one of these skills first: {', '.join(skills)}" if skills else "no skill brings it"
    next_step = {"action": "open_skill", "skills": skills} if skills else {"action": "ask_user"}
    raise refuse("tool_not_enabled", f"`{name}` is not enabled for this agent: {how}", next_step)


def not_imported(pending: PendingCall, skill_id: str) -> Refused:
    """A skill's handler calls what its contract does not declare."""
    name, meta = pending.call.name, pending.meta
    skill, _, tool = name.rpartition(".")
    hint = f"requires: {{tools: [{name}]}}"
    if meta is not None and meta.provider_id == f"skill_{skill}":
        hint = f"imports: [{{from: {skill}, tools: [{tool}]}}]"
    return refuse(
        "tool_not_imported",
        f"the skill `{skill_id}` does not import `{name}`",
        {"action": "import", "hint": f"the contract of `{skill_id}` must declare {hint}"},
    )


def denied(pending: PendingCall) -> Refused:
    """Policy denies; where a grant would help, the command that gives it."""
    decision, name = pending.decision, pending.call.name
    if decision is None or decision.final:
        message = f"`{name}` is blocked by policy, and no grant lifts that"
        return refuse("denied", message, {"action": "choose_another_way"})
    if decision.suspended:
        return suspended(name, decision.suspended)
    message = f"`{name}` needs rights that this task does not have: {', '.join(decision.missing)}"
    if decision.each_time:
        message += "; a person must then approve each call"
    return refuse("denied", message, _grant(pending, decision.needed))


def approval_required(pending: PendingCall) -> Refused:
    """A person must answer, and nobody can be asked."""
    decision, name = pending.decision, pending.call.name
    if decision is not None and decision.suspended:
        return suspended(name, decision.suspended)
    if decision is None or decision.each_time:
        message = f"a person must approve each call of `{name}`, and nobody is here to ask"
        return refuse("approval_required", message, {"action": "ask_user"})
    message = f"a person must approve `{name}`, and nobody is here to ask"
    return refuse("approval_required", message, _grant(pending, decision.needed))


def suspended(name: str, grants: Sequence[str] = ()) -> Refused:
    """The tool changed after a person gave these rights to it, or approved this call."""
    renew = [f"clawhive grants resume {each}" for each in grants]
    lifts = " and ".join(f"`{each}`" for each in renew) or "a new approval"
    return refuse(
        "tool_suspended",
        f"`{name}` changed after a person gave a right to it or approved the call: a person must "
        f"look at what changed, and {lifts} lets it be called again",
        {
            "action": "ask_user",
            "command": f"clawhive tools show {name}",
            **({"renew": renew} if renew else {}),
        },
    )


def unapproved(tool: str, state: str, reason: str | None) -> Refused:
    """A person's answer does not let this call happen: no, too late, or for something else."""
    what = {
        "denied": "a person denied it",
        "expired": "nobody answered in time",
        "drifted": "the call, its tool or the file changed after a person was asked",
        "consumed": "its approval was used already",
    }.get(state, f"its approval is {state}")
    why = f": {reason}" if reason and state == "denied" else ""
    action = "ask_user" if state == "denied" else "propose_again"
    message = f"`{tool}` was not done: {what}{why}"
    return refuse("approval_denied", message, {"action": action, "state": state})


def _grant(pending: PendingCall, capabilities: tuple[str, ...]) -> dict[str, Any]:
    who = pending.scope.principal
    if who.kind == "client":
        lifting = {"command": _grant_command(capabilities, str(who))}
    else:
        lifting = with_rights(_command(pending), capabilities)
    return {"action": "grant", "capabilities": list(capabilities), **lifting}


def _grant_command(capabilities: Sequence[str], subject: str) -> str:
    """Return what a person types to give a client rights for good."""
    import shlex

    return " && ".join(
        shlex.join(["clawhive", "grants", "issue", each, "--always", "--subject", subject])
        for each in capabilities
    )


def with_rights(command: str, capabilities: Sequence[str]) -> dict[str, str]:
    """Return the `command` that starts a run again with more rights; without one a `hint`."""
    import shlex

    flags = " ".join(f"--grant {shlex.quote(capability)}" for capability in capabilities)
    if command:
        return {"command": f"{command} {flags}"}
    listed = ", ".join(map(repr, capabilities))
    return {"hint": f"start it again with {flags}, or from Python with `grants=[{listed}]`"}


def _command(pending: PendingCall) -> str:
    """Return the whole command that is to be repeated, nothing where there is none to repeat.

    A session's call is one of its own, where its input is short enough to be read.
    """
    import shlex

    given = pending.scope.run.command
    if given != "clawhive tools call":
        return given
    arguments = canonical_text(dict(pending.call.input))
    is_nested = pending.scope.parent_invocation_id is not None
    if is_nested or len(arguments) > _LONGEST_ARGUMENTS:
        return ""
    return shlex.join(["clawhive", "tools", "call", pending.call.name, "--args", arguments])


def sink_refusal(error: SinkFailed) -> Refusal:
    """Return the refusal of a call that a required audit sink does not acknowledge."""
    step = {"action": "ask_user", "command": "clawhive doctor", "hint": error.fix}
    return Refusal("sink_failed", error.message, step)
