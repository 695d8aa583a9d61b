"""What the skill `jungastro` executes: a chart of the skill `zodiac`, kept, and read as Jung would.

It knows nothing of how `zodiac` calculates or where it keeps its charts.
"""

from __future__ import annotations

from typing import Any

CHART = "skills.jungastro.zodiac_chart"
NOON, PLACE = "12:00", "Beijing"
FUNCTIONS = {
    "intuition": ("aries", "leo", "sagittarius"),
    "sensation": ("taurus", "virgo", "capricorn"),
    "thinking": ("gemini", "libra", "aquarius"),
    "feeling": ("cancer", "scorpio", "pisces"),
}
"""Each function and the signs of its element: fire, earth, air, water."""
OPPOSITE = {
    "intuition": "sensation",
    "sensation": "intuition",
    "thinking": "feeling",
    "feeling": "thinking",
}
WEIGHTS = {"sun": 3, "moon": 3, "mercury": 2, "venus": 2, "mars": 2}
RISING = 2


async def get_zodiac_chart(input: dict[str, Any], ctx: Any) -> dict[str, Any]:
    """Return the user's chart: the kept one where it is of the same birth, else zodiac's."""
    kept = await ctx.read(CHART)
    birth = birth_of(input, ctx.profile)
    if kept is not None and not input.get("refresh") and birth in (None, kept["birth"]):
        return kept["result"]
    if birth is None and kept is not None:
        birth = kept["birth"]
    if birth is None:
        message = (
            "birth_date is missing: give it, or set `date` in [user.profile.identity.birth_info]"
        )
        return {"error": "invalid_input", "message": message}
    result = await ctx.call("zodiac.calculate_zodiac", birth)
    if "error" not in result:
        await ctx.save(CHART, {"birth": birth, "result": result})
    return result


async def reflect(input: dict[str, Any], ctx: Any) -> dict[str, Any]:  # noqa: ARG001 - every handler takes both
    """Weigh the signs of the chart by function."""
    snapshot = await ctx.call("zodiac.get_chart_snapshot", {})
    if snapshot.get("error") == "no_chart":
        made = await get_zodiac_chart({}, ctx)
        if "error" in made:
            return made
        snapshot = await ctx.call("zodiac.get_chart_snapshot", {})
    if "error" in snapshot:
        return snapshot
    signs = {name: each["sign"] for name, each in snapshot["planets"].items()}
    if snapshot["rising_sign"] is not None:
        signs["rising"] = snapshot["rising_sign"]
    functions = weighed(signs)
    leading = max(functions, key=lambda name: functions[name])
    return {
        "functions": functions,
        "leading": leading,
        "inferior": OPPOSITE[leading],
        "signs": signs,
    }


def birth_of(input: dict[str, Any], profile: dict[str, Any]) -> dict[str, str] | None:
    """Return date, time and place of birth, None where no date is known."""
    identity = profile.get("identity") or {}
    known = identity.get("birth_info") or {}
    date = input.get("birth_date") or known.get("date")
    if not date:
        return None
    time = input.get("birth_time") or known.get("time") or NOON
    place = input.get("birth_place") or known.get("place") or PLACE
    return {"birth_date": str(date), "birth_time": str(time)[:5], "birth_place": str(place)}


def weighed(signs: dict[str, str]) -> dict[str, int]:
    """Return how much each function counts."""
    weights = dict(WEIGHTS)
    weights["rising"] = RISING
    found = {}
    for function, own in FUNCTIONS.items():
        found[function] = sum([weights.get(name, 1) for name in signs if signs[name] in own])
    return found
