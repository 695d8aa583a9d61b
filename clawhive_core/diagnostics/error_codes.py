"""What the codes of exceptions mean: one entry for each class of `errors.py`, and variants."""

from __future__ import annotations

from clawhive_core.diagnostics.explanation import Explanation

ERRORS: tuple[Explanation, ...] = (
    Explanation(
        "error",
        "Something failed",
        "The general code of an error that has no closer one. The message says what happened. "
        "If it names no cause that you can mend, it is a defect of ClawHive or of a plugin.",
        "Run the command again with `--debug` and report what it prints.",
    ),
    Explanation(
        "usage",
        "The command or argument is wrong",
        "ClawHive could not make sense of what it was asked to do, and did nothing. The exit code "
        "is 2, so that a script can tell this from a task that failed.",
        "Read the command's `--help`; it ends with a worked example.",
    ),
    Explanation(
        "unknown_format",
        "There is no such output format",
        "Findings can be written in a few named forms. The name given is none of them.",
        "Use `--format text`, `json`, `sarif`, `github`, `gitlab` or `junit`.",
    ),
    Explanation(
        "watch_missing",
        "Files cannot be watched without a further library",
        "`--watch` is told of changes by the library `watchfiles`, which is not installed with "
        "ClawHive itself. Nothing was checked.",
        "Install it: `pip install 'clawhive[watch]'`; or check without `--watch`.",
    ),
    Explanation(
        "watch_failed",
        "The system cannot watch the folders",
        "Linux watches each folder by itself and has a limit for each user; other systems may have "
        "no way to watch the kind of file system at all.",
        "Raise the limit, `sysctl fs.inotify.max_user_watches=524288`, or have the folders looked "
        "at again and again: `WATCHFILES_FORCE_POLLING=1 clawhive skills check --watch`.",
    ),
    Explanation(
        "invalid_baseline",
        "The baseline cannot be used",
        "`--baseline` names a file of known findings, as `--write-baseline` writes it. The file is "
        "not there, cannot be read or written, or holds something else; nothing was left out.",
        "Write it again: `clawhive skills check --baseline FILE --write-baseline`.",
    ),
    Explanation(
        "invalid_config",
        "A configuration file or value cannot be used",
        "A file is not valid TOML, or a key, an environment variable or a flag holds a value of "
        "the wrong type. ClawHive stops instead of guessing, because a setting that is silently "
        "left out could be the one that denies something. The place is `FILE:LINE:COLUMN`, or the "
        "name of the variable or flag.",
        "Change the value as the message says; `docs/reference/configuration.md` lists every key "
        "with its type, and `clawhive config show --origin` says where each value comes from.",
    ),
    Explanation(
        "inside_run",
        "A run may not change its own rights",
        "The command would change trust, grants or approvals, and the environment variable "
        "`CLAWHIVE_RUN` says that it was started by a run. No agent decides about itself.",
        "Run the command yourself, in a terminal that no run has opened.",
    ),
    Explanation(
        "invalid_capability",
        "A capability cannot be read",
        "A capability is `verb:resource`, with a verb of a closed table and a resource in "
        "segments; `*` stands for one segment and a trailing `**` for any number. The text given "
        "does not follow that, or cannot be brought to one canonical spelling.",
        "Write it like `fs.read:${workspace}/docs/**` or `net.http:api.example.com/v1/**`; "
        "`docs/reference/capabilities.md` has the grammar.",
    ),
    Explanation(
        "unknown_model",
        "No adapter serves that model",
        "A model is named `PROVIDER:NAME`, and the provider is the name of an adapter that an "
        "installed plugin registers. No plugin registers this one, or the plugin failed to load.",
        "List the plugins with `clawhive plugins`, and install the one that serves the provider, "
        "and install the one for your provider.",
    ),
    Explanation(
        "unknown_revision",
        "Git knows no such revision or path",
        "`git:REF[:PATH]` names a branch, tag or commit that this clone does not have, or a path "
        "that is not in it. Nothing is fetched: a comparison uses no network.",
        "Fetch it, as the message says; in CI fetch the branch that is compared with.",
    ),
    Explanation(
        "git_failed",
        "A git repository cannot be read",
        "There is no git, no repository with a work tree, an object that this clone lacks, or a "
        "content that lies elsewhere. The message holds what git said.",
        "Do what the message says, or compare two folders.",
    ),
    Explanation(
        "unknown_id",
        "An id names nothing, or several things",
        "Ids may be shortened to a prefix, or given as `last`. This one fits nothing here, or "
        "fits more than one thing.",
        "Give more characters of the id, or list the ids with `clawhive runs list`, "
        "`clawhive approvals list` or `clawhive grants list`.",
    ),
    Explanation(
        "plugin_failed",
        "A plugin cannot be loaded or used",
        "An installed plugin raised an error, or offers something that ClawHive cannot use. Only "
        "that plugin is left out. If it offers a policy check or a required audit sink, effects "
        "are refused until it works.",
        "See `clawhive plugins check NAME` for the cause, or switch it off with "
        "`[plugins] disabled`.",
    ),
    Explanation(
        "invalid_manifest",
        "A plugin's manifest cannot be read",
        "The file `clawhive-plugin.toml` in a plugin's package is missing, is not TOML, or holds "
        "a key or value that ClawHive does not know. The manifest is what policy and `--help` "
        "read, so the plugin is not used.",
        "If the plugin is yours, run `clawhive plugins sync`; else install another version of it.",
    ),
    Explanation(
        "invalid_skill",
        "A skill cannot be read",
        "The folder has no readable `SKILL.md` or manifest, or its contract is invalid. An "
        "invalid skill is left out of the set, and the other skills are not affected.",
        "Run `clawhive skills check PATH`: it names each place and fix.",
    ),
    Explanation(
        "storage_failed",
        "A file of ClawHive's own cannot be opened, read or written",
        "The database under `.clawhive`, or a file of the user's own directory, cannot be used: "
        "it may be damaged, read-only, locked by a foreign program, or the disk may be full. "
        "Nothing half-written is kept.",
        "The message names the file and the system's reason; free space or mend its rights, then "
        "repeat the command. `clawhive doctor` checks the rest.",
    ),
    Explanation(
        "database_too_new",
        "The database was written by a newer ClawHive",
        "A newer version has changed the form of `.clawhive/hive.db`. This version does not know "
        "the new form and does not touch the file.",
        "Install the version that the message names, or use another project root.",
    ),
    Explanation(
        "log_write_failed",
        "An event could not be committed",
        "Every effect is written to the log before it happens. The log could not be written, so "
        "the effect did not happen.",
        "Mend the cause that the message names, most often a full disk or missing write access, "
        "and run the task again.",
    ),
    Explanation(
        "run_failed",
        "A run cannot be continued, repeated or found",
        "The run is in a state that does not allow what was asked, or one of its steps failed.",
        "Look at it with `clawhive runs show RUN`.",
    ),
    Explanation(
        "tool_failed",
        "A tool failed",
        "The tool ran and reported a failure of its own. The message is the tool's. Its effects, "
        "if there were any, are in the log.",
        "Look at the call with `clawhive runs show RUN`, and mend its input or what the tool "
        "works on.",
    ),
    Explanation(
        "cannot_plan",
        "No planner can make steps of the task",
        "The task type declares no steps and no planner that needs a model may be used, or the "
        "planner gave an unusable plan.",
        "Add `steps` to the task type, or give a model with `--model PROVIDER:NAME`.",
    ),
    Explanation(
        "invalid_plan",
        "The steps cannot be run in any order",
        "Two steps have one name, a step needs one that is not there, steps need each other in a "
        "circle, or `for_each` does not give a list. Nothing of the plan was run, or it stopped "
        "at that step.",
        "Mend the `steps` of the task type in `clawhive.yaml`; `clawhive skills check` finds most "
        "of this beforehand.",
    ),
    Explanation(
        "unresolved_reference",
        "A reference names nothing",
        "A step's input holds a reference such as `${steps.search.output.items}`, and there is no "
        "such value when the step starts.",
        "Write `input.NAME`, `steps.NAME.output` with what that step really gives, or `item` "
        "inside `for_each`.",
    ),
    Explanation(
        "ask_failed",
        "The program that asks a person failed",
        "A warning, in `warnings` of a run that waits: the `ask` that the program gave the run "
        "raised an error, so nobody was asked. Nothing is lost; the log of the program (`clawhive` "
        "in Python's `logging`) has the traceback.",
        "Answer with `clawhive approvals`, go on with `clawhive runs resume`, and mend the "
        "program's `ask`.",
    ),
    Explanation(
        "signal_failed",
        "The program that listens to a run failed",
        "A warning, in `warnings` of the run: the `on_signal` that the program gave the run raised "
        "an error, this one first. An observer stops no run, so it went on; the log of the program "
        "(`clawhive` in Python's `logging`) has the traceback.",
        "Mend the program's `on_signal`; `clawhive runs show` has what the run did.",
    ),
    Explanation(
        "max_tool_rounds",
        "The model used up its rounds",
        "A loop ends after a number of rounds of tool calls, so that it always ends. What the "
        "calls did so far is kept.",
        "Ask for less at once, or raise `--max-tool-rounds` (`loop.max_tool_rounds`).",
    ),
    Explanation(
        "too_many_refusals",
        "The model asked for nothing but what is refused",
        "Every call of three turns in a row was refused: the task lacks a right that it needs, or "
        "the model follows instructions that are not the user's. What was done before is kept.",
        "Look at the refusals with `clawhive runs show last`; grant what the task needs.",
    ),
    Explanation(
        "agent_depth_exceeded",
        "A sub-agent would work too deep",
        "An agent may start sub-agents, and these further ones, as deep as its `max_depth` says. "
        "The bound stops agents that start each other in a circle.",
        "Do the task without a further sub-agent, or raise `max_depth` under [agents.NAME].",
    ),
    Explanation(
        "too_many_agents",
        "The task has started as many sub-agents as it may",
        "Every sub-agent of a task counts, at whatever depth, those that have ended too.",
        "Ask for less at once, or raise `agents_total` under [limits].",
    ),
    Explanation(
        "damaged_body",
        "A stored value is missing or altered",
        "The log refers to a value by its hash, and the database does not hold it or holds "
        "something that cannot be read. The database was changed from outside, or is damaged.",
        "Run `clawhive audit verify`: it names the first bad row.",
    ),
    Explanation(
        "internal_error",
        "ClawHive met a defect of its own",
        "An error came up that no part of ClawHive expected. What was committed to the log is "
        "whole.",
        "Run the command again with `--debug` and report what it prints.",
    ),
    Explanation(
        "output_failed",
        "The command's output cannot be written",
        "What stdout stands for takes nothing: its disk is full, it is closed, or a device failed. "
        "What a run did by then is in the log.",
        "Give stdout another place, such as `> FILE` on a disk with room; a run that was done is "
        "shown by `clawhive runs show last`.",
    ),
    Explanation(
        "not_resumable",
        "The run cannot go on",
        "Only a run that waits for a person or was interrupted can be resumed. This one has ended, "
        "was a session's own calls that nothing planned, or would not go the way that its log "
        "says, because its skill, planner or tools changed.",
        "Look at it with `clawhive runs show RUN`, and start it again with `clawhive run`.",
    ),
    Explanation(
        "inside_event_loop",
        "A blocking call was made inside an event loop",
        "`Hive.open_sync` is for programs without async. In a coroutine it would stop everything "
        "else that the event loop has to do.",
        "Write `async with Hive.open() as hive`, and await its methods.",
    ),
    Explanation(
        "already_resolved",
        "The approval was answered or used before",
        "An approval is answered once and used once. Somebody was quicker, it expired, its run "
        "ended, or the call that it was for has been made.",
        "See what became of it with `clawhive approvals show ID`.",
    ),
    Explanation(
        "grant_used_up",
        "A right has no use left",
        "The right was given for a number of calls, and these were made, perhaps by another run of "
        "the session at the same moment; or somebody revoked it. Nothing was executed.",
        "Give it again: `clawhive grants issue CAP --uses N`.",
    ),
    Explanation(
        "forged_rights",
        "A table gives a right that the log does not",
        "At opening, and wherever rights are read, the tables of grants and approvals are compared "
        "with the events that made them. A row has no such event, or not in this form: somebody "
        "edited the table behind the log. Nothing is executed until it is mended.",
        "Look first: `clawhive audit rebuild --check` and `clawhive audit verify`. "
        "`clawhive audit rebuild` then makes the tables anew from the log.",
    ),
)
