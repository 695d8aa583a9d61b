from pathlib import Path

from clawhive_core.plugins.manifest import read_manifest

HERE = Path(__file__).resolve().parents[1]


def test_the_manifest_names_the_plugin_as_the_entry_point_does():
    manifest = read_manifest(HERE / "clawhive_web" / "clawhive-plugin.toml")
    assert manifest.id == "web"
