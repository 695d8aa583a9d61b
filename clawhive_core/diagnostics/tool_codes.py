"""What the codes of failed tools mean: those of the core's own tools, and the four of MCP."""

from __future__ import annotations

from clawhive_core.diagnostics.explanation import Explanation

TOOL_ERRORS: tuple[Explanation, ...] = (
    Explanation(
        "not_found",
        "There is no such file or folder",
        "The path names nothing in the workspace, or something that this call may not see.",
        "List the folder with `file.list`.",
    ),
    Explanation(
        "not_a_file",
        "The path is no regular file",
        "The path names a folder, a link, a device or a pipe where a regular file is needed.",
        "Name a file; `file.list` shows what each entry is.",
    ),
    Explanation(
        "not_a_directory",
        "The path is no folder",
        "The path, or a part of it, names a file where a folder is needed.",
        "Name a folder; `file.list` shows what each entry is.",
    ),
    Explanation(
        "not_text",
        "The file is not UTF-8 text",
        "The tool reads text, and the bytes of this file are not valid UTF-8.",
        "Convert the file to UTF-8, or use a tool that reads its format.",
    ),
    Explanation(
        "too_large",
        "There is more than the tool may take",
        "The file or value is larger than the limit, and a silently cut one would mislead.",
        "Read it in parts, or raise the limit where the tool has one.",
    ),
    Explanation(
        "io_error",
        "The system could not read or write",
        "The operating system refused or failed: missing rights, a full disk, a broken device.",
        "The message holds the system's reason; mend it and repeat the call.",
    ),
    Explanation(
        "drifted",
        "The file changed after the change was proposed",
        "A proposal is for a file as it was. Another program wrote the file since, so what a "
        "person saw is not what would happen; nothing was written.",
        "Propose the change again with `edit.propose`.",
    ),
    Explanation(
        "nothing_to_do",
        "The change would leave the file as it is",
        "What the proposal puts into the file stands there already, so there is nothing to write.",
        "Read the file; perhaps the change was made before.",
    ),
    Explanation(
        "not_unique",
        "The text to find occurs more than once",
        "A replacement must be for one place, so that the diff says what the caller meant.",
        "Give a longer piece of the file that occurs once, or a patch.",
    ),
    Explanation(
        "patch_failed",
        "The patch does not fit the file",
        "A line that the patch keeps or removes is not what the file has at that place.",
        "Make the patch against the file as it is now.",
    ),
    Explanation(
        "secret_not_found",
        "A secret is not set",
        "The tool asked for a secret by name, and neither the environment nor the user's "
        "configuration has it.",
        "Set it as the message says, most often with `export NAME=...`.",
    ),
    Explanation(
        "holds_secret",
        "The value holds a secret",
        "A tool or skill keeps its values in the log, and no secret that ClawHive handed out goes "
        "there: what would be read again later is not what was to be kept.",
        "Keep the name of the secret, and ask for the secret where it is used.",
    ),
    Explanation(
        "program_failed",
        "The program ended with an error",
        "The code ran in the sandbox and ended with an exit code other than 0. Its output and "
        "its error text are kept as artifacts.",
        "Read stderr in the result, mend the program and run it again.",
    ),
    Explanation(
        "limit_reached",
        "The program hit a limit and was stopped",
        "Every program in the sandbox has limits of time, memory, output, files and processes. "
        "`killed_by` in the result says which was reached; output up to then is kept.",
        "Make the program smaller, or raise the limit under `[sandbox]` in the configuration.",
    ),
    Explanation(
        "command_not_allowed",
        "The sandbox does not run this command",
        "Only listed commands run in the sandbox, by default `python -c` and `node -e`.",
        "Use one of them, or add the command to `[sandbox] commands` in your configuration.",
    ),
    Explanation(
        "unknown_script",
        "There is no such scripted model",
        "The part after `scripted:` is the name of a built-in script or of a JSON file, and this "
        "is neither.",
        "Use `--model scripted:demo`, or the path of a JSON list of answers.",
    ),
    Explanation(
        "invalid_script",
        "The script of a scripted model cannot be read",
        "The file is not a JSON list of answers, each a text or a list of content blocks.",
        "Mend the file where the message says.",
    ),
    Explanation(
        "script_exhausted",
        "A scripted model has no further answer",
        "The model is a script for demonstrations and tests, and the run asked it once more than "
        "it has answers.",
        "Add an answer to the script, or use another model.",
    ),
    Explanation(
        "pruned",
        "The body of an event was removed",
        "`clawhive audit prune` replaced old bodies by their hashes. The chain can still be "
        "verified, but this value is gone.",
        "Look in an export made before the pruning.",
    ),
    Explanation(
        "ProviderClosed",
        "The MCP server was closed",
        "The connection to this MCP server was closed by ClawHive, and a call came afterwards.",
        "Start the task again.",
    ),
    Explanation(
        "Timeout",
        "The MCP server did not answer in time",
        "The call was sent and no answer came before the deadline, so it was cancelled. The "
        "server may have done part of the work.",
        "Look at what the server does meanwhile, or raise `mcp.timeout_ms`.",
    ),
    Explanation(
        "ConnectionError",
        "The connection to the MCP server is gone",
        "The server's process ended or its connection broke during the call.",
        "Start the server by hand, with the same command, and look at what it writes as it ends.",
    ),
    Explanation(
        "ToolNotFound",
        "The MCP server does not know the tool",
        "The server answered that it has no tool of that name. Only this call fails.",
        "`clawhive tools list` has the names that the server listed.",
    ),
)
