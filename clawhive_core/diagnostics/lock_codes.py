"""What the codes about `clawhive.lock` mean."""

from __future__ import annotations

from clawhive_core.diagnostics.explanation import Explanation
from clawhive_core.diagnostics.export_codes import LEFT_OUT

_AGAIN = "Take one version of it whole, such as by `git checkout HEAD -- clawhive.lock`, then lock."
_NOTHING = "Nothing is held against it, and it is never written over."

LOCK_FINDINGS: tuple[Explanation, ...] = (
    Explanation(
        "CH0804",
        "The lock lacks a skill, or has one too many",
        "A skill came or went since `clawhive.lock` was written, or there is no lock where "
        "`--frozen` wants one. What is not locked is not held against anything.",
        "Write it: clawhive skills lock.",
    ),
    Explanation(
        "CH0805",
        "A skill is not what it was when it was locked",
        "Its files, version, tools, imports, requirements or permissions are others. That is all "
        "that a note says; what matters of it is a finding of its own.",
        "Look at what changed, then accept it: clawhive skills lock.",
    ),
    Explanation(
        "CH0806",
        "A description is not the one that was locked",
        "Models act on descriptions, so a changed one can turn a known tool into another. Trust in "
        "the skill has ended with it, as with any change of a file (`clawhive skills trust`).",
        "Read it, then accept it: clawhive skills lock.",
    ),
    Explanation(
        "CH0807",
        "A skill wants more than when it was locked",
        "A permission is new or wider than each that was locked, or none is stated any more, so "
        "that the skill bounds nothing.",
        "Read the permissions, then accept them: clawhive skills lock.",
    ),
    Explanation(
        "CH0811",
        "The lock has git's conflict marks",
        f"Two branches locked the same skill. {_NOTHING}",
        _AGAIN,
    ),
    Explanation(
        "CH0812",
        "The lock cannot be read",
        f"It is no file, too large, no JSON, or lacks what it must hold. {_NOTHING}",
        _AGAIN,
    ),
    Explanation(
        "CH0813",
        "A later ClawHive wrote the lock",
        f"Its form is not known here. {_NOTHING}",
        "Update ClawHive.",
    ),
    Explanation(
        "CH0814",
        "The lock was edited",
        f"Each skill and each schema in it stands under a digest, and one does not fit. {_NOTHING}",
        _AGAIN,
    ),
    Explanation(
        "CH0815",
        "An imported tool does not fit what was locked any more",
        "It refuses a value that the importing skill could send when it was locked, or may answer "
        "one that it could not. The value is in the message, and a validator has judged it on both "
        f"sides. {LEFT_OUT}",
        "Restore the tool; or adapt the skill that imports it, then: clawhive skills lock.",
    ),
    Explanation(
        "CH0816",
        "Whether a schema still fits what was locked cannot be told",
        "Neither a proof nor a value against it was found. It is a warning to who imports the "
        "tool, a note to who exports it.",
        "Try it, then accept it: clawhive skills lock.",
    ),
    Explanation(
        "CH0820",
        "A required tool may do more than when it was locked",
        "Another provider offers it, or its level, risk or effects are higher.",
        "Look at it with `clawhive tools show`, then accept it: clawhive skills lock.",
    ),
    Explanation(
        "CH0821",
        "A required tool is known from the lock alone",
        "The plugin that offered it when the skill was locked is not installed here, as in CI. "
        "Where the skill is used it must be: it is not loaded there otherwise.",
        "Install the plugin where the skill is used.",
    ),
    Explanation(
        "CH0822",
        "A skill comes from elsewhere than when it was locked",
        "Another skill of the same name stands earlier on the search path now, or the one that did "
        "is gone.",
        "Look which one is meant, then accept it: clawhive skills lock.",
    ),
    Explanation(
        "CH0823",
        "The lock is not as it would be written",
        "It says the same in other bytes, such as after an editor changed its form. Skills are "
        "held against it all the same; `--frozen` wants the bytes too.",
        "Write it: clawhive skills lock.",
    ),
)
