"""The text of an event that search looks at: which values count, how they are folded, and what is left out.

Folding is Unicode's canonical caseless matching (Unicode 3.13, D145), so that case does not matter and an accent is the
same in NFC and NFD. Nothing else is folded: an accent, a space and a full stop each are what they are. NUL and halves of
surrogate pairs, which SQLite cannot hold in text, stand as characters of a private plane.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from counterfoil.core.canonical import decode
from counterfoil.errors import CounterfoilError

SEPARATOR: Final = "\U0010f7fe"
"""Stands between two values and twice at the end, so that no match runs from one value into the next."""

CHARACTERS_MAX: Final = 4 * 1024 * 1024
"""Characters of one part that are searchable; beyond it the answer says so."""

SPILLED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of a value kept as an artifact that are read to be searchable."""

VALUES_MAX: Final = 200_000
"""Values of one part that are looked at."""

WIRE_TYPES: Final = frozenset({"provider.message_recorded", "provider.requested"})
"""Types whose content holds JSON as it was sent: there the values inside it are the text, not its escapes."""

MASK: Final = "***"

_NUL: Final = "\U0010f7ff"
_HALVES: Final = 0x10F800
_ODD: Final = re.compile("[\x00\ud800-\udfff\ufffe\uffff\U0010f7fe\U0010f7ff]")

_KEYS: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\bbearer\s+[A-Za-z0-9_\-.+/=]{16,}"
    r"|(?<![A-Za-z0-9])(?:(?:sk|pk|rk|whsec|xox[abeoprs]|gh[oprsu]|github_pat|glpat)[_\-](?=[A-Za-z0-9_\-]*\d)"
    r"[A-Za-z0-9_\-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_\-]{30,}|eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-.]{16,})",
    re.IGNORECASE | re.DOTALL,
)
_HINTS: Final = re.compile(
    r"PRIVATE KEY|bearer|[sprSPR]k[_\-]|whsec|xox|gh[oprsu]_|github_pat|glpat|AKIA|ASIA|AIza|eyJ",
    re.IGNORECASE,
)


def fold(text: str) -> str:
    r"""The text as it is compared.

    >>> fold("Straße") == fold("STRASSE") and fold("cafe\u0301") == fold("CAFÉ")
    True
    """
    if text.isascii():
        folded = text.lower()
        return folded.replace("\x00", _NUL) if "\x00" in folded else folded
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
    return _ODD.sub(_stand_in, folded)


def _stand_in(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code == 0:
        return _NUL
    return chr(_HALVES + code - 0xD800) if 0xD800 <= code <= 0xDFFF else "\ufffd"


def mask_keys(text: str) -> str:
    """The text without what has the shape of a live key: such a thing is neither indexed nor shown in an answer."""
    return _KEYS.sub(MASK, text) if _HINTS.search(text) else text


def values_of(content: Mapping[str, Any], event_type: str) -> Iterator[str]:
    """The texts and numbers of a content part, in order, keys masked; names of members and long bytes are no text.

    At most ``VALUES_MAX``; walked without recursion, so nesting costs nothing.
    """
    for number, value in enumerate(_leaves(content, wire=event_type in WIRE_TYPES)):
        if number >= VALUES_MAX:
            return
        yield mask_keys(value)


def _leaves(content: Any, *, wire: bool) -> Iterator[str]:
    waiting: list[Iterator[Any]] = [iter((content,))]
    while waiting:
        value = next(waiting[-1], _END)
        if value is _END:
            waiting.pop()
        elif isinstance(value, str):
            inner = _sent(value) if wire else None
            if inner is None:
                yield value
            else:
                waiting.append(iter((inner,)))
        elif isinstance(value, Mapping):
            waiting.append(iter(_members(value)))
        elif isinstance(value, list | tuple):
            waiting.append(iter(value))
        elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            yield str(value)


_END: Final = object()


def _members(value: Mapping[str, Any]) -> list[Any]:
    if len(value) != 1:
        return list(value.values())
    ((name, inner),) = value.items()
    if name == "$literal" and isinstance(inner, Mapping):
        # Names that an application gave its own members mean nothing here.
        return list(inner.values())
    # Base64 is no text that anybody looks for, and what moved out is put back before.
    return [] if name in {"$bytes", "$part", "$spilled"} else [inner]


def _sent(text: str) -> Any:
    """What a message as sent holds; None where the text is no JSON object or list."""
    if text[:1] not in {"{", "["}:
        return None
    try:
        return decode(text.encode("utf-8", "surrogatepass"))
    except (CounterfoilError, ValueError):
        return None


def searchable(values: Iterable[str]) -> tuple[str, bool]:
    """The folded text of a part as it is indexed, and whether it was cut at ``CHARACTERS_MAX``."""
    pieces: list[str] = []
    room = CHARACTERS_MAX
    for value in values:
        if room <= 0:
            return SEPARATOR.join(pieces), True
        pieces.append(fold(value[:room]))
        room -= len(value)
    return SEPARATOR.join(pieces), room < 0
