"""Books as they come: read line by line, and every fault named with its line before anything is compared."""

from __future__ import annotations

import io
from decimal import Decimal

import pytest

from counterfoil.errors import BookInvalid, InvalidForm
from counterfoil.reconcile.book import BookForm, Columns, Entry, read_book

COLUMNS = Columns(key="key", amount="amount")


def read(data, columns=COLUMNS, **form):
    if isinstance(data, str):
        data = data.encode()
    return list(read_book(io.BytesIO(data), columns, BookForm(**form)))


def fault(data, *, columns=COLUMNS, **form):
    with pytest.raises(BookInvalid) as caught:
        read(data, columns, **form)
    assert "nothing was" in str(caught.value) or caught.value.line == 0
    return caught.value.line, caught.value.message


def test_entries_have_their_line_key_and_amount():
    assert read("key,other,amount\nk1,x,40.00\n\nk2,,-7\n") == [
        Entry(2, "k1", None, Decimal("40.00")),
        Entry(4, "k2", None, Decimal(-7)),
    ]


def test_a_byte_order_mark_spaces_and_windows_line_ends_are_no_part_of_the_names():
    assert read(b"\xef\xbb\xbfkey, amount \r\nk1, 40 \r\n")[0] == Entry(2, "k1", None, Decimal(40))


def test_quoted_delimiters_quotes_and_line_ends_belong_to_their_field_and_lines_are_still_right():
    found = read('key,amount\n"a,""b""\nc",1\nk2,2\n')
    assert [(entry.line, entry.key) for entry in found] == [(2, 'a,"b"\nc'), (4, "k2")]


def test_other_delimiters_and_encodings_are_named():
    data = "key;amount\nGebühr;1\n".encode("latin-1")
    assert read(data, delimiter=";", encoding="latin-1")[0].key == "Gebühr"


def test_minor_units_and_signs():
    assert read("key,amount\nk,-4000\n", minor_units=2, ignore_sign=True)[0].amount == Decimal("40.00")


def test_only_a_status_that_counts_is_booked():
    columns = Columns(key="key", status="status")
    found = read("key,status\na,paid\nb,pending\n", columns, booked=frozenset({"paid"}))
    assert [entry.booked for entry in found] == [True, False]


def test_empty_cells_are_nothing():
    assert read("key,amount\n,\n") == [Entry(2, None, None, None)]


def test_what_looks_like_a_formula_is_text():
    assert read("key,amount\n\"=cmd|' /C calc'!A0\",1\n")[0].key == "=cmd|' /C calc'!A0"


CSV_FAULTS = {
    "no column": ("key,total\nk,1\n", 1, "has no column 'amount'"),
    "a column twice": ("key,amount,key\nk,1,k\n", 1, "names the column 'key' twice"),
    "too many fields": ("key,amount\nk,1\nk,1,2\n", 3, "has 3 fields where the first has 2"),
    "too few fields": ("key,amount\nk\n", 2, "has 1 fields"),
    "no amount": ('key,amount\nk,"1,234.50"\n', 2, "has no plain amount"),
    "an amount that is no number": ("key,amount\nk,NaN\n", 2, "has no plain amount"),
    "a quote that does not end": ('key,amount\nk,1\n"k,2\nk,3\n', 3, "is no CSV"),
    "text behind a quote": ('key,amount\n"k"x,1\n', 2, "is no CSV"),
    "NUL": ("key,amount\nk\0,1\n", 2, "holds a NUL"),
    "not UTF-8": (b"key,amount\nk\xff,1\n", 2, "is not utf-8: byte 2"),
    "UTF-16": ("key,amount\n".encode("utf-16"), 1, "is UTF-16"),
    "a huge field": (b'key,amount\n"' + b"x" * 200_000 + b'",1\n', 2, "is no CSV: field larger"),
    "a huge line": (b"key,amount\n" + b"x" * 1_100_000 + b",1\n", 2, "is longer than"),
    "a long key": (f"key,amount\n{'k' * 1001},1\n", 2, "has more than 1000 characters"),
    "nothing": ("", 0, "is empty"),
}


@pytest.mark.parametrize("case", CSV_FAULTS)
def test_a_fault_of_a_csv_is_named_with_its_line(case):
    data, line, words = CSV_FAULTS[case]
    at, message = fault(data)
    assert (at, words in message) == (line, True), message


def test_a_quote_that_never_ends_does_not_take_the_file_into_memory():
    class Endless(io.RawIOBase):
        read_lines = 0

        def readline(self, size=-1):
            Endless.read_lines += 1
            return (
                b"key,amount\n"
                if Endless.read_lines == 1
                else b'"' * (Endless.read_lines == 2) + b"x" * 999 + b"\n"
            )

    with pytest.raises(BookInvalid):
        list(read_book(Endless(), COLUMNS, BookForm()))
    assert Endless.read_lines < 1_000


# ---- JSON Lines ------------------------------------------------------------------------------------------------------


def test_members_are_found_by_path_and_numbers_are_exact():
    columns = Columns(key="meta.key", provider_id="id", amount="amount")
    found = read(
        '{"id":"re_1","amount":0.1,"meta":{"key":"k"}}\n\n{"id":2,"amount":"7"}\n', columns, kind="jsonl"
    )
    assert found == [
        Entry(1, "k", "re_1", Decimal("0.1")),
        Entry(3, None, "2", Decimal(7)),
    ]


JSON_FAULTS = {
    "no JSON": ('{"key":"k"}\n{"key":\n', 2, "is no JSON"),
    "no object": ('["key"]\n', 1, "is list and no object"),
    "a member twice": ('{"key":"a","key":"b"}\n', 1, "a member stands twice"),
    "NaN": ('{"key":"k","amount":NaN}\n', 1, "NaN is no number"),
    "half a character as key": ('{"key":"k\\ud800"}\n', 1, "has half a character in 'key'"),
    "an escaped NUL": ('{"key":"k\\u0000"}\n', 1, "has a NUL in 'key'"),
    "an object as key": ('{"key":{}}\n', 1, "has dict in 'key'"),
    "a boolean as amount": ('{"key":"k","amount":true}\n', 1, "has bool in 'amount'"),
    "an exponent beyond bounds": ('{"key":"k","amount":1e999999999}\n', 1, "has "),
    "deep nesting": ("[" * 100_000 + "\n", 1, "is no JSON"),
    "not UTF-8": (b'{"key":"\xff"}\n', 1, "is not utf-8"),
    "no such member": ('{"id":"k"}\n', 0, "no line of the book has a member"),
}


@pytest.mark.parametrize("case", JSON_FAULTS)
def test_a_fault_of_json_lines_is_named_with_its_line(case):
    data, line, words = JSON_FAULTS[case]
    at, message = fault(data, kind="jsonl")
    assert (at, words in message) == (line, True), message


# ---- what is asked of a book -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns,form",
    [
        (Columns(amount="amount"), {}),
        (COLUMNS, {"encoding": "utf-16"}),
        (COLUMNS, {"encoding": "no-such-code"}),
        (COLUMNS, {"encoding": "base64"}),
        (COLUMNS, {"delimiter": "||"}),
        (COLUMNS, {"delimiter": '"'}),
        (COLUMNS, {"minor_units": 99}),
        (COLUMNS, {"booked": frozenset({"paid"})}),
    ],
    ids=[
        "nothing to find by",
        "not ascii",
        "unknown",
        "no text",
        "two characters",
        "a quote",
        "units",
        "status",
    ],
)
def test_what_cannot_be_asked_of_any_book_is_refused(columns, form):
    with pytest.raises(InvalidForm):
        read("key,amount\n", columns, **form)
