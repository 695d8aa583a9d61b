import pytest

from clawhive_core import Hive
from clawhive_core.plugins.contribution import Contribution
from clawhive_core.plugins.environment import PluginEnvironment
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.testing import ScriptedModel

SECRET = "correct-horse-battery-staple-77"


@pytest.fixture
def told():
    return []


def read(told, name, value):
    assert PluginEnvironment({name: value}, told.append)[name] == value
    return told


@pytest.mark.parametrize(
    "name",
    ["FAKE_API_KEY", "api_key", "GITHUB_TOKEN", "client_secret", "DB_PASSWORD", "CREDENTIAL"],
)
def test_what_a_variable_named_like_a_secret_holds_is_told_when_it_is_read(told, name):
    assert read(told, name, SECRET) == [SECRET]


def test_other_variables_short_words_and_names_of_files_are_not(told, tmp_path):
    key = tmp_path / "key.json"
    key.write_text("{}", encoding="utf-8")
    read(told, "BASE_URL", "https://example.com/v1")
    read(told, "API_KEY", "not-needed")
    read(told, "GOOGLE_APPLICATION_CREDENTIALS", str(key))
    read(told, "API_KEY", "\0" * 20)
    assert told == ["\0" * 20]


def test_nothing_is_told_of_what_is_not_read_and_all_of_what_is_copied(told):
    lent = PluginEnvironment({"A_TOKEN": SECRET, "HOME": "/home/ana"}, told.append)
    assert ("A_TOKEN" in lent, len(lent), list(lent)) == (True, 2, ["A_TOKEN", "HOME"])
    assert lent.get("B_TOKEN") is None
    assert dict(lent) == {"A_TOKEN": SECRET, "HOME": "/home/ana"}
    assert told == [SECRET]


@pytest.mark.promise("P-242")
async def test_a_key_that_an_adapter_read_is_written_nowhere_though_it_has_no_shape(tmp_path):
    class Echo(ScriptedModel):
        def __init__(self, env):
            super().__init__([])
            self.env = env

        async def chat(self, request):
            return await ScriptedModel([f"your key is {self.env['FAKE_API_KEY']}"]).chat(request)

    class Plugins(PluginManager):
        def __init__(self, env):
            super().__init__([])
            self.echo = Echo(env)

        def contributions(self, hook):
            is_adapter = hook == "clawhive_llm_adapters"
            return [Contribution("echo", "echo", self.echo)] if is_adapter else []

    env = {"HOME": str(tmp_path), "FAKE_API_KEY": SECRET}
    async with Hive.open(tmp_path, env=env, plugins=lambda _, lent: Plugins(lent)) as hive:
        run = await hive.run("Hi", model="scripted:any")
        assert run["status"] == "succeeded"
        assert run["output"] == "your key is [redacted]"
    written = b"".join(file.read_bytes() for file in (tmp_path / ".clawhive").glob("hive.db*"))
    assert b"your key is" in written
    assert SECRET.encode() not in written
