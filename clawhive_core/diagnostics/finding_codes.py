"""What the codes of findings about configuration and tables of calls mean: CH09nn."""

from __future__ import annotations

from clawhive_core.diagnostics.explanation import Explanation

FINDINGS: tuple[Explanation, ...] = (
    Explanation(
        "CH0911",
        "A table of calls cannot be read",
        "`clawhive policy test` reads calls and the verdicts that they should get from a YAML, "
        "JSON or TOML file. Something in it is not what such a table holds, so nothing was "
        "decided.",
        "Mend the place that is named; `docs/how-to/policy-in-ci.md` shows a table.",
    ),
    Explanation(
        "CH0912",
        "A call is decided otherwise than the table says",
        "Today's policy of this project gives the call another verdict, or the same one by another "
        "rule, grant or class of reason. Nothing was executed.",
        "Type the `clawhive policy explain` that is named, then mend the policy, or the table.",
    ),
    Explanation(
        "CH0913",
        "A call of a table cannot be decided",
        "There is no such tool, its input is none that it takes, or the table names an agent, a "
        "task type or a step that is not there. A misspelt tool would be denied in every policy, "
        "so that is no verdict.",
        "Correct the call; where a refused input is meant, say so: `reason: arguments`.",
    ),
    Explanation(
        "CH0901",
        "Unknown configuration key",
        "A configuration file holds a key that this version of ClawHive does not know, or an "
        "environment variable looks like a misspelt one. It has no effect. Everything else in "
        "the file is used.",
        "Write the key that is suggested, or remove it; `docs/reference/configuration.md` lists "
        "all.",
    ),
    Explanation(
        "CH0902",
        "A setting of an untrusted project was ignored",
        "Until you have trusted a project's configuration file, it may only tighten: deny, ask, "
        "lower limits, switch off, name and order things. Base URLs, commands, allows, enabled "
        "plugins and values that loosen your own settings do not count. A file that changed "
        "since you trusted it is untrusted again.",
        "Read the file, then run `clawhive trust`; or write the setting into your own "
        "configuration.",
    ),
    Explanation(
        "CH0903",
        "The list of trusted projects cannot be used",
        "The file `trust.json` in your configuration directory is damaged, cannot be read, or may "
        "be written by others. It counts as empty: every project is untrusted.",
        "Mend its rights with `chmod 600`, or trust your projects again with `clawhive trust`; a "
        "damaged file is then kept beside the new one.",
    ),
    Explanation(
        "CH0904",
        "The project is configured in two files",
        "The project root has a `clawhive.toml`, and its `pyproject.toml` has a table "
        "`[tool.clawhive]`. Only `clawhive.toml` is used.",
        "Move the table into `clawhive.toml`, or delete one of the two.",
    ),
    Explanation(
        "CH0905",
        "The setting does not belong into a project's file",
        "Secrets never count from the configuration file of a project, trusted or not: such "
        "files are shared and committed.",
        "Set it in the environment or in your own `config.toml`.",
    ),
)
