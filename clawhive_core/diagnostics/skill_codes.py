"""What the codes about skills mean: CH00nn files, CH02nn texts, CH03nn to CH06nn contracts."""

from __future__ import annotations

from clawhive_core.diagnostics.explanation import Explanation
from clawhive_core.diagnostics.export_codes import LEFT_OUT

SKILL_FINDINGS: tuple[Explanation, ...] = (
    Explanation(
        "CH0001",
        "A file of a skill is not UTF-8",
        f"The bytes of the file are not valid UTF-8 text; the message names the first. {LEFT_OUT}",
        "Save the file as UTF-8.",
    ),
    Explanation(
        "CH0002",
        "A file of a skill cannot be read",
        f"The system refused to read it; the message holds its reason. {LEFT_OUT}",
        "Mend the rights of the file.",
    ),
    Explanation(
        "CH0006",
        "A file of a skill is too large",
        f"A SKILL.md or manifest may have at most 1 MiB. {LEFT_OUT}",
        "Move long text into files beside it that the text refers to.",
    ),
    Explanation(
        "CH0201",
        "The name is missing",
        "The frontmatter of a SKILL.md has no `name`, or one that is no text. The skill is called "
        "like its folder.",
        "Write `name: ...` with the folder's name.",
    ),
    Explanation(
        "CH0202",
        "The name is no id",
        "An id has letters, digits, `_` and `-`, at most 64 of them, since it is the first part "
        "of the names of tools and task types. A `name` in another script is only a title; an "
        "`id` that breaks the rule is an error.",
        "Name the folder by the rule, or write `id: ...`.",
    ),
    Explanation(
        "CH0203",
        "The name breaks the rule of the standard",
        "The public standard allows lower-case letters, digits and single hyphens within a "
        "name, at most 64 characters. ClawHive loads the skill all the same; only the "
        "profiles `strict` and `portable` say this.",
        "Rename the skill, and its folder with it.",
    ),
    Explanation(
        "CH0204",
        "Name and folder differ",
        "The public standard wants the `name` of a SKILL.md to be its folder's name. The skill is "
        "loaded under its `name`.",
        "Rename one of them.",
    ),
    Explanation(
        "CH0205",
        "The description is missing",
        "A model chooses a skill by its description, and there is none. " + LEFT_OUT,
        "Write `description: ...`: what the skill does and when to use it.",
    ),
    Explanation(
        "CH0206",
        "The description is too long",
        "The public standard allows 1024 characters, and each prompt carries them.",
        "Shorten it; details belong into the body.",
    ),
    Explanation(
        "CH0207",
        "The description is no text",
        "YAML reads the value as a number, a list or another type, and other tools refuse it.",
        "Put it in quotes.",
    ),
    Explanation(
        "CH0208",
        "The description has angle brackets",
        "Some uploaders refuse `<` and `>` in a description, since it becomes a part of a "
        "prompt with tags. Only the profile `portable` says this.",
        "Write it in words.",
    ),
    Explanation(
        "CH0209",
        "The compatibility is too long, or no text",
        "The public standard allows a text of at most 500 characters, and the reference validators "
        "refuse everything else.",
        "Shorten it; details belong into the body.",
    ),
    Explanation(
        "CH0210",
        "The allowed tools are no plain list",
        "The public standard has one text with spaces between the tools. Many skills write "
        "commas or a YAML list, which some tools refuse. Only the profile `portable` says "
        "this.",
        "Write `allowed-tools: Read Write`.",
    ),
    Explanation(
        "CH0211",
        "A value of `metadata` is no text",
        "The public standard has texts under texts in `metadata`, and some tools refuse "
        "everything else. Only the profile `portable` says this.",
        "Put it in quotes, or move it into a file beside the SKILL.md.",
    ),
    Explanation(
        "CH0212",
        "A key is not in the standard",
        "The public standard allows six keys at the top of a SKILL.md, and the reference "
        "validators refuse a file with any other. ClawHive keeps such keys; only the profiles"
        " `strict` and `portable` say this.",
        "Move it below `metadata`, or into `clawhive.yaml` where it is of a contract.",
    ),
    Explanation(
        "CH0213",
        "A list or mapping stands in brackets",
        "The standard's reference validator in Python reads a part of YAML only, without `[...]` "
        "and `{...}`. Only the profile `portable` says this.",
        "Write each entry in a line of its own.",
    ),
    Explanation(
        "CH0220",
        "There is no SKILL.md",
        "The folder has a contract alone. ClawHive needs no more, but other tools do not see "
        "a skill in it; only the profiles `strict` and `portable` say this.",
        "Write a SKILL.md with `name` and `description`.",
    ),
    Explanation(
        "CH0221",
        "There is no frontmatter",
        f"A SKILL.md begins with a block between two lines `---`. {LEFT_OUT}",
        "Begin the file with `---`, `name: ...`, `description: ...` and `---`.",
    ),
    Explanation(
        "CH0222",
        "The frontmatter has no end",
        f"The block that the first `---` opens is never closed. {LEFT_OUT}",
        "Write a line `---` after its last key.",
    ),
    Explanation(
        "CH0223",
        "Something stands before the frontmatter",
        "The file begins with a byte order mark or with blank lines. ClawHive reads it; other"
        " tools look for `---` as the first three characters.",
        "Delete what stands before it: `clawhive skills check --profile strict --fix`.",
    ),
    Explanation(
        "CH0224",
        "The text is no YAML, or no JSON",
        f"A manifest or frontmatter cannot be parsed; the place is the parser's. {LEFT_OUT}",
        "Mend the text at the place; a text with a colon must stand in quotes.",
    ),
    Explanation(
        "CH0225",
        "A value is not quoted",
        "A value of the frontmatter holds a colon or begins with a sign of YAML's own. It was "
        "read as if it stood in quotes; other tools may refuse the file.",
        "Put the value in quotes.",
    ),
    Explanation(
        "CH0227",
        "A key stands twice",
        "YAML would keep the last value in silence. In a manifest this is an error.",
        "Keep one of them.",
    ),
    Explanation(
        "CH0228",
        "The frontmatter is no mapping",
        f"It must hold `key: value` lines. {LEFT_OUT}",
        "Write `name: ...` and `description: ...`.",
    ),
    Explanation(
        "CH0229",
        "The text is nested too deep or repeats itself too often",
        "At most 64 levels and 100,000 values are read, those that aliases repeat included, so "
        f"that a small file cannot use up memory. {LEFT_OUT}",
        "Write it flatter, and repeat less by aliases.",
    ),
    Explanation(
        "CH0230",
        "A YAML tag is not used",
        "A contract holds the types of JSON: texts, numbers, true and false, null, lists and "
        "mappings.",
        "Write the value as a text or a number.",
    ),
    Explanation(
        "CH0231",
        "A key is no text",
        "YAML reads words such as `on`, `yes` and `no`, and numbers, as other types than text.",
        "Put the key in quotes.",
    ),
    Explanation(
        "CH0301",
        "A contract stands in the frontmatter of a SKILL.md",
        "It is read, but tools that keep strictly to the public standard may refuse the file.",
        "Move the contract to `clawhive.yaml` beside the SKILL.md: `clawhive skills check --fix`.",
    ),
    Explanation(
        "CH0302",
        "The contract stands in more than one place",
        "It may stand in `clawhive.yaml`, in `clawhive.json`, under `metadata.clawhive` or at the "
        f"top of the frontmatter. In several, nobody knows which one counts. {LEFT_OUT}",
        "Keep one of them, best `clawhive.yaml`.",
    ),
    Explanation(
        "CH0304",
        "`requires` has another tool's form",
        "Other tools use this key of a SKILL.md in their own ways. ClawHive does not guess.",
        "Nothing, or write the needs into `clawhive.yaml`.",
    ),
    Explanation(
        "CH0305",
        "A value of a contract is not what it must be",
        f"The message names the value and what belongs there. {LEFT_OUT}",
        "Mend the value at the place.",
    ),
    Explanation(
        "CH0306",
        "A key of a contract is not known",
        "It is a warning at the top of a manifest and an error further down, where a misspelt "
        "key would change what a step or an import does.",
        "Write the key that is suggested, or remove it.",
    ),
    Explanation(
        "CH0307",
        "The name of a task type cannot be used",
        "It has letters, digits, `_` and `-`, at most 64 of them, since it is part of a tool's "
        "name.",
        "Rename it.",
    ),
    Explanation(
        "CH0308",
        "The steps of a task type do not fit together",
        "Two steps have one name, or a step needs one that is not there.",
        "Rename a step, or mend `needs`.",
    ),
    Explanation(
        "CH0309",
        "A permission cannot be read",
        "A permission is a capability such as `fs.read:${workspace}/**`. " + LEFT_OUT,
        "Write it as `docs/reference/capabilities.md` says.",
    ),
    Explanation(
        "CH0310",
        "`grounds` names a tool that the skill never calls",
        "What a contract grounds are places in the output of the skill's own calls. Nothing in "
        "this contract calls the tool: no step, no import, none of `requires.tools`.",
        "Correct the name, or name the tool where it is called.",
    ),
    Explanation(
        "CH0311",
        "A step asks for more than its skill permits",
        "A skill's `permissions` are the most that its tasks are ever given. What a step states "
        "beyond them is cut off when the step starts, so that its call may be refused.",
        "Add it to the skill's `permissions`, or remove it from the step.",
    ),
    Explanation(
        "CH0401",
        "Two skills in one folder have one name",
        "The first by file name is used and the other one is shadowed, which is hardly meant.",
        "Rename one of them.",
    ),
    Explanation(
        "CH0402",
        "A skill is shadowed",
        "A skill of the same name stands earlier in the search path: configured folders, the "
        "project's, the user's, those of plugins, the shipped ones.",
        "Nothing, if that is meant; else rename one of them.",
    ),
    Explanation(
        "CH0404",
        "What a skill requires is not there",
        "A program, an environment variable or the operating system that `requires` names is "
        "missing here. The skill is not loaded.",
        "Install the program or set the variable, and start again.",
    ),
    Explanation(
        "CH0405",
        "A plugin's source of skills failed",
        "The plugin raised an error when it was asked for its folders. Its skills are missing, "
        "the others are not affected.",
        "See `clawhive plugins check NAME`.",
    ),
    Explanation(
        "CH0406",
        "No skill lies there",
        "The path holds no folder with SKILL.md or clawhive.yaml, and no manifest.",
        "Name another folder, or make a skill: `clawhive skills new NAME`.",
    ),
    Explanation(
        "CH0407",
        "The list of trusted skills cannot be used",
        "`skill-trust.json` in your configuration directory is damaged or may be written by "
        "others. No skill counts as trusted but the shipped ones.",
        "Mend its rights, or move it away and trust the skills again.",
    ),
    Explanation(
        "CH0409",
        "A shipped skill is not as it was shipped",
        "A file of a skill that ClawHive brings was changed, added or removed where it is "
        "installed. The skill is read and checked like any other, and is not trusted any more: its "
        "task types get no rights by themselves, and its handlers run in a sandbox engine only.",
        "Install clawhive again; or read the skill, and trust it with `clawhive skills trust`. A "
        "copy of your own belongs into the project's `skills/`, which comes before the shipped "
        "ones.",
    ),
    Explanation(
        "CH0601",
        "The imported skill does not exist",
        f"`from` names a skill that is not in the search path. {LEFT_OUT}",
        "Write the name that is suggested, install the skill, or remove the import.",
    ),
    Explanation(
        "CH0602",
        "The imported tool is not exported",
        f"The skill exists and does not export that tool. {LEFT_OUT}",
        "Import one that it exports; the message lists them.",
    ),
    Explanation(
        "CH0603",
        "The exporting skill is too old",
        "Its `api_version` is below the `min_version` of the import, compared as numbers. "
        + LEFT_OUT,
        "Update the exporting skill.",
    ),
    Explanation(
        "CH0604",
        "The exporting skill is a major version ahead",
        "A new major version may have changed what is imported; the skill is loaded all the same.",
        "Try it, then raise `min_version`.",
    ),
    Explanation(
        "CH0605",
        "The min_version cannot be used",
        "It is `MAJOR.MINOR` in quotes, such as `1.2`; YAML would read it as a number otherwise.",
        'Write `min_version: "1.0"`.',
    ),
    Explanation(
        "CH0606",
        "A tool is imported twice",
        "The second import changes nothing, and a later change of one of them would mislead.",
        "Remove one of them.",
    ),
    Explanation(
        "CH0607",
        "A skill imports from itself",
        "A skill's own tools are called by their bare names and need no import.",
        "Remove the import and call the tool by its bare name.",
    ),
    Explanation(
        "CH0608",
        "Skills import each other in a circle",
        "Every skill of the circle would have to be there before the others. The message shows "
        "the whole circle with the place of each import, and all of its skills are left out.",
        "Break it: let one of them export a read-only snapshot tool that needs no import.",
    ),
    Explanation(
        "CH0611",
        "A required tool does not exist",
        "`requires.tools` names a tool that no installed plugin, no `[[tools]]` table and no "
        "loaded skill offers. The skill is left out. It is a note where a plugin lists its tools "
        "only when it runs, so that nobody can know beforehand; each start decides.",
        "Write the name that is suggested, install what offers the tool, or remove it.",
    ),
    Explanation(
        "CH0612",
        "The imported skill is left out",
        "The skill that is imported exists and is invalid, switched off or lacks something here, "
        "so the one that imports from it cannot work either.",
        "Mend or switch on the other skill first.",
    ),
)
