"""Addresses taken apart: what is ours, what is libpq's, and what may be shown."""

from __future__ import annotations

import pytest

from counterfoil.adapters.postgres.cells import given_text, rows_json, stored_text
from counterfoil.adapters.postgres.feed import Cursor, decode, position
from counterfoil.adapters.postgres.place import parse_place
from counterfoil.errors import ConfigInvalid, InvalidForm


def test_an_address_without_parameters_means_the_schema_counterfoil():
    place = parse_place("postgresql://app@db.example/ledger")
    assert (place.schema, place.keys_schema) == ("counterfoil", "counterfoil_keys")
    assert place.conninfo == "postgresql://app@db.example/ledger"
    assert (place.kek, place.wait_s, place.answer_s, place.connections) == (None, 30.0, 10.0, 8)


def test_our_parameters_are_taken_out_and_the_others_left_to_libpq():
    place = parse_place(
        "postgres://h/d?sslmode=verify-full&schema=shop&kek=/keys/a%20b&wait_s=5&answer_s=0.5&connections=2&options=-c%20a%3Db"
    )
    assert place.conninfo == "postgres://h/d?sslmode=verify-full&options=-c%20a%3Db"
    assert (place.schema, place.kek) == ("shop", "/keys/a b")
    assert (place.wait_s, place.answer_s, place.connections) == (5.0, 0.5, 2)


def test_a_password_is_never_shown():
    place = parse_place("postgresql://app:s3cret@h:5433,i:5434/d?password=s3cret&schema=shop")
    assert place.shown == "postgresql://app@h:5433,i:5434/d?schema=shop"
    assert "s3cret" in place.conninfo


@pytest.mark.parametrize(
    "schema", ["Shop", "1shop", "pg_shop", "a-b", 'a"b', "a" * 41, "", "shop;drop", "sch%C3%A9ma", "a b"]
)
def test_a_schema_is_a_short_lower_case_label(schema):
    with pytest.raises(ConfigInvalid):
        parse_place(f"postgresql://h/d?schema={schema}")


@pytest.mark.parametrize(
    "given", ["wait_s=0", "wait_s=-1", "answer_s=x", "connections=", "wait_s=1e9", "wait_s=nan"]
)
def test_a_bound_is_a_number_above_zero(given):
    with pytest.raises(ConfigInvalid):
        parse_place(f"postgresql://h/d?{given}")


def test_another_scheme_is_no_address_of_ours():
    with pytest.raises(ConfigInvalid):
        parse_place("mysql://h/d")


@pytest.mark.parametrize(
    "text", ["", "plain", "a\x00b", "\x01", "\x00\x01\x02", "\x01\x01", "\x01\x02", "é\x00"]
)
def test_every_text_comes_back_from_its_stored_form(text):
    assert given_text(stored_text(text)) == text
    assert "\x00" not in stored_text(text)


def test_stored_forms_sort_as_their_texts_do():
    texts = [
        "",
        "\x00",
        "\x00\x00",
        "\x00\x01",
        "\x01",
        "\x01\x00",
        "\x01\x02",
        "\x02",
        "a",
        "a\x00",
        "a\x01",
        "b",
    ]
    assert sorted(texts, key=stored_text) == texts


def test_rows_as_json_keep_bytes_integers_and_text():
    row = {"a": b"\x00\xff", "b": (1 << 63) - 1, "c": 'quo"te\x00', "d": None}
    assert (
        rows_json([row])
        == '[{"a":"\\\\x00ff","b":9223372036854775807,"c":"quo\\"te\\u0001\\u0001","d":null}]'
    )


def test_a_cursor_comes_back_from_its_bytes():
    for cursor in (Cursor(), Cursor(0, "", 0), Cursor(77, "str_01J9ZC3Y3V7W2R5T8QK4M6N0PS", 9)):
        assert decode(cursor.encode()) == cursor
    assert decode(b"") == Cursor()


@pytest.mark.parametrize(
    "raw", [b"px1", b"px1" + bytes(11), b"px2" + bytes(12), b"px1" + bytes(12) + b"\xff", b"12"]
)
def test_other_bytes_are_no_cursor(raw):
    with pytest.raises(InvalidForm):
        decode(raw)


def test_positions_sort_as_transaction_stream_sequence_and_are_all_different():
    streams = ["str_01J9ZC3Y3V7W2R5T8QK4M6N0PS", "str_01J9ZC3Y3V7W2R5T8QK4M6N0PT"]
    places = [(xact, stream, seq) for xact in (1, 2) for stream in streams for seq in (1, 2, 2**28)]
    numbers = [position(*place) for place in places]
    assert numbers == sorted(set(numbers))
