"""Finding: the same as a scan for any texts, and bounds that are said."""

from __future__ import annotations

from itertools import pairwise

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


@settings(max_examples=40)
@given(st.lists(st.lists(_text, max_size=3), min_size=4, max_size=12), _text.filter(bool), st.integers(1, 3))
def test_however_few_rows_a_stage_looks_at_the_answer_is_a_scan(texts, wanted, few):
    index = filled(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finding, "NEWEST", few)
        patch.setattr(finding, "FILLING_MAX", 2 * few)
        patch.setattr(finding, "SIFTED", few)
        places = find(index, plain(wanted), "str_0", 2, None)
    expected = [
        number + 1
        for number, values in enumerate(texts)
        if any(fold(wanted) in fold(value) for value in values)
    ]
    assert [place.sequence for place in places.found] == expected[::-1][:2]
    assert not places.bounded
    index.file.close()


def asked_for(index, wanted, limit=5):
    """What a search asks the words for, and the plans of its statements."""
    statements = []
    with index.file.using() as connection:
        connection.set_trace_callback(statements.append)
        find(index, plain(wanted), None, limit, None)
        connection.set_trace_callback(None)
        plans = [
            step[3]
            for statement in statements
            if statement.startswith("SELECT")
            for step in connection.execute(f"EXPLAIN QUERY PLAN {statement}")
        ]
    return [one.partition("MATCH '")[2].partition("' AND rowid")[0] for one in statements], plans


def test_a_few_trigrams_far_from_each_other_find_the_candidates():
    index = filled([[f"ordinary row {number}"] for number in range(100)])
    matches, _ = asked_for(index, "wanderer of marshlands")
    (match,) = filter(None, matches)
    trigrams = match.strip("()").split(" AND ")
    assert 2 <= len(trigrams) < query.TRIGRAMS_MAX
    places = sorted("wanderer of marshlands".index(one.strip('"')) for one in trigrams)
    assert all(later - before >= 3 for before, later in pairwise(places))
    index.file.close()


def test_a_trigram_that_every_row_holds_is_not_asked_for():
    index = filled([[f"order number O-{number}"] for number in range(200)])
    matches, _ = asked_for(index, "order number O-137")
    (match,) = filter(None, matches)
    held_by_all = {"order number o-"[at : at + 3] for at in range(13)}
    assert held_by_all.isdisjoint(one.strip('"') for one in match.strip("()").split(" AND "))
    index.file.close()


def test_more_trigrams_are_asked_for_once_the_first_ones_sift_too_little(monkeypatch):
    monkeypatch.setattr(finding, "SIFTED", 3)
    turned = [["butcherbird and fishmonger"]] * 20
    index = filled([["fishmonger and butcherbird"], *turned, *[["something else"]] * finding.SAMPLED])
    matches, _ = asked_for(index, "fishmonger and butcherbird", 1)
    first, second = (match.count(" AND ") + 1 for match in matches if match)
    assert first < second == query.TRIGRAMS_MAX
    index.file.close()


def test_a_short_text_is_looked_through_while_that_fills_the_page(monkeypatch):
    monkeypatch.setattr(finding, "NEWEST", 4)
    index = filled([[f"{number % 7} o'clock"] for number in range(70)])
    matches, _ = asked_for(index, "6")
    assert [match for match in matches if match] == []
    index.file.close()


@pytest.mark.parametrize("wanted", ["row 42", "42", "nowhere", "r"])
def test_a_search_reads_rows_by_number_and_sorts_nothing(wanted, monkeypatch):
    monkeypatch.setattr(finding, "NEWEST", 3)
    index = filled([[f"row {number}"] for number in range(100)])
    _, plans = asked_for(index, wanted)
    assert plans
    assert [step for step in plans if "TEMP B-TREE" in step] == []
    scans = [step for step in plans if step.startswith("SCAN") and "VIRTUAL TABLE" not in step]
    assert scans == []
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
