"""Birth charts, checked against printed ephemerides and against geometry."""

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

astronomy = pytest.importorskip("astronomy", reason="pip install astronomy-engine")

HANDLERS = Path(__file__).parents[2] / "skills" / "zodiac" / "handlers.py"


def load():
    spec = importlib.util.spec_from_file_location("zodiac_handlers", HANDLERS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ZODIAC = load()
# Apparent longitudes at 2000-01-01 12:00 UT, as printed ephemerides have them, in degrees.
PRINTED = {
    "sun": 280.37, "moon": 223.32, "mercury": 271.89, "venus": 241.57, "mars": 327.96,
    "jupiter": 25.25, "saturn": 40.40, "uranus": 314.81, "neptune": 303.19, "pluto": 251.45,
}  # fmt: skip


def chart(date="2000-01-01", clock="12:00", place="51.48,0,UTC"):
    return ZODIAC.chart_of(date, clock, place)


def mistake(**given):
    with pytest.raises(ZODIAC.Mistake) as caught:
        chart(**given)
    return caught.value.answer


@pytest.mark.promise("P-183")
def test_planets_stand_where_printed_ephemerides_have_them():
    found = {name: each["longitude"] for name, each in chart()["planets"].items()}
    assert found == {name: pytest.approx(there, abs=0.02) for name, there in PRINTED.items()}
    assert [name for name, each in chart()["planets"].items() if each["retrograde"]] == ["saturn"]


@pytest.mark.parametrize(
    ("date", "clock", "sign"),
    [  # the equinoxes and solstices of 2024, in UTC
        ("2024-03-20", "03:05", "pisces"), ("2024-03-20", "03:08", "aries"),
        ("2024-06-20", "20:50", "gemini"), ("2024-06-20", "20:52", "cancer"),
        ("2024-09-22", "12:42", "virgo"), ("2024-09-22", "12:45", "libra"),
        ("2024-12-21", "09:19", "sagittarius"), ("2024-12-21", "09:22", "capricorn"),
    ],
)  # fmt: skip
def test_the_sun_changes_its_sign_at_the_published_minute(date, clock, sign):
    assert chart(date, clock)["planets"]["sun"]["sign"] == sign


@given(
    st.datetimes(ZODIAC.datetime(1700, 1, 1), ZODIAC.datetime(2100, 1, 1)),
    st.floats(-65, 65), st.floats(-179, 179),
)  # fmt: skip
def test_the_ascendant_is_on_the_eastern_horizon_and_the_midheaven_on_the_meridian(
    when, latitude, longitude
):
    found = chart(f"{when:%Y-%m-%d}", f"{when:%H:%M}", f"{latitude:.6f},{longitude:.6f},UTC")
    time = astronomy.Time.Make(when.year, when.month, when.day, when.hour, when.minute, 0)
    there = astronomy.Observer(round(latitude, 6), round(longitude, 6), 0)

    def above(degrees):
        angle = ZODIAC.math.radians(degrees)
        point = astronomy.Vector(ZODIAC.math.cos(angle), ZODIAC.math.sin(angle), 0.0, time)
        turned = astronomy.RotateVector(astronomy.Rotation_ECT_EQD(time), point)
        equator = astronomy.EquatorFromVector(turned)
        return astronomy.Horizon(time, there, equator.ra, equator.dec, astronomy.Refraction.Airless)

    rising = above(found["ascendant"]["longitude"])
    assert rising.altitude == pytest.approx(0, abs=0.01)
    assert 0 < rising.azimuth < 180
    middle = above(found["midheaven"]["longitude"])
    # a point between pole and zenith stands north; east and west of both is never the meridian
    assert abs(ZODIAC.math.sin(ZODIAC.math.radians(middle.azimuth))) * ZODIAC.math.cos(
        ZODIAC.math.radians(middle.altitude)
    ) == pytest.approx(0, abs=0.001)


def test_a_time_is_that_of_the_places_clocks_also_in_summer():
    assert chart("1990-07-15", "08:00", "Shanghai")["birth"]["utc"] == "1990-07-14T23:00:00+00:00"
    assert chart("2020-07-15", "08:00", "上海")["birth"]["utc"] == "2020-07-15T00:00:00+00:00"
    by_longitude = chart("2020-07-15", "08:00", "31.2, 121.5")["birth"]
    assert by_longitude["utc"] == "2020-07-15T00:00:00+00:00"
    assert by_longitude["zone"] == "UTC+8 by longitude"


@pytest.mark.parametrize("given", [{"clock": None}, {"place": None}, {"place": "69.6,18.9"}])
def test_without_time_or_place_or_near_a_pole_nothing_is_said_of_the_rising_sign(given):
    found = chart(**given)
    assert (found["ascendant"], found["midheaven"]) == (None, None)
    assert {each["house"] for each in found["planets"].values()} == {None}
    assert found["birth"]["time_is_known"] is (given.get("clock", "12:00") is not None)


def test_houses_are_counted_from_the_rising_sign_and_aspects_lie_within_their_orbs():
    found = chart()
    assert found["ascendant"]["sign"] == "aries"
    assert found["planets"]["jupiter"]["house"] == 1
    assert found["planets"]["sun"]["house"] == 10
    widest = {kind: orb for kind, (_, orb) in ZODIAC.ASPECTS.items()}
    assert all(each["orb"] <= widest[each["kind"]] for each in found["aspects"])
    assert found["aspects"][0] == {"between": ["sun", "saturn"], "kind": "trine", "orb": 0.03}


@pytest.mark.promise("P-184")
@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("Pariss", "did you mean `Paris`?"),
        ("Paris, Texas", "did you mean `Paris`?"),
        ("Atlantis", "is not in the table; write LATITUDE,LONGITUDE,ZONE"),
        ("91,0", "latitudes reach from -90 to 90"),
        ("0,0,UTC,x", "one zone may follow"),
        ("0,0,../../etc/passwd", "the time zone `../../etc/passwd` is not known here"),
        ("0,0,Europe", "the time zone `Europe` is not known here"),
        ("nan,1", "is not in the table"),
        ("1e999,1", "is not in the table"),
        (",", "is not in the table"),
    ],
)
def test_a_place_that_is_not_known_is_no_other_place(place, says):
    answer = mistake(place=place)
    assert answer["error"] == "unknown_place"
    assert says in answer["message"]


@pytest.mark.parametrize("place", ["Beijing, China", "NYC", "new  york, usa", "são paulo, Brazil"])
def test_a_place_is_known_by_several_spellings(place):
    assert chart(place=place)["birth"]["latitude"] in (39.90, 40.71, -23.55)


def test_every_place_of_the_table_has_a_zone_near_its_longitude():
    for name, (latitude, longitude, zone, _) in ZODIAC.CITIES.items():
        moment = ZODIAC.datetime(2024, 1, 1, tzinfo=ZODIAC.zone_of(zone))
        hours = moment.utcoffset().total_seconds() / 3600
        assert abs(latitude) < 66, name
        assert abs(hours - longitude / 15) < 2.2, name
    assert set(ZODIAC.OTHER_NAMES.values()) <= set(ZODIAC.CITIES)


@pytest.mark.parametrize("date", ["2021-02-30", "1599-12-31", "2200-01-01", "2021-13-01"])
def test_a_day_that_there_is_not_or_out_of_range_is_refused(date):
    assert mistake(date=date)["error"] == "invalid_input"


@given(st.floats(0, 359.99999999, exclude_max=True))
def test_every_longitude_has_a_sign_and_a_degree_within_it(longitude):
    found = ZODIAC.position(longitude)
    assert found["sign"] in ZODIAC.SIGNS
    assert 0 <= found["degree"] < 30
