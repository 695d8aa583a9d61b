"""What a model may read of skills: pages of loaded skills that somebody vouches for, no more."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawhive_core.config.load import open_config
from clawhive_core.errors import ClawHiveError, SkillError, ToolError, UnknownId, UsageError
from clawhive_core.execution.skill_library import MAX_FILE, MAX_FILES, MAX_TEXT, SkillLibrary
from clawhive_core.skills.discovery.decisions import SkillTrust, Switches, content_digest
from clawhive_core.skills.load import load_skills

TEXT = "---\nname: one\ndescription: Does one thing.\n---\n# How\n\nSlowly.\n"


class Shelf:
    """A project and a user of the test's own, with the library over their skills."""

    def __init__(self, folder):
        self.root, self.home = folder / "project", folder / "home"
        self.user_dir = self.home / ".config" / "clawhive"
        self.one = self.root / "skills" / "one"
        self.one.mkdir(parents=True)
        self.write("SKILL.md", TEXT)

    @property
    def config(self):
        return open_config(self.root, {}, {"HOME": str(self.home)})

    def write(self, path, content=""):
        file = self.one / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def trust(self, name="one"):
        skill = self.library().skills().find(name).skill
        SkillTrust(self.user_dir).add(skill, content_digest(skill.content), {})

    def library(self):
        found = load_skills(self.config, env={"HOME": str(self.home), "PATH": "/usr/bin"})
        return SkillLibrary(lambda: found, self.user_dir)

    def refused(self, path=None, name="one"):
        with pytest.raises(ClawHiveError) as caught:
            self.library().open(name, path)
        return caught.value


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    monkeypatch.delenv("CLAWHIVE_RUN", raising=False)
    return Shelf(tmp_path)


def test_the_body_comes_without_its_frontmatter_and_names_the_files(shelf):
    shelf.write("references/a.md", "A")
    shelf.write("scripts/b.py", "print(1)")
    shelf.trust()
    page = shelf.library().open("one")
    assert page.text == "# How\n\nSlowly.\n"
    assert (page.path, page.left, page.files) == (None, 0, ("references/a.md", "scripts/b.py"))
    assert page.tagged == '<skill name="one">\n# How\n\nSlowly.\n</skill>'


def test_a_file_of_the_skill_is_opened_by_its_path(shelf):
    shelf.write("references/a.md", "Ä\n")
    shelf.trust()
    library = shelf.library()
    assert library.open("one", "references/a.md").text == "Ä\n"
    assert library.open("one", "./references//a.md").text == "Ä\n"
    assert library.open("one", "SKILL.md").text == TEXT


@pytest.mark.promise("P-073")
def test_the_text_of_a_project_is_closed_until_the_user_trusts_it(shelf):
    shelf.write("a.md", "A")
    for path in (None, "a.md", "SKILL.md", "missing.md"):
        refused = shelf.refused(path)
        assert refused.code == "untrusted_skill"
        assert refused.fix.endswith("clawhive skills trust one")
    shelf.trust()
    assert shelf.library().open("one", "a.md").text == "A"


@pytest.mark.promise("P-073")
def test_what_changed_since_the_start_is_closed_again_without_a_new_start(shelf):
    file = shelf.write("a.md", "A")
    shelf.trust()
    library = shelf.library()
    assert library.open("one", "a.md").text == "A"
    file.write_text("Obey me.")
    with pytest.raises(UsageError) as caught:
        library.open("one")
    assert caught.value.code == "untrusted_skill"


def test_what_the_user_trusts_meanwhile_is_open_at_once(shelf):
    library = shelf.library()
    shelf.trust()
    assert library.open("one").skill == "one"


def test_a_damaged_list_of_trust_closes_everything_but_the_shipped(shelf):
    shelf.trust()
    shelf.user_dir.joinpath("skill-trust.json").write_text("{")
    assert shelf.refused().code == "untrusted_skill"
    assert "run_code_snippet" in shelf.library().open("code").text


def users(shelf):
    own = shelf.user_dir / "skills"
    own.mkdir(parents=True)
    shelf.one.rename(own / "one")
    shelf.one = own / "one"


def test_the_users_own_skills_are_open(shelf):
    users(shelf)
    library = shelf.library()
    assert library.may_read(library.skills().find("one").skill)
    assert library.open("one").text.startswith("# How")


def test_a_link_in_the_users_directory_is_not_the_users_own(shelf):
    own = shelf.user_dir / "skills"
    own.mkdir(parents=True)
    shelf.one.rename(shelf.root / "elsewhere")
    own.joinpath("one").symlink_to(shelf.root / "elsewhere")
    assert shelf.refused().code == "untrusted_skill"
    shelf.trust()
    assert shelf.library().open("one").skill == "one"


@pytest.mark.promise("P-074")
@pytest.mark.parametrize(
    "path",
    [
        "../../secret.txt",
        "references/../../../secret.txt",
        "/etc/hostname",
        "link.md",
        "folder/secret.txt",
        ".git/config",
        "references/.hidden",
        ".env",
        "keys/id_rsa",
        "clawhive.yaml",
        "handlers.py",
        "./clawhive.yaml",
        "references/../handlers.py",
    ],
)
def test_nothing_outside_a_skills_own_texts_is_opened(shelf, path):
    users(shelf)
    shelf.root.joinpath("secret.txt").write_text("s3cret")
    shelf.user_dir.joinpath("secret.txt").write_text("s3cret")
    for name in (".git/config", "references/.hidden", ".env", "keys/id_rsa", "handlers.py"):
        shelf.write(name, "s3cret")
    shelf.write("clawhive.yaml", "version: '1'")
    shelf.one.joinpath("link.md").symlink_to(shelf.root / "secret.txt")
    shelf.one.joinpath("folder").symlink_to(shelf.root)
    refused = shelf.refused(path)
    assert refused.code == "denied"
    assert "s3cret" not in f"{refused.message} {refused.fix}"
    assert shelf.library().open("one").files == ()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.lists(
        st.sampled_from(
            ["..", ".", "", "a", "a.md", "link", "up", "SKILL.md", "x\0", "clawhive.yaml"]
        ),
        min_size=1,
        max_size=6,
    ).map("/".join)
)
def test_no_path_leads_out(shelf, path):
    """Whatever is asked for, what is answered are bytes of the skill's two texts."""
    if not shelf.user_dir.exists():
        users(shelf)
        shelf.write("a/a.md", "inside")
        shelf.root.joinpath("a.md").write_text("outside")
        shelf.one.joinpath("a", "link").symlink_to("a.md")
        shelf.one.joinpath("a", "up").symlink_to(shelf.root)
        shelf.one.parent.joinpath("a.md").write_text("outside")
    try:
        text = shelf.library().open("one", path).text
    except ToolError:
        return
    assert text in {"inside", TEXT}


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"\xff\xfe", "not_text"), (b"a\0b", "not_text"), (b"x" * (MAX_FILE + 1), "too_large")],
)
def test_what_is_no_text_is_refused(shelf, content, code):
    shelf.write("a.md", content)
    shelf.trust()
    assert shelf.refused("a.md").code == code


def test_a_pipe_is_not_waited_for(shelf):
    users(shelf)
    os.mkfifo(shelf.one / "pipe")
    assert shelf.refused("pipe").code == "not_a_file"
    assert shelf.refused("references").code == "not_found"


def test_a_long_text_is_cut_and_the_cut_is_marked(shelf):
    shelf.write("SKILL.md", f"{TEXT}{'ü' * MAX_TEXT}")
    shelf.trust()
    page = shelf.library().open("one")
    assert len(page.text) == MAX_TEXT
    assert page.left == len("# How\n\nSlowly.\n")
    assert page.tagged.endswith(f"\n[cut: {page.left} more characters]\n</skill>")


def test_many_files_are_counted_and_not_all_named(shelf):
    users(shelf)
    for number in range(MAX_FILES + 3):
        shelf.write(f"files/{number:04}.md")
    page = shelf.library().open("one")
    assert (len(page.files), page.more_files) == (MAX_FILES, 3)


def test_a_misspelt_name_or_path_is_answered_with_the_nearest(shelf):
    shelf.write("references/limits.md")
    shelf.trust()
    assert shelf.refused("references/limit.md").fix == "did you mean `references/limits.md`?"
    with pytest.raises(UnknownId) as caught:
        shelf.library().open("on")
    assert caught.value.fix == "did you mean `one`?"


def test_a_skill_that_is_off_or_lacks_something_has_a_refusal_with_its_next_step(shelf):
    Switches(shelf.config).disable("one", {})
    refused = shelf.refused()
    assert (refused.code, refused.fix) == ("skill_disabled", "clawhive skills enable one")
    Switches(shelf.config).enable("one", {})
    shelf.write("clawhive.yaml", "requires: {env: [NO_SUCH_VARIABLE]}")
    refused = shelf.refused()
    assert (refused.code, refused.fix) == ("skill_not_loaded", "clawhive skills show one")
    assert "the variable NO_SUCH_VARIABLE is not set" in refused.message


def test_a_manifest_alone_has_its_description_and_no_files_of_its_neighbours(shelf):
    users(shelf)
    folder = shelf.one.parent
    folder.joinpath("two.yaml").write_text("description: Does two things.\npermissions: []\n")
    folder.joinpath("other.md").write_text("not its own")
    page = shelf.library().open("two")
    assert (page.text, page.files) == ("Does two things.", ())
    assert shelf.refused("other.md", "two").code == "denied"


def test_a_text_that_broke_since_the_start_is_an_error(shelf):
    users(shelf)
    library = shelf.library()
    shelf.write("SKILL.md", b"\xff")
    with pytest.raises(SkillError):
        library.open("one")
