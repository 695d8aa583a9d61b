"""What the codes of refusals mean: a call, task or run that was not done, and what to do next."""

from __future__ import annotations

from clawhive_core.diagnostics.explanation import Explanation

REFUSALS: tuple[Explanation, ...] = (
    Explanation(
        "unknown_task_type",
        "No loaded skill has that task type",
        "A task type is named `TASK` or `SKILL.TASK`, and comes from the contract of a loaded "
        "skill. The skill may be missing, invalid, disabled or misspelt. No run was created.",
        "List what there is, and what was left out and why, with `clawhive skills list`.",
    ),
    Explanation(
        "tool_not_found",
        "There is no such tool for this caller",
        "The name is not in the catalog, or the caller may not see it: an agent sees only the "
        "tools on its list, and a skill only what it exports or imports.",
        "`clawhive tools list --all` lists the tools, with those that are shadowed or left out.",
    ),
    Explanation(
        "tool_not_enabled",
        "The tool must be enabled first",
        "The agent begins with the tools of `agents.NAME.tools`; others come with the skills that "
        "require them, once their text is opened. This one is not among them.",
        "Open one of the skills that the refusal names, or add the tool to `agents.NAME.tools`.",
    ),
    Explanation(
        "tool_not_imported",
        "The skill does not import that tool",
        "A skill may call only tools that its contract imports, so that its needs can be checked "
        "before anything runs.",
        "Add the tool to `imports` of the skill's `clawhive.yaml`, then run "
        "`clawhive skills check`.",
    ),
    Explanation(
        "tool_changed",
        "The tool is no longer the one that was offered",
        "Its schema, level, risk, effects or sinks differ from those under which it was offered, "
        "approved, or written in its plugin's manifest. The call was not made, since it would "
        "mean something else now.",
        "Look at it with `clawhive tools show NAME` and ask again; the author of a plugin runs "
        "`clawhive plugins sync`.",
    ),
    Explanation(
        "right_revoked",
        "A right was revoked while the call was under way",
        "The call had begun with a grant that a person revoked meanwhile, in this process or "
        "another one. It was stopped as at its deadline: what it had done until then is done, and "
        "its sub-agents, its handler and its sandbox end with it.",
        "Give the right again with `clawhive grants issue CAP`, or choose another way.",
    ),
    Explanation(
        "tool_suspended",
        "The tool changed and waits for a person",
        "Grants that name this tool, and approvals of its calls, are suspended: its contract "
        "changed after they were given; for tools of MCP servers and skills a changed description, "
        "annotation or example does so too.",
        "`clawhive tools show NAME` prints what changed, and `clawhive grants resume ID` gives a "
        "grant anew for the tool as it is now; so does approving the call with a wider scope.",
    ),
    Explanation(
        "skill_disabled",
        "The skill is switched off",
        "The skill is listed in `skills.disabled`, or `clawhive skills disable` switched it off in "
        "this project. No run was created.",
        "Switch it on with `clawhive skills enable NAME`.",
    ),
    Explanation(
        "skill_not_loaded",
        "The skill is not loaded",
        "The skill was found and is not usable here: its files have a mistake, or a program, "
        "variable or tool that it requires is missing. The message says which.",
        "Mend what the message names; `clawhive skills show NAME` prints everything about it.",
    ),
    Explanation(
        "precondition_failed",
        "Another tool must succeed first",
        "The tool declares tools that must have succeeded earlier in the same conversation.",
        "Call the tool that `next` names, then repeat the call.",
    ),
    Explanation(
        "subscription_required",
        "The skill's tool is not free",
        "The contract of the skill that exports the tool asks for a subscription, and this user "
        "has none. Tools listed as free work without.",
        "Add one with `clawhive subscriptions add SKILL --user USER`.",
    ),
    Explanation(
        "rate_limited",
        "The tool was called too often",
        "The exporting skill limits how many calls a user may make in a period. A call that was "
        "refused or never started does not count. Of a model: its provider limits how many "
        "requests or tokens the key may use; it was asked several times, at growing distances.",
        "Wait for the seconds in `retry_after`.",
    ),
    Explanation(
        "denied",
        "The call is not allowed",
        "No grant covers what the call would do, a deny rule matches it, or a policy check "
        "refused it. Nothing was done. Some paths, such as `.git/hooks` and `.clawhive`, are "
        "denied whatever is granted.",
        "If you want it, use the command in `next`; `clawhive runs show RUN` prints what the call "
        "needed and how it was decided.",
    ),
    Explanation(
        "approval_required",
        "A person must approve the call",
        "The call may be made only after a person has seen it, and nobody is there to answer. The "
        "run waits and the command exits with 3.",
        "Run `clawhive approvals list`, then `clawhive approvals approve ID`, then "
        "`clawhive runs resume RUN`.",
    ),
    Explanation(
        "approval_denied",
        "A person refused the call",
        "The call was shown to a person, who said no. It was not made.",
        "Ask for something else, or talk to the person; the reason is in "
        "`clawhive approvals show ID`.",
    ),
    Explanation(
        "invalid_input",
        "The input does not fit its schema",
        "The arguments of the call, or the input of the task, fail the JSON Schema. The message "
        "names the path of the argument, what was expected and what came.",
        "Mend the argument; `clawhive tools show NAME` prints the schema of a tool, and the "
        "message lists what a task takes.",
    ),
    Explanation(
        "invalid_output",
        "The tool's result does not fit its schema",
        "The tool ran, but what it returned fails the output schema of its own contract. The "
        "result was not passed on; the effects happened and are in the log.",
        "Report it to the author of the tool; `clawhive runs show RUN` shows the output.",
    ),
    Explanation(
        "timeout",
        "The call took too long",
        "The call did not end before its deadline and was stopped. Output that came before is "
        "kept. A tool that does not stop in its grace time is reported as `abandoned`.",
        "Give it less to do, or raise `limits.call_timeout_ms` or the tool's own limit.",
    ),
    Explanation(
        "cancelled",
        "The call was cancelled",
        "The run was cancelled, or the caller went away, before the call ended.",
        "Start the task again if it is still wanted.",
    ),
    Explanation(
        "sandbox_unavailable",
        "No sandbox engine may run this here",
        "Code runs only inside a sandbox engine. None of the installed engines can run this "
        "program, and ClawHive never runs it outside of one.",
        "Do what the message says: write it in a language that an engine runs, or add a plugin "
        "with one; `clawhive doctor` shows which there are.",
    ),
    Explanation(
        "provider_error",
        "A model provider failed",
        "The provider of the model refused the request, could not be reached, or answered "
        "something that cannot be used. Failures that may pass were tried again first.",
        "Check the key, the model's name and the network; `clawhive doctor` shows which keys are "
        "set.",
    ),
    Explanation(
        "budget_exceeded",
        "The budget of the run is spent",
        "The tokens, the cost or the seconds that the run may use are used up; a model that is "
        "still at work then is stopped. What was done so far is kept.",
        "Raise `budget.tokens`, `budget.cost` or `budget.seconds`, or give the task in smaller "
        "parts.",
    ),
    Explanation(
        "repeated_call",
        "The same call came three times in a row",
        "A model asked three times in a row for the same tool with the same arguments. That "
        "rarely ends by itself, so the loop was stopped.",
        "Say in the prompt what to do otherwise; a tool that is meant to be asked again declares "
        "`polling`.",
    ),
    Explanation(
        "call_depth_exceeded",
        "Calls are nested too deeply",
        "Tools that call tools, and agents that start agents, may be nested only so deep. The "
        "limit stops calls that go round in a circle.",
        "Look at the chain with `clawhive runs show RUN`; raise `limits.call_depth` if it is "
        "meant.",
    ),
    Explanation(
        "unknown_outcome",
        "Nobody knows whether the call happened",
        "ClawHive wrote the intent of the call and then ended without writing its result. The "
        "effect may have happened. Only a tool that declares itself idempotent is tried again.",
        "Check by hand whether the effect is there, then go on with `clawhive runs resume RUN` or "
        "cancel the run.",
    ),
    Explanation(
        "untrusted_project",
        "The project's configuration is not trusted yet",
        "What was asked depends on something in the project's configuration file that counts only "
        "after you have trusted that file: base URLs, commands, allows, or enabled plugins. A "
        "file that changed is untrusted again.",
        "Read the file, then run `clawhive trust`.",
    ),
    Explanation(
        "untrusted_skill",
        "The skill is not trusted yet",
        "A model follows the text of a skill, so what the project or a plugin brings is shown to "
        "it only after you trusted the skill with just these files. A changed file ends the trust. "
        "Its name and description are listed all the same.",
        "Read the files, then run `clawhive skills trust NAME`.",
    ),
    Explanation(
        "run_busy",
        "Another process owns the run",
        "A living process is working on this run, and a run has one owner.",
        "Wait for it, or end it with `clawhive runs cancel RUN`.",
    ),
    Explanation(
        "not_replayable",
        "The log lacks what a replay needs",
        "A replay answers every model and tool call from the log. A recorded answer of this run "
        "is missing or was pruned, or the run was recorded without it.",
        "Use `clawhive runs show RUN` to look at it, or run the task anew.",
    ),
)
