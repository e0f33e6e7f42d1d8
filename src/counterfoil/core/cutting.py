"""Where the messages lie in a request that somebody else has encoded (FORMAT 9)."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Final

from counterfoil.core.context import JOIN, Cut

MESSAGES: Final = frozenset({"messages", "input", "contents"})
"""Members under which providers take the messages of a request."""

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_decode: Final = json.JSONDecoder().raw_decode


def cut_json(whole: bytes) -> Cut:
    """The bytes of a JSON request, cut into what stands before, between and after its messages; never changed.

    A body is one message as it stands there. Bytes that are no JSON object, hold no list of messages, or whose messages
    are not all divided in the same way are left whole.
    """
    try:
        text = whole.decode()
        places = _messages(text)
    except (ValueError, RecursionError):
        return Cut(whole, (), b"")
    joins = {text[one[1] : other[0]] for one, other in pairwise(places)}
    if not places or len(joins) > 1:
        return Cut(whole, (), b"")
    bodies = tuple(text[begin:end].encode() for begin, end in places)
    join = next(iter(joins), JOIN)
    return Cut(text[: places[0][0]].encode(), bodies, text[places[-1][1] :].encode(), join.encode())


def _messages(text: str) -> list[tuple[int, int]]:
    """Where each message begins and ends. Raises ValueError for what is no JSON object."""
    at = _after(text, _skip(text, 0), "{")
    while text[at : at + 1] == '"':
        name, at = _decode(text, at)
        at = _after(text, _skip(text, at), ":")
        if name in MESSAGES and text[at : at + 1] == "[":
            return _listed(text, _skip(text, at + 1))
        _, at = _decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
    return []


def _listed(text: str, at: int) -> list[tuple[int, int]]:
    places: list[tuple[int, int]] = []
    while text[at : at + 1] not in ("]", ""):
        _, end = _decode(text, at)
        places.append((at, end))
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
    return places


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _after(text: str, at: int, mark: str) -> int:
    if text[at : at + 1] != mark:
        raise ValueError("no JSON object")
    return _skip(text, at + 1)
