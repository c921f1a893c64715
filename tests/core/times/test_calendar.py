from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from shoal.core.times import iso, parse, to_ms
from shoal.core.times.calendar import END_MS, MIN_MS, Calendar, Season, Unit, add_units

HOUR_MS = 3_600_000
ZONES = st.sampled_from(
    ["UTC", "Asia/Shanghai", "Europe/London", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu", "Africa/Cairo"]
)
MOMENTS = st.integers(MIN_MS + 400 * 24 * HOUR_MS, END_MS - 400 * 24 * HOUR_MS)


def ms(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    return int(datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp() * 1000)


def test_a_day_has_23_hours_where_the_clock_goes_forward():
    since_ms, until_ms = parse("2026-03-29", 0, "Europe/London")
    assert until_ms - since_ms == 23 * HOUR_MS


def test_a_day_has_25_hours_where_the_clock_goes_back():
    since_ms, until_ms = parse("2026-10-25", 0, "Europe/London")
    assert until_ms - since_ms == 25 * HOUR_MS


def test_a_day_whose_midnight_is_missing_begins_when_the_clock_has_gone_forward():
    assert parse("2018-11-04", 0, "America/Sao_Paulo").since_ms == ms(2018, 11, 4, 3)


def test_days_ago_are_local_days_across_a_change_of_the_clock():
    now = ms(2026, 10, 26, 0, 30)  # 00:30 GMT; the day before had 25 hours
    assert parse("yesterday", now, "Europe/London").since_ms == ms(2026, 10, 24, 23)
    assert parse("2 days ago", now, "Europe/London").since_ms == ms(2026, 10, 23, 23)


def test_yesterday_depends_on_the_zone():
    now = ms(2026, 11, 25, 20)
    assert parse("yesterday", now, "UTC").since_ms == ms(2026, 11, 24)
    assert parse("yesterday", now, "Asia/Shanghai").since_ms == ms(2026, 11, 24, 16)


def test_weeks_start_on_monday():
    sunday = ms(2026, 11, 29, 12)
    assert parse("this week", sunday, "UTC") == (ms(2026, 11, 23), ms(2026, 11, 30))


def test_the_31st_becomes_the_last_day_of_a_shorter_month():
    assert add_units(Unit.MONTH, date(2026, 3, 31), -1) == date(2026, 2, 28)
    assert add_units(Unit.YEAR, date(2024, 2, 29), 1) == date(2025, 2, 28)


def test_a_weekend_is_the_running_one_on_a_sunday():
    sunday = Calendar(ms(2026, 11, 29, 12), ZoneInfo("UTC"))
    assert sunday.latest_weekend() == (ms(2026, 11, 28), ms(2026, 11, 30))


def test_a_season_that_runs_has_begun_but_not_ended():
    january = Calendar(ms(2026, 1, 15), ZoneInfo("UTC"))
    assert january.latest_season(Season.WINTER, ended=False).since_ms == ms(2025, 12, 1)
    assert january.latest_season(Season.WINTER, ended=True).since_ms == ms(2024, 12, 1)


def test_the_first_and_the_last_year_are_within_bounds():
    assert parse("0001", 0, "Asia/Shanghai").since_ms == MIN_MS
    assert parse("9999-12-31", 0, "UTC").until_ms == END_MS
    assert parse("9999", 0, "America/New_York").until_ms == END_MS


@given(st.dates(), ZONES)
def test_every_day_ends_where_the_next_begins(day: date, zone: str):
    if day == date.max:
        return
    today, tomorrow = (parse(d.isoformat(), 0, zone) for d in (day, date.fromordinal(day.toordinal() + 1)))
    assert today.until_ms == tomorrow.since_ms
    assert today.since_ms <= today.until_ms


@given(MOMENTS, ZONES, st.sampled_from(["day", "week", "month", "quarter", "year"]))
def test_now_lies_in_the_current_unit(now: int, zone: str, unit: str):
    since_ms, until_ms = parse("today" if unit == "day" else f"this {unit}", now, zone)
    assert since_ms <= now < until_ms


def test_an_instant_is_written_in_utc_with_milliseconds_only_when_needed():
    assert iso(0) == "1970-01-01T00:00:00Z"
    assert iso(-1) == "1969-12-31T23:59:59.999Z"
    assert iso(ms(2026, 3, 5, 10) + 50) == "2026-03-05T10:00:00.050Z"
    assert iso(MIN_MS) == "0001-01-01T00:00:00Z"
    assert iso(END_MS - 1) == "9999-12-31T23:59:59.999Z"


@given(st.integers())
def test_an_instant_outside_of_the_years_is_written_as_the_nearest_one(instant: int):
    assert iso(instant) == iso(min(max(instant, MIN_MS), END_MS - 1))


@given(st.integers(MIN_MS + 1, END_MS - 1), ZONES)
def test_a_written_instant_reads_back(instant: int, zone: str):
    assert to_ms(iso(instant), 0, zone) == instant
