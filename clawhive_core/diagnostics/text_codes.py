"""What the codes of findings about the text of a skill mean, and about its files."""

from __future__ import annotations

from clawhive_core.diagnostics.explanation import Explanation
from clawhive_core.diagnostics.export_codes import LEFT_OUT

TEXT_FINDINGS: tuple[Explanation, ...] = (
    Explanation(
        "CH0008",
        "A SKILL.md is called `skill.md`",
        "It is read, and the reference validators read it too; most other tools look for "
        "`SKILL.md` and see no skill.",
        "Rename it: `clawhive skills check --fix`.",
    ),
    Explanation(
        "CH0009",
        "Two files differ by capital letters only",
        "On systems where these do not count, as on macOS and Windows, one of the two is lost. "
        "Only the profile `portable` says this.",
        "Rename one of them.",
    ),
    Explanation(
        "CH0214",
        "A SKILL.md is very long",
        "The public standard recommends 500 lines at most, since the whole text is read by a "
        "model each time. Only the profiles `strict` and `portable` say this.",
        "Move details into files beside it, and refer to them.",
    ),
    Explanation(
        "CH0215",
        "A link leads to no file",
        "A relative link of a SKILL.md names a file that is not in the skill's folder. Only the "
        "profiles `strict` and `portable` say this.",
        "Mend the link, or add the file.",
    ),
    Explanation(
        "CH0216",
        "A script is not there",
        "The text names a file of `scripts/` that the folder does not hold, so that a model would "
        "try to run it in vain. Only the profiles `strict` and `portable` say this.",
        "Mend the name, or add the script.",
    ),
    Explanation(
        "CH0217",
        "A script may not be executed",
        "The text runs `./scripts/NAME` itself, and the file is not executable. Only the profiles "
        "`strict` and `portable` say this.",
        "`chmod +x` the file, or name the program that runs it.",
    ),
    Explanation(
        "CH0232",
        "The YAML is indented by tabs",
        f"YAML indents by spaces only. {LEFT_OUT}",
        "Write spaces: `clawhive skills check --fix` does where the rest is right.",
    ),
    Explanation(
        "CH0403",
        "Two skills describe themselves alike",
        "Their descriptions have the same words, so that a model cannot know which of them to "
        "choose. The profiles strict and portable look for that.",
        "Say in each description when it is the right one, or remove one of them.",
    ),
    Explanation(
        "CH0508",
        "A pattern is not for every validator",
        "JSON Schema means the regular expressions of ECMA-262. Groups named by `(?P<`, `\\A`, "
        "`\\Z`, inline flags, atomic groups and possessive quantifiers are other languages': a "
        "warning. Look-around and references back are allowed there, but engines that work in "
        "linear time, as models' APIs have them, refuse them: a note.",
        "Write it as JavaScript has it: `(?<NAME>...)`, `^`, `$`.",
    ),
)
