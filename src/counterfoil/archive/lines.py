"""The lines of ``archive.jsonl``: canonical JSON with closed members, each ended by LF (FORMAT 15).

::

    {"ctx":"counterfoil/archive/v1","streams":n}
    {"events":n,"genesis":"<text>","record":"stream"}                              streams by stream_id
    {"content":["<base64>" or null, …],"header":"<text>","record":"event"}         by sequence
    {"commitment":…,"content":"<base64>","key":…,"record":"row","table":…}         by table and key, behind the events
    {"bytes":n,"record":"object","sha256":"…"}                                     by sha256, after the last stream
    {"lines":n,"record":"end","sha256":"<of all bytes before this line>"}          n lines stand before this one

A header or genesis that is no UTF-8 (damage) is written with one lone surrogate for each byte that does not fit, so
that it comes out again byte for byte.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

from counterfoil.core.canonical import decode, encode
from counterfoil.core.forms import is_digest, is_label
from counterfoil.core.limits import PARTS_MAX, SEQUENCE_MAX
from counterfoil.errors import CounterfoilError, InvalidForm

CTX: Final = "counterfoil/archive/v1"
LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""No event of allowed size makes a longer line."""
OBJECT_LINE: Final = b'{"bytes":'
"""How the line of an object begins, and no other."""
STREAMS_MAX: Final = SEQUENCE_MAX

_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "stream": frozenset({"record", "genesis", "events"}),
    "event": frozenset({"record", "header", "content"}),
    "row": frozenset({"record", "table", "key", "commitment", "content"}),
    "object": frozenset({"record", "sha256", "bytes"}),
    "end": frozenset({"record", "lines", "sha256"}),
}
_FIRST: Final = frozenset({"ctx", "streams"})


# ---- writing -----------------------------------------------------------------------------------------------------


def first_line(streams: int) -> bytes:
    """The line that says what this is, and how many streams come."""
    return encode({"ctx": CTX, "streams": streams}) + b"\n"


def stream_line(genesis: bytes, events: int) -> bytes:
    """The line that begins a stream."""
    return encode({"record": "stream", "genesis": as_text(genesis), "events": events}) + b"\n"


def event_line(header: bytes, content: Sequence[bytes | None]) -> bytes:
    """One event with its records, None where one is gone."""
    records = [
        None if record is None else binascii.b2a_base64(record, newline=False).decode() for record in content
    ]
    return encode({"record": "event", "header": as_text(header), "content": records}) + b"\n"


def row_line(table: str, key: str, commitment: str, record: bytes) -> bytes:
    """A companion row, sealed as it is stored."""
    members = {"record": "row", "table": table, "key": key, "commitment": commitment}
    content = binascii.b2a_base64(record, newline=False).decode()
    return encode({**members, "content": content}) + b"\n"


def object_line(sha256: str, size: int) -> bytes:
    """The object of an artifact that comes along."""
    return encode({"record": "object", "sha256": sha256, "bytes": size}) + b"\n"


def end_line(lines: int, sha256: str) -> bytes:
    """The last line."""
    return encode({"record": "end", "lines": lines, "sha256": sha256}) + b"\n"


def as_text(data: bytes) -> str:
    """Stored bytes as a JSON string holds them."""
    return data.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    """The stored bytes of such a string. Raises InvalidForm for a string that no bytes give."""
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidForm("a text of half characters that no stored bytes give") from None
    if as_text(data) != text:
        raise InvalidForm("a text with characters written as if they were damaged bytes")
    return data


# ---- reading -----------------------------------------------------------------------------------------------------


def parse_line(data: bytes) -> dict[str, Any]:
    """A line without its LF, strictly: canonical, one of the forms above, every member of its type.

    Raises InputErrors that say what is wrong, with ``offset`` inside the line where there is one.
    """
    value = decode(data)
    if type(value) is not dict:
        raise InvalidForm("not an object")
    if encode(value) != data:
        raise InvalidForm("not canonical: it is not what its own value is written as")
    kind = value.get("record")
    wanted = _FIRST if "ctx" in value else _MEMBERS.get(kind) if isinstance(kind, str) else None
    if wanted is None:
        raise InvalidForm("a record of no kind that an archive holds")
    if value.keys() != wanted:
        raise InvalidForm(f"not the members of its kind, which are {', '.join(sorted(wanted))}")
    for name, member in value.items():
        if not _FORMS[name](member):
            raise InvalidForm(f"the member {name} has not its form")
    return value


def record_bytes(text: str) -> bytes:
    """The bytes of strict base64. Raises InvalidForm for any other text."""
    try:
        data = binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        raise InvalidForm("a record is not in base64") from None
    if binascii.b2a_base64(data, newline=False).decode() != text:
        raise InvalidForm("a record is in base64 with bits left over")
    return data


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 1 << 53


def _is_content(value: Any) -> bool:
    if type(value) is str:
        return True
    return (
        type(value) is list
        and len(value) <= PARTS_MAX
        and all(record is None or type(record) is str for record in value)
    )


_FORMS: Final = {
    "ctx": _is_text,
    "streams": _is_count,
    "record": _is_text,
    "genesis": _is_text,
    "events": _is_count,
    "header": _is_text,
    "content": _is_content,
    "table": is_label,
    "key": is_digest,
    "commitment": is_digest,
    "sha256": is_digest,
    "bytes": _is_count,
    "lines": _is_count,
}


def plain(error: CounterfoilError) -> str:
    """What an error says, to stand behind a line number."""
    return error.message
