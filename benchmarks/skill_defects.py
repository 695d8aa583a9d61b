"""Valid skills with one defect each: is it found at its very place, alone, and mended by `--fix`?

Run `python benchmarks/skill_defects.py [--count N] [--seed N] [--show] [--smoke]`. Each operator
takes valid skills (`made_skills.py`) and makes one mistake in them; where it stands is known by
construction. A mutant passes when the check finds the operator's code with its severity at exactly
that line and column and no other error, or warning that the operator does not name; and, when the
operator says that it can be mended, when `--fix` leaves nothing to find, changes no other line, and
changes nothing the second time. `--smoke` takes a fresh seed, which it prints. Any failure, or
fewer than 60 % that are mended, fails the script.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.made_skills import MARK, Key, Made, Marked, Raw, made, misspelt, written

TOOLS = frozenset({"web.search", "web.fetch", "file.read"})
"""The tools that the skills may require."""
MOVED = frozenset({"CH0008", "CH0301"})
"""What `--fix` mends by moving a file, or a part of one."""
QUIET = frozenset({"CH0003"})
"""What valid skills are told of too: how their lines end."""


@dataclass(frozen=True, slots=True)
class Defect:
    """One way to make a mistake."""

    name: str
    code: str
    break_values: Callable[[Made], None] | None
    break_texts: Callable[[dict[str, Any], Made], None] | None
    severity: str
    profile: str
    mended: bool
    also: tuple[str, ...]
    """Notes and warnings that the same mistake causes."""
    whole: bool
    """Whether the skill that imports is there too."""
    json: bool
    """Whether the contract may be written as JSON."""
    place: tuple[int | None, int | None] | None
    """Where no mark can stand: in the SKILL.md, or the whole file."""
    anywhere: bool
    """Whether the fix may change other lines than the one of the finding."""


DEFECTS: list[Defect] = []


def values(code: str, **more: Any) -> Callable[[Callable[[Made], None]], Callable[[Made], None]]:
    """Register an operator on the values of valid skills."""

    def register(make: Callable[[Made], None]) -> Callable[[Made], None]:
        DEFECTS.append(_defect(make.__name__, code, make, None, more))
        return make

    return register


def texts(code: str, **more: Any) -> Callable[[Any], Any]:
    """Register an operator on the written files of valid skills."""

    def register(make: Any) -> Any:
        DEFECTS.append(_defect(make.__name__, code, None, make, more))
        return make

    return register


def _defect(name: str, code: str, tree: Any, text: Any, more: dict[str, Any]) -> Defect:
    return Defect(
        name,
        code,
        tree,
        text,
        more.get("severity", "error"),
        more.get("profile", "lenient"),
        more.get("mended", False),
        tuple(more.get("also", ())),
        more.get("whole", False),
        more.get("json", text is None),
        more.get("place"),
        more.get("anywhere", False),
    )


# Small steps.


def rekey(mapping: dict[Any, Any], old: Any, new: Any, value: Any = None) -> None:
    """Give an entry another key, and perhaps value, where it stands."""
    entries = [
        (new, each if value is None else value) if key == old else (key, each)
        for key, each in mapping.items()
    ]
    mapping.clear()
    mapping.update(entries)


def slip_key(skills: Made, mapping: dict[Any, Any], key: str) -> None:
    rekey(mapping, key, Key(misspelt(skills.rnd, key, [*mapping])))


def slip(skills: Made, mapping: Any, key: Any, known: Sequence[str] = ()) -> None:
    mapping[key] = Marked(misspelt(skills.rnd, mapping[key], known))


def insert(mapping: dict[Any, Any], key: Any, value: Any, rnd: random.Random) -> None:
    """Put an entry somewhere into a mapping."""
    entries = [*mapping.items()]
    entries.insert(rnd.randrange(len(entries) + 1), (key, value))
    mapping.clear()
    mapping.update(entries)


def text_of(files: dict[str, Any], skills: Made) -> tuple[str, str]:
    path = f"{skills.name}/SKILL.md"
    return path, files[path]


def end_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def marked_line(text: str, start: str, line: str, *, after: bool = False) -> str:
    """Return a text with a line put before, or after, the first one that begins so."""
    end = end_of(text)
    lines = text.split(end)
    at = next(number for number, each in enumerate(lines) if each.startswith(start))
    lines.insert(at + after, line)
    return end.join(lines)


# Files.


@texts("CH0001")
def a_byte_that_is_no_utf8(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = text.replace("first", f"é{MARK}first").encode().replace(b"first", b"\xffirst")


@texts("CH0003", severity="note", mended=True)
def a_windows_line_end(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    lines = text.replace("\r\n", "\n").split("\n")
    at = skills.rnd.randrange(len(lines) - 1)
    lines[at] += f"{MARK}\r"
    files[path] = "\n".join(lines)


@texts("CH0003", severity="note", mended=True, anywhere=True, json=False)
def a_line_end_unlike_the_others(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    lines = text.replace("\r\n", "\n").split("\n")
    first, *rest = lines
    files[path] = f"{first}{MARK}\r\n" + "\r\n".join(rest[:-2]) + "\n" + "\r\n".join(rest[-2:])


@texts("CH0004", severity="warning", mended=True)
def a_control_character(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = text.replace("the rest", f"the {MARK}\x1brest")


@texts("CH0004", severity="warning", mended=True)
def a_nul_in_the_body(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = text.replace("the rest", f"the {MARK}\x00rest")


@texts("CH0005")
def text_that_turns_around(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = text.replace("the rest", f"the {MARK}\u202erest")


@texts("CH0005", severity="warning", mended=True)
def a_space_of_no_width(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = text.replace("the rest", f"the {MARK}\u200brest")


@texts("CH0006", place=(None, None))
def a_text_that_is_too_large(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = text + "long " * 220_000


@texts("CH0010", severity="note", mended=True, place=(1, 1))
def a_byte_order_mark(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = "\ufeff" + text


# Frontmatter.


@texts("CH0221", place=(1, 1))
def no_frontmatter(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = text.replace("---", "", 1).lstrip()


@texts("CH0222", mended=True, place=(1, 1), anywhere=True)
def a_frontmatter_without_end(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    end = end_of(text)
    text = text.replace(f"{end}---{end}{end}Then", f"{end}Then")  # another rule would close it
    files[path] = text.replace(f"{end}---{end}", end, 1)


@texts("CH0223", profile="strict", mended=True, place=(1, 1))
def an_empty_line_before_the_frontmatter(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = end_of(text) + text


@texts("CH0223", profile="strict", mended=True, place=(1, 1), also=("CH0010",))
def a_mark_before_the_frontmatter(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = "\ufeff" + text


@texts("CH0201", severity="warning", mended=True)
def a_name_without_value(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = re.sub(r"(?m)^name:.*?(\r?)$", rf"name:{MARK}\1", text, count=1)


@texts("CH0227", mended=True)
def a_line_of_a_manifest_twice(files: dict[str, Any], skills: Made) -> None:
    path = f"{skills.name}/clawhive.yaml"
    end = end_of(files[path])
    lines = files[path].split(end)
    line = next(each for each in lines if re.match("[\"']?version", each))
    files[path] = files[path] + f"{MARK}{line}{end}"


@texts("CH0224")
def a_key_without_colon(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    text = text.replace("---", f"---{end_of(text)}'x': 1", 1)
    text = marked_line(text, "description", "licence MIT")
    files[path] = re.sub(r"(?m)^((\")?description)", rf"{MARK}\1", text, count=1)


@texts("CH0224")
def a_list_item_among_keys(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    end = end_of(text)
    files[path] = text.replace(f"---{end}", f"---{end}x: 1{end}{MARK}- y{end}", 1)


@texts("CH0225", severity="warning", mended=True)
def a_value_with_a_colon(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = re.sub(
        r"(?m)^description:.*?(\r?)$", rf"description: {MARK}Use it: daily\1", text
    )


@texts("CH0225", severity="warning", mended=True)
def a_value_with_a_sign_of_yaml(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = re.sub(r"(?m)^description:.*?(\r?)$", rf"description: {MARK}@all of it\1", text)


@texts("CH0227", severity="warning", mended=True)
def a_line_twice(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    end = end_of(text)
    line = next(each for each in text.split(end) if each.startswith("name"))
    at = text.index(f"{end}---{end}")
    files[path] = f"{text[:at]}{end}{MARK}{line}{text[at:]}"


@values("CH0227", severity="error", json=False)
def a_key_twice_with_other_values(skills: Made) -> None:
    skills.contract[Key("version")] = "7.7.7"


@texts("CH0228", place=(2, 1))
def a_list_for_the_frontmatter(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    end = end_of(text)
    body = text.split(f"{end}---{end}", 1)[1]
    files[path] = f"---{end}- name{end}- description{end}---{end}{body}"


@texts("CH0229", place=(None, None))
def nesting_without_end(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    end = end_of(text)
    files[path] = text.replace(f"---{end}", f"---{end}x: {'[' * 80}{']' * 80}{end}", 1)


@values("CH0230", json=False)
def a_tag_of_its_own(skills: Made) -> None:
    skills.contract["version"] = Marked(Raw("!release 1.2.0"))


@values("CH0231", mended=True, json=False)
def a_key_that_is_a_switch(skills: Made) -> None:
    properties = skills.tool()["input_schema"]["properties"]
    insert(properties, Key(Raw(skills.rnd.choice(("on", "yes", "No")))), {}, skills.rnd)


@texts("CH0232", mended=True, anywhere=True)
def an_indentation_by_tabs(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    end = end_of(text)
    text = text.replace(f"---{end}", f"---{end}metadata:{end}{MARK}\tauthor: me{end}", 1)
    files[path] = re.sub(r"(?m)^metadata:\r?\n(?: +.*\r?\n)+", "", text)


# The standard.


@values("CH0201", severity="warning", mended=True, anywhere=True)
def no_name(skills: Made) -> None:
    del skills.front["name"]
    mark_first(skills)


def mark_first(skills: Made) -> None:
    first = next(iter(skills.front))
    rekey(skills.front, first, Key(first))


@values("CH0201", profile="strict", mended=True)
def a_misspelt_name_key(skills: Made) -> None:
    slip_key(skills, skills.front, "name")


@values("CH0205", profile="strict", mended=True)
def a_misspelt_description_key(skills: Made) -> None:
    slip_key(skills, skills.front, "description")


@values("CH0203", profile="strict", mended=True)
def a_name_with_capital_letters(skills: Made) -> None:
    skills.front["name"] = Marked(skills.name.title())


@values("CH0203", profile="strict", mended=True)
def a_name_with_signs(skills: Made) -> None:
    skills.front["name"] = Marked(skills.name.replace("-", skills.rnd.choice("_. ")))


@values("CH0203", profile="strict", mended=True)
def a_name_with_two_hyphens(skills: Made) -> None:
    skills.front["name"] = Marked(skills.name.replace("-", "--"))


@values("CH0204", profile="strict", mended=True)
def a_name_that_is_not_the_folders(skills: Made) -> None:
    skills.contract["id"] = skills.name
    skills.front["name"] = Marked(f"{skills.name}-two")


@values("CH0205", profile="strict")
def no_description(skills: Made) -> None:
    del skills.front["description"]
    mark_first(skills)


@values("CH0206", profile="strict")
def a_description_that_is_too_long(skills: Made) -> None:
    skills.front["description"] = Marked(" ".join(["words"] * 200))


@values("CH0207", profile="strict", mended=True)
def a_description_that_is_a_number(skills: Made) -> None:
    skills.front["description"] = Marked(Raw(skills.rnd.choice(("2026", "1.5", "yes"))))


@values("CH0208", profile="portable")
def a_description_with_a_tag(skills: Made) -> None:
    skills.front["description"] = Marked(f"{skills.front['description']} of <name>")


@values("CH0209", profile="strict")
def a_compatibility_that_is_too_long(skills: Made) -> None:
    skills.front["compatibility"] = Marked("all of them " * 50)


@values("CH0209", profile="strict", mended=True)
def a_compatibility_that_is_a_number(skills: Made) -> None:
    skills.front["compatibility"] = Marked(Raw("3.11"))


@values("CH0210", profile="portable", mended=True)
def allowed_tools_with_commas(skills: Made) -> None:
    skills.front["allowed-tools"] = Marked("Read, Bash(git:*), Grep")


@values("CH0210", profile="portable", mended=True, anywhere=True)
def allowed_tools_in_lines(skills: Made) -> None:
    skills.front["allowed-tools"] = Marked([Raw("Read"), Raw("Bash(git:*)")])


@values("CH0210", profile="portable", mended=True)
def allowed_tools_with_commas_alone(skills: Made) -> None:
    skills.front["allowed-tools"] = Marked("Read,Grep,Glob")


@values("CH0210", profile="portable", mended=True)
def allowed_tools_in_brackets(skills: Made) -> None:
    skills.front["allowed-tools"] = Marked(Raw("[Read, Bash(git:*)]"))


@texts("CH0214", severity="note", profile="strict", place=(501, 1))
def a_text_of_many_lines(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = text + f"Go on.{end_of(text)}" * 600


@texts("CH0215", severity="warning", profile="strict")
def a_link_to_nothing(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = text.replace("the rest", f"[the rest]({MARK}reference/none.md#part)")


@texts("CH0216", severity="warning", profile="strict")
def a_script_that_is_not_there(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = text.replace("the rest", f"`python {MARK}scripts/none.py`")


@texts("CH0217", severity="note", profile="strict")
def a_script_that_may_not_run(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    files[path] = text.replace("the rest", f"`{MARK}./scripts/run.sh`")
    files[f"{skills.name}/scripts/run.sh"] = "echo\n"


@values("CH0211", profile="portable", mended=True)
def a_number_deep_in_metadata(skills: Made) -> None:
    metadata = skills.front.setdefault("metadata", {"author": "me"})
    insert(metadata, "since", Marked(Raw("2026")), skills.rnd)


@values("CH0225", severity="warning", mended=True)
def a_licence_with_a_colon(skills: Made) -> None:
    skills.front["license"] = Marked(Raw("MIT: see the file"))


@values("CH0231", severity="warning", mended=True)
def a_key_of_the_text_that_is_a_switch(skills: Made) -> None:
    insert(skills.front, Key(Raw("on")), "demand", skills.rnd)


@texts("CH0008", severity="warning", mended=True, place=(None, None), anywhere=True)
def a_text_in_small_letters(files: dict[str, Any], skills: Made) -> None:
    path, text = text_of(files, skills)
    del files[path]
    files[f"{skills.name}/skill.md"] = text


@texts("CH0009", profile="portable", place=(None, None))
def two_files_of_one_name(files: dict[str, Any], skills: Made) -> None:
    files[f"{skills.name}/Reference.md"] = files[f"{skills.name}/reference.md"] = "x\n"
    files["expected"] = f"{skills.name}/reference.md"


@values("CH0301", severity="note", mended=True, anywhere=True, json=False)
def a_contract_in_metadata(skills: Made) -> None:
    contract, skills.contract = skills.contract, {}
    skills.front["metadata"] = {"author": "me", "clawhive": Marked(contract)}


@values("CH0301", severity="note", mended=True, anywhere=True, json=False)
def a_contract_at_the_top(skills: Made) -> None:
    skills.front.pop("metadata", None)
    skills.front["exports"] = Marked(skills.contract["exports"])
    skills.contract = {}


@values("CH0211", profile="portable", mended=True)
def a_number_in_metadata(skills: Made) -> None:
    skills.front["metadata"] = {"version": Marked(Raw(skills.rnd.choice(("1.10", "2", "true"))))}


@values("CH0212", profile="strict", mended=True)
def a_misspelt_key_of_the_standard(skills: Made) -> None:
    key = skills.rnd.choice(("license", "compatibility", "metadata", "allowed-tools"))
    found = skills.front.pop(key, {"a": "b"} if key == "metadata" else "some words")
    insert(skills.front, Key(misspelt(skills.rnd, key)), found, skills.rnd)


@values("CH0212", profile="strict")
def a_key_beyond_the_standard(skills: Made) -> None:
    insert(skills.front, Key("trigger-words"), "some", skills.rnd)


@values("CH0213", profile="portable", mended=True, anywhere=True)
def a_mapping_in_brackets(skills: Made) -> None:
    skills.front.pop("metadata", None)
    insert(skills.front, "metadata", Marked(Raw('{author: me, "since": "2026"}')), skills.rnd)


# Portability.


@values("CH0302", also=("CH0301",), json=False)
def a_contract_in_two_places(skills: Made) -> None:
    skills.front["metadata"] = {"clawhive": Marked({"version": "1.0.0"})}


@values("CH0303", severity="warning", whole=True)
def external_tools(skills: Made) -> None:
    skills.consumer["external_tools"] = [Marked(f"{skills.name}.{skills.tools[1]}")]
    skills.consumer["imports"][0]["tools"] = skills.tools[:1]


# Forms of the contract.


@values("CH0305", mended=True)
def a_version_that_is_a_number(skills: Made) -> None:
    skills.contract["version"] = Marked(
        Raw(f"{skills.rnd.randint(0, 9)}.{skills.rnd.randint(0, 99)}")
    )


@values("CH0305", mended=True)
def a_description_of_a_tool_that_is_a_number(skills: Made) -> None:
    skills.tool(1)["description"] = Marked(Raw("42"))


@values("CH0305", mended=True)
def a_level_in_small_letters(skills: Made) -> None:
    skills.tool(2)["capability_level"] = Marked("l0")


@values("CH0305", mended=True)
def a_risk_in_capital_letters(skills: Made) -> None:
    skills.tool().update(risk=Marked("SAFE"), capability_level="L0")


@values("CH0305", mended=True)
def a_misspelt_risk_of_a_tool(skills: Made) -> None:
    skills.tool(1)["risk"] = Marked(misspelt(skills.rnd, "guarded"))


@values("CH0305", mended=True)
def a_misspelt_risk(skills: Made) -> None:
    skills.contract["risk_policy"]["max_risk"] = Marked(misspelt(skills.rnd, "guarded"))


@values("CH0305", mended=True)
def a_switch_in_quotes(skills: Made) -> None:
    skills.exports["access"]["requires_subscription"] = Marked("true")


@values("CH0305", mended=True)
def a_text_for_a_list(skills: Made) -> None:
    skills.contract["permissions"] = Marked("fs.read:/data")


@values("CH0305", mended=True)
def a_text_for_a_list_of_tools(skills: Made) -> None:
    skills.contract["grounds"] = {}
    skills.contract["requires"]["tools"] = Marked("web.search")


@values("CH0305")
def a_number_for_a_list(skills: Made) -> None:
    skills.contract["permissions"] = Marked(5)


@values("CH0305", mended=True)
def a_system_that_is_misspelt(skills: Made) -> None:
    slip(skills, skills.contract["requires"]["os"], 2)


@values("CH0305", mended=True)
def a_cap_in_small_letters(skills: Made) -> None:
    skills.contract["risk_policy"]["max_level"] = Marked("l1")


@values("CH0305", mended=True)
def a_switch_of_a_tool_in_quotes(skills: Made) -> None:
    skills.tool(1)["idempotent"] = Marked(skills.rnd.choice(("true", "false")))


@values("CH0305", mended=True)
def a_switch_of_the_policy_in_quotes(skills: Made) -> None:
    skills.contract["risk_policy"]["confirm"] = Marked("False")


@values("CH0305", mended=True)
def a_description_of_a_task_that_is_a_switch(skills: Made) -> None:
    insert(skills.contract["tasks"]["daily_digest"], "description", Marked(Raw("true")), skills.rnd)
    skills.contract["allowed_run_types"] = ["write_overview"]


@values("CH0305", mended=True)
def an_id_that_is_a_number(skills: Made) -> None:
    skills.contract["id"] = Marked(Raw(str(skills.rnd.randint(10**6, 10**9))))


@values("CH0305")
def a_time_that_is_none(skills: Made) -> None:
    skills.tool(1)["timeout_ms"] = Marked(-5)


@values("CH0305", mended=True)
def an_effect_on_a_misspelt_verb(skills: Made) -> None:
    skills.tool()["effects"] = {"place": Marked("fs.raed")}


@values("CH0305", mended=True)
def effects_on_a_misspelt_verb(skills: Made) -> None:
    effects = {"place": ["fs.read", Marked("fs.wirte")]}
    skills.tool(1).update(effects=effects, risk="guarded")


@values("CH0305", mended=True)
def an_effect_of_a_misspelt_argument(skills: Made) -> None:
    skills.tool()["effects"] = {Key("plaec"): "fs.read"}


@values("CH0305", whole=True)
def an_import_without_tools(skills: Made) -> None:
    skills.consumer["imports"] = [Marked({"from": skills.name})]
    skills.consumer_handlers = "def combine_both(input, ctx): ...\n"


@values("CH0306", severity="warning", mended=True)
def a_misspelt_key_of_a_manifest(skills: Made) -> None:
    slip_key(skills, skills.contract, skills.rnd.choice(("permissions", "requires", "risk_policy")))


@values("CH0306", severity="warning")
def an_unknown_key_of_a_manifest(skills: Made) -> None:
    insert(skills.contract, Key("homepage"), "none", skills.rnd)


@values("CH0306", mended=True)
def a_misspelt_key_of_exports(skills: Made) -> None:
    slip_key(skills, skills.exports, skills.rnd.choice(("access", "deprecated", "api_version")))


@values("CH0306", mended=True)
def a_misspelt_key_of_a_tool(skills: Made) -> None:
    slip_key(
        skills, skills.tool(), skills.rnd.choice(("input_schema", "description", "timeout_ms"))
    )


@values("CH0306", mended=True, json=False)
def a_misspelt_name_of_a_tool(skills: Made) -> None:
    tool = skills.tool(1)
    if "name" in tool:
        slip_key(skills, tool, "name")
    else:
        slip_key(skills, tool, "description")


@values("CH0306", severity="warning", mended=True)
def exports_that_are_misspelt(skills: Made) -> None:
    slip_key(skills, skills.contract, "exports")


@values("CH0306", mended=True)
def tools_of_the_exports_that_are_misspelt(skills: Made) -> None:
    slip_key(skills, skills.exports, "tools")


@values("CH0306", mended=True)
def a_removal_date_whose_key_is_misspelt(skills: Made) -> None:
    slip_key(skills, skills.exports["deprecated"][0], "removal_date")


@values("CH0306", mended=True)
def steps_that_are_misspelt(skills: Made) -> None:
    slip_key(skills, skills.contract["tasks"]["daily_digest"], "steps")


@values("CH0306", mended=True)
def an_input_of_a_step_that_is_misspelt(skills: Made) -> None:
    slip_key(skills, skills.contract["tasks"]["write_overview"]["steps"][0], "input")


@values("CH0306", mended=True)
def a_misspelt_key_of_access(skills: Made) -> None:
    access = skills.exports["access"]
    slip_key(skills, access, skills.rnd.choice([*access]))


@values("CH0306", mended=True)
def a_misspelt_key_of_a_deprecation(skills: Made) -> None:
    slip_key(
        skills, skills.exports["deprecated"][0], skills.rnd.choice(("announced", "replacement"))
    )


@values("CH0306", mended=True)
def a_misspelt_key_of_requires(skills: Made) -> None:
    slip_key(skills, skills.contract["requires"], "tools")


@values("CH0306", mended=True)
def a_misspelt_key_of_a_task(skills: Made) -> None:
    task = skills.contract["tasks"]["write_overview"]
    slip_key(skills, task, skills.rnd.choice(("description", "input_schema")))


@values("CH0306", mended=True)
def a_misspelt_key_of_the_policy(skills: Made) -> None:
    policy = skills.contract["risk_policy"]
    slip_key(skills, policy, skills.rnd.choice([*policy]))


@values("CH0306", mended=True)
def a_misspelt_key_of_another_step(skills: Made) -> None:
    step = skills.contract["tasks"]["daily_digest"]["steps"][0]
    slip_key(skills, step, "permissions")


@values("CH0306", mended=True)
def a_misspelt_fact_of_a_tool(skills: Made) -> None:
    slip_key(skills, skills.tool(2), skills.rnd.choice(("idempotent", "effects", "output_schema")))


@values("CH0306", mended=True)
def a_misspelt_key_of_a_step(skills: Made) -> None:
    slip_key(skills, skills.contract["tasks"]["write_overview"]["steps"][1], "needs")


@values("CH0306", mended=True, whole=True)
def a_misspelt_key_of_an_import(skills: Made) -> None:
    slip_key(
        skills, skills.consumer["imports"][0], skills.rnd.choice(("from", "tools", "min_version"))
    )


@values("CH0307")
def a_task_with_a_space(skills: Made) -> None:
    skills.contract["allowed_run_types"] = ["daily_digest"]
    rekey(skills.contract["tasks"], "write_overview", Key("write overview"))


@values("CH0308", mended=True)
def a_need_that_is_misspelt(skills: Made) -> None:
    slip(skills, skills.contract["tasks"]["write_overview"]["steps"][1]["needs"], 0)


@values("CH0308")
def two_steps_of_one_name(skills: Made) -> None:
    skills.contract["tasks"]["write_overview"]["steps"][1]["name"] = Marked("search_first")


@values("CH0309", mended=True)
def a_permission_of_a_misspelt_verb(skills: Made) -> None:
    skills.contract["permissions"][0] = Marked("fs.raed:${workspace}/**")


@values("CH0309", mended=True)
def a_permission_of_a_step_of_a_misspelt_verb(skills: Made) -> None:
    steps = skills.contract["tasks"]["write_overview"]["steps"]
    steps[0]["permissions"] = [Marked("fs.redd:${workspace}/**")]


@values("CH0309")
def a_permission_without_form(skills: Made) -> None:
    skills.contract["permissions"][1] = Marked("everything please")


@values("CH0310", severity="warning", mended=True)
def grounds_of_a_misspelt_tool(skills: Made) -> None:
    skills.contract["grounds"] = {Key(misspelt(skills.rnd, "web.search")): ["items/*/url:url"]}


@values("CH0311", severity="warning")
def a_step_beyond_the_permissions(skills: Made) -> None:
    wanted = [Marked("net.http:**")]
    skills.contract["tasks"]["daily_digest"]["steps"][0]["permissions"] = wanted


@values("CH0312", mended=True)
def a_misspelt_run_type(skills: Made) -> None:
    slip(skills, skills.contract["allowed_run_types"], 1)


@values("CH0313", severity="warning", whole=True)
def data_of_another_skill(skills: Made) -> None:
    skills.consumer["requires_skill_data"] = [Marked(skills.name)]


@values("CH0314", severity="warning")
def data_paths(skills: Made) -> None:
    skills.contract[Key("data_paths")] = ["public_state"]


@values("CH0315")
def a_tool_above_the_own_cap(skills: Made) -> None:
    name = skills.tools[1]
    skills.tool(1).update(capability_level="L2", risk="guarded")
    tools = skills.exports["tools"]
    if isinstance(tools[1], dict):
        tools[1]["name"] = Marked(name)
    else:
        tools[1] = Marked(name)


@values("CH0316", also=("CH0314",))
def data_paths_beyond_the_public(skills: Made) -> None:
    skills.contract["data_paths"] = [Marked("private_notes")]


# Catalog.


@values("CH0404", severity="note")
def a_program_that_is_not_there(skills: Made) -> None:
    skills.contract["requires"] = Marked(skills.contract["requires"] | {"bins": ["xyzzy-plugh"]})


@values("CH0408", also=("CH0402",))  # another mutant may have chosen the same
def an_id_that_is_kept(skills: Made) -> None:
    skills.contract["id"] = skills.rnd.choice(("core", "local", "mcp", "sandbox"))
    skills.exports["api_version"] = Marked(skills.exports["api_version"])


@values("CH0608", whole=True, also=("CH0608",))
def skills_in_a_circle(skills: Made) -> None:
    """Each of them is told: the mark is at the one, and the other's own import counts too."""
    skills.contract["imports"] = [{"from": skills.user, "tools": ["combine_both"]}]
    entry = skills.consumer["imports"][0]
    entry["from"] = Marked(entry["from"])
    call = f'    await ctx.call("{skills.user}.combine_both", input)\n    return'
    skills.handlers = skills.handlers.replace("    return", call, 1)


# Exports.


@values("CH0501", mended=True)
def an_api_version_that_is_a_number(skills: Made) -> None:
    skills.exports["api_version"] = Marked(Raw(skills.rnd.choice(("1.10", "2", "3.0"))))


@values("CH0501", mended=True)
def an_api_version_of_three_parts(skills: Made) -> None:
    skills.exports["api_version"] = Marked(skills.rnd.choice(("1.2.0", "v1.2", "v2")))


@values("CH0605", mended=True, whole=True)
def a_min_version_of_three_parts(skills: Made) -> None:
    version = skills.exports["api_version"]
    skills.consumer["imports"][0]["min_version"] = Marked(f"{version}.0")


@values("CH0501")
def an_api_version_of_words(skills: Made) -> None:
    skills.exports["api_version"] = Marked("newest")


@values("CH0502")
def a_tool_with_a_space(skills: Made) -> None:
    described = dict(skills.tool())
    described.pop("name", None)
    skills.exports.pop("contracts", None)
    skills.exports["access"] = {}
    skills.exports["deprecated"] = []
    skills.exports["tools"] = [{"name": Marked("read it"), **described}]


@values("CH0502", mended=True)
def a_contract_of_a_misspelt_tool(skills: Made) -> None:
    tools = skills.exports["tools"]
    if isinstance(tools[0], dict):
        skills.exports["contracts"] = {each.pop("name"): each for each in tools}
        skills.exports["tools"] = [*skills.tools]
    slip_key(skills, skills.exports["contracts"], skills.tools[1])


@values("CH0503", mended=True)
def a_misspelt_type_in_a_schema(skills: Made) -> None:
    kind = misspelt(skills.rnd, "string")
    skills.tool(1)["input_schema"]["properties"]["place"]["type"] = Marked(kind)


@values("CH0503", mended=True)
def a_misspelt_type_in_the_input_of_a_task(skills: Made) -> None:
    schema = skills.contract["tasks"]["write_overview"]["input_schema"]
    schema["properties"]["query"]["type"] = Marked(misspelt(skills.rnd, "string"))


@values("CH0503", mended=True)
def a_misspelt_type_in_an_output(skills: Made) -> None:
    point = skills.tool(2)["output_schema"]["$defs"]["Point"]
    point["properties"]["x"]["type"] = Marked(misspelt(skills.rnd, "number"))


@values("CH0503")
def a_schema_with_a_wrong_bound(skills: Made) -> None:
    skills.tool()["output_schema"]["properties"]["result"]["minLength"] = Marked(-1)


@values("CH0504")
def an_input_that_is_no_object(skills: Made) -> None:
    tool = skills.tool()
    tool["effects"] = {}
    tool["input_schema"] = {"type": Marked("array")}


@values("CH0504", severity="warning")
def cases_at_the_root_of_an_input(skills: Made) -> None:
    skills.tool(2)["input_schema"]["anyOf"] = Marked([{"required": ["place"]}])


@values("CH0505")
def a_reference_into_nothing(skills: Made) -> None:
    properties = skills.tool()["input_schema"]["properties"]
    properties["place"] = {"$ref": Marked("#/$defs/Nothing")}


@values("CH0505")
def a_reference_to_an_address(skills: Made) -> None:
    properties = skills.tool()["input_schema"]["properties"]
    properties["place"] = {"$ref": Marked("https://example.com/schema.json")}


@values("CH0506", mended=True)
def a_free_tool_that_is_misspelt(skills: Made) -> None:
    slip(skills, skills.exports["access"]["free_tools"], skills.rnd.randrange(3), skills.tools)


@values("CH0506", mended=True)
def a_rate_of_a_misspelt_tool(skills: Made) -> None:
    slip_key(skills, skills.exports["access"]["rate_limit"], skills.tools[0])


@values("CH0507", mended=True)
def a_rate_of_all_tools_in_words(skills: Made) -> None:
    rate = skills.rnd.choice(("100 per hour", "9/seconds", "5/min"))
    skills.exports["access"]["rate_limit"] = Marked(rate)


@values("CH0507", mended=True)
def a_rate_in_words(skills: Made) -> None:
    rate = skills.rnd.choice(("50 per day", "50/days", "5/d", "7/Hour", "3/min", "9 / secnd"))
    skills.exports["access"]["rate_limit"][skills.tools[0]] = Marked(rate)


@values("CH0507")
def a_rate_without_unit(skills: Made) -> None:
    skills.exports["access"]["rate_limit"][skills.tools[0]] = Marked(50)


@values("CH0508", severity="warning", mended=True)
def a_group_named_as_in_python(skills: Made) -> None:
    place = skills.tool()["input_schema"]["properties"]["place"]
    place["pattern"] = Marked("^(?P<year>[0-9]+)$")


@values("CH0508", severity="note")
def a_pattern_that_looks_back(skills: Made) -> None:
    skills.tool()["input_schema"]["properties"]["place"]["pattern"] = Marked("^(a|b)-\\1$")


@values("CH0509")
def a_tool_without_function(skills: Made) -> None:
    skills.handlers = skills.handlers.replace(f"def {skills.tools[0]}(", "def another(")
    mark_tool(skills, 0)


def mark_tool(skills: Made, index: int) -> None:
    tools = skills.exports["tools"]
    if isinstance(tools[index], dict):
        tools[index]["name"] = Marked(tools[index]["name"])
    else:
        tools[index] = Marked(tools[index])


@values("CH0511")
def handlers_that_are_no_python(skills: Made) -> None:
    skills.handlers += f"def broken({MARK}:\n"


@values("CH0512")
def a_handler_of_one_argument(skills: Made) -> None:
    old = f"async def {skills.tools[1]}(input, ctx)"
    skills.handlers = skills.handlers.replace(old, f"{MARK}async def {skills.tools[1]}(input)")


@values("CH0513")
def a_tool_without_output_schema(skills: Made) -> None:
    del skills.tool(1)["output_schema"]
    mark_tool(skills, 1)


@values("CH0514", severity="warning")
def a_tool_called_like_the_cores(skills: Made) -> None:
    described = dict(skills.tool())
    described.pop("name", None)
    skills.exports.pop("contracts", None)
    skills.exports["access"], skills.exports["deprecated"] = {}, []
    skills.exports["tools"] = [{"name": Marked("save"), **described}]
    skills.handlers = "def save(input, ctx): ...\n"


@values("CH0515", severity="warning", mended=True)
def a_safe_tool_with_side_effects(skills: Made) -> None:
    skills.tool().update(risk=Marked("safe"), side_effects=True)


# Imports.


@values("CH0601", mended=True, whole=True)
def an_import_from_a_misspelt_skill(skills: Made) -> None:
    slip(skills, skills.consumer["imports"][0], "from")


@values("CH0601", whole=True)
def an_import_from_nobody(skills: Made) -> None:
    skills.consumer["imports"][0]["from"] = Marked("xyzzy-plugh-quux")
    skills.consumer_handlers = skills.consumer_handlers.replace(skills.name, "xyzzy-plugh-quux")


@values("CH0602", mended=True, whole=True)
def an_import_of_a_misspelt_tool(skills: Made) -> None:
    slip(skills, skills.consumer["imports"][0]["tools"], skills.rnd.randrange(2))


@values("CH0602", whole=True, also=("CH0616",))
def an_import_of_no_tool(skills: Made) -> None:
    skills.consumer["imports"][0]["tools"].append(Marked("xyzzy"))


@values("CH0603", whole=True)
def a_provider_that_is_too_old(skills: Made) -> None:
    skills.consumer["imports"][0]["min_version"] = Marked("9.0")


@values("CH0604", severity="warning", whole=True)
def a_provider_of_a_later_major(skills: Made) -> None:
    skills.consumer["imports"][0]["min_version"] = Marked("0.1")


@values("CH0605", mended=True, whole=True)
def a_min_version_that_is_a_number(skills: Made) -> None:
    skills.consumer["imports"][0]["min_version"] = Marked(Raw(skills.exports["api_version"]))


@values("CH0606", severity="warning", mended=True, whole=True)
def an_import_twice(skills: Made) -> None:
    tools = skills.consumer["imports"][0]["tools"]
    tools.append(Marked(tools[0]))


@values("CH0607")
def an_import_from_oneself(skills: Made) -> None:
    skills.contract["imports"] = [{"from": Marked(skills.name), "tools": []}]


@values("CH0609", severity="note", whole=True)
def an_import_for_subscribers(skills: Made) -> None:
    skills.exports["access"]["free_tools"] = skills.tools[1:]
    tools = skills.consumer["imports"][0]["tools"]
    tools[0] = Marked(tools[0])


@values("CH0610", whole=True)
def code_of_another_skill(skills: Made) -> None:
    owner = skills.name.replace("-", "_")
    skills.consumer_handlers = (
        f"{MARK}from skills.{owner}.inside import it\n" + skills.consumer_handlers
    )


@values("CH0611", mended=True)
def a_required_tool_that_is_misspelt(skills: Made) -> None:
    skills.contract["grounds"] = {}
    slip(skills, skills.contract["requires"]["tools"], skills.rnd.randrange(2))


@values("CH0611")
def a_required_tool_that_nobody_offers(skills: Made) -> None:
    skills.contract["requires"]["tools"].append(Marked("xyzzy.plugh"))


@values("CH0613", whole=True)
def a_value_kept_elsewhere(skills: Made) -> None:
    line = f'    {MARK}ctx.save("skills.other.it", 1)\n'
    skills.consumer_handlers = skills.consumer_handlers.replace("    return", f"{line}    return")


@values("CH0614", severity="note", whole=True)
def a_name_of_two_tools(skills: Made) -> None:
    name = skills.tools[0]
    skills.consumer["exports"]["tools"][0]["name"] = name
    skills.consumer["imports"][0]["tools"][0] = Marked(name)
    skills.consumer_handlers = skills.consumer_handlers.replace("def combine_both", f"def {name}")


@values("CH0615", whole=True)
def a_call_that_is_not_declared(skills: Made) -> None:
    line = f'    await {MARK}ctx.call("{skills.name}.{skills.tools[2]}", input)\n'
    skills.consumer_handlers = skills.consumer_handlers.replace("    return", f"{line}    return")


@values("CH0616", severity="warning", mended=True, whole=True)
def an_import_that_nothing_uses(skills: Made) -> None:
    skills.exports["deprecated"] = []
    skills.consumer["imports"][0]["tools"].append(Marked(skills.tools[2]))


# Deprecation.


@values("CH0701", mended=True)
def a_deprecation_that_is_too_short(skills: Made) -> None:
    entry = skills.exports["deprecated"][0]
    entry["announced"], entry["removal_date"] = "2990-07-01", Marked("2990-07-20")


@values("CH0702", severity="warning")
def a_deprecation_that_is_over(skills: Made) -> None:
    skills.exports["deprecated"][0]["removal_date"] = Marked("2020-09-01")


@values("CH0703", severity="warning", whole=True)
def an_import_of_what_goes(skills: Made) -> None:
    skills.consumer_handlers = calling_all(skills)
    skills.consumer["imports"][0]["tools"].append(Marked(skills.tools[2]))


def calling_all(skills: Made) -> str:
    line = f'    await ctx.call("{skills.name}.{skills.tools[2]}", input)\n'
    return skills.consumer_handlers.replace("    return", f"{line}    return")


@values("CH0704", mended=True)
def a_replacement_with_its_skill_that_is_misspelt(skills: Made) -> None:
    name = misspelt(skills.rnd, skills.tools[1], skills.tools)
    skills.contract["id"] = skills.name
    skills.exports["deprecated"][0]["replacement"] = Marked(f"{skills.name}.{name}")


@values("CH0704", mended=True)
def a_replacement_that_is_misspelt(skills: Made) -> None:
    slip(skills, skills.exports["deprecated"][0], "replacement", skills.tools)


@values("CH0706", mended=True)
def a_date_without_zeros(skills: Made) -> None:
    date = skills.rnd.choice(("2020-5-1", "2020/05/01", "2020.5.01"))
    skills.exports["deprecated"][0]["announced"] = Marked(date)


@values("CH0706", mended=True)
def a_removal_date_without_zeros(skills: Made) -> None:
    skills.exports["deprecated"][0]["removal_date"] = Marked("2990-7-1")


@values("CH0706")
def a_date_that_is_none(skills: Made) -> None:
    skills.exports["deprecated"][0]["removal_date"] = Marked("2990-02-30")


@values("CH0707", severity="note")
def a_deprecation_of_no_date(skills: Made) -> None:
    entry = skills.exports["deprecated"][0]
    del entry["announced"]
    entry["tool"] = Marked(entry["tool"])


@values("CH0708", severity="warning")
def a_deprecated_tool_that_is_gone(skills: Made) -> None:
    skills.exports["deprecated"][0]["tool"] = Marked("xyzzy_plugh")


# Mutants.


@dataclass
class Mutant:
    """Skills with one defect, as they are written, and what a check must say of them."""

    defect: Defect
    files: dict[str, bytes]
    expected: tuple[str, int | None, int | None]
    """File, line and column."""
    said: list[Any] = field(default_factory=list)
    """What the check found."""
    problems: list[str] = field(default_factory=list)


def mutant(defect: Defect, seed: str) -> Mutant:
    """Return valid skills with one defect, always the same for one seed."""
    rnd = random.Random(seed)
    skills = made(rnd)
    if defect.break_values is not None:
        defect.break_values(skills)
    as_json = defect.json and rnd.random() < 0.15
    files: dict[str, Any] = dict(written(skills, as_json=as_json, alone=not defect.whole))
    files |= skills.files
    if defect.break_texts is not None:
        defect.break_texts(files, skills)
    whole = files.pop("expected", f"{skills.name}/SKILL.md")
    data = {
        path: each if isinstance(each, bytes) else each.encode() for path, each in files.items()
    }
    places = [(path, each) for path, each in data.items() if MARK.encode() in each]
    if places:
        ((path, text),) = places
        before = text[: text.index(MARK.encode())].decode().removeprefix("\ufeff")
        line = before.count("\n") + 1
        expected = (path, line, len(before) - before.rfind("\n"))
        data[path] = text.replace(MARK.encode(), b"")
    else:
        if defect.place is None:
            raise ValueError(f"{defect.name} marks nothing")
        whole = whole if whole in data else f"{skills.name}/skill.md"
        expected = (whole, *defect.place)
    return Mutant(defect, data, expected)


def mutants(count: int, seed: int | str) -> list[Mutant]:
    """Return mutants, each operator as often as any other."""
    return [
        mutant(DEFECTS[number % len(DEFECTS)], f"{seed}/{number // len(DEFECTS)}/{number}")
        for number in range(count)
    ]


def judged(found: Sequence[Mutant], root: Path) -> None:
    """Write mutants below a folder, check them, mend them, and say what is wrong with each."""
    for profile in ("lenient", "strict", "portable"):
        folder = root / profile
        some = [each for each in found if each.defect.profile == profile]
        for number, each in enumerate(some):
            for path, data in each.files.items():
                file = folder / str(number) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
        if some:
            _judge(some, folder, profile)


def _judge(some: Sequence[Mutant], folder: Path, profile: str) -> None:
    from clawhive_core.skills.fixing.files import fix_files

    report = _checked(folder, profile)
    by_number = _by_number(report.findings, folder)
    for number, each in enumerate(some):
        each.said = by_number[number]
        each.problems += _wrong(each, by_number[number], number, folder)
    fix_files(report.skills, report.findings, [folder])
    after = _checked(folder, profile)
    left = _by_number(after.findings, folder)
    for number, each in enumerate(some):
        each.problems += _unmended(each, left[number], folder / str(number))
    before = _bytes(folder)
    fix_files(after.skills, after.findings, [folder])
    changed = {path for path, data in _bytes(folder).items() if before.get(path) != data}
    for number, each in enumerate(some):
        if any(path.is_relative_to(folder / str(number)) for path in changed):
            each.problems.append("mending it again changes it again")


def _checked(folder: Path, profile: Any) -> Any:
    from clawhive_core.config.load import open_config
    from clawhive_core.skills.checks.required import KnownTools
    from clawhive_core.skills.load import load_skills
    from clawhive_core.skills.report import SkillReport

    config = open_config(folder, {}, {"HOME": str(folder)})
    tools = KnownTools(TOOLS)
    return SkillReport.of(
        lambda: load_skills(config, env={"PATH": os.defpath}, paths=[folder], tools=tools), profile
    )


def _by_number(findings: Sequence[Any], folder: Path) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for each in findings:
        file = Path(os.path.realpath(each.file))
        number = int(file.relative_to(os.path.realpath(folder)).parts[0])
        found[number].append(each)
    return found


def _wrong(each: Mutant, said: Sequence[Any], number: int, folder: Path) -> Iterator[str]:
    defect = each.defect
    path, line, column = each.expected
    file = os.path.realpath(folder / str(number) / path)
    matching = [one for one in said if (one.code, one.severity) == (defect.code, defect.severity)]
    places = [(os.path.realpath(one.file), one.line, one.column) for one in matching]
    if (file, line, column) not in places:
        there = [(one.code, one.severity, one.place, one.message) for one in said]
        yield f"not found at {path}:{line}:{column}; said was {there}"
    others = [
        one
        for one in said
        if (one.code, one.severity, one.line, one.column)
        != (defect.code, defect.severity, line, column)
        and one.code not in QUIET | {*defect.also}
    ]
    if others:
        yield f"also found {[(one.code, one.severity, one.place, one.message) for one in others]}"
    edits = any(one.fix is not None and one.fix.edits for one in matching)
    if defect.mended != edits and defect.code not in MOVED:
        titles = [one.fix and one.fix.title for one in matching]
        yield f"{'no' if defect.mended else 'an unforeseen'} fix: {titles}"


def _unmended(each: Mutant, left: Sequence[Any], folder: Path) -> Iterator[str]:
    if not each.defect.mended:
        return
    rest = [one for one in left if one.code not in QUIET]
    if rest:
        yield f"after mending: {[(one.code, one.place, one.message) for one in rest]}"
    for path, data in each.files.items():
        if each.defect.code in MOVED and path == each.expected[0]:
            continue
        now = folder.joinpath(path).read_bytes()
        if path != each.expected[0]:
            if now != data:
                yield f"mending changes {path}"
        elif now == data:
            yield "mending changes nothing"
        elif not each.defect.anywhere and not _same_around(data, now, each.expected[1] or 1):
            yield "mending changes other lines"


def _same_around(before: bytes, after: bytes, line: int) -> bool:
    """Whether all lines but one are the same, which may be gone."""
    one, two = (data.removeprefix("\ufeff".encode()).split(b"\n") for data in (before, after))
    rest = one[line:]
    return (
        one[: line - 1] == two[: line - 1] and rest == two[len(two) - len(rest) :] if rest else True
    )


def _bytes(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def main() -> None:
    import measure

    given = measure.arguments(
        __doc__,
        ("--count", {"type": int, "default": 5 * len(DEFECTS)}),
        ("--seed", {"type": int, "default": 20261122}),
        ("--show", {"action": "store_true", "help": "print what was said of each mutant"}),
    )
    seed = random.SystemRandom().randrange(10**9) if given.smoke else given.seed
    count = 2 * len(DEFECTS) if given.smoke else given.count
    print(f"seed {seed}, {count} mutants of {len(DEFECTS)} operators")
    found = mutants(count, seed)
    folder = Path(tempfile.mkdtemp())
    try:
        judged(found, folder)
    finally:
        shutil.rmtree(folder)
    for each in found if given.show else ():
        print(each.defect.name, [(one.code, one.place, one.message) for one in each.said])
    wrong = [each for each in found if each.problems]
    for each in wrong:
        print(f"{each.defect.name} ({each.defect.code}): {'; '.join(each.problems)}")
    mended = sum(each.defect.mended and not each.problems for each in found)
    groups: dict[str, list[Mutant]] = defaultdict(list)
    for each in found:
        groups[f"{each.defect.code[:4]}nn"].append(each)
    rows = [
        (name, str(len(some)), str(sum(each.defect.mended for each in some)))
        for name, some in sorted(groups.items())
    ]
    measure.table(("codes", "mutants", "mended"), rows)
    share = round(100 * mended / len(found), 1)
    measure.finish(
        "skill_defects",
        {"seed": seed, "mutants": len(found), "wrong": len(wrong), "mended %": share},
    )
    if wrong or share < 60:
        sys.exit(1)


if __name__ == "__main__":
    import measure

    measure.start(main)
