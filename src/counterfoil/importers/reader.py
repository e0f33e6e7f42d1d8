"""Reads JSON Lines as a stream: every record or the reason why there is none, with line number and byte offset."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, Final, Literal, NoReturn, Protocol

from msgspec import Struct

from counterfoil.core.limits import INTEGER_DIGITS_MAX, NESTING_MAX
from counterfoil.core.numerals import integer_value
from counterfoil.importers.exact import Number

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of one line that are held in memory; of a longer one only the beginning and a digest."""

HEAD_BYTES: Final = 64 * 1024
"""Bytes kept of a line that is too long or cannot be stored whole."""

NUMBER_CHARACTERS_MAX: Final = INTEGER_DIGITS_MAX
"""Characters of one number with point or exponent; an integer has its own bound of as many digits."""

Cause = Literal["json", "encoding", "shape", "size", "depth", "type"]
"""Why a line is no record (``record.refused``, FORMAT 7)."""

_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n"
# A text that does not end is matched to its end, so that a hostile line is scanned once and not once per quote.
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


class Source(Protocol):
    """What is read: a binary file, or something that watches the bytes on their way."""

    def readline(self, size: int = -1, /) -> bytes:
        """At most ``size`` bytes, to the end of the line; nothing at the end of the file."""
        ...


class Hashed:
    """A source that keeps the SHA-256 of all that was read from it."""

    def __init__(self, file: Source) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()

    def readline(self, size: int = -1, /) -> bytes:
        """As :meth:`Source.readline`."""
        data = self._file.readline(size)
        self._sha256.update(data)
        return data

    def digest(self) -> bytes:
        """Of everything up to here."""
        return self._sha256.digest()


class Line(Struct, frozen=True):
    """One line as found, without its line feed, or carriage return and line feed, and without a byte order mark at the file's start.

    ``data`` is only the beginning when the line is longer than :data:`LINE_BYTES_MAX`; ``digest`` (SHA-256) and
    ``size`` are always of the whole line. ``ended`` is False for a last line without line end: the file may have
    been cut there, or is still being written.
    """

    number: int
    offset: int
    data: bytes
    size: int
    digest: bytes
    ended: bool

    @property
    def whole(self) -> bool:
        """Whether ``data`` is all of it."""
        return len(self.data) == self.size


class Record(Struct, frozen=True):
    """A line that is a JSON object. Numbers that are not integers are :class:`~.exact.Number`, text as found."""

    line: Line
    value: dict[str, Any]


class Refused(Struct, frozen=True):
    """A line that is no record: the cause, and in words what is wrong with it."""

    line: Line
    cause: Cause
    note: str


class _FaultError(Exception):
    """What keeps a line from being a record."""

    def __init__(self, cause: Cause, note: str) -> None:
        super().__init__(note)
        self.cause: Cause = cause
        self.note = note


def read(file: Source, end: int | None = None) -> Iterator[Record | Refused]:
    """Every line that is not blank, in order, up to byte ``end`` of the file (None: to where it ends now).

    A line without a record stops nothing. Holds one line at a time.
    """
    for line in lines(file, end):
        try:
            yield Record(line, _record(line))
        except _FaultError as fault:
            yield Refused(line, fault.cause, fault.note)


def lines(file: Source, end: int | None = None) -> Iterator[Line]:
    """The lines that hold more than white space, with their numbers (from 1) and byte offsets."""
    number = offset = 0
    while end is None or offset < end:
        limit = LINE_BYTES_MAX + 2 if end is None else min(LINE_BYTES_MAX + 2, end - offset)
        data = file.readline(limit)
        if not data:
            return
        number += 1
        if data.endswith(b"\n") or len(data) < LINE_BYTES_MAX + 2:
            found = _line(number, offset, data)
            offset += len(data)
        else:
            found, taken = _long_line(number, offset, data, file, end)
            offset += taken
        if found.data.strip(_BLANK):
            yield found


def _line(number: int, offset: int, data: bytes) -> Line:
    ended = data.endswith(b"\n")
    text = data.removesuffix(b"\n").removesuffix(b"\r") if ended else data
    if offset == 0 and text.startswith(_BOM):
        text = text.removeprefix(_BOM)
        offset = len(_BOM)
    return Line(number, offset, text, len(text), hashlib.sha256(text).digest(), ended)


def _long_line(number: int, offset: int, data: bytes, file: Source, end: int | None) -> tuple[Line, int]:
    """A line beyond the bound, read to its end piece by piece; with the bytes it took in the file."""
    head, digest, taken = data[:HEAD_BYTES], hashlib.sha256(), 0
    held, ended = data, False
    while True:
        taken += len(held)
        ended = held.endswith(b"\n")
        digest.update(held.removesuffix(b"\n"))
        if ended or (end is not None and offset + taken >= end):
            break
        held = file.readline(HEAD_BYTES if end is None else min(HEAD_BYTES, end - offset - taken))
        if not held:
            break
    return Line(number, offset, head, taken - ended, digest.digest(), ended), taken


def _record(line: Line) -> dict[str, Any]:
    if not line.whole:
        raise _FaultError("size", f"a line of {line.size} bytes; at most {LINE_BYTES_MAX} are read")
    try:
        text = line.data.decode("utf-8")
    except UnicodeDecodeError as broken:
        raise _FaultError("encoding", f"not UTF-8 at byte {broken.start} of the line") from None
    _check_nesting(line.data)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_members,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as broken:
        raise _FaultError("json", _words(line, text, broken)) from None
    if not isinstance(value, dict):
        raise _FaultError("shape", f"JSON, but {_kind(value)} and not an object")
    return value


def _check_nesting(data: bytes) -> None:
    """Counted before parsing: the parser itself would run out of stack."""
    if data.count(b"[") + data.count(b"{") <= NESTING_MAX:
        return
    depth = 0
    for token in _BRACKETS.finditer(data):
        mark = data[token.start()]
        if mark in b"[{":
            depth += 1
            if depth > NESTING_MAX:
                raise _FaultError(
                    "depth", f"nested deeper than {NESTING_MAX} at byte {token.start()} of the line"
                )
        elif mark in b"]}":
            depth -= 1


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _FaultError("json", "an object names a member twice")
    return members


def _integer(text: str) -> int | Number:
    if len(text.removeprefix("-")) > INTEGER_DIGITS_MAX:
        raise _FaultError("size", f"an integer of more than {INTEGER_DIGITS_MAX} digits")
    return Number(text) if text == "-0" else integer_value(text)


def _number(text: str) -> Number:
    if len(text) > NUMBER_CHARACTERS_MAX:
        raise _FaultError("size", f"a number of more than {NUMBER_CHARACTERS_MAX} characters")
    return Number(text)


def _constant(text: str) -> NoReturn:
    raise _FaultError("json", f"{text} is not JSON")


def _words(line: Line, text: str, broken: json.JSONDecodeError) -> str:
    """What is wrong, in the parser's words, which never repeat the text; and the likely reason, where it shows."""
    where = f"not JSON at character {broken.pos} of the line: {broken.msg[:1].lower()}{broken.msg[1:]}"
    if broken.msg == "Extra data" and text[broken.pos : broken.pos + 1] == "{":
        return f"{where}; more than one record stands on this line"
    if not line.ended:
        return f"{where}; the file ends in this line: it was cut, or is still being written"
    if "\x00" in text:
        return f"{where}; the line holds NUL characters"
    return where


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "a number"
