"""Python values beyond JSON and their tagged, reversible form in content (FORMAT 2)."""

from __future__ import annotations

import base64
import binascii
import datetime
import math
import re
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, Final

import orjson
from msgspec import Struct

from counterfoil.core.canonical import JSON, encode
from counterfoil.core.limits import INTEGER_DIGITS_MAX, NESTING_MAX
from counterfoil.core.numerals import INTEGER_BOUND, float_text
from counterfoil.core.paths import Path, path_text
from counterfoil.core.registered import register, registered_class, registered_name
from counterfoil.errors import IntegerTooLong, NotDecodable, NotEncodable, TooDeep

__all__ = ["PartRef", "call_form", "comparable", "comparable_text", "from_json", "register", "to_json"]

_FLOAT_TAG: Final = b'"$float"'
_FLOAT_TEXT: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?").fullmatch


class PartRef(Struct, frozen=True):
    """Stands in part 0 for a value that lies in part ``number``, under another subject's key (FORMAT 6)."""

    number: int


# ---- to JSON -----------------------------------------------------------------------------------------------------


def to_json(value: Any, path: str = "$") -> JSON:
    """The JSON form of a Python value: a copy in which everything beyond JSON is tagged.

    ``str int bool None list dict`` and floats with a fraction stay as they are. A mapping comes back as a dict, a
    ``bytearray`` as bytes, a named zone as its offset, a frozenset as a set where it need not be hashed.

    Raises NotEncodable, TooDeep or IntegerTooLong with the path: naive datetimes, NaN, infinities, classes that are
    not registered (subclasses of built-in types among them).
    """
    return _Encoder(path).value(value, None, 0)


class _Encoder:
    """One conversion; ``root`` is what paths begin with."""

    __slots__ = ("root",)

    def __init__(self, root: str) -> None:
        self.root = root

    def value(self, value: Any, path: Path, depth: int) -> JSON:
        kind = type(value)
        if kind is str or kind is bool or value is None:
            return value
        if kind is int:
            if not -INTEGER_BOUND < value < INTEGER_BOUND:
                raise self.refused(
                    f"an integer of more than {INTEGER_DIGITS_MAX} digits", path, IntegerTooLong
                )
            return value
        if kind is float:
            return self.number(value, path, depth)
        if kind is dict:
            return self.mapping(value, path, depth)
        self.need(1, path, depth)
        if kind is list:
            return self.items(value, path, depth + 1)
        tagged = _TAGGED.get(kind)
        if tagged is not None:
            return tagged(self, value, path, depth)
        return self.other(value, path, depth)

    def need(self, levels: int, path: Path, depth: int) -> None:
        """Refuse a form whose arrays and objects would be nested beyond the limit."""
        if depth + levels > NESTING_MAX:
            raise self.refused(f"nesting beyond {NESTING_MAX} levels", path, TooDeep, "flatten the value")

    def number(self, value: float, path: Path, depth: int) -> JSON:
        if not math.isfinite(value):
            name = "NaN" if math.isnan(value) else "an infinite number"
            raise self.refused(f"{name}, which JSON does not have,", path, hint="use None or text")
        if not value.is_integer():
            return value
        self.need(1, path, depth)
        return {"$float": whole_float_text(value)}

    def items(self, value: list[Any], path: Path, depth: int) -> list[JSON]:
        # Most of what content holds is text: it is taken here, without a call for each.
        return [
            item if type(item) is str else self.value(item, (path, place), depth)
            for place, item in enumerate(value)
        ]

    def mapping(self, value: Mapping[Any, Any], path: Path, depth: int) -> JSON:
        literal = False
        for name in value:
            if type(name) is not str:
                return self.pairs(value, path, depth)
            if name[:1] == "$":
                literal = True
        below = depth + 2 if literal else depth + 1
        self.need(below - depth, path, depth)
        members = {
            name: item if type(item) is str else self.value(item, (path, name), below)
            for name, item in value.items()
        }
        return {"$literal": members} if literal else members

    def pairs(self, value: Mapping[Any, Any], path: Path, depth: int) -> JSON:
        self.need(3, path, depth)
        pairs = []
        for place, (name, item) in enumerate(value.items()):
            key = self.value(name, (path, place), depth + 3)
            pairs.append([key, self.value(item, (path, place), depth + 3)])
        return {"$map": sorted(pairs, key=lambda pair: encode(pair[0]))}

    def tagged_items(self, value: Any, path: Path, depth: int) -> list[JSON]:
        self.need(2, path, depth)
        return [self.value(item, (path, place), depth + 2) for place, item in enumerate(value)]

    def other(self, value: Any, path: Path, depth: int) -> JSON:
        """Registered classes, and mappings of other kinds; the rest is refused."""
        kind = type(value)
        known = registered_class(kind)
        if known is not None:
            try:
                inner = known.encode(value)
            except Exception as failure:
                raise self.refused(
                    f"an instance of the class {known.name}, which could not be taken apart"
                    f" ({type(failure).__name__}),",
                    path,
                ) from failure
            return {"$type": known.name, "value": self.value(inner, path, depth + 1)}
        if isinstance(value, Mapping):
            return self.mapping(value, path, depth)
        hint = "register the class with counterfoil.register, or record what it is made of"
        if isinstance(value, Enum):
            hint = "register the enum with counterfoil.register, or record its .value"
        elif issubclass(kind, (str, int, float, list, tuple)):
            plain = next(base for base in (str, int, float, list, tuple) if issubclass(kind, base))
            hint = f"make it a plain {plain.__name__}, or register the class with counterfoil.register"
        raise self.refused(f"a value of type {kind.__qualname__}, which has no JSON form,", path, hint=hint)

    def refused(
        self,
        what: str,
        path: Path,
        error: type[NotEncodable | TooDeep | IntegerTooLong] = NotEncodable,
        hint: str | None = None,
    ) -> NotEncodable | TooDeep | IntegerTooLong:
        where = path_text(path, self.root)
        return error(f"{what} at {where}", hint=hint, path=where)


def whole_float_text(value: float) -> str:
    """The text in a ``$float`` tag: the RFC 8785 number with ``.0`` where it has no exponent; ``-0.0`` is kept."""
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    text = float_text(value)
    return text if "e" in text else f"{text}.0"


def _bytes_form(_encoder: _Encoder, value: Any, _path: Path, _depth: int) -> JSON:
    return {"$bytes": base64.b64encode(value).decode("ascii")}


def _datetime_form(encoder: _Encoder, value: datetime.datetime, path: Path, _depth: int) -> JSON:
    if value.utcoffset() is None:
        raise encoder.refused(
            "a datetime without zone, which names no instant,", path, hint="attach a zone, e.g. UTC"
        )
    return {"$datetime": value.isoformat()}


def _date_form(_encoder: _Encoder, value: datetime.date, _path: Path, _depth: int) -> JSON:
    return {"$date": value.isoformat()}


def _time_form(_encoder: _Encoder, value: datetime.time, _path: Path, _depth: int) -> JSON:
    return {"$time": value.isoformat()}


def _decimal_form(encoder: _Encoder, value: Decimal, path: Path, _depth: int) -> JSON:
    if not value.is_finite():
        raise encoder.refused("a Decimal that is not a finite number", path, hint="use None or text")
    text = str(value)
    if len(text) > INTEGER_DIGITS_MAX and len(value.as_tuple().digits) > INTEGER_DIGITS_MAX:
        raise encoder.refused(f"a Decimal of more than {INTEGER_DIGITS_MAX} digits", path, IntegerTooLong)
    return {"$decimal": text}


def _uuid_form(_encoder: _Encoder, value: uuid.UUID, _path: Path, _depth: int) -> JSON:
    return {"$uuid": str(value)}


def _tuple_form(encoder: _Encoder, value: tuple[Any, ...], path: Path, depth: int) -> JSON:
    return {"$tuple": encoder.tagged_items(value, path, depth)}


def _set_form(encoder: _Encoder, value: Any, path: Path, depth: int) -> JSON:
    return {"$set": sorted(encoder.tagged_items(value, path, depth), key=encode)}


def _part_form(_encoder: _Encoder, value: PartRef, _path: Path, _depth: int) -> JSON:
    return {"$part": value.number}


_TAGGED: Final[dict[type, Callable[[_Encoder, Any, Path, int], JSON]]] = {
    tuple: _tuple_form,
    Decimal: _decimal_form,
    datetime.datetime: _datetime_form,
    bytes: _bytes_form,
    bytearray: _bytes_form,
    memoryview: _bytes_form,
    datetime.date: _date_form,
    datetime.time: _time_form,
    uuid.UUID: _uuid_form,
    set: _set_form,
    frozenset: _set_form,
    PartRef: _part_form,
}


# ---- from JSON ---------------------------------------------------------------------------------------------------


def from_json(value: JSON, path: str = "$") -> Any:
    """The Python value behind a JSON form made by :func:`to_json`.

    Raises NotDecodable with the path for a tag that is unknown or malformed and for a ``$type`` that is not
    registered here; no class is ever looked up or imported by a name found in data.
    """
    return _Decoder(path).value(value, None, 0)


class _Decoder:
    """One conversion back; ``root`` is what paths begin with."""

    __slots__ = ("root",)

    def __init__(self, root: str) -> None:
        self.root = root

    def value(self, value: JSON, path: Path, depth: int) -> Any:
        kind = type(value)
        if kind is not dict and kind is not list:
            return value
        if depth >= NESTING_MAX:
            where = path_text(path, self.root)
            raise TooDeep(f"nesting beyond {NESTING_MAX} levels at {where}", path=where)
        if kind is list:
            return [self.value(item, (path, place), depth + 1) for place, item in enumerate(value)]
        for name in value:
            if name.startswith("$"):
                return self.tagged(value, path, depth)
        return {name: self.value(item, (path, name), depth + 1) for name, item in value.items()}

    def tagged(self, value: dict[str, JSON], path: Path, depth: int) -> Any:
        if len(value) == 1:
            tag, inner = next(iter(value.items()))
            untag = _UNTAGGED.get(tag)
            if untag is not None:
                try:
                    return untag(self, inner, path, depth + 1)
                except (ValueError, TypeError, InvalidOperation):
                    raise self.refused(f"the tag {tag} does not hold what belongs there", path) from None
        elif value.keys() == {"$type", "value"} and type(value["$type"]) is str:
            return self.instance(value["$type"], value["value"], path, depth)
        raise self.refused("an object with a tag that this version does not know", path)

    def instance(self, name: str, inner: JSON, path: Path, depth: int) -> Any:
        known = registered_name(name)
        if known is None:
            shown = name if name.isascii() and name.isprintable() and len(name) <= 128 else "of an odd name"
            raise self.refused(
                f"an instance of the class {shown}, which is not registered here,",
                path,
                "import the module that registers it before reading",
            )
        decoded = self.value(inner, path, depth + 1)
        try:
            return known.decode(decoded)
        except Exception as failure:
            raise self.refused(
                f"the class {name} does not take what was recorded ({type(failure).__name__})", path
            ) from failure

    def hashable(self, value: JSON, path: Path, depth: int) -> Any:
        """As :meth:`value`, for a member of a set or a key: sets inside are frozen."""
        return _frozen(self.value(value, path, depth))

    def refused(self, what: str, path: Path, hint: str | None = None) -> NotDecodable:
        where = path_text(path, self.root)
        return NotDecodable(f"{what} at {where}", hint=hint, path=where)


def _frozen(value: Any) -> Any:
    if type(value) is set:
        return frozenset(value)
    return tuple(map(_frozen, value)) if type(value) is tuple else value


def _text(value: JSON) -> str:
    if type(value) is not str:
        raise TypeError
    return value


def _items(value: JSON) -> list[JSON]:
    if type(value) is not list:
        raise TypeError
    return value


def _to_float(_decoder: _Decoder, value: JSON, _path: Path, _depth: int) -> float:
    number = float(_text(value))
    if not _FLOAT_TEXT(value) or whole_float_text(number) != value:
        raise ValueError
    return number


def _to_decimal(_decoder: _Decoder, value: JSON, _path: Path, _depth: int) -> Decimal:
    number = Decimal(_text(value))
    if not number.is_finite() or str(number) != value:
        raise ValueError
    return number


def _to_bytes(_decoder: _Decoder, value: JSON, _path: Path, _depth: int) -> bytes:
    return decode_base64(_text(value))


def decode_base64(text: str) -> bytes:
    """The bytes behind standard base64 with padding. Raises ValueError unless encoding them gives the same text."""
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as broken:
        raise ValueError("not base64") from broken
    if base64.b64encode(data).decode("ascii") != text:
        raise ValueError("not the one base64 text of these bytes")
    return data


def _same(text: str, again: str) -> None:
    """Each value has one form: what it would be written as is what was read."""
    if text != again:
        raise ValueError


def _to_datetime(_decoder: _Decoder, value: JSON, _path: Path, _depth: int) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(_text(value))
    if moment.utcoffset() is None:
        raise ValueError
    _same(value, moment.isoformat())
    return moment


def _to_date(_decoder: _Decoder, value: JSON, _path: Path, _depth: int) -> datetime.date:
    day = datetime.date.fromisoformat(_text(value))
    _same(value, day.isoformat())
    return day


def _to_time(_decoder: _Decoder, value: JSON, _path: Path, _depth: int) -> datetime.time:
    moment = datetime.time.fromisoformat(_text(value))
    _same(value, moment.isoformat())
    return moment


def _to_uuid(_decoder: _Decoder, value: JSON, _path: Path, _depth: int) -> uuid.UUID:
    found = uuid.UUID(_text(value))
    _same(value, str(found))
    return found


def _to_tuple(decoder: _Decoder, value: JSON, path: Path, depth: int) -> tuple[Any, ...]:
    return tuple(decoder.value(item, (path, place), depth + 1) for place, item in enumerate(_items(value)))


def _to_set(decoder: _Decoder, value: JSON, path: Path, depth: int) -> set[Any]:
    return {decoder.hashable(item, (path, place), depth + 1) for place, item in enumerate(_items(value))}


def _to_map(decoder: _Decoder, value: JSON, path: Path, depth: int) -> dict[Any, Any]:
    found = {}
    for place, pair in enumerate(_items(value)):
        name, item = _items(pair)
        key = decoder.hashable(name, (path, place), depth + 2)
        found[key] = decoder.value(item, (path, place), depth + 2)
    return found


def _to_literal(decoder: _Decoder, value: JSON, path: Path, depth: int) -> dict[str, Any]:
    if type(value) is not dict:
        raise TypeError
    return {name: decoder.value(item, (path, name), depth + 1) for name, item in value.items()}


def _to_part(_decoder: _Decoder, value: JSON, _path: Path, _depth: int) -> PartRef:
    if type(value) is not int or value < 0:
        raise ValueError
    return PartRef(value)


_UNTAGGED: Final[dict[str, Callable[[_Decoder, JSON, Path, int], Any]]] = {
    "$float": _to_float,
    "$decimal": _to_decimal,
    "$bytes": _to_bytes,
    "$datetime": _to_datetime,
    "$date": _to_date,
    "$time": _to_time,
    "$uuid": _to_uuid,
    "$tuple": _to_tuple,
    "$set": _to_set,
    "$map": _to_map,
    "$literal": _to_literal,
    "$part": _to_part,
}


# ---- comparing ---------------------------------------------------------------------------------------------------


def comparable(value: JSON) -> JSON:
    """The JSON form with each ``$float`` replaced by its RFC 8785 number, for comparing arguments (FORMAT 2, 8).

    ``40.0`` and ``40`` are equal there, ``"40"`` is not. What stands under ``$literal`` is data and stays.
    """
    if type(value) is list:
        return [comparable(item) for item in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        tag, inner = next(iter(value.items()))
        if tag == "$float" and type(inner) is str and _FLOAT_TEXT(inner):
            return float(inner)
        if tag == "$literal" and type(inner) is dict:
            return {tag: {name: comparable(item) for name, item in inner.items()}}
    return {name: comparable(item) for name, item in value.items()}


def call_form(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[JSON, bytes]:
    """The JSON form of a call's arguments, ``{"args": […], "kwargs": {…}}``, and its :func:`comparable_text`.

    Raises as :func:`to_json` does, paths beginning with ``arguments``.
    """
    given: JSON = {"args": list(args), "kwargs": {}}
    if not kwargs and _AS_THEY_ARE.issuperset(map(type, args)):
        # Of most calls: no copy is to be made and no tag can occur. Text and integers that the quick encoder does not
        # write are left to the other way.
        try:
            return given, orjson.dumps(given)
        except TypeError:
            pass
    given = to_json({"args": given["args"], "kwargs": dict(kwargs)}, "arguments")
    return given, comparable_text(given)


_AS_THEY_ARE: Final = frozenset({str, int, bool, type(None)})
"""Types whose values are their own JSON form, but for integers of too many digits, which no quick encoder writes."""


def comparable_text(value: JSON) -> bytes:
    """The canonical text of :func:`comparable`: of the value as it stands unless a ``$float`` occurs in it."""
    text = encode(value)
    return encode(comparable(value)) if _FLOAT_TAG in text else text
