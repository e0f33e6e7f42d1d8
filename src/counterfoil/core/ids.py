"""Identifiers: a prefix, ``_`` and a ULID in Crockford base32 (FORMAT 1)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from counterfoil.errors import InvalidId

PREFIXES: Final[dict[str, str]] = {
    "ldg": "ledger",
    "str": "stream",
    "evt": "event",
    "run": "run",
    "stp": "step",
    "cal": "provider call",
    "eff": "effect",
    "apr": "approval",
    "rev": "review",
    "rep": "repair",
    "adm": "admission",
    "sch": "schedule",
    "trn": "turn",
    "dk": "data key",
    "kek": "key-encryption key",
    "del": "deletion",
    "ers": "certificate",
    "hld": "hold",
}
"""Every prefix Counterfoil mints, with what it stands for."""

ULID_BITS: Final = 128
TIME_BITS: Final = 48
RANDOM_BITS: Final = 80

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_VALUES: Final = {letter: value for value, letter in enumerate(_ALPHABET)}
_ULID: Final = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
_IS_ULID: Final = re.compile(_ULID).fullmatch
_ANY_ID: Final = re.compile(f"(?:{'|'.join(PREFIXES)})_{_ULID}").fullmatch
ID_PATTERNS: Final = {prefix: f"{prefix}_{_ULID}" for prefix in PREFIXES}
"""For each prefix the pattern of its identifiers."""


class _Forms(dict[str, Callable[[str], re.Match[str] | None]]):
    """Compiled when they are first asked for: a process meets a few of all prefixes."""

    def __missing__(self, prefix: str) -> Callable[[str], re.Match[str] | None]:
        form = self[prefix] = re.compile(ID_PATTERNS[prefix]).fullmatch
        return form


ID_FORMS: Final = _Forms()
"""For each prefix the compiled form of its identifiers."""

_PAIR_SHIFTS: Final = tuple(range(120, -1, -10))


def ulid_encode(value: int) -> str:
    """26 characters for a 128-bit number. Raises InvalidId for a number outside 0 … 2^128−1."""
    if not 0 <= value < 1 << ULID_BITS:
        raise InvalidId("a ULID holds a number of 128 bits; this one does not fit")
    return "".join([_PAIRS[value >> shift & 1023] for shift in _PAIR_SHIFTS])


def ulid_decode(text: str) -> int:
    """The number behind 26 characters. Raises InvalidId for any other text."""
    if not _IS_ULID(text):
        raise InvalidId("a ULID has 26 characters of Crockford base32 in upper case, the first 0 to 7")
    value = 0
    for letter in text:
        value = value << 5 | _VALUES[letter]
    return value


def check_prefix(prefix: str) -> None:
    """Raise InvalidId for a prefix that no identifier begins with."""
    if prefix not in PREFIXES:
        raise InvalidId(f"no identifier begins with {prefix!r}", hint=f"one of {', '.join(PREFIXES)}")


def make_id(prefix: str, time_ms: int, random80: int) -> str:
    """An id from milliseconds since the epoch (48 bits) and 80 random bits, both given by the caller."""
    check_prefix(prefix)
    if not (0 <= time_ms < 1 << TIME_BITS and 0 <= random80 < 1 << RANDOM_BITS):
        raise InvalidId("an id takes a time of 48 bits and 80 random bits; a number given does not fit")
    return f"{prefix}_{ulid_encode(time_ms << RANDOM_BITS | random80)}"


def is_id(text: object, *prefixes: str) -> bool:
    """Whether ``text`` is an identifier with one of these prefixes (none given: with any known one)."""
    if type(text) is not str:
        return False
    if not prefixes:
        return _ANY_ID(text) is not None
    return any(ID_FORMS[prefix](text) is not None for prefix in prefixes)


def check_id(text: str, *prefixes: str) -> str:
    """``text`` itself if it is such an identifier. Raises InvalidId, which never repeats a text of another form."""
    if is_id(text, *prefixes):
        return text
    wanted = (
        " or ".join(f"{prefix}_… ({PREFIXES[prefix]})" for prefix in prefixes)
        or "an id minted by Counterfoil"
    )
    found = f"{text[:3]}_…" if is_id(text) else "something else"
    raise InvalidId(
        f"expected {wanted}, found {found}",
        hint="ids from outside are content, never identifiers (FORMAT 1)",
        prefixes=prefixes,
    )


def derived_id(prefix: str, digest: bytes) -> str:
    """The id made of the first 128 bits of a keyed digest; for idempotent import (FORMAT 1)."""
    check_prefix(prefix)
    if len(digest) != 32:
        raise InvalidId(f"a derived id is made of a keyed digest of 32 bytes, not of {len(digest)}")
    return f"{prefix}_{ulid_encode(int.from_bytes(digest[:16], 'big'))}"


def id_time_ms(text: str) -> int:
    """The milliseconds since the epoch that a minted id begins with; a derived id holds none."""
    return ulid_decode(check_id(text).partition("_")[2]) >> RANDOM_BITS
