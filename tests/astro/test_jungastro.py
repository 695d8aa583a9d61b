"""The two shipped skills together: one exports at a price, the other imports and keeps."""

import shutil
from datetime import date
from pathlib import Path

import pytest

from clawhive_core.cli import main
from clawhive_core.execution.scope import CORE
from clawhive_core.skills.checks.resolve import check_contracts
from clawhive_core.skills.discovery.reading import shipped_skills
from clawhive_core.skills.load import load_skills
from tests.execution.test_skill_tools import Project

TODAY = date(2026, 11, 22)

pytest.importorskip("astronomy", reason="pip install astronomy-engine")

SKILLS = Path(__file__).parents[2] / "skills"
BIRTH = {"birth_date": "2000-01-01", "birth_time": "12:00", "birth_place": "51.48,0,UTC"}
PROFILE = {"identity": {"birth_info": {"date": "2000-01-01"}}}

OTHER_INTERNALS = '''
"""Another zodiac: it keeps something else elsewhere, and calculates in another way."""


async def calculate_zodiac(input, ctx):
    signs = ["leo", "virgo"]
    await ctx.save("skills.zodiac.v2.packed", ["|".join(signs), input])
    return {"chart": {"layout": 2, "birth": input}, "sun_sign": signs[0], "moon_sign": signs[1]}


async def get_chart_snapshot(input, ctx):
    packed = await ctx.read("skills.zodiac.v2.packed")
    if packed is None:
        return {"error": "no_chart", "message": "none yet"}
    sun, moon = packed[0].split("|")
    return {
        "sun_sign": sun, "moon_sign": moon, "rising_sign": None,
        "planets": {"sun": {"sign": sun, "degree": 1}, "moon": {"sign": moon, "degree": 2}},
    }
'''


@pytest.fixture
def project(project_root):
    return Project(project_root)


async def subscribe(project):
    async with project.hive() as hive:
        await hive.subscriptions.add("local", "zodiac")


def tools(project):
    """Return the latest run's calls of skills' tools, in order, with who made them."""
    run = project.rows[-1]["run_id"]
    rows = [row for row in project.rows if row["run_id"] == run and row["provider_id"] != CORE]
    return [(row["principal"], row["tool"], row["status"]) for row in rows]


@pytest.mark.promise("P-185")
async def test_without_a_subscription_jungastro_passes_the_refusal_on_and_keeps_nothing(project):
    value = await project.value("jungastro.get_zodiac_chart", BIRTH)
    assert (value["error"], value["skill_id"]) == ("subscription_required", "zodiac")
    assert value["action"] == "show_subscribe_card"
    assert tools(project) == [
        ("user:local", "jungastro.get_zodiac_chart", "failed"),
        ("skill:jungastro", "zodiac.calculate_zodiac", "refused"),
    ]
    assert "save" not in [row["tool"] for row in project.rows]
    reflected = await project.value("jungastro.reflect", **{"user.profile": PROFILE})
    assert reflected["error"] == "subscription_required"


@pytest.mark.promise("P-185")
async def test_a_chart_is_asked_for_once_and_kept_in_jungastros_own_namespace(project):
    await subscribe(project)
    first = await project.value("jungastro.get_zodiac_chart", BIRTH)
    assert (first["sun_sign"], first["moon_sign"]) == ("capricorn", "scorpio")
    assert ("skill:jungastro", "zodiac.calculate_zodiac", "succeeded") in tools(project)
    for given in (BIRTH, {}):
        assert await project.value("jungastro.get_zodiac_chart", given) == first
        assert tools(project) == [("user:local", "jungastro.get_zodiac_chart", "succeeded")]
    async with project.hive() as hive:
        rows = hive.log.read("SELECT namespace, key FROM stored_values ORDER BY namespace")
        assert [tuple(row) for row in rows] == [
            ("skill_jungastro", "zodiac_chart"), ("skill_zodiac", "chart"),
        ]  # fmt: skip
        assert [row["used"] for row in hive.log.read("SELECT used FROM v_quotas")] == [1]
    other = await project.value("jungastro.get_zodiac_chart", {**BIRTH, "birth_date": "1980-05-05"})
    assert other["sun_sign"] == "taurus"
    await project.value("jungastro.get_zodiac_chart", {"refresh": True})
    assert ("skill:jungastro", "zodiac.calculate_zodiac", "succeeded") in tools(project)


async def test_time_and_place_default_to_noon_and_beijing_and_the_date_to_the_profile(project):
    await subscribe(project)
    flags = {"user.profile": PROFILE}
    value = await project.value("jungastro.get_zodiac_chart", **flags)
    birth = value["chart"]["birth"]
    assert (birth["date"], birth["time"], birth["place"]) == ("2000-01-01", "12:00", "Beijing")
    assert birth["utc"] == "2000-01-01T04:00:00+00:00"


async def test_without_a_date_or_with_an_unknown_place_the_mistake_is_told(project):
    await subscribe(project)
    missing = await project.value("jungastro.get_zodiac_chart")
    assert (missing["error"], "birth_date is missing" in missing["message"]) == (
        "invalid_input", True,
    )  # fmt: skip
    place = await project.value("jungastro.get_zodiac_chart", {**BIRTH, "birth_place": "Atlantis"})
    assert place["error"] == "unknown_place"
    day = await project.value("zodiac.calculate_zodiac", {"birth_date": "2021-02-30"})
    assert day["error"] == "invalid_input"
    shape = await project.call("zodiac.calculate_zodiac", {"birth_date": "1.1.2000"})
    assert shape.error == "invalid_input"


async def test_the_snapshot_is_free_and_light(project):
    assert (await project.value("zodiac.get_chart_snapshot"))["error"] == "no_chart"
    await subscribe(project)
    await project.value("zodiac.calculate_zodiac", BIRTH)
    async with project.hive() as hive:
        await hive.subscriptions.remove("local", "zodiac")
    light = await project.value("zodiac.get_chart_snapshot")
    assert set(light) == {"sun_sign", "moon_sign", "rising_sign", "planets"}
    assert (light["rising_sign"], len(light["planets"])) == ("aries", 10)
    more = await project.value("zodiac.get_chart_snapshot", {"include_aspects": True})
    assert set(more) - set(light) == {"aspects"}


async def test_the_functions_are_weighed_by_element(project):
    await subscribe(project)
    await project.value("zodiac.calculate_zodiac", BIRTH)
    found = await project.value("jungastro.reflect")
    # sun 3 + mercury 2 + saturn 1; rising 2 + venus 2 + jupiter 1 + pluto 1
    assert found["functions"] == {"intuition": 6, "sensation": 6, "thinking": 4, "feeling": 3}
    assert (found["leading"], found["inferior"]) == ("intuition", "sensation")


def own(project, *names):
    for name in names:
        shutil.copytree(SKILLS / name, project.root / "skills" / name)


@pytest.mark.promise("P-186")
async def test_zodiac_with_other_internals_leaves_jungastro_working(project):
    own(project, "zodiac", "jungastro")
    await subscribe(project)
    project.root.joinpath("skills", "zodiac", "handlers.py").write_text(OTHER_INTERNALS, "utf-8")
    value = await project.value("jungastro.get_zodiac_chart", BIRTH)
    assert "error" not in value, value
    assert (value["sun_sign"], value["chart"]["layout"]) == ("leo", 2)
    assert await project.value("jungastro.get_zodiac_chart", BIRTH) == value
    found = await project.value("jungastro.reflect")
    assert found["functions"] == {"intuition": 3, "sensation": 3, "thinking": 0, "feeling": 0}


@pytest.mark.promise("P-186")
@pytest.mark.parametrize("tool", ["calculate_zodiac", "get_chart_snapshot"])
def test_a_removed_export_fails_the_check_at_jungastros_line(project, tool, monkeypatch, capsys):
    own(project, "zodiac", "jungastro")
    for file in ("clawhive.yaml", "handlers.py"):
        path = project.root / "skills" / "zodiac" / file
        path.write_text(path.read_text("utf-8").replace(tool, f"{tool}_v2"), "utf-8")
    consumer = project.root / "skills" / "jungastro" / "clawhive.yaml"
    lines = consumer.read_text("utf-8").splitlines()
    line = 1 + next(at for at, each in enumerate(lines) if each.strip() == f"- {tool}")
    monkeypatch.chdir(project.root)
    for name, value in project.env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main(["skills", "check", "skills"])
    assert ended.value.code == 1
    place = f"skills/jungastro/clawhive.yaml:{line}:9"
    assert f"{place}: error CH0602 `zodiac` does not export `{tool}`" in capsys.readouterr().out


@pytest.mark.promise("P-186")
def test_the_shipped_skills_fit_each_other_without_a_cycle():
    assert {
        name: [each.code for each in findings]
        for name, findings in check_contracts(shipped_skills(), frozenset(), TODAY).items()
        if findings
    } == {"jungastro": ["CH0609"]}


def test_a_zodiac_of_the_users_own_that_does_not_fit_is_no_mistake_of_theirs(project):
    from clawhive_core.config.load import open_config

    project.zodiac()
    found = load_skills(open_config(project.root, {}, project.env), env=project.env)
    assert found.find("zodiac").skill.source != "shipped"
    entry = found.find("jungastro")
    assert entry.state == "gated"
    assert "error" not in {finding.severity for finding in found.findings}
    assert found.notes == []
