"""Providers are closed when a hive is, and when the interpreter exits without that."""

import subprocess
import sys

CLOSER = """
import asyncio, os, sys
from clawhive_core.catalog.store import CatalogStore

class One:
    provider_id = "one"
    def __init__(self, name): self.name = name
    async def list_tools(self): return []
    async def invoke(self, *_): raise NotImplementedError
    async def close(self):
        await asyncio.sleep(0)
        print("closed", self.name, flush=True)

class Stuck(One):
    async def close(self):
        await asyncio.Event().wait()

class Bad(One):
    async def close(self):
        raise SystemExit(9)

async def main():
    store = CatalogStore(close_seconds=0.05, grace_seconds=0.05)
    await store.add(One("a"), {extra})
    return store
store = asyncio.run(main())
{then}
"""


def run(extra='One("b")', then=""):
    text = CLOSER.replace("{extra}", extra).replace("{then}", then)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=600, check=False
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_what_nobody_closed_is_closed_when_the_interpreter_exits():
    assert run() == (0, ["closed a", "closed b"], "")


def test_what_was_closed_is_not_closed_again():
    assert run(then="asyncio.run(store.close_providers())") == (0, ["closed a", "closed b"], "")


def test_one_that_hangs_or_fails_at_exit_keeps_nobody_else():
    assert run("Stuck('s'), Bad('x')") == (0, ["closed a"], "")


def test_a_program_that_fails_still_closes_and_keeps_its_exit_code():
    code, out, _ = run(then="sys.exit(4)")
    assert (code, out) == (4, ["closed a", "closed b"])


def test_a_forked_child_closes_nothing_of_its_parent():
    then = "pid = os.fork()\nif pid == 0: sys.exit(0)\nos.waitpid(pid, 0)"
    assert run(then=then)[1] == ["closed a", "closed b"]


HIVE = """
import asyncio, sys
from clawhive_core import Hive

class One:
    provider_id = "one"
    async def list_tools(self): return []
    async def invoke(self, *_): raise NotImplementedError
    async def close(self): print("closed", flush=True)

class Plugins:
    def __init__(self): self.one = One()
    def providers(self): return [self.one]
    def contributions(self, hook): return []
    def failed_hooks(self, hook): return []
    def packages(self): return {}
    def code_of(self, provider): return None
    def secret_variables(self): return ()
    def records(self): return []

env = {"XDG_CONFIG_HOME": sys.argv[1]}
manager = Hive.open(sys.argv[1], env=env, plugins=lambda config, env: Plugins())
loop = asyncio.new_event_loop()
hive = loop.run_until_complete(manager.__aenter__())
{then}
"""


def test_a_hive_that_was_never_closed_closes_its_providers_at_exit(tmp_path):
    for then in ("", "loop.run_until_complete(manager.__aexit__(None, None, None))"):
        program = HIVE.replace("{then}", then)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.stdout.split() == ["closed"], done.stderr
