"""Times are UTC with an explicit Z whatever the zone of the machine; durations are two units at most (case X1)."""

from __future__ import annotations

import time

import pytest

from counterfoil.cli.render.times import clock, count, duration, moment, plural

AT = 1_788_273_068_412  # 2026-09-01T14:31:08.412Z

DURATIONS = {
    0: "under 1 ms",
    1: "1 ms",
    999: "999 ms",
    1_000: "1.0 s",
    4_190: "4.1 s",
    59_999: "59 s",
    60_000: "1 min",
    64_000: "1 min 4 s",
    8_040_000: "2 h 14 min",
    86_400_000: "1 d",
    187_200_000: "2 d 4 h",
    -64_000: "−1 min 4 s",
}


@pytest.mark.parametrize("length_ms", DURATIONS)
def test_a_duration_is_told_in_two_units_at_most(length_ms):
    assert duration(length_ms) == DURATIONS[length_ms]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_moments_are_utc_in_every_time_zone(monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert (moment(AT), clock(AT)) == ("2026-09-01 14:31:08Z", "14:31:08.4")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_numbers_are_grouped_and_words_agree_with_them():
    assert (count(40_328), plural(1, "event"), plural(2_000, "event")) == (
        "40,328",
        "1 event",
        "2,000 events",
    )
