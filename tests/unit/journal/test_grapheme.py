from __future__ import annotations

import pytest

from counterfoil.journal.grapheme import cut_text

FAMILY = "👨\u200d👩\u200d👧"

WHOLE = {
    "accents on a letter": "e\u0301\u0302",
    "a family": FAMILY,
    "a hand with a skin": "👍🏽",
    "a flag": "🇫🇷",
    "a heart in colour": "❤\ufe0f",
    "a key cap": "1\ufe0f\u20e3",
    "a Hangul syllable in letters": "\u1112\u1161\u11ab",
    "a Devanagari conjunct": "क्ष",
    "a Thai letter with its vowel": "กำ",
    "a Tamil letter with its sign": "கொ",
    "a line end": "\r\n",
    "a tagged flag": "🏴\U000e0067\U000e0062\U000e007f",
    "a number sign before its digits": "\u06001",
}


@pytest.mark.parametrize("name", WHOLE)
def test_no_cut_falls_into(name):
    grapheme = WHOLE[name]
    text = f"ab{grapheme}cd"
    for size in range(len(text)):
        kept = cut_text(text, size)
        assert len(kept) <= size
        assert text.startswith(kept)
        assert len(kept) >= min(size, 1)
        assert not 2 < len(kept) < 2 + len(grapheme)


def test_a_text_that_fits_is_left_alone():
    assert cut_text(FAMILY, len(FAMILY)) == FAMILY


def test_plain_text_is_cut_exactly():
    assert cut_text("abcdef", 3) == "abc"


def test_two_flags_are_cut_between_them():
    assert cut_text("🇫🇷🇩🇪", 3) == "🇫🇷"
    assert cut_text("🇫🇷🇩🇪🇮🇹", 5) == "🇫🇷🇩🇪"


def test_two_syllables_are_cut_between_them():
    assert cut_text("한국", 1) == "한"


def test_a_pile_of_accents_without_end_comes_to_nothing():
    assert cut_text("a" + "\u0301" * 300, 240) == ""
