"""The handlers of a skill: the functions behind its exported tools, found without running them."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.suggestions import nearest
from clawhive_core.skills.contracts.code import (
    CodeFacts,
    Function,
    code_facts,
    lint_handlers,
    lint_other_code,
)
from clawhive_core.skills.contracts.skill import ExportedTool, Skill
from clawhive_core.skills.documents.document import read_text
from clawhive_core.skills.documents.place import InvalidSkill, Place, is_file
from clawhive_core.skills.documents.source import BOM, odd_characters

HANDLERS = "handlers.py"


def with_handlers(skill: Skill, *, checked: bool = False) -> tuple[Skill, list[Finding]]:
    """Return a skill with the source of its handlers, and what is wrong with them.

    Each exported tool needs a function of its name that takes `input` and `ctx`. A skill that
    exports no tools needs none, and its `handlers.py` is not run.

    Args:
        skill: The skill.
        checked: Whether its code was checked before; it is only read then.
    """
    if not skill.exports.tools:
        return skill, [] if checked else list(lint_other_code(skill))
    file = skill.folder / HANDLERS
    if skill.content != skill.folder or not is_file(file):
        return skill, [_no_file(skill, file)]
    try:
        raw = read_text(file, "handlers file")
        whole = replace(skill, handlers=raw.removeprefix(BOM))
        if checked:
            return whole, []
        code = _parsed(whole.handlers or "", file)
    except InvalidSkill as error:
        return skill, [error.finding]
    findings = [
        finding
        for tool in skill.exports.tools
        for finding in _of_tool(skill, tool, code.bound, file)
    ]
    return whole, [
        *findings,
        *odd_characters(raw, shown_path(file)),
        *lint_handlers(whole, code, file),
        *lint_other_code(skill, without=file),
    ]


def _no_file(skill: Skill, file: Path) -> Finding:
    tool = skill.exports.tools[0]
    if skill.content != skill.folder:
        message = "a manifest alone has no handlers, so it can export no tools"
        fix = f"make it a folder `{skill.id}` with clawhive.yaml and {HANDLERS}"
    else:
        message = f"`{skill.id}` exports tools and has no {HANDLERS}"
        fix = f"write {shown_path(file)} with: async def {tool.function}(input, ctx): ..."
    return tool.place.finding("CH0509", "error", message, fix)


def _parsed(source: str, file: Path) -> CodeFacts:
    before, zero, _ = source.partition("\0")
    try:
        if not zero:  # releases of Python tell of it with different errors, none with its place
            return code_facts(source)
        place = Place(shown_path(file), before.count("\n") + 1, len(before) - before.rfind("\n"))
        message = "the handlers are no Python: they hold a null byte"
    except SyntaxError as error:
        place = Place(shown_path(file), error.lineno or 1, error.offset or 1)
        message = f"the handlers are no Python: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        place = Place(shown_path(file))
        message = f"the handlers are no Python: {error or 'they are nested too deep'}"
    raise InvalidSkill(place.finding("CH0511", "error", message)) from None


def _of_tool(
    skill: Skill, tool: ExportedTool, functions: Mapping[str, Function | None], file: Path
) -> Iterator[Finding]:
    if not tool.function.isidentifier() or keyword.iskeyword(tool.function):
        message = f"no function can be called `{tool.function}`, so `{tool.name}` has no handler"
        yield tool.place.finding("CH0509", "error", message, "rename the tool")
    elif tool.function not in functions:
        close = nearest(tool.function, functions)
        write = f"write in {shown_path(file)}: async def {tool.function}(input, ctx): ..."
        fix = f"did you mean `{close}`? Else {write}" if close else write
        message = f"`{skill.id}.{tool.name}` has no handler: no function `{tool.function}`"
        yield tool.place.finding("CH0509", "error", message, fix)
    elif (function := functions[tool.function]) is not None and not function.takes_two:
        place = Place(shown_path(file), function.line, function.column)
        message = f"the handler `{tool.function}` must take two arguments"
        fix = f"write {tool.function}(input, ctx)"
        yield place.finding("CH0512", "error", message, fix)
