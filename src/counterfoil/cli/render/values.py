"""Recorded values as one short line for people: tags read as what they stand for, hostile text marked, length bounded."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from counterfoil.cli.render.line import cut
from counterfoil.cli.render.marks import first_line, marked
from counterfoil.cli.render.times import plural

CHARACTERS_MAX: Final = 400
"""Characters of a value that are looked at for one line; a result of many megabytes is not written out to be cut."""

_BARE: Final = frozenset({"$decimal", "$float", "$datetime", "$date", "$time", "$uuid"})
_BYTES_SHOWN: Final = 8
_OBJECT_SHOWN: Final = 12

NESTED_MAX: Final = 64
"""Characters of a text inside a list or an object, so that its neighbours are seen too."""


_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


class _Full(Exception):
    """Enough has been written."""


class _Writer:
    """Writes a value into a text of bounded length."""

    def __init__(self, characters_max: int) -> None:
        self._left = characters_max
        self.out: list[str] = []

    def put(self, text: str) -> None:
        self.out.append(text[: self._left])
        self._left -= len(text)
        if self._left <= 0:
            raise _Full

    def value(self, value: Any, *, inside: bool = True) -> None:
        match value:
            case str():
                self._text(value, quoted=inside)
            case Mapping():
                self._object(value)
            case list() | tuple():
                self._items(value, "[", "]")
            case _:
                self.put(
                    json.dumps(value) if isinstance(value, float | bool) or value is None else str(value)
                )

    def _text(self, text: str, *, quoted: bool) -> None:
        if quoted:
            # Quotes, tabs and line breaks inside quotes are escaped as JSON does; the rest is marked.
            self.put(
                f'"{marked(text[:NESTED_MAX].translate(_ESCAPES))}{"…" if len(text) > NESTED_MAX else ""}"'
            )
            return
        head = text[: self._left + 1]
        line, more = first_line(head)
        self.put(line)
        if more:
            self.put(f" … +{plural(text.count(chr(10)), 'line')}")

    def _object(self, value: Mapping[str, Any]) -> None:
        tag = next(iter(value), "")
        if len(value) == 1 and tag.startswith("$"):
            self._tagged(tag, value[tag])
            return
        if value.keys() == {"$type", "value"}:
            if value["$type"] == "artifact" and isinstance(value["value"], Mapping):
                self.put(artifact_words(value["value"]))
                return
            self.put(f"{marked(str(value['$type']))}(")
            self.value(value["value"])
            self.put(")")
            return
        self._members(value.items())

    def _members(self, pairs: Any) -> None:
        self.put("{")
        self.members(pairs, ": ")
        self.put("}")

    def members(self, pairs: Any, between: str) -> None:
        """Names and values, without what stands around them."""
        for number, (name, member) in enumerate(pairs):
            self.put(", " if number else "")
            self.put(f"{marked(name)}{between}" if isinstance(name, str) else f"{name}{between}")
            self.value(member)

    def _items(self, items: Any, start: str, end: str) -> None:
        self.put(start)
        for number, item in enumerate(items):
            self.put(", " if number else "")
            self.value(item)
        self.put(end)

    def _tagged(self, tag: str, inner: Any) -> None:
        if tag in _BARE:
            self.put(marked(str(inner)))
        elif tag == "$bytes":
            self.put(bytes_words(str(inner)))
        elif tag == "$spilled" and isinstance(inner, Mapping):
            self.put(spilled_words(inner))
        elif tag == "$literal" and isinstance(inner, Mapping):
            self._members(inner.items())
        elif tag == "$tuple" and isinstance(inner, list):
            self._items(inner, "(", ")")
        elif tag == "$set" and isinstance(inner, list):
            self._items(inner, "{", "}")
        elif tag == "$map" and isinstance(inner, list):
            self._pairs(inner)
        else:
            self._members([(tag, inner)])

    def _pairs(self, pairs: list[Any]) -> None:
        self.put("{")
        for number, pair in enumerate(pairs):
            self.put(", " if number else "")
            self.value(pair[0])
            self.put(": ")
            self.value(pair[1])
        self.put("}")


def shown(value: Any, *, room: int | None = None, characters_max: int = CHARACTERS_MAX) -> str:
    """A value of content in one line: ``184.00``, ``{order: "O-1042", line: 1}``; cut with ``…`` where it is long.

    ``room`` is in terminal cells. A text shows its first line and how many more there are.
    """
    text = _written(lambda writer: writer.value(value, inside=False), characters_max)
    return text if room is None else cut(text, room)


def named(value: Any, *, characters_max: int = CHARACTERS_MAX) -> str:
    """The members of an object as ``order "O-1042", line 1``; anything else as :func:`shown`."""
    if not isinstance(value, Mapping) or any(name.startswith("$") for name in value):
        return shown(value, characters_max=characters_max)
    return _written(lambda writer: writer.members(value.items(), " "), characters_max)


def _written(write: Callable[[_Writer], None], characters_max: int) -> str:
    writer = _Writer(characters_max)
    try:
        write(writer)
    except _Full:
        return "".join(writer.out).rstrip(" ") + "…"
    return "".join(writer.out)


def bytes_words(encoded: str) -> str:
    """``12 bytes fffe00…`` for base64 text."""
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return marked(encoded)
    head = raw[:_BYTES_SHOWN].hex() + ("…" if len(raw) > _BYTES_SHOWN else "")
    return f"{plural(len(raw), 'byte')} {head}".rstrip()


def artifact_words(value: Mapping[str, Any]) -> str:
    """``artifact report.pdf, confidential, 1,100 bytes, 0d5f45b76258…`` for a handle."""
    name = value.get("name") or value.get("kind") or "?"
    return f"artifact {marked(str(name))}, {marked(str(value.get('class')))}, {_object_words(value)}"


def spilled_words(value: Mapping[str, Any]) -> str:
    """``spilled 1,000,002 bytes, 9796c2044008…`` for a value that moved to an artifact."""
    return f"spilled {_object_words(value)}"


def _object_words(value: Mapping[str, Any]) -> str:
    size, sha256 = value.get("bytes"), str(value.get("sha256"))
    return f"{plural(size if type(size) is int else 0, 'byte')}, {marked(sha256[:_OBJECT_SHOWN])}…"


def spoken(value: Any) -> str:
    """The text in a message, whatever shape a framework gave it: the text blocks of a list, the text of an object.

    Empty when there is no text in it.
    """
    match value:
        case str():
            return value
        case list():
            texts = [spoken(block) for block in value if _is_text_block(block)]
            return "\n".join(text for text in texts if text)
        case Mapping():
            inner = value.get("$literal", value)
            for name in ("text", "content", "message", "body"):
                if name in inner:
                    return spoken(inner[name])
    return ""


def _is_text_block(block: Any) -> bool:
    return isinstance(block, str) or (isinstance(block, Mapping) and block.get("type", "text") == "text")
