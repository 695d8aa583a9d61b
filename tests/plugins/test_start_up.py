import subprocess
import sys

HEAVY = {
    "anyio", "asyncio", "click", "importlib.metadata", "jsonschema", "jsonschema_rs", "pydantic",
    "pydantic_monty", "rich", "yaml",
}  # fmt: skip
LISTING = """
import sys
from clawhive_core.plugins.discovery import discover
from clawhive_core.plugins.manager import PluginManager
manager = PluginManager(discover())
manager.records(), manager.manifest_tools(), manager.unknown_ids()
print(*sys.modules)
"""
IMPORTING = """
import sys
from clawhive_core import hookimpl, tool, HookContext

@tool(effects={"path": "fs.read"})
def read(path: str) -> str:
    "Read."
    return path

print(*sys.modules)
"""


def modules(code, path=""):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": path, "PATH": ""},
    )
    return set(done.stdout.split())


def test_listing_plugins_imports_nothing_heavy_and_no_plugin(site):
    site.plugin("hello", synced=True)
    loaded = modules(LISTING, str(site.folder))
    assert not loaded & HEAVY
    assert not loaded & {"plug_hello", "clawhive_builtin"}


def test_importing_a_plugin_imports_nothing_heavy():
    assert not modules(IMPORTING) & HEAVY
