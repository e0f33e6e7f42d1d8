"""Hostile text becomes visible and stays what it is: nothing is dropped, nothing can imitate a mark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.cli.render.marks import ACCENTS_MAX, first_line, is_marked, marked, text_lines

HOSTILE = {
    "\x00": "⟨NUL⟩",
    "\x1b": "⟨ESC⟩",
    "\x9b": "⟨CSI⟩",
    "\x07": "⟨BEL⟩",
    "\x7f": "⟨DEL⟩",
    "\t": "⟨TAB⟩",
    "\r": "⟨CR⟩",
    "\n": "⟨LF⟩",
    "\u202e": "⟨RLO⟩",
    "\u2066": "⟨LRI⟩",
    "\u200b": "⟨ZWSP⟩",
    "\u200d": "⟨ZWJ⟩",
    "\ufeff": "⟨BOM⟩",
    "\u2028": "⟨U+2028⟩",
    "\xa0": "⟨NBSP⟩",
    "\xad": "⟨SHY⟩",
    "\ud99c": "⟨U+D99C⟩",
    "\U000e0041": "⟨U+E0041⟩",
    "\ufe00": "⟨U+FE00⟩",
    "\u3164": "⟨U+3164⟩",
    "\u2800": "⟨U+2800⟩",
    "\ue000": "⟨U+E000⟩",
    "\uffff": "⟨U+FFFF⟩",
    "⟨": "⟨U+27E8⟩",
}


@pytest.mark.parametrize("character", HOSTILE, ids=lambda character: f"U+{ord(character):04X}")
def test_each_hostile_character_becomes_a_mark_where_it_stands(character):
    assert marked(f"a{character}b") == f"a{HOSTILE[character]}b"


@pytest.mark.parametrize("text", ["Order O-1042", "Grüße, 你好", "नमस्ते", "👍", "⚠️ 1️⃣", "e\u0301", "﷽"])
def test_ordinary_text_of_any_script_stays_as_it_is(text):
    assert marked(text) == text


def test_text_cannot_imitate_a_mark():
    assert marked("⟨ESC⟩") != marked("\x1b")


def test_accents_are_drawn_up_to_a_bound_and_marked_beyond_it():
    text = "e" + "\u0301" * (ACCENTS_MAX + 2)
    assert marked(text) == "e" + "\u0301" * ACCENTS_MAX + "⟨U+0301⟩" * 2


def test_a_style_selector_that_follows_no_symbol_is_marked():
    assert marked("a\ufe0f") == "a⟨U+FE0F⟩"


@given(st.text(st.characters()) | st.text("\x00\x1b\u202e\ud800⟨⟩U+0", max_size=20))
def test_no_text_leaves_anything_that_steers_a_terminal(text):
    shown = marked(text)
    assert not any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in shown)
    shown.encode("utf-8")


@given(
    st.text("ab⟨⟩ESC\x1b\u202e\ud99cU+D9", max_size=12), st.text("ab⟨⟩ESC\x1b\u202e\ud99cU+D9", max_size=12)
)
def test_two_different_texts_never_look_the_same(one, other):
    assert (marked(one) == marked(other)) == (one == other)


def test_lines_break_at_line_feeds_only_and_other_breaks_are_marked():
    assert text_lines("a\r\nb\u2028c\rd") == ["a", "b⟨U+2028⟩c⟨CR⟩d"]


def test_the_first_line_with_something_on_it_is_taken_and_the_others_are_counted():
    assert first_line("\n\n  hello\n\nmore\nand more") == ("hello", 2)


def test_a_text_of_blanks_has_an_empty_first_line():
    assert first_line(" \n ") == ("", 0)


def test_it_is_known_whether_a_text_has_marks():
    assert (is_marked("a\x1b"), is_marked("a")) == (True, False)
