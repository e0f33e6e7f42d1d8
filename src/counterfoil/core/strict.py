"""The strict JSON reader: the standard library's parser, with every fault named by byte offset (FORMAT 2)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from counterfoil.core.limits import INTEGER_DIGITS_MAX, NESTING_MAX
from counterfoil.core.numerals import integer_value
from counterfoil.errors import CounterfoilError, DuplicateMember, IntegerTooLong, NotCanonical, TooDeep

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|-?[0-9][0-9.eE+-]*|[A-Za-z]+|[\[\]{}:,]', re.DOTALL)


class _FaultError(Exception):
    """A fault inside the parser's callbacks, which do not know where they are."""


def decode_strictly(data: bytes) -> Any:
    """As :func:`counterfoil.core.canonical.decode`, always by this reader."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as broken:
        raise NotCanonical(
            f"not UTF-8 at offset {broken.start}", hint="JSON text is UTF-8", offset=broken.start
        ) from None
    if text.count("[") + text.count("{") > NESTING_MAX:
        _check_nesting(text)
    try:
        return json.loads(
            text,
            object_pairs_hook=_members,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except _FaultError:
        raise _named(text) from None
    except json.JSONDecodeError as broken:
        offset = _byte_offset(text, broken.pos)
        raise NotCanonical(f"not JSON at offset {offset}: {_reason(broken)}", offset=offset) from None


def _reason(broken: json.JSONDecodeError) -> str:
    # The parser's own words name what it expected; they never repeat the text.
    return broken.msg[:1].lower() + broken.msg[1:]


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _FaultError
    return members


def _integer(text: str) -> int:
    if len(text.removeprefix("-")) > INTEGER_DIGITS_MAX:
        raise _FaultError
    return integer_value(text)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _FaultError
    return value


def _constant(_text: str) -> NoReturn:
    raise _FaultError


def nesting_of(value: Any) -> int:
    """How many arrays and objects stand inside one another, counted to one beyond the limit, without recursion."""
    level = [value]
    for depth in range(NESTING_MAX + 1):
        below: list[Any] = []
        containers = False
        for item in level:
            if type(item) is dict:
                below += item.values()
            elif type(item) is list:
                below += item
            else:
                continue
            containers = True
        if not containers:
            return depth
        level = below
    return NESTING_MAX + 1


def _check_nesting(text: str) -> None:
    depth = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in ("[", "{"):
            depth += 1
            if depth > NESTING_MAX:
                offset = _byte_offset(text, token.start())
                raise TooDeep(
                    f"nesting beyond {NESTING_MAX} levels at offset {offset}",
                    hint="the text was refused before anything was read from it",
                    offset=offset,
                )
        elif mark in ("]", "}"):
            depth -= 1


def _named(text: str) -> CounterfoilError:
    """The first fault that a callback of the parser refused, found again by scanning the tokens."""
    for start, fault in _faults(text):
        offset = _byte_offset(text, start)
        match fault:
            case "duplicate":
                return DuplicateMember(
                    f"an object names a member twice, the second time at offset {offset}", offset=offset
                )
            case "digits":
                return IntegerTooLong(
                    f"an integer of more than {INTEGER_DIGITS_MAX} digits at offset {offset}", offset=offset
                )
            case _:
                return NotCanonical(f"{fault} at offset {offset}; JSON has no such number", offset=offset)
    return NotCanonical("not JSON", offset=0)


def _faults(text: str) -> Iterator[tuple[int, str]]:
    names: list[set[str]] = []
    last: re.Match[str] | None = None
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in ("{", "["):
            names.append(set())
        elif mark in ("}", "]"):
            names.pop()
        elif mark == ":" and last is not None:
            name = json.loads(last[0])
            if name in names[-1]:
                yield last.start(), "duplicate"
            names[-1].add(name)
        elif mark[0] in "-0123456789":
            fault = _number_fault(mark)
            if fault:
                yield token.start(), fault
        elif mark in ("NaN", "Infinity"):
            yield token.start(), mark
        last = token


def _number_fault(text: str) -> str:
    if text.lstrip("-").isdigit():
        return "digits" if len(text.lstrip("-")) > INTEGER_DIGITS_MAX else ""
    try:
        return "a number beyond the range of a double" if math.isinf(float(text)) else ""
    except ValueError:
        return ""


def _byte_offset(text: str, position: int) -> int:
    return len(text[:position].encode("utf-8"))
