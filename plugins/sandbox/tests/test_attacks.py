"""Every attempt of `data/attacks.toml` in every engine, as root and as an ordinary user.

The plain process shows that the attempts succeed where nothing holds them.
"""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import anyio
import pytest

import clawhive_builtin
import clawhive_core
import clawhive_sandbox
from clawhive_core import SandboxOutcome, SandboxUnavailable
from clawhive_sandbox.attacks import Attack, Scene, _told, attacks, attempted, by_category
from clawhive_sandbox.jail_engine import JailEngine
from clawhive_sandbox.modules import cache_folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the attempts are Linux's")

NOBODY = 65534
PLACES = [
    *(str(Path(each.__file__).parents[1]) for each in (clawhive_core, clawhive_builtin)),
    *(str(Path(each.__file__).parents[1]) for each in (clawhive_sandbox, anyio)),
]
HOST = """
import json, os, sys
given = json.loads(sys.argv[1])
sys.path[:0] = given["path"]
import anyio
from clawhive_builtin import MontyEngine
from clawhive_core import SandboxUnavailable
from clawhive_sandbox.attacks import BareEngine, attack
from clawhive_sandbox.engine import wasm_engines
from clawhive_sandbox.jail_engine import JailEngine

commands = ["python -c", "node -e"]
engines = {each.name: each for each in (MontyEngine(), BareEngine(), *wasm_engines(os.environ))}
engines |= {kind: JailEngine(commands, kind=kind) for kind in ("jail", "landlock")}

async def main():
    engine = engines[given["engine"]]
    try:
        verdicts = await attack(engine, given["language"])
    except SandboxUnavailable as error:
        return {"missing": error.message}
    finally:
        await engine.close()
    named = [(each.attack.category, each.attack.name, each.breach) for each in verdicts]
    return {"made": len(named), "breaches": [each for each in named if each[2] is not None]}

print(json.dumps(anyio.run(main)))
"""
USERS = [0, NOBODY] if os.getuid() == 0 else [os.getuid()]
KNOWN = {
    ("landlock", True): {"read the status of a file outside"},
    ("landlock", False): {
        *("read the status of a file outside", "change a file's mode", "change a file's times"),
        *("change a process's priority", "change a process's limits"),
    },
}
"""The attempts that Landlock alone does not block, by whether ClawHive is root."""
ENGINES = [
    ("monty", "python"),
    ("cpython-wasi", "python"),
    ("quickjs-wasi", "node"),
    ("jail", "python"),
    ("jail", "node"),
    ("landlock", "python"),
    ("bare", "python"),
]


def as_user(user):
    given = {"cwd": "/", "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if user == os.getuid():
        return given
    return {**given, "user": user, "group": user, "extra_groups": []}


@cache
def python_of(user):
    """Return a Python that a user can run all engines with, None where there is none."""
    code = f"import sys; sys.path[:0] = {PLACES!r}; import anyio, clawhive_core, pydantic_monty"
    for python in (sys.executable, shutil.which("python3", path="/usr/bin")):
        try:
            done = subprocess.run([python, "-I", "-c", code], **as_user(user), check=False)
        except (OSError, TypeError):
            continue
        if done.returncode == 0:
            return python
    return None


@pytest.fixture
def attacked(tmp_path):
    def attacked(engine, language, user):
        python = python_of(user)
        if python is None:
            pytest.skip(f"user {user} can run no Python that has the engines")
        if language == "node" and engine != "quickjs-wasi" and shutil.which("node") is None:
            pytest.skip("no node here")
        cache = tmp_path / "cache"
        cache.mkdir()
        compiled = cache_folder(os.environ)
        if compiled.is_dir():  # compiling is no part of an attempt
            shutil.copytree(compiled, cache / "clawhive" / "cwasm")
            (cache / "clawhive").chmod(0o700)
        for path in (cache, *cache.rglob("*")):
            os.chown(path, user, user)
        for path in (tmp_path, *list(tmp_path.parents)[:2]):
            path.chmod(0o755)
        given = {"path": PLACES, "engine": engine, "language": language}
        env = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(cache), "HOME": str(tmp_path)}
        words = [python, "-I", "-c", HOST, json.dumps(given)]
        done = subprocess.run(words, env=env, timeout=900, check=False, **as_user(user))
        assert done.stdout, done.stderr.decode()[-2000:]
        found = json.loads(done.stdout.splitlines()[-1])
        if "missing" in found:
            pytest.skip(found["missing"])
        return found

    return attacked


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(("engine", "language"), ENGINES)
def test_no_attempt_succeeds_in_an_engine_and_most_do_in_a_plain_process(
    attacked, engine, language, user
):
    found = attacked(engine, language, user)
    assert found["made"] == len(attacks(language))
    if engine == "bare":
        assert len(found["breaches"]) >= 45
        return
    known = KNOWN.get((engine, user == 0), set())
    assert [each for each in found["breaches"] if each[1] not in known] == []


def test_attempts_have_names_of_their_own_and_are_of_every_kind():
    for language, least in (("python", 68), ("node", 20)):
        found = attacks(language)
        assert len({each.name for each in found}) == len(found) >= least
    assert {each.category for each in attacks("python")} >= {
        *("files", "processes", "environment", "network", "ipc", "privileges", "kernel"),
        *("resources", "time", "output", "survivors"),
    }


@pytest.mark.parametrize(
    ("change", "breach"),
    [
        (lambda given: Path(given["victim"]).write_text("x"), "it changed files outside"),
        (lambda given: Path(given["open"], "made").touch(), "it changed files outside"),
        (lambda given: os.kill(given["pid"], 9), "it ended a process outside"),
        (
            lambda given: subprocess.run(["sh", "-c", f"sleep {given['sleep']} &"], check=True),
            "it left a process",
        ),
    ],
    ids=["changed", "made", "ended", "left"],
)
def test_a_scene_tells_what_was_changed(tmp_path, change, breach):
    with Scene(tmp_path) as scene:
        given = scene.set()
        assert scene.breach(given) is None
        change(given)
        while (found := scene.breach(given)) is None:  # a killed process may not be gone yet
            pass
        assert found == breach
        assert scene.breach(scene.set()) is None


@pytest.mark.anyio
async def test_the_jail_blocks_an_attempt_of_each_kind(tmp_path):
    engine = JailEngine(["python -c"])
    chosen = {each.category: each for each in attacks("python") if each.category not in SLOW}
    tmp_path.chmod(0o755)
    try:
        with Scene(tmp_path) as scene:
            verdicts = [await attempted(engine, each, scene) for each in chosen.values()]
    except SandboxUnavailable as error:
        pytest.skip(error.message)
    finally:
        await engine.close()
    assert [each for each in verdicts if each.breach is not None] == []
    assert set(by_category(verdicts)) == set(chosen)


SLOW = {"time", "output", "survivors", "resources"}


def test_a_verdict_reads_what_a_program_printed():
    attack = Attack("python", "files", "x", "")
    assert _told(attack, SandboxOutcome(0, b"sk-1", b""), "sk-1") == "it read the secret"
    assert _told(attack, SandboxOutcome(0, b"BREACH\n", b""), "sk-1") == "it could"
    assert _told(attack, SandboxOutcome(1, b"", b"refused"), "sk-1") is None
