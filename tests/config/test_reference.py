from pathlib import Path

from clawhive_core.config import SETTINGS
from clawhive_core.config.reference import render
from clawhive_core.config.setting import check, example
from clawhive_core.protocols.sandbox import SandboxLimits

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def test_the_page_on_disk_is_what_the_table_says():
    assert PAGE.read_text(encoding="utf-8") == render()


def test_every_key_is_on_the_page_once():
    page = render()
    assert [key for key in SETTINGS if page.count(f"| `{key}` |") != 1] == []


def test_every_setting_is_written_well():
    assert [key for key, setting in SETTINGS.items() if not is_written_well(setting)] == []


def is_written_well(setting):
    text = setting.text.endswith(".") and "|" not in setting.text
    default = setting.default is None or check(setting, setting.default, "x") == setting.default
    return text and default and (setting.path[-1].isupper() or setting.path[-1] in example(setting))


UNITS = {"ms", "bytes", "files", "processes", "calls"}


def test_sandbox_defaults_are_those_of_the_engines():
    box = SandboxLimits()
    names = [key.removeprefix("sandbox.") for key in SETTINGS if key.startswith("sandbox.")]
    limits = [name for name in names if name.rpartition("_")[2] in UNITS]
    assert {name: SETTINGS[f"sandbox.{name}"].default for name in limits} == {
        name: getattr(box, name) for name in SandboxLimits.__dataclass_fields__
    }
