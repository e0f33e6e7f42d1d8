"""Finding: the same as a scan for any texts, and bounds that are said."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.search import find as finding
from counterfoil.search import query
from counterfoil.search.file import SearchFile
from counterfoil.search.find import find
from counterfoil.search.index import Batch, Index, PartText, Taken
from counterfoil.search.query import plain
from counterfoil.search.text import fold, searchable

LEDGER = "ldg_01J9ZC3Y3V7W2R5T8QK4M6N0PG"


def filled(texts, streams=1):
    index = Index(SearchFile(None, LEDGER), "default")
    reached = dict.fromkeys(range(streams), 0)
    events = []
    for number, values in enumerate(texts):
        stream = number % streams
        reached[stream] += 1
        text, _ = searchable(values)
        events.append(Taken(f"str_{stream}", reached[stream], f"evt_{number}", 0, (PartText(0, None, text),)))
    index.take(Batch(b"", b"1", True, events))
    return index


_text = st.text(st.sampled_from('aB1 é\u0301ß返金ก\u0e33\x00\ud800😀"*%'), max_size=6)


@settings(max_examples=60)
@given(st.lists(st.lists(_text, max_size=3), min_size=1, max_size=12), _text.filter(bool))
def test_what_is_found_equals_a_scan_of_every_value(texts, wanted):
    index = filled(texts)
    places = find(index, plain(wanted), "str_0", 100, None)
    expected = [
        number + 1
        for number, values in enumerate(texts)
        if any(fold(wanted) in fold(value) for value in values)
    ]
    assert sorted(place.sequence for place in places.found) == expected
    assert not places.bounded
    index.file.close()


@pytest.mark.parametrize("wanted", ["zq", "q", "z"])
def test_a_short_text_is_found_behind_the_newest_rows(wanted, monkeypatch):
    monkeypatch.setattr(finding, "NEWEST", 3)
    index = filled([["zq first"], *[[f"row {number}"] for number in range(20)]])
    assert [place.sequence for place in find(index, plain(wanted), "str_0", 5, None).found] == [1]
    monkeypatch.setattr(query, "BEGINNINGS_MAX", 0)
    assert [place.sequence for place in find(index, plain(wanted), "str_0", 5, None).found] == [1]
    index.file.close()


def test_a_search_that_stops_at_its_bounds_says_so_and_goes_on(monkeypatch):
    monkeypatch.setattr(finding, "CANDIDATES_MAX", 4)
    index = filled([["needle one"], *[["abc bcd cde"]] * 15])
    wanted, after, calls = plain("abcde"), None, 0
    while True:
        places = find(index, wanted, "str_0", 5, after)
        assert places.found == ()
        calls += 1
        after = places.after
        if after is None:
            break
        assert places.bounded
    assert calls >= 4
    index.file.close()


def test_a_conversation_is_searched_by_its_own_rows(monkeypatch):
    monkeypatch.setattr(finding, "CANDIDATES_MAX", 10)
    index = filled([["common text"]] * 400, streams=100)
    places = find(index, plain("common text"), "str_42", 100, None)
    assert len(places.found) == 4
    assert not places.bounded
    index.file.close()
