"""Lines: their width in cells, cutting, wrapping, colour."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.cli.render.line import SGR, Line, Span, cut, width, wrap, wrap_spans

WIDTHS = {"abc": 3, "你好": 4, "e\u0301": 1, "👍": 2, "\u2571┊◆": 3, "": 0}


@pytest.mark.parametrize("text", WIDTHS)
def test_width_counts_cells_and_not_characters(text):
    assert width(text) == WIDTHS[text]


def test_a_text_that_fits_is_not_cut():
    assert cut("refund", 6) == "refund"


def test_a_cut_text_says_so_and_keeps_to_its_room():
    assert cut("refunds", 6) == "refun…"


@given(st.text(st.characters(exclude_categories=["C", "Z"]), max_size=40), st.integers(1, 20))
def test_a_cut_text_never_takes_more_cells_than_it_has(text, room):
    assert width(cut(text, room)) <= room


@given(st.text("abc 你", max_size=60), st.integers(2, 20))
def test_wrapping_leaves_nothing_out(text, room):
    lines = wrap(text, room)
    assert all(width(line) <= room for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_word_longer_than_the_line_is_broken():
    assert wrap("ab abcdefg", 4) == ["ab", "abcd", "efg"]


@given(
    st.lists(st.tuples(st.text("ab 你", max_size=12), st.sampled_from(["plain", "quiet"])), max_size=6),
    st.integers(4, 20),
)
def test_wrapping_styled_text_leaves_nothing_out(parts, room):
    spans = [Span(text, style) for text, style in parts]
    lines = wrap_spans(spans, room)
    assert all(line.width <= room for line in lines)
    kept = "".join(line.text for line in lines).replace(" ", "")
    assert kept == "".join(text for text, _ in parts).replace(" ", "")


def test_every_style_but_plain_ends_where_its_text_ends():
    for style, code in SGR.items():
        line = Line("a", Span("b", style), "c")
        assert line.ansi() == (f"a\x1b[{code}mb\x1b[0mc" if code else "abc")


def test_lines_are_values_that_can_be_joined_and_padded():
    assert (Line("a") + "b").pad(4) == Line("a", "b", "  ")


def test_spaces_at_the_end_are_no_part_of_a_line():
    assert Line("a ", Span("  ", "quiet")).rstrip() == Line("a")
