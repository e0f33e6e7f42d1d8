"""Canonical JSON: RFC 8785 with exact integers and lone surrogates, and its ASCII subset for headers (FORMAT 2)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec
import orjson

from counterfoil.core.guard import is_plain, same_order, spell_floats
from counterfoil.core.limits import HEADER_INTEGER_MAX, NESTING_MAX
from counterfoil.core.numerals import float_text, integer_text
from counterfoil.core.paths import Path, path_text
from counterfoil.core.refusals import check_encodable
from counterfoil.core.strict import decode_strictly, nesting_of
from counterfoil.errors import CounterfoilError, NotCanonical, NotEncodable, TooDeep

JSON = Any
"""A JSON value: None, bool, int, float, str, list of JSON, dict of str to JSON; exactly these types."""

_SORTED: Final = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS
_PASS_DATACLASS: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_OPTIONS: Final = _SORTED | _PASS_DATACLASS

_WORDS: Final = {None: "null", True: "true", False: "false"}
_UNFIT_FOR_HEADER: Final = re.compile(rb"[^\x20-\x5b\x5d-\x7e]")
_ESCAPED: Final = re.compile('[\x00-\x1f"\\\\\ud800-\udfff]')
_SHORT_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


# ---- content -----------------------------------------------------------------------------------------------------


def encode(value: JSON) -> bytes:
    """The canonical text of a JSON value (FORMAT 2).

    Raises NotEncodable, TooDeep, IntegerTooLong or DuplicateMember with ``path``. The quick encoder is used only
    after the input was seen to hold nothing that it writes differently, or such floats alone, which are then spelled
    out for it; everything else takes the exact one.
    """
    if type(value) is str:
        try:
            return orjson.dumps(value)
        except TypeError:
            return encode_exactly(value)
    quick = value if is_plain(value) else spell_floats(value)
    if quick is not None or value is None:
        try:
            text = orjson.dumps(quick, option=_OPTIONS)
        except TypeError:
            return encode_exactly(value)
        if text.isascii() or same_order(value, text):
            return text
    return encode_exactly(value)


def encode_row(values: list[str | int]) -> bytes:
    """As :func:`encode`, for a list that holds text and integers alone: they need no look."""
    try:
        return orjson.dumps(values, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except TypeError:
        return encode_exactly(values)


def encode_exactly(value: JSON) -> bytes:
    """As :func:`encode`, always by the exact encoder: the yardstick for the quick one."""
    check_encodable(value)
    parts: list[str] = []
    _write(value, parts.append)
    return "".join(parts).encode("utf-8")


def _write(value: JSON, put: Callable[[str], None]) -> None:
    """Write a value that :func:`check_encodable` has passed; nesting is bounded by then."""
    kind = type(value)
    if kind is str:
        put(_quoted(value))
    elif kind is dict:
        _write_object(value, put)
    elif kind is list:
        _write_list(value, put)
    elif kind is int:
        put(integer_text(value))
    elif kind is float:
        put(float_text(value))
    else:
        put(_WORDS[value])


def _write_list(items: list[JSON], put: Callable[[str], None]) -> None:
    mark = "["
    for item in items:
        put(mark)
        _write(item, put)
        mark = ","
    put("]" if items else "[]")


def _write_object(members: dict[str, JSON], put: Callable[[str], None]) -> None:
    if "".join(members).isascii():
        pairs = sorted(members.items(), key=_name_of)
    else:
        pairs = sorted([(join_surrogates(name), item) for name, item in members.items()], key=_utf16_order)
    mark = "{"
    for name, item in pairs:
        put(f"{mark}{_quoted(name)}:")
        _write(item, put)
        mark = ","
    put("}" if members else "{}")


def _name_of(member: tuple[str, JSON]) -> str:
    return member[0]


def _utf16_order(member: tuple[str, JSON]) -> bytes:
    return member[0].encode("utf-16-be", "surrogatepass")


def join_surrogates(text: str) -> str:
    """The text with a high and a low surrogate that stand side by side joined to the one character they mean."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _quoted(text: str) -> str:
    if _ESCAPED.search(text) is None:
        return f'"{text}"'
    return f'"{_ESCAPED.sub(_escape, join_surrogates(text))}"'


def _escape(found: re.Match[str]) -> str:
    letter = found[0]
    return _SHORT_ESCAPES.get(letter) or f"\\u{ord(letter):04x}"


def decode(data: bytes) -> JSON:
    """The value of a JSON text in UTF-8, with exact integers and lone surrogates kept (FORMAT 2).

    The text need not be canonical. Raises NotCanonical (not JSON), DuplicateMember, TooDeep or IntegerTooLong, each
    with the byte ``offset``.
    """
    if b"\\" in data and (b"\\ud" in data or b"\\uD" in data):
        return decode_strictly(data)
    try:
        value = msgspec.json.decode(data)
        # A text that comes out again byte for byte holds no member twice and no integer beyond 64 bits; any other
        # is read again by the strict reader, which finds and names what is wrong with it, if anything.
        unchanged = orjson.dumps(value) == data
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
        return decode_strictly(data)
    if not unchanged:
        return decode_strictly(data)
    if (
        len(data) > 2 * NESTING_MAX
        and data.count(b"[") + data.count(b"{") > NESTING_MAX
        and nesting_of(value) > NESTING_MAX
    ):
        return decode_strictly(data)
    return value


# ---- headers, genesis and every signed record --------------------------------------------------------------------


def encode_header(members: dict[str, JSON]) -> bytes:
    """The canonical text of a signed record: printable ASCII, no backslash, no floats, keys sorted (FORMAT 2).

    Raises NotEncodable with ``path`` for anything else.
    """
    _check_header_value(members)
    try:
        text = orjson.dumps(members, option=_OPTIONS)
    except TypeError:
        check_encodable(members)
        text = b"\\"
    if not fits_header(text):
        raise NotEncodable(
            "a signed record holds a character outside printable ASCII, a quote or a backslash",
            hint="text from outside belongs into content",
            path=path_text(_unfit_path(members)),
        )
    return text


def fits_header(text: bytes) -> bool:
    """Whether JSON text has neither a byte outside ASCII nor a backslash nor DEL (control characters never occur)."""
    return text.isascii() and b"\\" not in text and b"\x7f" not in text


def is_header_text(text: str) -> bool:
    """Whether a text stands in a signed record as it is: printable ASCII without quote and backslash."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


def parse_header(data: bytes) -> dict[str, JSON]:
    """The members of a signed record. Raises NotCanonical (or a subclass) unless its own encoding is ``data``."""
    try:
        value = orjson.loads(data)
        same = orjson.dumps(value, option=orjson.OPT_SORT_KEYS) == data
    except (ValueError, TypeError, RecursionError):
        same = False
        value = None
    if not same or type(value) is not dict or not fits_header(data):
        raise not_canonical(data)
    try:
        _check_header_value(value)
    except NotEncodable as refused:
        raise NotCanonical(refused.message, hint=refused.hint, path=refused.fields["path"]) from None
    return cast("dict[str, JSON]", value)


def not_canonical(data: bytes) -> CounterfoilError:
    """The error that says what keeps ``data`` from being a canonical record: the first cause by byte offset."""
    unfit = _UNFIT_FOR_HEADER.search(data)
    if unfit is not None:
        what = (
            "a backslash" if unfit[0] == b"\\" else f"byte 0x{unfit[0][0]:02x}, which is not printable ASCII"
        )
        return NotCanonical(f"a signed record holds {what} at offset {unfit.start()}", offset=unfit.start())
    try:
        value = decode_strictly(data)
    except (NotCanonical, TooDeep) as refused:
        return refused
    except CounterfoilError as refused:
        return NotCanonical(refused.message, **refused.fields)
    if type(value) is not dict:
        return NotCanonical("a signed record is a JSON object; this is another value", offset=0)
    try:
        _check_header_value(value)
    except (NotEncodable, TooDeep) as refused:
        return NotCanonical(refused.message, hint=refused.hint, path=refused.fields["path"])
    again = encode(value)
    offset = next(
        (i for i, (a, b) in enumerate(zip(again, data, strict=False)) if a != b), min(len(again), len(data))
    )
    return NotCanonical(
        f"a signed record is not in canonical form from offset {offset} on: space, order of members or spelling",
        offset=offset,
    )


def _check_header_value(members: dict[str, JSON]) -> None:
    """Refuse what a signed record cannot hold: floats, integers beyond 2^53−1, other types, deep nesting."""
    pending: list[tuple[Any, Path, int]] = [(members, None, 1)]
    while pending:
        container, path, depth = pending.pop()
        if depth > NESTING_MAX:
            raise TooDeep(f"nesting beyond {NESTING_MAX} at {path_text(path)}", path=path_text(path))
        pairs = container.items() if type(container) is dict else enumerate(container)
        for step, item in pairs:
            if type(item) is dict or type(item) is list:
                pending.append((item, (path, step), depth + 1))
            elif type(item) is int:
                if not -HEADER_INTEGER_MAX <= item <= HEADER_INTEGER_MAX:
                    raise _unfit_value("an integer beyond 2^53-1", (path, step))
            elif type(item) is float:
                raise _unfit_value("a float", (path, step))


def _unfit_value(what: str, path: Path) -> NotEncodable:
    where = path_text(path)
    return NotEncodable(
        f"a signed record holds {what} at {where}", hint="write it as text or put it into content", path=where
    )


def _unfit_path(members: dict[str, JSON]) -> Path:
    """Where the first name or text stands that a header cannot hold."""
    pending: list[tuple[Any, Path]] = [(members, None)]
    while pending:
        container, path = pending.pop(0)
        for step, item in container.items() if type(container) is dict else enumerate(container):
            if type(item) is dict or type(item) is list:
                pending.append((item, (path, step)))
            for text in (step, item):
                if type(text) is str and not is_header_text(text):
                    return path, step
    return None
