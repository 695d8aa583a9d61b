import tomllib
from pathlib import Path

import clawhive___name__
from clawhive___name__ import greet


def test_it_greets_by_name():
    assert greet("you") == "Hello, you!"


def test_the_manifest_lists_the_tool():
    manifest = Path(clawhive___name__.__file__).with_name("clawhive-plugin.toml")
    tools = tomllib.loads(manifest.read_text(encoding="utf-8"))["tools"]
    assert [tool["name"] for tool in tools] == ["{{id}}.greet"]
