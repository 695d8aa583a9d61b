"""The core tool `skill_open`, called through the executor."""

from clawhive_core.testing import memory_hive


async def test_a_skill_is_read_as_text_and_as_a_value():
    async with memory_hive() as hive:
        _, result = await hive.call("skill_open", {"name": "code"})
    assert result.output.startswith('<skill name="code">\n# ')
    assert result.structured.keys() == {
        *("name", "path", "text", "truncated", "files", "more_files")
    }
    assert result.structured["name"] == "code"
    assert not result.structured["truncated"]


async def test_files_are_named_for_the_next_call(tmp_path):
    skill = tmp_path / "config" / "clawhive" / "skills" / "one"
    skill.joinpath("references").mkdir(parents=True)
    skill.joinpath("SKILL.md").write_text("---\nname: one\ndescription: x\n---\nBody.\n")
    skill.joinpath("references", "a.md").write_text("A")
    from clawhive_core.hive.hive import Hive

    project = tmp_path / "project"
    project.mkdir()
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    async with Hive.open(project, env=env) as hive, hive.session() as session:
        body = await session.invoke("skill_open", {"name": "one"})
        assert body.output.endswith("</skill>\nFiles of the skill, for `path`: references/a.md")
        value = await session.call("skill_open", {"name": "one", "path": "references/a.md"})
        assert (value["path"], value["text"]) == ("references/a.md", "A")


async def test_a_mistake_is_an_error_result_with_the_next_step():
    async with memory_hive(settings={"skills.disabled": ["docs"]}) as hive:
        _, unknown = await hive.call("skill_open", {"name": "cod"})
        _, disabled = await hive.call("skill_open", {"name": "docs"})
        _, wrong = await hive.call("skill_open", {"name": ""})
    assert unknown.is_error
    assert unknown.structured["next"] == {"action": "fix", "hint": "did you mean `code`?"}
    assert disabled.structured["error"] == "skill_disabled"
    assert disabled.structured["next"]["hint"] == "clawhive skills enable docs"
    assert wrong.error == "invalid_input"


async def test_it_is_safe_and_answers_only_what_somebody_vouches_for():
    async with memory_hive() as hive:
        meta = hive.catalog.current.find("skill_open").meta
        said = await hive.explain("skill_open", {"name": "code"})
    facts = (meta.provider_id, meta.risk, meta.capability_level, meta.output_trust)
    assert facts == ("core", "safe", "L0", "trusted")
    assert said["verdict"] == "allow"
