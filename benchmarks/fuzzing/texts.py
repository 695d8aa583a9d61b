"""Files and variables: skills, YAML, locks, configuration, plugins' manifests, tables of calls."""

from __future__ import annotations

import json
import random
import re
import shutil
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # noqa: TID253 - the second opinion
from fuzzing.judging import ROOT, Verdict, Wrong, coded, proper, require
from fuzzing.making import (
    ODD_TEXTS,
    Case,
    changed,
    changed_bytes,
    deep_text,
    json_text,
    places,
    scalar,
    text,
    value,
)

from clawhive_core.cli.inputs import json_object, read_inputs
from clawhive_core.config import load_config
from clawhive_core.config.settings import SETTINGS
from clawhive_core.config.tomlfile import parse_toml
from clawhive_core.diagnostics.baseline import Baseline
from clawhive_core.errors import ClawHiveError
from clawhive_core.plugins.entry_points import commands_in
from clawhive_core.plugins.manifest import parse_manifest
from clawhive_core.plugins.manifest_text import manifest_text
from clawhive_core.policy.cases import CaseReader
from clawhive_core.policy.protected import changes_settings
from clawhive_core.skills.documents.document import Document
from clawhive_core.skills.documents.place import InvalidSkill
from clawhive_core.skills.load import load_skills
from clawhive_core.skills.locking.project_lock import ProjectLock
from clawhive_core.skills.report import SkillReport

YAML_PIECES = (
    *ODD_TEXTS, "---\n", "\n---\n", "...\n", "&a ", "*a ", "!!python/object:os.system ", "!!bool ",
    "!!int ", "!!float ", "!!binary ", "!!set ", "!!omap ", "!!timestamp ", "!!null ", "!x ", "! ",
    "{", "[", "]", "}", "'", '"', "|\n", ">-\n", "? ", "- ", ": ", "#", "%YAML 9\n", "<<: *a\n",
    "exports:\n", "imports: [{from: ", "0o7", "1:30", "1_0.", ".inf", "-.NaN", "0b1", "yes",
    "&a [*a]", "!!map ", "!!seq ", "!!str ", "!!merge ", "%TAG ! tag:yaml.org,2002:\n",
)  # fmt: skip
TOML_PIECES = (
    *ODD_TEXTS, "[", "]", "[[", "]]", "[policy]\n", "[tool.clawhive]\n", "[[tools]]\n", '"""',
    "'''",
    "'", '"', "=", ".", ",", "{", "}", "#", "\\u0000", "\\UFFFFFFFF", "\\x", "inf", "nan", "1e9999",
    "0xFFFFFFFFFFFFFFFFFF", "1979-05-27T07:32:00Z", "0000-01-01", "9" * 5_000, "a.b.c", "a." * 400,
    "[[a]]\n", "x = [" * 50, "deny = ['fs.write:/**']\n", "\r", "+1", "1__0", "07:32:00",
)  # fmt: skip


@cache
def corpus(*patterns: str) -> tuple[bytes, ...]:
    """Return the contents of the checkout's files, and of the shared data's where it is there."""
    shared = ROOT.parent / "shared" / "data"
    found = [file for pattern in patterns for file in sorted(ROOT.glob(pattern))]
    found += [file for pattern in patterns for file in sorted(shared.glob(pattern))[::7]]
    return tuple(file.read_bytes()[:30_000] for file in found if file.is_file())


class Yaml:
    """The reader of YAML and JSON, beside PyYAML by itself."""

    def __init__(self, _: Path) -> None:
        self._texts = corpus(
            "skills/*/SKILL.md", "skills/*/clawhive.yaml", "skills_dev/**/SKILL.md"
        )

    def make(self, rnd: random.Random) -> Case:
        pick = rnd.random()
        if pick < 0.5:
            data = _frontmatter(rnd.choice(self._texts))
            return changed_bytes(rnd, data, YAML_PIECES).decode(errors="replace")
        if pick < 0.6:
            return deep_text(rnd)
        if pick < 0.8:
            return json_text(rnd, value(rnd))
        return _yaml(rnd, value(rnd, 4))

    def judge(self, case: Case) -> Verdict:
        try:
            document = Document(case, "f.yaml")
        except InvalidSkill as error:
            if error.finding.code not in {"CH0229", "CH0230"}:
                plain = _plain_yaml(case)
                require(plain in (None, [Ellipsis]), f"PyYAML reads it: {error.finding.message}")
            return proper([error.finding])
        found = proper(document.problems)
        for path in [*_paths(document.value)][:50]:
            require(document.place(path).line >= 1, "a value stands in no line")
        if not document.problems:
            plain = _plain_yaml(case)
            require(plain is not None, "PyYAML refuses it")
            require(_same(plain, document.value), f"PyYAML reads {str(plain)[:200]}")
        return found


def _frontmatter(data: bytes) -> bytes:
    parts = data.split(b"---\n", 2)
    return parts[1] if len(parts) == 3 and not parts[0] else data


def _yaml(rnd: random.Random, found: Any) -> str:
    if len(list(places(found))) > 40 and _depth(found) > 100:
        return deep_text(rnd)  # written with indentation it would take gigabytes
    try:
        flow = rnd.random() < 0.5
        said = yaml.dump(
            found, Dumper=yaml.CSafeDumper, allow_unicode=True, default_flow_style=flow
        )
    except (yaml.YAMLError, ValueError, RecursionError):
        return deep_text(rnd)
    return changed_bytes(rnd, said.encode(errors="replace"), YAML_PIECES, 2).decode(
        errors="replace"
    )


def _depth(found: Any) -> int:
    levels = 0
    while isinstance(found, dict | list) and found:
        found = next(iter(found.values())) if isinstance(found, dict) else found[0]
        levels += 1
    return levels


class _Plain(yaml.CSafeLoader):
    """PyYAML's safe loader, but dates stay texts as in JSON."""


_Plain.yaml_implicit_resolvers = {
    first: [rule for rule in rules if rule[0] != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _plain_yaml(said: str) -> list[Any] | None:
    """Return a list of the value that PyYAML reads, None where it reads none."""
    if len(re.findall(r"[\[{]|- |\? ", said)) > 400:
        return None if len(said) < 3 else [Ellipsis]  # it recurses in C without a bound
    try:
        return [yaml.load(said, _Plain)]
    except (yaml.YAMLError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError):
        return None
    except RecursionError:
        return [Ellipsis]


def _same(plain: list[Any] | None, ours: Any) -> bool:
    return plain is not None and (plain[0] is Ellipsis or repr(plain[0]) == repr(ours))


def _paths(found: Any) -> list[tuple[Any, ...]]:
    if isinstance(found, dict):
        return [(key, *rest) for key in found for rest in ((), *_paths(found[key])[:3])]
    if isinstance(found, list):
        return [(index,) for index in range(len(found))]
    return []


class Skills:
    """Folders of skills: `SKILL.md`, contracts, handlers, and the lock of the project."""

    def __init__(self, folder: Path) -> None:
        self._root, self._home = folder / "project", folder / "home"
        self._env = {"XDG_CONFIG_HOME": str(self._home), "HOME": str(self._home)}
        self._root.mkdir()
        self._home.mkdir()
        self._config = load_config(root=self._root, env=self._env)
        self._texts = corpus("skills/*/SKILL.md", "skills_dev/**/SKILL.md")
        self._contracts = corpus("skills/*/clawhive.yaml")
        self._values = [yaml.safe_load(each) for each in self._contracts]

    def make(self, rnd: random.Random) -> Case:
        files: dict[str, bytes] = {}
        if rnd.random() < 0.7:
            data = rnd.choice(self._texts)
            files["SKILL.md"] = changed_bytes(rnd, data[:4_000], YAML_PIECES)
        if rnd.random() < 0.6 or not files:
            if rnd.random() < 0.5:
                data = changed_bytes(rnd, rnd.choice(self._contracts), YAML_PIECES)
                files["clawhive.yaml"] = data
            else:
                files[rnd.choice(("clawhive.json", "clawhive.yaml"))] = json_text(
                    rnd, changed(rnd, rnd.choice(self._values))
                ).encode(errors="surrogatepass")
        if rnd.random() < 0.1:
            files["handlers.py"] = changed_bytes(rnd, b"def a(input, ctx):\n    return {}\n")
        return files

    def judge(self, case: Case) -> Verdict:
        folder = self._root / "skills" / "one"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, data in case.items():
            folder.joinpath(name).write_bytes(data)
        report = SkillReport.of(
            lambda: load_skills(self._config, env=self._env, paths=[folder]), "lenient"
        )
        json.dumps(report.to_dict()).encode()
        return proper(report.findings)


class Locks:
    """`clawhive.lock`, baselines, and what `--tools` lists."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / "project"
        shutil.copytree(ROOT / "skills", self._root / "skills")
        self._env = {"XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}
        config = load_config(root=self._root, env=self._env)
        skills = load_skills(config, env=self._env, paths=[self._root / "skills"])
        self._skills = {each.skill.id: each.skill for each in skills.entries}
        self._valid = json.loads(_locked(self._root, self._skills))

    def make(self, rnd: random.Random) -> Case:
        if rnd.random() < 0.3:
            return changed_bytes(rnd, json.dumps(self._valid, indent=1).encode())
        found = changed(rnd, self._valid)
        return json_text(rnd, found).encode(errors="surrogatepass")

    def judge(self, case: Case) -> Verdict:
        from datetime import date

        file = self._root / "clawhive.lock"
        file.write_bytes(case)
        project = ProjectLock.open(self._root)
        findings = [] if project.problem is None else [project.problem]
        if project.lock is not None:
            dated = project.dated(self._skills.values(), date(2026, 11, 1))
            require(all(each.id in self._skills for each in dated), "a skill that is not there")
            differences = project.differences(self._skills, frozenset(), date(2026, 11, 1), None)
            findings += [each for some in differences.by_skill().values() for each in some]
            findings += differences.gone(project.file)
        try:
            Baseline.read(file)
        except ClawHiveError as error:
            coded(error)
        return proper(findings)


def _locked(root: Path, skills: Mapping[str, Any]) -> bytes:
    from clawhive_core.skills.locking.lock_file import Lock, encoded
    from clawhive_core.skills.locking.locker import Locker

    return encoded(Locker(root, Lock(), None, contents=True).lock(skills))


SETTING_VALUES = (
    "true", "false", "0", "1", "-1", "0.5", "1e400", "[]", '["a"]', "{}", '{"a": 1}', "ask", "deny",
    "9" * 5_000, "[" * 3_000, "NaN", "", " ", "a,b,,c", '["fs.write:/**"]',
    "fs.read:${workspace}/**",
)  # fmt: skip
PROJECT = """\
[policy]
deny = ["fs.write:${workspace}/.env", "net.http:**"]
ask = ["fs.write:${workspace}/docs/**"]
preset = "strict"
[policy.grants]
allow = ["fs.write:${workspace}/**?uses<=3&until=2026-12-01T00:00:00Z"]
[limits]
max_tool_rounds = 5
response_bytes = 1000
[catalog]
prefer = ["builtin"]
[catalog.alias]
"a.b" = "file.read"
[agents.helper]
model = "openai:gpt"
allow = ["file.read"]
[plugins]
disabled = ["x"]
[plugins.local]
context = 10
[storage]
url = "sqlite:"
[audit]
required_sinks = ["otel"]
[model]
default = "anthropic:x"
"""


def toml(found: Any) -> str:
    """Return a value as a line of TOML, which has no null."""
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, dict):
        inner = ", ".join(f"{_key(each)} = {toml(found[each])}" for each in found)
        return f"{{{inner}}}"
    if isinstance(found, list | tuple):
        return f"[{', '.join(map(toml, found))}]"
    if isinstance(found, str):
        return json.dumps(found, ensure_ascii=not found.isprintable())
    return "'none'" if found is None else "9" * 5_000 if _is_huge(found) else repr(found)


def _is_huge(found: Any) -> bool:
    return isinstance(found, int) and found.bit_length() > 14_000


def _key(name: Any) -> str:
    return json.dumps(str(name))


class Configuration:
    """`clawhive.toml`, `[tool.clawhive]` and the user's file, untrusted and trusted."""

    def __init__(self, folder: Path) -> None:
        self._root, self._home = folder / "project", folder / "home"
        self._root.mkdir()
        (self._home / "clawhive").mkdir(parents=True)
        self._env = {"XDG_CONFIG_HOME": str(self._home), "HOME": str(self._home)}
        self._defaults = load_config(root=self._root, env=self._env)

    def make(self, rnd: random.Random) -> Case:
        pick = rnd.random()
        if pick < 0.4:
            data = changed_bytes(rnd, PROJECT.encode(), TOML_PIECES)
        elif pick < 0.5:
            data = changed_bytes(rnd, rnd.choice(corpus("pyproject.toml", "*/*/pyproject.toml")))
        else:
            data = _settings(rnd).encode(errors="surrogatepass")
        place = rnd.choice(("clawhive.toml", "clawhive.toml", "pyproject.toml", "user"))
        if place == "pyproject.toml" and rnd.random() < 0.7:
            data = re.sub(rb"(?m)^\[+(?=[a-z])", lambda found: found[0] + b"tool.clawhive.", data)
        return (place, data)

    def judge(self, case: Case) -> Verdict:
        place, data = case
        file = self._root / place if place != "user" else self._home / "clawhive" / "config.toml"
        file.write_bytes(data)
        changes_settings(b"[tool.clawhive]\n", data)
        try:
            _hold_toml(data)
            config = load_config(root=self._root, env=self._env)
        except ClawHiveError as error:
            return coded(error)
        finally:
            file.unlink()
        for key, setting in SETTINGS.items():
            if not setting.is_family:
                self._hold(key, config.get(key), untrusted=place != "user")
        return proper(config.findings)

    def _hold(self, key: str, found: Any, *, untrusted: bool) -> None:
        """Check a value's type, and that a file which nobody trusts loosens nothing."""
        setting, default = SETTINGS[key], self._defaults.get(key)
        types = {"text": str, "integer": int, "flag": bool, "texts": tuple, "number": (int, float)}
        kind = types.get(setting.kind)
        require(found is None or kind is None or isinstance(found, kind), f"{key} is {type(found)}")
        if not untrusted or found == default:
            return
        require(setting.project not in {"trusted", "never"}, f"{key} counts, untrusted")
        match setting.tighter:
            case "lower":
                require(found <= default, f"{key} = {found}, untrusted")
            case "true":
                require(found, f"{key} = {found}, untrusted")
            case "false":
                require(not found, f"{key} = {found}, untrusted")
            case "adds":
                require({*default} <= {*found}, f"{key} lost entries, untrusted")
            case _:
                pass


def _settings(rnd: random.Random) -> str:
    """Return lines that set settings, mostly to values of their types."""
    lines: list[str] = []
    for setting in rnd.sample(list(SETTINGS.values()), rnd.randint(1, 5)):
        path = [text(rnd)[:600] if part.isupper() else part for part in setting.path]
        if setting.is_open and rnd.random() < 0.7:
            path += [text(rnd)[:100] for _ in range(rnd.randint(1, 3))]
        valid: Any = rnd.choice((setting.default, 1, 0, True, False, "ask", ["a"], -1, 1.5))
        given = valid if rnd.random() < 0.6 else value(rnd, 2)
        try:
            said = toml(given)
        except RecursionError:
            said = "[" * 5_000
        lines.append(f"{'.'.join(map(_key, path))} = {said}")
    return "\n".join(lines) + "\n"


def _hold_toml(data: bytes) -> None:
    """Check our reader against tomllib, and the places of keys against the text."""
    read = parse_toml(data, Path("f.toml"), "f.toml")
    said = data.decode()
    require(repr(tomllib.loads(said)) == repr(read.data), "tomllib reads something else")
    lines = said.count("\n") + 1
    for span in read.places.values():
        require(1 <= span.line <= lines and span.column >= 1, f"a place outside the file: {span}")
    for path in read.places:
        require(_is_in(read.data, path), f"a place of what is not there: {path!r:.200}")
    for key in read.data:
        require((key,) in read.places, f"no place of {key!r:.200}")


def _is_in(found: Any, path: tuple[str | int, ...]) -> bool:
    for part in path:
        try:
            found = found[part]
        except (LookupError, TypeError):
            return False
    return True


class Environment:
    """Settings from variables, and inputs of the command line."""

    def __init__(self, folder: Path) -> None:
        self._env = {"XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}
        self._root = folder
        self._names = [each.variable for each in SETTINGS.values() if each.variable]
        self._names += [name for each in SETTINGS.values() for name in each.env]

    def make(self, rnd: random.Random) -> Case:
        found: dict[str, str] = {}
        for _ in range(rnd.randint(1, 4)):
            name = rnd.choice(self._names)
            if rnd.random() < 0.1:
                name = name[:-2] + rnd.choice(("X", "_", ""))
            given = rnd.choice(SETTING_VALUES) if rnd.random() < 0.6 else text(rnd)
            found[name] = json_text(rnd, value(rnd)) if rnd.random() < 0.1 else given
        return found

    def judge(self, case: Case) -> Verdict:
        schema = {"properties": {name: {"type": "integer"} for name in case}}
        for read in (
            lambda: read_inputs([f"{name}={given}" for name, given in case.items()], schema),
            lambda: [json_object(given) for given in case.values()],
        ):
            try:
                read()
            except ClawHiveError as error:
                coded(error)
        try:
            config = load_config(root=self._root, env={**self._env, **case})
        except ClawHiveError as error:
            return coded(error)
        for key, setting in SETTINGS.items():
            if not setting.is_family:
                config.get(key)
        return proper(config.findings)


class Manifests:
    """`clawhive-plugin.toml`."""

    def __init__(self, _: Path) -> None:
        self._texts = corpus("plugins/*/*/clawhive-plugin.toml")
        self._values = [tomllib.loads(each.decode()) for each in self._texts]
        for each in self._values:
            each["tools"] = each.get("tools", [])[:3]

    def make(self, rnd: random.Random) -> Case:
        pick = rnd.random()
        if pick < 0.5:
            data = rnd.choice(self._texts)
            start = data.find(b"[[tools]]", rnd.randrange(len(data)))
            part = data if start < 0 else data[:300] + data[start : start + 3_000]
            return changed_bytes(rnd, part, TOML_PIECES).decode(errors="replace")
        try:
            found = changed(rnd, rnd.choice(self._values))
            if not isinstance(found, dict):
                return toml(found)
            commands = f"\n[[commands]]\nname = {toml(scalar(rnd))}\n" if pick < 0.6 else ""
            return "\n".join(f"{_key(key)} = {toml(found[key])}" for key in found) + commands
        except RecursionError:
            return deep_text(rnd)

    def judge(self, case: Case) -> Verdict:
        if "[[commands]]" in case:
            commands_in(case)
        try:
            manifest = parse_manifest(case)
        except ClawHiveError as error:
            return coded(error)
        tomllib.loads(case)
        again = parse_manifest(manifest_text(manifest))
        if sorted(map(repr, again.tools)) != sorted(map(repr, manifest.tools)):
            raise Wrong("written and read again it differs")
        return "taken"


CASES = """\
schema: policy-cases/1
calls:
  - {name: a, tool: file.write, input: {path: "${workspace}/a"}, expect: ask, rule: no-grant}
  - {tool: file.read, input: {path: a}, expect: allow, grant: "fs.read:${workspace}/**"}
  - {tool: x.y, expect: deny, reason: rights, grants: ["fs.read:/**"], words: hi, task: t, step: s}
"""


class Cases:
    """Tables of calls, which `clawhive policy test` reads."""

    def __init__(self, _: Path) -> None:
        self._value = yaml.safe_load(CASES)

    def make(self, rnd: random.Random) -> Case:
        if rnd.random() < 0.5:
            return changed_bytes(rnd, CASES.encode(), YAML_PIECES).decode(errors="replace")
        return json_text(rnd, changed(rnd, self._value))

    def judge(self, case: Case) -> Verdict:
        try:
            reader = CaseReader(Document(case, "cases.yaml"), {"workspace": "/w"})
        except InvalidSkill as error:
            return proper([error.finding])
        for each in reader.read():
            each.to_dict()
        return proper(reader.findings)
