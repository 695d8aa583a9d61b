"""`exports.access`: who may call what a skill exports, and how often."""

import pytest

from clawhive_core.skills.contracts.skill import Access, Rate

EXPORTS = """\
exports:
  api_version: '1.0'
  tools: %s
""" % [{"name": name, "input_schema": {}, "output_schema": {}} for name in ("chart", "snapshot")]


def access(place, text):
    place.skill("zodiac", EXPORTS + text)
    entry = place.own()["zodiac"]
    assert entry.state == "loaded", entry.findings
    return entry.skill.exports.access


def test_a_skill_without_access_is_free_and_unlimited(place):
    found = access(place, "")
    assert found == Access()
    assert not found.needs_subscription("chart")
    assert found.rate_of("chart") is None


def test_access_tells_subscription_free_tools_and_a_rate_for_each_tool(place):
    found = access(
        place,
        "  access:\n    requires_subscription: true\n    free_tools: [snapshot]\n"
        "    rate_limit: {chart: 50/day, snapshot: unlimited}\n",
    )
    assert found.needs_subscription("chart")
    assert not found.needs_subscription("snapshot")
    assert (found.rate_of("chart"), found.rate_of("snapshot")) == (Rate(50, "day"), None)


@pytest.mark.parametrize("text", ["  access: {rate_limit: 3/minute}\n", "  rate_limit: 3/minute\n"])
def test_one_rate_is_for_every_tool(place, text):
    found = access(place, text)
    assert found.rate_of("chart") == found.rate_of("snapshot") == Rate(3, "minute")
    assert Rate(3, "minute").seconds == 60


@pytest.mark.parametrize(
    ("text", "code", "at", "fix"),
    [
        ("  access: {rate_limit: 0/day}\n", "CH0507", "4:24",
         "write N/second, N/minute, N/hour, N/day or unlimited, such as 50/day"),
        ("  access: {rate_limit: 5/week}\n", "CH0507", "4:24", None),
        ("  access: {rate_limit: 50}\n", "CH0507", "4:24", None),
        ("  access: {rate_limit: {chart: -1/day}}\n", "CH0507", "4:32", None),
        ("  access: {rate_limit: {chrat: 1/day}}\n", "CH0506", "4:25", "did you mean `chart`?"),
        ("  access: {free_tools: [nothing]}\n", "CH0506", "4:25",
         "the skill exports: chart, snapshot"),
        ("  access: {free_tools: chart}\n", "CH0305", "4:24", None),
        ("  access: {requires_subscription: 'yes'}\n", "CH0305", "4:35",
         "write it without quotes"),
        ("  access: {price: 3}\n", "CH0306", "4:12", None),
        ("  access: {rate_limit: 1/day}\n  rate_limit: 2/day\n", "CH0305", "5:15",
         "keep the one in `access`"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_at_its_place(place, text, code, at, fix):
    place.skill("zodiac", EXPORTS + text)
    (finding,) = [each for each in place.own()["zodiac"].findings if each.severity == "error"]
    assert (finding.code, f"{finding.line}:{finding.column}") == (code, at)
    assert fix is None or (finding.fix and finding.fix.title) == fix
