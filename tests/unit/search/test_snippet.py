"""Snippets show what was written, with the match where it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.search.snippet import CHARACTERS_MAX, snippet
from counterfoil.search.text import fold


def marked(values, *terms):
    found = snippet(values, [fold(term) for term in terms])
    return None if found is None else [found.text[start:end] for start, end in found.marks]


@pytest.mark.parametrize(
    "value, term, expected",
    [
        ("Where is O-1042?", "o-1042", "O-1042"),
        ("die Straße dort", "STRASSE", "Straße"),
        ("ein cafe\u0301 dort", "café", "cafe\u0301"),
        ("İstanbul", "İ", "İ"),
        ("返金をお願い", "お願", "お願"),
        ("a\x00b", "\x00", "\x00"),
        ("😀 lachen", "😀", "😀"),
        ("é" * 9000 + "walrus", "walrus", "walrus"),
    ],
)
def test_the_match_is_marked_as_it_was_written(value, term, expected):
    assert marked(["nothing here", value], term) == [expected]


def test_every_term_in_the_stretch_is_marked_once():
    assert marked(["kettle, refund, kettle"], "kettle", "refund", "kett") == ["kettle", "refund", "kettle"]


def test_a_match_longer_than_the_stretch_fills_it():
    found = snippet(["x" * 5000], ["x" * 4000])
    assert found is not None
    assert len(found.text) == CHARACTERS_MAX
    assert not found.ends


@given(st.text(max_size=400), st.text(min_size=1, max_size=5), st.text(max_size=400))
def test_marks_lie_in_the_text_in_order(before, term, after):
    found = snippet([before + term + after], [fold(term)])
    if found is None:
        return
    assert len(found.text) <= CHARACTERS_MAX
    last = 0
    for start, end in found.marks:
        assert last <= start <= end <= len(found.text)
        last = end
