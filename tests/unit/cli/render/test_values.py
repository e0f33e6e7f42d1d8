"""Values of content in one line: tags read as what they stand for, lengths bounded, hostile text marked."""

from __future__ import annotations

import pytest

from counterfoil.cli.render.values import CHARACTERS_MAX, named, shown, spoken
from counterfoil.core.values import to_json

SHOWN = {
    "text": ("O-1042", "O-1042"),
    "an integer beyond 64 bits": (2**80, str(2**80)),
    "nothing": (None, "null"),
    "a truth": (True, "true"),
    "a float": (1e-7, "1e-07"),
    "a whole float": ({"$float": "40.0"}, "40.0"),
    "a decimal": ({"$decimal": "184.00"}, "184.00"),
    "a list": ([1, "a"], '[1, "a"]'),
    "an object": ({"order": "O-1", "line": 1}, '{order: "O-1", line: 1}'),
    "a tuple": ({"$tuple": [1, 2]}, "(1, 2)"),
    "a set": ({"$set": [1, 2]}, "{1, 2}"),
    "a map": ({"$map": [[1, "a"]]}, '{1: "a"}'),
    "a literal": ({"$literal": {"$decimal": "no"}}, '{$decimal: "no"}'),
    "a class": ({"$type": "shop.Money", "value": {"amount": 1}}, "shop.Money({amount: 1})"),
    "an unknown tag": ({"$new": 1}, "{$new: 1}"),
    "bytes": (to_json(b"\xff\xfe"), "2 bytes fffe"),
    "many bytes": (to_json(bytes(20)), "20 bytes 0000000000000000…"),
    "bytes that are none": ({"$bytes": "?"}, "?"),
    "lines": ("one\ntwo\nthree", "one … +2 lines"),
    "hostile text": ("a\x1b[31mb", "a⟨ESC⟩[31mb"),
    "hostile text inside": (['a"\n\t\x1b'], '["a\\"\\n\\t⟨ESC⟩"]'),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_value_is_shown_as(name):
    value, text = SHOWN[name]
    assert shown(value) == text


def test_members_stand_side_by_side_without_braces():
    assert named({"order": "O-1", "line": 1}) == 'order "O-1", line 1'


def test_a_tagged_value_is_no_object_with_members():
    assert named({"$decimal": "1.10"}) == "1.10"


def test_a_very_long_value_is_not_written_out_to_be_cut():
    assert len(shown([list(range(1000))] * 1000)) <= CHARACTERS_MAX + 1
    assert shown("x" * 50_000_000).endswith("…")


def test_a_long_text_inside_leaves_room_for_its_neighbours():
    assert shown({"body": "x" * 1000, "order": "O-1"}).endswith('…", order: "O-1"}')


def test_a_value_is_cut_to_the_room_it_has():
    assert shown("refund the order", room=10) == "refund th…"


SPOKEN = {
    "text": ("hi", "hi"),
    "blocks": (
        [{"type": "text", "text": "one"}, {"type": "image"}, {"type": "text", "text": "two"}],
        "one\ntwo",
    ),
    "a message": ({"role": "user", "content": [{"type": "text", "text": "hi"}]}, "hi"),
    "a literal": ({"$literal": {"text": "hi", "$x": 1}}, "hi"),
    "a number": (5, ""),
    "a call": ([{"type": "toolCall", "name": "read"}], ""),
}


@pytest.mark.parametrize("name", SPOKEN)
def test_the_words_of_a_message_are_found_in(name):
    value, text = SPOKEN[name]
    assert spoken(value) == text
