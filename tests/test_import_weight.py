import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

HEAVY = [
    "openai",
    "anthropic",
    "google.genai",
    "mcp",
    "pydantic",
    "httpx",
    "httpx2",
    "httpcore2",
    "jsonschema",
    "jsonschema_rs",
    "rich",
    "asyncio",
    "importlib.metadata",
    "yaml",
    "pydantic_monty",
    "numpy",
    "trafilatura",
    "rapidfuzz",
]

PROGRAM = """
import json, sys
before = set(sys.modules)
{code}
heavy = {heavy!r}
print(json.dumps([name for name in heavy if name in sys.modules and name not in before]))
"""

MAIN = """
import io
from contextlib import redirect_stdout, suppress
from clawhive_core.cli import main
sys.argv = ["clawhive", *{arguments!r}]
with redirect_stdout(io.StringIO()) as printed, suppress(SystemExit):
    main()
assert printed.getvalue().strip()
"""


def loaded_by(code, folder, heavy=HEAVY):
    """Run code in a fresh interpreter and return the heavy modules that it brought in."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM.format(code=code, heavy=heavy)],
        capture_output=True,
        check=False,
        cwd=folder,
        env={"HOME": str(folder), "PATH": ""},
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "module", ["clawhive_core", "clawhive_core.cli", "clawhive_core.errors", "clawhive_core.config"]
)
def test_importing_brings_nothing_heavy(module, tmp_path):
    assert loaded_by(f"import {module}", tmp_path) == []


def test_the_composition_root_brings_nothing_that_not_every_run_needs(tmp_path):
    libraries = ["tempfile", "decimal", "difflib", "platform", "random", "secrets", "traceback"]
    libraries += ["mimetypes", "anyio.to_thread"]
    rooms = {
        "audit": ("checkpoints", "keys"),
        "config": ("places",),
        "execution": (
            "files.workspace",
            "handlers.child",
            "sandbox.directory",
        ),
        "plugins": ("comparison",),
        "policy": ("answers",),
        "runs": (
            "delegation",
            "loop",
            "plans.planning",
            "record.page",
            "replays.replay",
            "what_if",
        ),
        "skills": ("fixing.fixes", "fixing.files", "report"),
    }
    modules = [f"clawhive_core.{room}.{name}" for room, names in rooms.items() for name in names]
    for name in modules:
        assert find_spec(name) is not None, name
    rare = libraries + modules
    assert loaded_by("import clawhive_core; clawhive_core.Hive", tmp_path, HEAVY + rare) == []


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["run", "--help"], ["plugins"], ["plugins", "--json"]],
    ids=" ".join,
)
def test_a_light_command_brings_nothing_heavy(arguments, tmp_path):
    assert loaded_by(MAIN.format(arguments=arguments), tmp_path) == []


def test_help_finds_plugins_without_what_describes_them(tmp_path):
    heavy = ["pathlib", "clawhive_core.plugins.discovery", "clawhive_core.config.config"]
    heavy += ["clawhive_core.diagnostics.codes"]
    assert loaded_by(MAIN.format(arguments=["--help"]), tmp_path, heavy) == []


@pytest.mark.parametrize(
    "module",
    [
        "clawhive_core.model.tools",
        "clawhive_core.protocols.context",
        "clawhive_core.capabilities",
        "clawhive_core.policy.rules",
        "clawhive_core.plugins.discovery",
        "clawhive_core.plugins.tool",
        "clawhive_core.plugins.hookspecs",
    ],
)
def test_a_plugin_author_pays_for_nothing_heavy(module, tmp_path):
    assert loaded_by(f"import {module}", tmp_path) == []


BARE_HIVE = """
import asyncio
from clawhive_core.testing import memory_hive
async def main():
    async with memory_hive() as hive:
        assert hive.skill_set.find("research").state == "invalid"
asyncio.run(main())
"""


def test_a_hive_without_plugins_guesses_at_no_name_in_a_shipped_skill(tmp_path):
    """Nobody who starts it wrote that contract; the guess cost three megabytes."""
    assert {"rapidfuzz", "importlib.metadata"}.isdisjoint(loaded_by(BARE_HIVE, tmp_path))
