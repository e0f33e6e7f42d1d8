from __future__ import annotations

import hashlib
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.importers import reader
from counterfoil.importers.exact import Number
from counterfoil.importers.reader import Record, Refused, lines, read

GOOD = b'{"a":1}'


def read_all(data: bytes, end: int | None = None) -> list[Record | Refused]:
    return list(read(io.BytesIO(data), end))


def cause_of(line: bytes) -> str:
    (found,) = read_all(line + b"\n")
    assert isinstance(found, Refused)
    return found.cause


def note_of(line: bytes, end: bytes = b"\n") -> str:
    (found,) = read_all(line + end)
    assert isinstance(found, Refused)
    return found.note


# ---- lines -----------------------------------------------------------------------------------------------------------


def test_each_line_has_its_number_and_the_offset_of_its_first_byte():
    found = list(lines(io.BytesIO(b'{"a":1}\n\n  \n{"b":2}\n[3]')))
    assert [(line.number, line.offset, line.data) for line in found] == [
        (1, 0, b'{"a":1}'),
        (4, 12, b'{"b":2}'),
        (5, 20, b"[3]"),
    ]


def test_a_carriage_return_before_the_line_feed_belongs_to_the_line_end():
    (first, second) = lines(io.BytesIO(b'{"a":1}\r\n{"b":2}\r\n'))
    assert (first.data, second.data, second.offset) == (b'{"a":1}', b'{"b":2}', 9)


def test_a_byte_order_mark_at_the_start_is_passed_over():
    (found,) = read_all(b"\xef\xbb\xbf" + GOOD)
    assert isinstance(found, Record)
    assert (found.value, found.line.offset) == ({"a": 1}, 3)


def test_a_byte_order_mark_further_down_is_no_json():
    assert [type(found) for found in read_all(GOOD + b"\n\xef\xbb\xbf" + GOOD)] == [Record, Refused]


def test_the_last_line_without_line_end_is_read_and_known_as_unended():
    (first, last) = lines(io.BytesIO(GOOD + b"\n" + GOOD))
    assert (first.ended, last.ended) == (True, False)


def test_nothing_beyond_the_given_end_is_read():
    found = read_all(GOOD + b"\n" + b'{"grown":1}\n', end=len(GOOD) + 1)
    assert [record.line.number for record in found] == [1]


def test_a_line_beyond_the_bound_is_refused_by_size_and_its_neighbours_are_kept(monkeypatch):
    monkeypatch.setattr(reader, "LINE_BYTES_MAX", 100)
    monkeypatch.setattr(reader, "HEAD_BYTES", 16)
    long = b'{"text":"' + b"x" * 500 + b'"}'
    before, refused, after = read_all(GOOD + b"\n" + long + b"\n" + GOOD + b"\n")
    assert isinstance(before, Record)
    assert isinstance(after, Record)
    assert isinstance(refused, Refused)
    assert (refused.cause, refused.line.size, refused.line.data) == ("size", len(long), long[:16])
    assert refused.line.digest == hashlib.sha256(long).digest()
    assert after.line.offset == len(GOOD) + len(long) + 2


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_a_line_beyond_the_bound_may_be_the_last(monkeypatch, ending):
    monkeypatch.setattr(reader, "LINE_BYTES_MAX", 10)
    (refused,) = read_all(b"x" * 1000 + ending)
    assert (refused.line.size, refused.line.ended) == (1000, bool(ending))


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_a_line_of_exactly_the_bound_is_read(monkeypatch, ending):
    monkeypatch.setattr(reader, "LINE_BYTES_MAX", len(GOOD))
    assert [type(found) for found in read_all(GOOD + ending + GOOD + ending)] == [Record, Record]


@given(st.lists(st.binary(max_size=40).filter(lambda data: b"\n" not in data), max_size=12))
def test_every_byte_of_a_file_is_in_the_line_that_its_offset_names(parts):
    data = b"\n".join(parts)
    for line in lines(io.BytesIO(data)):
        assert data[line.offset : line.offset + line.size] == line.data


# ---- what is no record -----------------------------------------------------------------------------------------------


def test_a_file_cut_at_any_byte_of_its_last_records_keeps_the_records_before_the_cut():
    records = [json.dumps({"n": n, "text": "é\\n"}, ensure_ascii=False).encode() for n in range(3)]
    whole = b"\n".join(records) + b"\n"
    for cut in range(1, len(whole)):
        found = read_all(whole[:cut])
        kept = [record.value["n"] for record in found if isinstance(record, Record)]
        complete = whole[:cut].count(b"\n") + (whole[:cut].rpartition(b"\n")[2] in records)
        assert kept == list(range(complete))


def test_a_line_that_ends_with_the_file_says_that_it_was_cut():
    assert "cut" in note_of(b'{"a":', end=b"")


def test_two_records_on_one_line_are_refused_and_named():
    assert cause_of(GOOD + GOOD) == "json"
    assert "more than one record" in note_of(GOOD + GOOD)


def test_half_a_record_glued_to_the_next_is_refused():
    assert cause_of(b'{"a":{"b":' + GOOD) == "json"


def test_a_record_over_three_lines_is_three_lines_that_are_no_records():
    found = read_all(b'{"a":\n1\n}\n' + GOOD)
    assert [type(record) for record in found] == [Refused, Refused, Refused, Record]
    assert [record.line.number for record in found] == [1, 2, 3, 4]


@pytest.mark.parametrize("line", [b'"text"', b"42", b"[1]", b"null", b"true", b"1.5"])
def test_json_that_is_no_object_is_refused_by_shape(line):
    assert cause_of(line) == "shape"


@pytest.mark.parametrize("line", [b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\xc3'])
def test_what_is_not_utf_8_is_refused_by_encoding(line):
    assert cause_of(line) == "encoding"


@pytest.mark.parametrize(
    "line", [b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":1,"a":2}', b"{'a':1}", b'{"a":1,}', b"{"]
)
def test_what_is_not_json_is_refused(line):
    assert cause_of(line) == "json"


def test_a_raw_nul_is_refused_and_named():
    assert cause_of(b'{"a":"b\x00c"}') == "json"
    assert "NUL" in note_of(b'{"a":"b\x00c"}')


def test_nul_characters_where_a_record_was_lost_are_one_refused_line():
    assert [type(found) for found in read_all(b"\x00" * 64 + b"\n" + GOOD)] == [Refused, Record]


@pytest.mark.parametrize("line", [b"[" * 3000, b'{"a":' * 3000, b'{"a":' + b"[" * 64 + b"]" * 64 + b"}"])
def test_deep_nesting_is_refused_before_it_is_parsed(line):
    assert cause_of(line) == "depth"


def test_brackets_in_text_are_no_nesting():
    (found,) = read_all(b'{"a":"' + b"[{" * 200 + b'\\"' + b"[" * 200 + b'"}')
    assert isinstance(found, Record)


def test_nesting_up_to_the_limit_is_read():
    (found,) = read_all(b'{"a":' + b"[" * 63 + b"]" * 63 + b"}")
    assert isinstance(found, Record)


def test_a_quote_that_never_ends_is_scanned_once():
    assert cause_of(b'{"a":' + b"[" * 70 + b'"' + b'\\"' * 500_000) == "depth"
    assert cause_of(b'{"[[[[":"' * 17 + b'"' + b'\\"' * 500_000) == "json"


def test_a_note_never_repeats_what_the_line_says():
    assert "secret" not in note_of(b'{"a": secret}')


# ---- values ----------------------------------------------------------------------------------------------------------


def value_of(text: bytes):
    (found,) = read_all(b'{"a":' + text + b"}")
    assert isinstance(found, Record)
    return found.value["a"]


def test_integers_beyond_64_bits_keep_every_digit():
    assert value_of(b"1" + b"0" * 999) == 10**999
    assert value_of(b"18446744073709551617") == 2**64 + 1


def test_an_integer_of_more_than_a_thousand_digits_is_refused_by_size():
    assert cause_of(b'{"a":' + b"9" * 5000 + b"}") == "size"


def test_a_number_of_more_than_a_thousand_characters_is_refused_by_size():
    assert cause_of(b'{"a":0.' + b"1" * 5000 + b"}") == "size"


@pytest.mark.parametrize("text", ["0.10", "1e5", "1.0", "-0", "-0.0", "42.595907499999999555", "1e999"])
def test_a_number_that_is_no_integer_keeps_its_text(text):
    assert value_of(text.encode()) == Number(text)


def test_a_lone_surrogate_is_kept():
    assert value_of(b'"\\ud99c x"') == "\ud99c x"


def test_an_escaped_nul_is_kept():
    assert value_of(b'"ab\\u0000cd"') == "ab\x00cd"
