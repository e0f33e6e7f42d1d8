"""Calendar expressions: what they name, across changes of clocks, and what is no expression."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.errors import InvalidForm
from counterfoil.runtime.schedules.calendar import parse


def ms(text):
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def after(expression, zone, start, times):
    """The next due instants after a start, as times of UTC."""
    calendar, due, found = parse(expression, zone), ms(start), []
    for _ in range(times):
        due = calendar.after(due)
        found.append(datetime.fromtimestamp(due / 1000, UTC).isoformat()[:16])
    return found


NAMED = [
    ("* * * * *", "2026-12-01T00:00:30", ["2026-12-01T00:01", "2026-12-01T00:02"]),
    ("30 8 * * mon-fri", "2026-12-04T08:30", ["2026-12-07T08:30", "2026-12-08T08:30"]),
    ("0 0 1 jan *", "2026-01-01T00:00", ["2027-01-01T00:00", "2028-01-01T00:00"]),
    ("0 0 29 2 *", "2026-01-01T00:00", ["2028-02-29T00:00", "2032-02-29T00:00"]),
    ("0 0 29 feb *", "2096-03-01T00:00", ["2104-02-29T00:00"]),
    ("*/20 9-10 * * *", "2026-12-01T09:00", ["2026-12-01T09:20", "2026-12-01T09:40", "2026-12-01T10:00"]),
    ("5,10-12/2 0 * * *", "2026-12-01T00:00", ["2026-12-01T00:05", "2026-12-01T00:10", "2026-12-01T00:12"]),
    ("0 12 * * 0", "2026-12-01T00:00", ["2026-12-06T12:00"]),
    ("0 12 * * 7", "2026-12-01T00:00", ["2026-12-06T12:00"]),
    ("0 12 * * SUN", "2026-12-01T00:00", ["2026-12-06T12:00"]),
    # both days restricted: either is enough, as in cron
    ("0 0 13 * fri", "2026-11-01T00:00", ["2026-11-06T00:00", "2026-11-13T00:00", "2026-11-20T00:00"]),
    ("0 0 31 * *", "2026-03-31T00:00", ["2026-05-31T00:00", "2026-07-31T00:00"]),
    ("50/5 23 * * *", "2026-12-01T00:00", ["2026-12-01T23:50", "2026-12-01T23:55", "2026-12-02T23:50"]),
]


@pytest.mark.parametrize("expression, start, due", NAMED, ids=[case[0] for case in NAMED])
def test_an_expression_names_its_times(expression, start, due):
    assert after(expression, "UTC", f"{start}+00:00", len(due)) == due


CLOCKS = [
    # clocks go forward on 29 March 2026 from 02:00 to 03:00 in Berlin (01:00 UTC)
    ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:30"]),
    ("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:00"]),
    ("0 3 * * *", "Europe/Berlin", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T01:00"]),
    ("30 * * * *", "Europe/Berlin", "2026-03-29T00:00", ["2026-03-29T00:30", "2026-03-29T01:30"]),
    # and back on 25 October 2026 from 03:00 to 02:00 (01:00 UTC)
    ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["2026-10-25T00:30", "2026-10-26T01:30"]),
    (
        "30 * * * *",
        "Europe/Berlin",
        "2026-10-25T00:00",
        ["2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T02:30"],
    ),
    ("0 3 * * *", "Europe/Berlin", "2026-10-24T12:00", ["2026-10-25T02:00"]),
    # half an hour, and a day that begins at one o'clock
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["2026-10-03T15:30", "2026-10-04T15:15"]),
    ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00", ["2026-04-23T22:00", "2026-04-24T21:00"]),
    # the day that Samoa left out
    ("0 12 30 12 *", "Pacific/Apia", "2011-12-29T12:00", ["2011-12-30T10:00", "2012-12-29T22:00"]),
    # zones without changes, and with odd offsets
    ("0 9 * * *", "Asia/Kathmandu", "2026-06-01T12:00", ["2026-06-02T03:15"]),
    ("0 9 * * *", "America/New_York", "2026-06-01T20:00", ["2026-06-02T13:00"]),
]


@pytest.mark.parametrize(
    "expression, zone, start, due", CLOCKS, ids=[f"{case[0]} {case[1]} {case[2]}" for case in CLOCKS]
)
def test_a_change_of_clocks_leaves_nothing_out_and_doubles_nothing(expression, zone, start, due):
    assert after(expression, zone, f"{start}+00:00", len(due)) == due


@given(
    minute=st.sampled_from(["0", "17", "*/15", "59"]),
    hour=st.sampled_from(["*", "2", "0", "1-3", "23"]),
    weekday=st.sampled_from(["*", "0", "mon-fri"]),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    start=st.integers(1_700_000_000, 1_800_000_000),
)
@settings(max_examples=60)
def test_after_and_until_walk_the_same_instants(minute, hour, weekday, zone, start):
    calendar = parse(f"{minute} {hour} * * {weekday}", zone)
    due = calendar.after(start * 1000)
    following = calendar.after(due)
    assert start * 1000 < due < following
    assert calendar.until(due) == due
    assert calendar.until(following - 1) == due
    local = datetime.fromtimestamp(due / 1000, ZoneInfo(zone))
    assert local.second == 0


REFUSED = [
    "", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * 0 *",
    "* * * * 8", "5-1 * * * *", "*/0 * * * *", "*/60 * * * *", "a * * * *", "* * * foo *", "-1 * * * *", "1- * * * *",
    "1,,2 * * * *", "@daily", "0 0 30 2 *", "0 0 31 4,6 *", "²  * * * *", "٣ * * * *", "001 * * * *", "* " * 200,
    "*-5 * * * *", "1/2/3 * * * *", "L * * * *",
]  # fmt: skip


@pytest.mark.parametrize(
    "expression", REFUSED, ids=lambda text: text[:20].encode("ascii", "replace").decode()
)
def test_what_is_no_expression_is_refused_by_its_field(expression):
    with pytest.raises(InvalidForm, match="no calendar expression"):
        parse(expression, "UTC")


@pytest.mark.parametrize(
    "zone",
    [
        "Mars/Olympus",
        "../../etc/passwd",
        "/etc/passwd",
        "",
        "Europe",
        "a\x00b",
        "x" * 300,
        "localtime",
        "posixrules",
        "right/Europe/Berlin",
    ],
)
def test_a_zone_that_is_none_is_refused(zone):
    with pytest.raises(InvalidForm, match="no time zone"):
        parse("* * * * *", zone)


def test_a_minute_of_a_busy_expression_costs_no_day():
    calendar = parse("* * * * *", "Europe/Berlin")
    due = ms("2026-12-01T00:00:00+00:00")
    for _ in range(3_000):
        due = calendar.after(due)
    assert due == ms("2026-12-01T00:00:00+00:00") + timedelta(minutes=3_000) // timedelta(milliseconds=1)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
@pytest.mark.parametrize("day", [(9999, 12, 15), (9999, 12, 31), (1, 1, 15), (1, 1, 1)])
def test_where_the_years_end_nothing_more_is_due(zone, day):
    calendar = parse("0 0 1 7 *", zone)
    near = int(datetime(*day, tzinfo=UTC).timestamp() * 1000)
    after, until = calendar.after(near), calendar.until(near)
    assert (after is None, until is None) == (day[0] == 9999, day[0] == 1)
