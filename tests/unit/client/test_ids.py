"""Identifiers minted by a process."""

from __future__ import annotations

import threading

import pytest

from counterfoil.client import ids as ids_module
from counterfoil.client.clock import SystemClock
from counterfoil.client.ids import UlidIds
from counterfoil.core.ids import PREFIXES, id_time_ms, is_id
from counterfoil.errors import InvalidId
from counterfoil.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def ids(clock):
    return UlidIds(clock.now_ms)


def test_every_prefix_gives_ids_of_its_own_form(ids):
    for prefix in PREFIXES:
        assert is_id(ids.new(prefix), prefix)


def test_a_prefix_that_the_format_does_not_list_is_refused(ids):
    with pytest.raises(InvalidId):
        ids.new("xyz")


def test_an_id_begins_with_the_time_it_was_minted(ids, clock):
    assert id_time_ms(ids.new("evt")) == clock.now_ms()
    clock.advance(1234)
    assert id_time_ms(ids.new("evt")) == clock.now_ms()


def test_ids_of_one_millisecond_rise(ids):
    minted = [ids.new("evt") for _ in range(5000)]
    assert minted == sorted(set(minted))


def test_ids_of_all_prefixes_rise_together(ids):
    minted = [ids.new(prefix).partition("_")[2] for _ in range(100) for prefix in PREFIXES]
    assert minted == sorted(set(minted))


def test_ids_rise_when_the_clock_goes_back(ids, clock):
    before = ids.new("evt")
    clock.set_wall(clock.now_ms() - 86_400_000)
    after = [ids.new("evt") for _ in range(10)]
    assert [before, *after] == sorted([before, *after])
    assert id_time_ms(after[9]) == id_time_ms(before)


def test_a_millisecond_that_is_used_up_borrows_from_the_next(clock, monkeypatch):
    monkeypatch.setattr(ids_module, "_COUNTED", 8)
    ids = UlidIds(clock.now_ms)
    monkeypatch.setattr(ids_module.os, "urandom", lambda count: b"\xff" * (count - 3) + bytes(3))
    minted = [ids.new("evt") for _ in range(20)]
    assert minted == sorted(set(minted))
    assert [id_time_ms(text) - clock.now_ms() for text in minted[::8]] == [0, 1, 2]


def test_every_letter_comes_up_everywhere_in_what_is_random(ids, clock):
    stems = []
    for _ in range(2000):
        clock.advance(1)
        stems.append(ids.new("evt").partition("_")[2][10:22])
    assert all(len(set(place)) == 32 for place in zip(*stems, strict=True))


def test_ids_of_two_generators_do_not_meet(clock):
    first, second = UlidIds(clock.now_ms), UlidIds(clock.now_ms)
    assert not {first.new("evt") for _ in range(1000)} & {second.new("evt") for _ in range(1000)}


def test_threads_never_get_the_same_id(ids):
    minted = [[] for _ in range(8)]
    threads = [
        threading.Thread(target=lambda mine=mine: mine.extend(ids.new("evt") for _ in range(2000)))
        for mine in minted
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in minted)
    assert len({text for mine in minted for text in mine}) == 16_000


def test_a_forked_child_begins_anew_even_when_the_parent_was_minting(ids):
    last = ids.new("evt")
    ids._lock.acquire()
    ids_module._begin_anew_in_child()
    following = ids.new("evt")
    assert following > last
    assert following[:-4] != last[:-4]


def test_the_machines_clock_dates_ids_unless_another_is_given():
    before = SystemClock().now_ms()
    minted = id_time_ms(UlidIds().new("evt"))
    assert before <= minted <= SystemClock().now_ms()
