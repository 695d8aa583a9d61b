import os

import pytest

from clawhive_core.config.tomlfile import SIZE_LIMIT, NotToml, load_toml
from clawhive_core.errors import ConfigError


def refused(place, text):
    with pytest.raises(ConfigError) as caught:
        place.write(text).load()
    error = caught.value
    assert (error.code, error.exit_code) == ("invalid_config", 2)
    assert error.fix
    return error


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("a = ", "clawhive.toml:1:", "not valid TOML"),
        ("x = 1\n[a\n", "clawhive.toml:2:", "not valid TOML"),
        ('x = "', "clawhive.toml:1:", "not valid TOML"),
        ("x = 1\nx = 2", "clawhive.toml:2:", "overwrite"),
        ("[a]\n[a]\n", "clawhive.toml:2:", "twice"),
        ("x = 1\r", "clawhive.toml:1:", "not valid TOML"),
        ("x = '\0'", "clawhive.toml:1:", "not valid TOML"),
        ("d = 0000-00-00", "clawhive.toml:1:", "not valid TOML"),
        (b"\xef\xbb\xbfx = 1", "clawhive.toml:1:1", "byte order mark"),
        (b"x = 1\ny = '\xe9'", "clawhive.toml:2:6", "not UTF-8: byte 0xe9 at offset 11"),
        (b"\xff\xfex\0", "clawhive.toml:1:1", "not UTF-8"),
        ("x = 1\n" + "a." * 5_000 + "a = 1", "clawhive.toml:2:1", "more than 500 dots"),
        ("[plugins.x]\n" + "a." * 40 + "a = 1", "clawhive.toml:", "more than 32 levels"),
        ("x = " + "[" * 50_000, "clawhive.toml", "nested too deeply"),
        ("x = 1" + "0" * 5000, "clawhive.toml", "not valid TOML"),
        ("#" * (SIZE_LIMIT + 1), "clawhive.toml", "larger than 1024 KiB"),
        ("\n" * (10 * SIZE_LIMIT), "clawhive.toml", "larger than 1024 KiB"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str | bytes) else None,
)
def test_a_file_that_is_not_toml_is_refused_with_its_place(place, text, where, message):
    error = refused(place, text)
    assert error.place.startswith(where)
    assert message in error.message


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("\nrouting.mode = 1", "clawhive.toml:2:9", "`routing.mode` must be a text, not 1"),
        ('[routing]\nmode = "fast"', "clawhive.toml:2:1", "one of full, search, not 'fast'"),
        ("routing = 1", "clawhive.toml:1:1", "`routing` must be a table, not 1"),
        ("agents.x = []", "clawhive.toml:1:8", "`agents.x` must be a table"),
        ("loop.max_tool_rounds = true", "clawhive.toml:1:6", "must be an integer, not True"),
        ("loop.max_tool_rounds = 1.0", "clawhive.toml:1:6", "must be an integer"),
        ("loop.max_tool_rounds = -1", "clawhive.toml:1:6", "between 0 and 1000000"),
        ("routing.router_timeout_sec = nan", "clawhive.toml:1:9", "between 0 and 3600"),
        ("routing.router_timeout_sec = inf", "clawhive.toml:1:9", "between 0 and 3600"),
        ("sandbox.files = 99999999999999999999", "clawhive.toml:1:9", "must lie between"),
        ('plugins.strict = "yes"', "clawhive.toml:1:9", "must be true or false"),
        ('policy.deny = "a"', "clawhive.toml:1:8", "must be a list of texts, not 'a'"),
        ("policy.deny = ['a', 1]", "clawhive.toml:1:8", "must be a list of texts"),
        ('policy.deny = ["\\u0000"]', "clawhive.toml:1:8", "must be a list of texts"),
        ("plugins.disabled = {a = 1}", "clawhive.toml:1:9", "must be a list of texts"),
        ("tools = 1", "clawhive.toml:1:1", "must be an array of tables"),
        ("tools = [1]", "clawhive.toml:1:1", "must be an array of tables"),
        ("tools.alias = 1", "clawhive.toml:1:7", "must be a table of names to texts"),
        ("tools.alias.a = 1", "clawhive.toml:1:7", "must be a table of names to texts"),
        ("user.profile.x = inf", "clawhive.toml:1:6", "must be a table"),
        ('run.out = "\\u0000"', "clawhive.toml:1:5", "must be a text"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_place(place, text, where, message):
    error = refused(place, text)
    assert error.place == where
    assert message in error.message


def test_a_nearly_right_choice_is_answered_with_the_right_one(place):
    assert refused(place, 'routing.mode = "serch"').fix == "did you mean 'search'?"


def test_a_wrong_value_of_a_secret_is_not_printed(place):
    assert "1234567" not in refused(place, "routing.router_api_key = 1234567").message


def test_a_value_in_a_message_is_cut_and_steers_no_terminal(place):
    message = refused(place, 'policy.deny = "\\u001b[2J' + "x" * 1000 + '"').message
    assert len(message) < 150
    assert message.isprintable()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[[tools]]\nname = "a"\n[tools.alias]\nx = "y"\n', "clawhive.toml:3:8"),
        ('[[tools]]\nname = "a"\n[[tools]]\npin = {}\n', "clawhive.toml:4:1"),
        ('[tools.alias]\nx = "y"\n[[tools]]\nname = "a"\n', "clawhive.toml:3:"),
        ('[[tools]]\nname = "a"\n[tools]\nconflict = "safest"\n', "clawhive.toml:3:"),
    ],
)
def test_tools_as_array_and_as_table_in_one_file_are_answered_with_the_way_out(place, text, where):
    error = refused(place, text)
    assert error.place.startswith(where)
    assert "[catalog" in error.fix


def test_the_users_own_file_is_held_to_the_same(place):
    with pytest.raises(ConfigError) as caught:
        place.write("", user="routing.mode = 1\n").load()
    assert caught.value.place == f"{place.user}:1:9"


def test_a_pyproject_with_our_table_is_held_to_the_same(place):
    (place.root / "pyproject.toml").write_text("[tool]\nclawhive = 1\n")
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert caught.value.place == "pyproject.toml:2:1"
    (place.root / "pyproject.toml").write_text("[tool.clawhive]\nx = \n")
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert caught.value.place.startswith("pyproject.toml:2:")


def test_windows_line_ends_are_read_and_lines_counted_rightly(place):
    config = place.write(b'# x\r\n[routing]\r\nlearning = "off"\r\nmdoe = """a\r\nb"""\r\n').load()
    assert config.get("routing.learning") == "off"
    assert config.origin("routing.learning") == "project config clawhive.toml:3"
    assert config.findings[0].place == "clawhive.toml:4:1"


def test_an_empty_file_is_fine(place):
    config = place.write("").load()
    assert (config.findings, config.ignored) == ((), ())


def test_a_directory_in_place_of_the_file_is_an_error(place):
    place.project.mkdir()
    with pytest.raises(ConfigError, match="this is a directory"):
        place.load()


def test_a_pipe_in_place_of_the_file_is_an_error_and_does_not_wait(place):
    os.mkfifo(place.project)
    with pytest.raises(ConfigError, match="no regular file"):
        place.load()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_an_error(place):
    place.write("x = 1").project.chmod(0)
    with pytest.raises(ConfigError, match="cannot be read"):
        place.load()


def test_a_file_that_fails_while_it_is_read_is_an_error(place, monkeypatch):
    place.write("x = 1")
    real = os.open

    def failing(path, *args, **kwargs):
        if os.fspath(path) == os.fspath(place.project):
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert caught.value.place == "clawhive.toml"
    assert "Permission denied" in caught.value.message


def test_a_link_that_points_to_itself_is_an_error(place):
    place.project.symlink_to(place.project)
    with pytest.raises(ConfigError, match="cannot be read"):
        place.load()


def test_a_device_in_place_of_the_file_is_an_error(place):
    place.project.symlink_to("/dev/null")
    with pytest.raises(ConfigError, match="no regular file"):
        place.load()


def test_a_text_of_megabytes_is_refused_before_it_is_read():
    with pytest.raises(NotToml, match="more than 2097152 characters"):
        load_toml("x = '" + "a" * 2**21 + "'")
