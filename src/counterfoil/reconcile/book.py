"""Reads a provider's book as a stream: each line as an entry, or the first fault with its line and what to do."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, BinaryIO, Final, Literal, NoReturn

from msgspec import Struct

from counterfoil.errors import BookInvalid, InvalidForm

LINE_BYTES_MAX: Final = 1024 * 1024
"""Bytes of one line of a book."""

NAME_CHARACTERS_MAX: Final = 1_000
"""Characters of a key or of a provider's id."""

COLUMNS_SHOWN_MAX: Final = 12
COLUMN_CHARACTERS_MAX: Final = 40

MINOR_UNITS_MAX: Final = 8
EXPONENT_MAX: Final = 100

_AMOUNT: Final = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,18})?").fullmatch
_BOMS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

BookKind = Literal["csv", "jsonl"]


class Columns(Struct, frozen=True):
    """Which columns of the book say what; at least the key as it was sent, or the provider's own id.

    In JSON Lines a name with dots leads into objects.
    """

    key: str | None = None
    provider_id: str | None = None
    amount: str | None = None
    status: str | None = None

    @property
    def wanted(self) -> tuple[str, ...]:
        """The columns that are looked at."""
        return tuple(
            name for name in (self.key, self.provider_id, self.amount, self.status) if name is not None
        )


class BookForm(Struct, frozen=True):
    """How the book is written.

    ``minor_units`` 2 reads 4000 as 40.00; ``ignore_sign`` reads −40 as 40; ``booked`` are the values of the status
    column that count (empty: all).
    """

    kind: BookKind = "csv"
    encoding: str = "utf-8"
    delimiter: str = ","
    minor_units: int = 0
    ignore_sign: bool = False
    booked: frozenset[str] = frozenset()


class Entry(Struct, frozen=True):
    """One line of the book. ``booked``: its status says that it was done."""

    line: int
    key: str | None
    provider_id: str | None
    amount: Decimal | None
    booked: bool = True


def check(columns: Columns, form: BookForm) -> None:
    """Refuse what cannot be asked of any book. Raises ``InvalidForm``."""
    if columns.key is None and columns.provider_id is None:
        raise InvalidForm(
            "name the column of the key or of the provider's id: effects are found by one of them",
            argument="columns",
        )
    if form.booked and columns.status is None:
        raise InvalidForm("the values that count need the column that they stand in", argument="status")
    if not 0 <= form.minor_units <= MINOR_UNITS_MAX:
        raise InvalidForm(f"minor_units is 0 to {MINOR_UNITS_MAX}", argument="minor_units")
    if len(form.delimiter) != 1 or form.delimiter in '"\r\n\0':
        raise InvalidForm("the delimiter is one character", argument="delimiter")
    try:
        plain = "a,\n".encode(form.encoding) == b"a,\n"
    except (LookupError, UnicodeError, TypeError):
        plain = False
    if not plain:
        raise InvalidForm(
            "the encoding must be one that Python knows and that writes ASCII as it is",
            hint="utf-8, latin-1 or cp1252; save anything else as UTF-8",
            argument="encoding",
        )


def read_book(file: BinaryIO, columns: Columns, form: BookForm) -> Iterator[Entry]:
    """The entries of a book, a line in memory at a time. Raises ``BookInvalid`` with the first faulty line."""
    check(columns, form)
    entries = _csv(file, columns, form) if form.kind == "csv" else _json_lines(file, columns, form)
    yield from entries


# ---- lines -----------------------------------------------------------------------------------------------------------


def _lines(file: BinaryIO, encoding: str) -> Iterator[tuple[int, str]]:
    """Decoded lines with their numbers and ends; a byte order mark is no part of the first."""
    number = 0
    while raw := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if number == 1:
            if raw.startswith(_BOMS):
                _fault(1, "is UTF-16", "save the book as UTF-8")
            raw = raw.removeprefix(codecs.BOM_UTF8)
        if len(raw) > LINE_BYTES_MAX:
            _fault(number, f"is longer than {LINE_BYTES_MAX} bytes", "lines end with LF or CR LF")
        if b"\0" in raw:
            _fault(number, "holds a NUL", "the file is damaged, or no text")
        try:
            yield number, raw.decode(encoding)
        except UnicodeDecodeError as error:
            _fault(number, f"is not {encoding}: byte {error.start + 1} of it", "name its encoding")


def _fault(line: int, what: str, hint: str) -> NoReturn:
    raise BookInvalid(f"line {line} of the book {what}", hint=f"{hint}; nothing was compared", line=line)


# ---- CSV ---------------------------------------------------------------------------------------------------------------


class _Numbered:
    """Lines for the CSV reader, remembering where the record at hand began."""

    def __init__(self, lines: Iterator[tuple[int, str]]) -> None:
        self._lines = lines
        self.begins = 0
        self.at = 0

    def __iter__(self) -> _Numbered:
        return self

    def __next__(self) -> str:
        self.at, line = next(self._lines)
        self.begins = self.begins or self.at
        return line


def _csv(file: BinaryIO, columns: Columns, form: BookForm) -> Iterator[Entry]:
    lines = _Numbered(_lines(file, form.encoding))
    reader = csv.reader(lines, delimiter=form.delimiter, strict=True)
    places: dict[str, int] | None = None
    width = 0
    while (record := _record(reader, lines)) is not None:
        line, cells = record
        if not cells:
            continue
        if places is None:
            places, width = _places(line, cells, columns), len(cells)
            continue
        if len(cells) != width:
            _fault(
                line, f"has {len(cells)} fields where the first has {width}", "quote what holds a delimiter"
            )
        found = {name: cells[place] for name, place in places.items()}
        yield _entry(line, found, columns, form)
    if places is None:
        raise BookInvalid("the book is empty", hint="its first line names the columns", line=0)


def _record(reader: Any, lines: _Numbered) -> tuple[int, list[str]] | None:
    lines.begins = 0
    try:
        cells: list[str] = next(reader)
    except StopIteration:
        return None
    except csv.Error as error:
        _fault(lines.begins or lines.at, f"is no CSV: {error}", "look for a quote that does not end")
    return lines.begins, cells


def _places(line: int, names: Sequence[str], columns: Columns) -> dict[str, int]:
    given = [name.strip() for name in names]
    shown = ", ".join(name[:COLUMN_CHARACTERS_MAX] for name in given[:COLUMNS_SHOWN_MAX])
    twice = sorted({name for name in given if given.count(name) > 1}) if len(set(given)) < len(given) else []
    if twice:
        _fault(line, f"names the column {twice[0][:COLUMN_CHARACTERS_MAX]!r} twice", "give each its own name")
    for name in columns.wanted:
        if name not in given:
            _fault(line, f"has no column {name!r}; it has {shown}", "the first line names the columns")
    return {name: given.index(name) for name in columns.wanted}


# ---- JSON Lines --------------------------------------------------------------------------------------------------------


def _json_lines(file: BinaryIO, columns: Columns, form: BookForm) -> Iterator[Entry]:
    missing = set(columns.wanted)
    lines = 0
    for line, text in _lines(file, form.encoding):
        if not text.strip():
            continue
        lines += 1
        value = _parsed(line, text)
        found = {name: _member(value, name) for name in columns.wanted}
        missing -= {name for name, cell in found.items() if cell is not None}
        yield _entry(line, found, columns, form)
    if missing and lines:
        name = min(missing)
        raise BookInvalid(
            f"no line of the book has a member {name!r}",
            hint="a name with dots leads into objects; nothing was settled",
            line=0,
        )


def _parsed(line: int, text: str) -> dict[str, Any]:
    try:
        value = json.loads(
            text,
            parse_float=Decimal,
            parse_int=Decimal,
            parse_constant=_no_number,
            object_pairs_hook=_members,
        )
    except (ValueError, ArithmeticError, RecursionError) as error:
        why = "it nests too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        _fault(line, f"is no JSON: {why}", "one object a line")
    if not isinstance(value, dict):
        _fault(line, f"is {type(value).__name__} and no object", "one object a line")
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member stands twice in one object")
    return members


def _member(value: Any, name: str) -> Any:
    if isinstance(value, dict) and name in value:
        return value[name]
    for step in name.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


# ---- entries -----------------------------------------------------------------------------------------------------------


def _entry(line: int, found: dict[str, Any], columns: Columns, form: BookForm) -> Entry:
    def text(name: str | None) -> str | None:
        return None if name is None else _text(line, name, found[name])

    status = text(columns.status)
    return Entry(
        line=line,
        key=text(columns.key),
        provider_id=text(columns.provider_id),
        amount=_amount(line, columns.amount, text(columns.amount), form),
        booked=not form.booked or status in form.booked,
    )


def _text(line: int, name: str, cell: Any) -> str | None:
    if cell is None:
        return None
    if isinstance(cell, bool) or not isinstance(cell, str | Decimal):
        _fault(line, f"has {type(cell).__name__} in {name!r}", "keys, ids and amounts are text or numbers")
    shown = cell.strip() if isinstance(cell, str) else _number_text(cell)
    if "\0" in shown:
        _fault(line, f"has a NUL in {name!r}", "the file is damaged, or no text")
    if any("\ud800" <= character <= "\udfff" for character in shown):
        _fault(
            line,
            f"has half a character in {name!r}",
            "an escaped surrogate stands in it without its other half",
        )
    if len(shown) > NAME_CHARACTERS_MAX:
        _fault(line, f"has more than {NAME_CHARACTERS_MAX} characters in {name!r}", "name another column")
    return shown or None


def _number_text(number: Decimal) -> str:
    """A JSON number without exponent; one of absurd size keeps it, as a few characters could stand for gigabytes."""
    plain = number.is_finite() and abs(number.adjusted()) < EXPONENT_MAX and len(str(number)) < EXPONENT_MAX
    return f"{number:f}" if plain else str(number)


def _amount(line: int, name: str | None, text: str | None, form: BookForm) -> Decimal | None:
    if text is None:
        return None
    if not _AMOUNT(text):
        _fault(
            line,
            f"has no plain amount in {name!r}",
            "write 1234.50, without signs of currency or between thousands",
        )
    amount = Decimal(text).scaleb(-form.minor_units)
    return abs(amount) if form.ignore_sign else amount
