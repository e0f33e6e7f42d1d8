"""Takes a record apart into the contents of its events and puts it together again: nothing is kept twice or lost."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from counterfoil.core.canonical import encode
from counterfoil.core.limits import NESTING_MAX, PART_BYTES_MAX
from counterfoil.core.strict import nesting_of
from counterfoil.errors import InputError
from counterfoil.importers.entry import Path
from counterfoil.importers.exact import from_content, to_content
from counterfoil.importers.reader import HEAD_BYTES, Line

KEPT_BYTES_MAX: Final = 2 * 1024 * 1024
"""Bytes of a refused line that are kept whole; in base64 they pass well under the limit of a content part."""

FIELD_BYTES_MAX: Final = 1024
"""Bytes of one field in the content that stands in for one too large to keep."""

_GROWTH_MAX: Final = 16
"""How many times longer content may be than its JSON text: ``0e0,`` becomes an object of 44 characters."""


class Pieces:
    """A record in content form, from which the events' own fields are taken."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.rest: Any = to_content(record)

    def take(self, path: Path) -> Any:
        """Remove and return the member at ``path``. What lies deeper must have been taken before."""
        node = self.rest
        for step in path[:-1]:
            node = _plain(node)[step]
        return _plain(node).pop(path[-1])


def _plain(node: Any) -> Any:
    # Our own objects have no member with a `$`, so this one is the tag that to_content made.
    if type(node) is dict and len(node) == 1 and "$literal" in node:
        return node["$literal"]
    return node


def restore(contents: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The record that these contents were made of: those of all its events, in any order.

    Numbers that are not integers come back as :class:`~.exact.Number`, with their text. Raises InputError when the
    content that holds the record is not among them, as for a record that was too large to keep.
    """
    contents = list(contents)
    carrier = next((content for content in contents if "record" in content), None)
    if carrier is None:
        raise InputError(
            "none of these contents holds the record", hint="give the contents of all events of one line"
        )
    record: dict[str, Any] = from_content(carrier["record"])
    moved = [
        (path, content[field]) for content in contents for field, path in content.get("moved", {}).items()
    ]
    for path, value in sorted(moved, key=lambda move: len(move[0])):
        node: Any = record
        for step in path[:-1]:
            node = node[step]
        node[path[-1]] = from_content(value)
    return record


Misfit = Literal["size", "depth"]


def misfit(content: Mapping[str, Any], line: Line) -> Misfit | None:
    """Why this content, made of ``line``, cannot be recorded; None if it can. Small lines are not measured."""
    brackets = line.data.count(b"{") + line.data.count(b"[")
    if 2 * brackets + 2 > NESTING_MAX and nesting_of(content) > NESTING_MAX:
        return "depth"
    if line.size > PART_BYTES_MAX // _GROWTH_MAX and len(encode(content)) > PART_BYTES_MAX:
        return "size"
    return None


def shortened(content: Mapping[str, Any], note: str) -> dict[str, Any]:
    """What stands in for content that cannot be recorded: its small fields, and a note that says what is missing."""
    left_out = {"record", "moved", *content.get("moved", {})}
    kept = {name: value for name, value in content.items() if name not in left_out}
    return {name: value for name, value in kept.items() if len(encode(value)) <= FIELD_BYTES_MAX} | {
        "note": note
    }


def as_found(line: Line, note: str) -> dict[str, Any]:
    """The content of ``record.refused``: the bytes as found, or the beginning and the digest of very many."""
    if line.whole and line.size <= KEPT_BYTES_MAX:
        return {"bytes": _tagged(line.data), "note": note}
    return {
        "bytes": _tagged(line.data[:HEAD_BYTES]),
        "note": f"{note}; only the first {HEAD_BYTES} bytes are kept",
        "size": line.size,
        "sha256": line.digest.hex(),
    }


def _tagged(data: bytes) -> dict[str, str]:
    return {"$bytes": base64.b64encode(data).decode("ascii")}
