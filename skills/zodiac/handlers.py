"""What the skill `zodiac` executes: places of Sun, Moon and planets, by astronomy-engine (MIT).

Longitudes are apparent, geocentric and on the true ecliptic of date, as printed ephemerides have
them; the library's own accuracy is about one minute of arc.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone, tzinfo
from difflib import get_close_matches
from itertools import combinations
from typing import Any, NamedTuple

import astronomy

CHART = "skills.zodiac.chart"
"""Where the chart is kept; others read it through `get_chart_snapshot` alone."""
SIGNS = (
    *("aries", "taurus", "gemini", "cancer", "leo", "virgo"),
    *("libra", "scorpio", "sagittarius", "capricorn", "aquarius", "pisces"),
)
BODIES = (
    *("Sun", "Moon", "Mercury", "Venus", "Mars"),
    *("Jupiter", "Saturn", "Uranus", "Neptune", "Pluto"),
)
ASPECTS = {
    "conjunction": (0, 8),
    "sextile": (60, 4),
    "square": (90, 6),
    "trine": (120, 6),
    "opposition": (180, 8),
}
"""The angle of each aspect and how far from it one still counts, in degrees."""
FIRST, LAST = 1600, 2199
"""The years for which the library's series are meant."""
NORTH, EAST = 90, 180
POLAR = 66.0
"""From this latitude on no point of the ecliptic rises on some days."""
NOON = "12:00"
CITIES = {
    "amsterdam": (52.37, 4.90, "Europe/Amsterdam", "netherlands"),
    "athens": (37.98, 23.73, "Europe/Athens", "greece"),
    "auckland": (-36.85, 174.76, "Pacific/Auckland", "new zealand"),
    "bangkok": (13.76, 100.50, "Asia/Bangkok", "thailand"),
    "barcelona": (41.39, 2.17, "Europe/Madrid", "spain"),
    "beijing": (39.90, 116.41, "Asia/Shanghai", "china"),
    "berlin": (52.52, 13.40, "Europe/Berlin", "germany"),
    "bogota": (4.71, -74.07, "America/Bogota", "colombia"),
    "boston": (42.36, -71.06, "America/New_York", "usa"),
    "brussels": (50.85, 4.35, "Europe/Brussels", "belgium"),
    "budapest": (47.50, 19.04, "Europe/Budapest", "hungary"),
    "buenos aires": (-34.60, -58.38, "America/Argentina/Buenos_Aires", "argentina"),
    "cairo": (30.04, 31.24, "Africa/Cairo", "egypt"),
    "cape town": (-33.92, 18.42, "Africa/Johannesburg", "south africa"),
    "chengdu": (30.57, 104.07, "Asia/Shanghai", "china"),
    "chicago": (41.88, -87.63, "America/Chicago", "usa"),
    "chongqing": (29.56, 106.55, "Asia/Shanghai", "china"),
    "copenhagen": (55.68, 12.57, "Europe/Copenhagen", "denmark"),
    "delhi": (28.61, 77.21, "Asia/Kolkata", "india"),
    "denver": (39.74, -104.99, "America/Denver", "usa"),
    "dubai": (25.20, 55.27, "Asia/Dubai", "uae"),
    "dublin": (53.35, -6.26, "Europe/Dublin", "ireland"),
    "frankfurt": (50.11, 8.68, "Europe/Berlin", "germany"),
    "guangzhou": (23.13, 113.26, "Asia/Shanghai", "china"),
    "hamburg": (53.55, 9.99, "Europe/Berlin", "germany"),
    "hangzhou": (30.27, 120.16, "Asia/Shanghai", "china"),
    "hanoi": (21.03, 105.85, "Asia/Ho_Chi_Minh", "vietnam"),
    "helsinki": (60.17, 24.94, "Europe/Helsinki", "finland"),
    "hong kong": (22.32, 114.17, "Asia/Hong_Kong", "china"),
    "istanbul": (41.01, 28.98, "Europe/Istanbul", "turkey"),
    "jakarta": (-6.21, 106.85, "Asia/Jakarta", "indonesia"),
    "jerusalem": (31.77, 35.21, "Asia/Jerusalem", "israel"),
    "johannesburg": (-26.20, 28.05, "Africa/Johannesburg", "south africa"),
    "karachi": (24.86, 67.00, "Asia/Karachi", "pakistan"),
    "kolkata": (22.57, 88.36, "Asia/Kolkata", "india"),
    "kyiv": (50.45, 30.52, "Europe/Kiev", "ukraine"),
    "lagos": (6.52, 3.38, "Africa/Lagos", "nigeria"),
    "lima": (-12.05, -77.04, "America/Lima", "peru"),
    "lisbon": (38.72, -9.14, "Europe/Lisbon", "portugal"),
    "london": (51.51, -0.13, "Europe/London", "uk"),
    "los angeles": (34.05, -118.24, "America/Los_Angeles", "usa"),
    "madrid": (40.42, -3.70, "Europe/Madrid", "spain"),
    "manila": (14.60, 120.98, "Asia/Manila", "philippines"),
    "melbourne": (-37.81, 144.96, "Australia/Melbourne", "australia"),
    "mexico city": (19.43, -99.13, "America/Mexico_City", "mexico"),
    "miami": (25.76, -80.19, "America/New_York", "usa"),
    "milan": (45.46, 9.19, "Europe/Rome", "italy"),
    "montreal": (45.50, -73.57, "America/Toronto", "canada"),
    "moscow": (55.76, 37.62, "Europe/Moscow", "russia"),
    "mumbai": (19.08, 72.88, "Asia/Kolkata", "india"),
    "munich": (48.14, 11.58, "Europe/Berlin", "germany"),
    "nairobi": (-1.29, 36.82, "Africa/Nairobi", "kenya"),
    "nanjing": (32.06, 118.80, "Asia/Shanghai", "china"),
    "new york": (40.71, -74.01, "America/New_York", "usa"),
    "oslo": (59.91, 10.75, "Europe/Oslo", "norway"),
    "paris": (48.86, 2.35, "Europe/Paris", "france"),
    "prague": (50.08, 14.44, "Europe/Prague", "czechia"),
    "rio de janeiro": (-22.91, -43.17, "America/Sao_Paulo", "brazil"),
    "rome": (41.90, 12.50, "Europe/Rome", "italy"),
    "san francisco": (37.77, -122.42, "America/Los_Angeles", "usa"),
    "santiago": (-33.45, -70.67, "America/Santiago", "chile"),
    "sao paulo": (-23.55, -46.63, "America/Sao_Paulo", "brazil"),
    "seattle": (47.61, -122.33, "America/Los_Angeles", "usa"),
    "seoul": (37.57, 126.98, "Asia/Seoul", "korea"),
    "shanghai": (31.23, 121.47, "Asia/Shanghai", "china"),
    "shenzhen": (22.54, 114.06, "Asia/Shanghai", "china"),
    "singapore": (1.35, 103.82, "Asia/Singapore", "singapore"),
    "stockholm": (59.33, 18.07, "Europe/Stockholm", "sweden"),
    "sydney": (-33.87, 151.21, "Australia/Sydney", "australia"),
    "taipei": (25.03, 121.57, "Asia/Taipei", "taiwan"),
    "tehran": (35.69, 51.39, "Asia/Tehran", "iran"),
    "tokyo": (35.68, 139.69, "Asia/Tokyo", "japan"),
    "toronto": (43.65, -79.38, "America/Toronto", "canada"),
    "vancouver": (49.28, -123.12, "America/Vancouver", "canada"),
    "vienna": (48.21, 16.37, "Europe/Vienna", "austria"),
    "warsaw": (52.23, 21.01, "Europe/Warsaw", "poland"),
    "washington": (38.91, -77.04, "America/New_York", "usa"),
    "wuhan": (30.59, 114.31, "Asia/Shanghai", "china"),
    "xi'an": (34.34, 108.94, "Asia/Shanghai", "china"),
    "zurich": (47.38, 8.54, "Europe/Zurich", "switzerland"),
}
COUNTRIES = {
    "czech republic": "czechia",
    "england": "uk",
    "great britain": "uk",
    "south korea": "korea",
    "the netherlands": "netherlands",
    "türkiye": "turkey",
    "u.s.a.": "usa",
    "united arab emirates": "uae",
    "united kingdom": "uk",
    "united states": "usa",
    "us": "usa",
    "中国": "china",
}
"""Other names of countries."""
OTHER_NAMES = {
    "北京": "beijing",
    "上海": "shanghai",
    "广州": "guangzhou",
    "深圳": "shenzhen",
    "香港": "hong kong",
    "台北": "taipei",
    "东京": "tokyo",
    "peking": "beijing",
    "bombay": "mumbai",
    "calcutta": "kolkata",
    "kiev": "kyiv",
    "moskva": "moscow",
    "münchen": "munich",
    "new delhi": "delhi",
    "nyc": "new york",
    "são paulo": "sao paulo",
    "wien": "vienna",
    "zürich": "zurich",
}


class Mistake(Exception):
    """An input that cannot be used, with the code that callers get."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.answer = {"error": code, "message": message}


class Place(NamedTuple):
    """Where somebody was born."""

    name: str
    latitude: float
    longitude: float
    zone: tzinfo
    zone_name: str


async def calculate_zodiac(input: dict[str, Any], ctx: Any) -> dict[str, Any]:
    """Calculate a chart, keep it for the user and return it."""
    try:
        chart = chart_of(input["birth_date"], input.get("birth_time"), input.get("birth_place"))
    except Mistake as mistake:
        return mistake.answer
    await ctx.save(CHART, chart)
    planets = chart["planets"]
    return {
        "chart": chart,
        "sun_sign": planets["sun"]["sign"],
        "moon_sign": planets["moon"]["sign"],
    }


async def get_chart_snapshot(input: dict[str, Any], ctx: Any) -> dict[str, Any]:
    """Return the signs of the chart that was kept."""
    chart = await ctx.read(CHART)
    if chart is None:
        message = "no chart was calculated for this user yet: call zodiac.calculate_zodiac"
        return {"error": "no_chart", "message": message}
    planets, rising = chart["planets"], chart["ascendant"]
    snapshot = {
        "sun_sign": planets["sun"]["sign"],
        "moon_sign": planets["moon"]["sign"],
        "rising_sign": None if rising is None else rising["sign"],
        "planets": {
            name: {"sign": each["sign"], "degree": each["degree"]} for name, each in planets.items()
        },
    }
    if input.get("include_aspects", False):
        snapshot["aspects"] = chart["aspects"]
    return snapshot


def chart_of(date: str, clock: str | None, where: str | None) -> dict[str, Any]:
    """Return the chart of a birth.

    Args:
        date: `YYYY-MM-DD`.
        clock: `HH:MM` at the place; noon without it.
        where: The place; UTC without it.

    Raises:
        Mistake: The date or the place cannot be used.
    """
    place = None if where is None else place_of(where)
    moment = moment_of(date, clock or NOON, timezone.utc if place is None else place.zone)
    time = astronomy.Time.Make(
        moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second
    )
    axes = None if clock is None or place is None else axes_of(time, place)
    ascendant, midheaven = axes or (None, None)
    longitudes = {body.lower(): longitude(body, time) for body in BODIES}
    return {
        "birth": {
            "date": date,
            "time": clock or NOON,
            "time_is_known": clock is not None,
            "utc": moment.isoformat(),
            "place": None if place is None else place.name,
            "latitude": None if place is None else place.latitude,
            "longitude": None if place is None else place.longitude,
            "zone": "UTC" if place is None else place.zone_name,
        },
        "planets": {
            body.lower(): {
                **position(longitudes[body.lower()]),
                "retrograde": is_retrograde(body, time),
                "house": house(longitudes[body.lower()], ascendant),
            }
            for body in BODIES
        },
        "ascendant": None if ascendant is None else position(ascendant),
        "midheaven": None if midheaven is None else position(midheaven),
        "aspects": aspects_of(longitudes),
    }


def moment_of(date: str, clock: str, zone: tzinfo) -> datetime:
    """Return when it was in UTC.

    Raises:
        Mistake: There is no such day, or it is out of range.
    """
    try:
        local = datetime.strptime(f"{date} {clock}", "%Y-%m-%d %H:%M").replace(tzinfo=zone)
    except ValueError:
        raise Mistake("invalid_input", f"birth_date: there is no day `{date}`") from None
    if not FIRST <= local.year <= LAST:
        raise Mistake("invalid_input", f"birth_date: `{date}` is not from {FIRST} to {LAST}")
    return local.astimezone(timezone.utc)


def place_of(text: str) -> Place:
    """Return a place by its name, or by coordinates.

    Raises:
        Mistake: `unknown_place`.
    """
    parts = [part.strip() for part in text.split(",")]
    latitude, longitude_ = number(parts[0]), number(parts[1]) if parts[1:] else None
    if latitude is not None and longitude_ is not None:
        return coordinates(text, latitude, longitude_, parts[2:])
    city, *countries = [" ".join(part.casefold().split()) for part in parts]
    name = OTHER_NAMES.get(city, city)
    found = CITIES.get(name)
    if found is None or [COUNTRIES.get(each, each) for each in countries] not in ([], [found[3]]):
        close = get_close_matches(name, [*CITIES, *OTHER_NAMES], n=1)
        hint = f"did you mean `{close[0].title()}`? Else write" if close else "write"
        raise Mistake(
            "unknown_place",
            f"birth_place: `{text}` is not in the table; {hint} LATITUDE,LONGITUDE,ZONE, such as "
            "`52.52,13.4,Europe/Berlin`",
        )
    return Place(name.title(), found[0], found[1], zone_of(found[2]), found[2])


def coordinates(text: str, latitude: float, longitude_: float, rest: list[str]) -> Place:
    """Return a place by its coordinates; without a zone the hour nearest to the longitude counts.

    Raises:
        Mistake: `unknown_place`.
    """
    if abs(latitude) > NORTH or abs(longitude_) > EAST or len(rest) > 1:
        raise Mistake(
            "unknown_place",
            f"birth_place: `{text}` is no place: latitudes reach from -90 to 90, longitudes from "
            "-180 to 180, and one zone may follow",
        )
    if rest:
        return Place(text, latitude, longitude_, zone_of(rest[0]), rest[0])
    hours = round(longitude_ / 15)
    zone = timezone(timedelta(hours=hours))
    return Place(text, latitude, longitude_, zone, f"UTC{hours:+d} by longitude")


def number(text: str) -> float | None:
    """Return a number in degrees, None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def zone_of(name: str) -> tzinfo:
    """Return a time zone of the IANA database.

    Raises:
        Mistake: `unknown_place`: there is no such zone, or no database.
    """
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        hint = "write one such as `Europe/Berlin`, or install the Python package `tzdata`"
        raise Mistake(
            "unknown_place", f"birth_place: the time zone `{name}` is not known here; {hint}"
        ) from None


def longitude(body: str, time: astronomy.Time) -> float:
    """Return where a body stands on the ecliptic of date, in degrees."""
    vector = astronomy.GeoVector(astronomy.Body[body], time, aberration=True)
    turned = astronomy.RotateVector(astronomy.Rotation_EQJ_ECT(time), vector)
    return math.degrees(math.atan2(turned.y, turned.x)) % 360


def is_retrograde(body: str, time: astronomy.Time) -> bool:
    """Whether a body goes back on the ecliptic on that day."""
    before, after = longitude(body, time.AddDays(-0.25)), longitude(body, time.AddDays(0.25))
    return (after - before + 180) % 360 - 180 < 0


def axes_of(time: astronomy.Time, place: Place) -> tuple[float, float] | None:
    """Return ascendant and midheaven in degrees; None where nothing may rise, near the poles."""
    if abs(place.latitude) > POLAR:
        return None
    turn = math.radians(astronomy.SiderealTime(time) * 15 + place.longitude)
    pole = astronomy.RotateVector(
        astronomy.Rotation_ECT_EQD(time), astronomy.Vector(0.0, 0.0, 1.0, time)
    )
    tilt, height = math.acos(pole.z), math.tan(math.radians(place.latitude))
    rising = math.atan2(
        math.cos(turn), -(math.sin(turn) * math.cos(tilt) + height * math.sin(tilt))
    )
    middle = math.atan2(math.sin(turn), math.cos(turn) * math.cos(tilt))
    return math.degrees(rising) % 360, math.degrees(middle) % 360


def position(degrees: float) -> dict[str, Any]:
    """Return a longitude with its sign and the degree within it."""
    rounded = round(degrees, 4) % 360
    sign, rest = divmod(rounded, 30)
    return {"longitude": rounded, "sign": SIGNS[int(sign)], "degree": round(rest, 4)}


def house(degrees: float, ascendant: float | None) -> int | None:
    """Return the whole-sign house of a longitude, from 1; None without an ascendant."""
    if ascendant is None:
        return None
    return int((degrees // 30 - ascendant // 30) % 12) + 1


def aspects_of(longitudes: dict[str, float]) -> list[dict[str, Any]]:
    """Return the aspects between bodies, the closest first."""
    found = []
    for one, other in combinations(longitudes, 2):
        angle = abs((longitudes[one] - longitudes[other] + 180) % 360 - 180)
        for kind, (exact, widest) in ASPECTS.items():
            orb = abs(angle - exact)
            if orb <= widest:
                found.append({"between": [one, other], "kind": kind, "orb": round(orb, 2)})
    return sorted(found, key=lambda each: each["orb"])
