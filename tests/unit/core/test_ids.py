"""Identifiers: minting, checking, deriving, and their 16 bytes."""

from __future__ import annotations

import pytest

from counterfoil.core.ids import (
    PREFIXES,
    check_id,
    derived_id,
    id_time_ms,
    is_id,
    make_id,
    ulid_decode,
    ulid_encode,
)
from counterfoil.errors import InvalidId

EVENT = "evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE"


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_prefix_makes_ids_that_are_ids(prefix):
    made = make_id(prefix, 1788273068412, 2**80 - 1)
    assert is_id(made)
    assert is_id(made, prefix)
    assert check_id(made, prefix) == made


def test_ids_sort_by_time():
    made = [make_id("evt", time_ms, random) for time_ms in (0, 1, 2**48 - 1) for random in (0, 5, 2**80 - 1)]
    assert made == sorted(made)


def test_an_id_tells_when_it_was_made():
    assert id_time_ms(make_id("run", 1788273068412, 7)) == 1788273068412


@pytest.mark.parametrize("time_ms, random", [(-1, 0), (2**48, 0), (0, -1), (0, 2**80)])
def test_what_does_not_fit_into_an_id_is_refused(time_ms, random):
    with pytest.raises(InvalidId):
        make_id("evt", time_ms, random)


@pytest.mark.parametrize("value", [-1, 2**128])
def test_a_ulid_holds_128_bits(value):
    with pytest.raises(InvalidId):
        ulid_encode(value)


@pytest.mark.parametrize("text", ["", "0" * 25, "8" + "0" * 25, "0" * 25 + "O", "o" * 26, "0" * 26 + "\n"])
def test_another_text_is_no_ulid(text):
    with pytest.raises(InvalidId):
        ulid_decode(text)


def test_an_unknown_prefix_is_refused():
    for call in (
        lambda: make_id("xyz", 0, 0),
        lambda: derived_id("xyz", bytes(32)),
    ):
        with pytest.raises(InvalidId):
            call()


def test_a_derived_id_is_made_of_a_whole_digest():
    with pytest.raises(InvalidId):
        derived_id("evt", bytes(31))


def test_an_id_of_another_kind_is_refused_by_kind():
    with pytest.raises(InvalidId, match=r"expected run_.*found evt_"):
        check_id(EVENT, "run")


def test_a_text_from_outside_is_not_repeated_when_it_is_refused():
    with pytest.raises(InvalidId) as refusal:
        check_id("ada@shop.example", "run", "evt")
    assert "ada" not in str(refusal.value)


@pytest.mark.parametrize("thing", [None, 5, b"evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE", ["evt"]])
def test_only_text_is_an_id(thing):
    assert not is_id(thing)
