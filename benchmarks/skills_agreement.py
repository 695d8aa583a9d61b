"""The profile `strict` beside the reference validators' ports, on real skills and changed ones.

Run `python benchmarks/skills_agreement.py [--corpus DIR] [--variants N] [--python P] [--npm DIR]
[--seed N] [--smoke]`. The peers are asked when they are there: `pip install skills-ref-rs` (into
the interpreter of `--python`, this one otherwise) and `npm install skills-ref` (below `--npm`).
Real skills, where there are some, and made-up ones are taken as they are and in N changed forms.
Verdicts that differ are counted by the reasons that docs/reference/strict-and-the-ports.md lists;
one without a reason is printed and fails the script. `--smoke` takes a fresh seed and no forms.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.made_skills import made, written
from benchmarks.skill_defects import DEFECTS, mutant

RUST = """
import json, sys
from pathlib import Path
import skills_ref_rs
def said(folder):
    try:
        return list(skills_ref_rs.validate(Path(folder)))
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
print(json.dumps([said(each) for each in json.load(sys.stdin)]))
"""
TYPESCRIPT = """
import { validate } from "skills-ref";
import { readFileSync } from "node:fs";
const found = [];
for (const folder of JSON.parse(readFileSync(0, "utf-8"))) found.push(await validate(folder));
console.log(JSON.stringify(found));
"""
HERE = Path(__file__).resolve()
CORPORA = [each / "shared" / "data" / "skills_dev" / "files" for each in HERE.parents]


def ours(folders: Sequence[Path]) -> list[list[str]]:
    """Return the errors of the profile `strict` for each folder."""
    from clawhive_core.skills.checks.profiles import at_profile
    from clawhive_core.skills.discovery.reading import read_skill
    from clawhive_core.skills.discovery.skill_set import Entry, SkillSet

    found: list[list[str]] = []
    for folder in folders:
        read = read_skill(folder, "given")
        entry = Entry(read.skill, "loaded", findings=read.findings)
        said = at_profile(SkillSet((entry,), read.findings), "strict")
        found.append([f"{each.code} {each.message}" for each in said if each.severity == "error"])
    return found


def rust(folders: Sequence[Path], python: str) -> list[list[str]] | None:
    return _asked([python, "-c", RUST], folders, None)


def typescript(folders: Sequence[Path], npm: Path) -> list[list[str]] | None:
    if shutil.which("node") is None or not npm.joinpath("node_modules", "skills-ref").is_dir():
        return None
    command = ["node", "--input-type=module", "-e", TYPESCRIPT]
    return _asked(command, folders, npm)


def _asked(
    command: list[str], folders: Sequence[Path], where: Path | None
) -> list[list[str]] | None:
    names = json.dumps([str(each) for each in folders])
    done = subprocess.run(
        command, input=names, capture_output=True, text=True, cwd=where, check=False
    )
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return None
    return json.loads(done.stdout)


PIECES = ("---", "\t", "\r", "'", '"', ": ", "#", "[", "]", "{", "}", "&a ", "*a", "!x ", "|", ">")
PIECES += (
    "- ",
    "\n",
    "\n\n",
    " ",
    "yes",
    "1.0",
    "null",
    "~",
    "é",
    "É",
    "名",
    "ي",
    "_",
    "ﬁ",
    "\ufeff",
)
PIECES += ("\nversion: 1", "\nname: x", "x" * 1100, "\u2028", "\x00", "\x1b", "%", "@", "`", "? ")


def changed(rnd: random.Random, text: str) -> str:
    """Return a SKILL.md with one small change in its frontmatter."""
    end = text.find("\n---", 3)
    near = min(len(text), 400) if end < 0 else min(end + 6, 800)
    at = rnd.randrange(near + 1)
    kind = rnd.randrange(4)
    if kind == 0:
        return text[:at] + text[at + rnd.choice((1, 1, 3)) :]
    if kind == 1 and ":" in text[:near]:
        at = rnd.choice([match.end() for match in re.finditer(":", text[:near])])
        return f"{text[:at]} {rnd.choice(PIECES)}{text[at:]}"
    return text[:at] + rnd.choice(PIECES) + text[at:]


def write(root: Path, corpus: Sequence[Path], variants: int, seed: int) -> Iterator[Path]:
    """Write the skills that are compared, and yield their folders."""
    rnd, number = random.Random(seed), 0
    sources = [(file.parent.name, file.read_bytes()) for file in corpus]
    for _ in range(40):
        skills = made(rnd)
        sources.append((skills.name, written(skills)[f"{skills.name}/SKILL.md"].encode()))
    for defect in DEFECTS:
        for path, data in mutant(defect, f"{seed}/{defect.name}").files.items():
            if path.endswith("SKILL.md") and b"clawhive:" not in data and b"exports:" not in data:
                sources.append((path.split("/")[0], data))
    for name, data in sources:
        text = data.decode("utf-8", "surrogateescape")
        forms = [text, *(changed(rnd, text) for _ in range(variants))]
        for form in forms:
            number += 1
            folder = root / str(number) / name
            folder.mkdir(parents=True)
            folder.joinpath("SKILL.md").write_bytes(form.encode("utf-8", "surrogateescape"))
            yield folder


def _codes(mine: Sequence[str]) -> set[str]:
    return {each.split()[0] for each in mine}


def _head(text: str) -> str:
    """Return a text up to its second fence, or its first thousands of characters."""
    fence = re.compile(r"^---[ \t]*\r?$", re.MULTILINE).search(text, 4)
    return text[: 4_000 if fence is None else fence.end()]


def _is_cut_elsewhere(text: str) -> bool:
    """Whether the second `---` is no line of its own, or the first one is not alone on its line."""
    second = text.find("---", 3)
    line = text[text.rfind("\n", 0, second) + 1 :].split("\n", 1)[0]
    return second > 0 and (line.rstrip() != "---" or text.split("\n", 1)[0].rstrip("\r") != "---")


_EMPTY = re.compile(r"(?m)^(name|description|compatibility):[ \t]*(?:null|~)?[ \t]*(?:#.*)?\r?$")
_LONG = re.compile(r"(?m)^[^:\n]{1000}")
_CONTROL = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f]")
_WORD = re.compile(r"(?mi)^(name|description|compatibility): *(?:yes|no|on|off|y|n)[ \t]*\r?$")

REASONS: tuple[tuple[str, Callable[[str, set[str]], bool]], ...] = (
    ("not UTF-8", lambda _, codes: "CH0001" in codes),
    ("hidden characters", lambda _, codes: "CH0005" in codes),
    ("size and depth", lambda _, codes: bool({"CH0006", "CH0229"} & codes)),
    ("any three hyphens", lambda text, _: _is_cut_elsewhere(text)),
    ("line separators", lambda text, _: bool(set(_head(text)) & {"\u2028", "\u2029", "\x85"})),
    ("tags", lambda _, codes: "CH0230" in codes),
    ("words of YAML 1.1", lambda text, _: _WORD.search(_head(text)) is not None),
    ("empty values", lambda text, _: _EMPTY.search(_head(text)) is not None),
    ("numbers", lambda _, codes: codes <= {"CH0207", "CH0209", "CH0201"} and bool(codes)),
    ("long keys", lambda text, codes: "CH0224" in codes and bool(_LONG.search(_head(text)))),
    ("control characters", lambda text, _: bool(_CONTROL.search(_head(text)))),
    ("U+FEFF within", lambda text, _: "\ufeff" in _head(text)),
    (
        "loose YAML",
        lambda text, codes: bool(set("{[&!") & set(_head(text))) and codes == {"CH0224"},
    ),
)
"""Why a verdict differs, by the text and the codes that are said here."""


def reason(text: str, mine: Sequence[str]) -> str:
    """Return the listed reason for which a port's verdict differs, empty where there is none."""
    codes = _codes(mine)
    return next((name for name, fits in REASONS if fits(text, codes)), "")


def compared(
    name: str, folders: Sequence[Path], mine: Sequence[list[str]], theirs: Sequence[list[str]]
) -> Counter[str]:
    """Return how often a port's verdict differs by reason, and print those without one."""
    differ: Counter[str] = Counter()
    for folder, own, other in zip(folders, mine, theirs, strict=True):
        if bool(own) == bool(other):
            continue
        text = folder.joinpath("SKILL.md").read_bytes().decode("utf-8", "replace")
        why = reason(text, own)
        differ[why or "no reason"] += 1
        if not why:
            print(f"{name} {folder.name}: here {own[:2]}, there {other[:2]}\n  {text[:400]!r}")
    return differ


def main() -> None:
    import measure

    given = measure.arguments(
        __doc__,
        ("--corpus", {"type": Path, "default": next(filter(Path.is_dir, CORPORA), None)}),
        ("--variants", {"type": int, "default": 4}),
        ("--python", {"default": sys.executable}),
        ("--npm", {"type": Path, "default": Path.cwd()}),
        ("--seed", {"type": int, "default": 20261122}),
    )
    seed = random.SystemRandom().randrange(10**9) if given.smoke else given.seed
    corpus = sorted(given.corpus.rglob("SKILL.md")) if given.corpus else []
    root = Path(tempfile.mkdtemp())
    try:
        folders = list(write(root, corpus, 0 if given.smoke else given.variants, seed))
        print(f"seed {seed}, {len(corpus)} real skills, {len(folders)} texts")
        mine, rows = ours(folders), []
        answers = {
            "skills-ref-rs": rust(folders, given.python),
            "npm skills-ref": typescript(folders, given.npm),
        }
        for name, theirs in answers.items():
            if theirs is None:
                rows.append((name, "is not installed: not compared", "-"))
                continue
            differ = compared(name, folders, mine, theirs)
            rows += [(name, why, str(count)) for why, count in sorted(differ.items())]
            rows.append((name, f"of {len(folders)} differ", str(differ.total())))
    finally:
        shutil.rmtree(root)
    measure.table(("port", "why", "skills"), rows)
    unlisted = sum(int(count) for _, why, count in rows if why == "no reason")
    figures = {"seed": seed, "skills": len(folders), "without a listed reason": unlisted}
    measure.finish("skills_agreement", figures)
    if unlisted:
        sys.exit(1)


if __name__ == "__main__":
    import measure

    measure.start(main)
