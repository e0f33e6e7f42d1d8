"""What counts as text, and how it is folded."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from counterfoil.search.text import CHARACTERS_MAX, SEPARATOR, fold, mask_keys, searchable, values_of


@given(st.text(st.characters(codec=None, categories=None)))
def test_folding_is_one_for_canonical_forms_and_cases_and_can_be_stored(text):
    folded = fold(text)
    folded.encode("utf-8")
    assert "\x00" not in folded
    assert SEPARATOR not in folded
    assert fold(unicodedata.normalize("NFD", text)) == fold(unicodedata.normalize("NFC", text))


@given(st.text(), st.text())
def test_a_text_inside_another_is_inside_it_when_both_are_folded_apart_from_marks_at_its_edges(before, text):
    # A combining mark joins what stands before it, so a border is put between.
    assert fold(text) in fold(f"{before}\n{text}\n") or unicodedata.combining((text or " ")[0])


def test_halves_of_pairs_and_nul_stay_apart():
    assert len({fold("\x00"), fold("\ud83d"), fold("\ude00"), fold("\ufffd")}) == 4


def test_names_of_members_long_bytes_and_references_are_no_text():
    content = {
        "name": "Ann",
        "raw": {"$bytes": "QUJD"},
        "at": {"$part": 1},
        "n": 42,
        "is": True,
        "d": {"$decimal": "4.50"},
    }
    assert list(values_of(content, "note.kept")) == ["Ann", "42", "4.50"]


def test_data_that_looks_like_a_tag_is_text():
    assert list(values_of({"a": {"$literal": {"$bytes": "walrus"}}}, "note.kept")) == ["walrus"]


def test_a_message_as_sent_is_read_without_its_escapes():
    content = {"bodies": ['{"role":"user","content":"\\u8fd4\\u91d1 \\"x\\""}', "{no json", '{"n": NaN}']}
    assert list(values_of(content, "provider.message_recorded")) == [
        "user",
        '返金 "x"',
        "{no json",
        '{"n": NaN}',
    ]
    assert list(values_of({"said": '{"a":1}'}, "note.kept")) == ['{"a":1}']


def test_deep_nesting_costs_no_recursion():
    value = "at the bottom"
    for _ in range(50_000):
        value = [value]
    assert list(values_of({"deep": value}, "note.kept")) == ["at the bottom"]


def test_a_part_is_cut_at_its_bound_and_says_so():
    text, cut = searchable(["x" * CHARACTERS_MAX, "walrus"])
    assert (len(text), cut) == (CHARACTERS_MAX, True)
    assert searchable(["walrus"]) == ("walrus", False)
    assert searchable(["x" * (CHARACTERS_MAX + 1)])[1]


def test_keys_of_known_shapes_are_masked_and_ids_are_not():
    assert "4eC39" not in mask_keys("sk-live-4eC39HqLyjWDarjtT1zdp7dc")
    assert "MIIE" not in mask_keys("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----")
    for kept in (
        "CFF90D7C-A2EC-4B11-9E1F-0C7A55D2E9AB",
        "refund:O-1042:1",
        "a.b@c.example",
        "sk-learn",
        "task-12345",
    ):
        assert mask_keys(kept) == kept
