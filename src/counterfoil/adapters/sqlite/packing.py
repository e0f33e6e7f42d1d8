"""Headers in less room: what every header says stands in a dictionary, and digests are written as bytes.

A packed header is unpacked to exactly the bytes that were hashed; nothing outside the adapter ever sees the packed
form. It holds all of them: no column is needed to read it, so columns stay copies that verify compares.
"""

from __future__ import annotations

import re
import struct
import zlib
from functools import lru_cache
from typing import Any, Final

from counterfoil.core.limits import HEADER_BYTES_MAX

PLAIN: Final = b"{"
PACKED: Final = b"\x01"
"""First byte of a stored header: of one that is stored as it is, and of the only packed form so far."""

PACKED_TYPES: Final = ("provider.", "step.", "run.", "admission.")
"""Beginnings of the types whose headers are packed: there a model's answer is waited for, and packing costs 15 µs.

An effect's headers stay as they are: its two appends are what a tool's call is measured by.
"""

_DIGESTS: Final = re.compile(rb'"([0-9a-f]{32}(?:[0-9a-f]{32})?)"')
_HEX: Final = {1: 64, 2: 32}
"""A mark stands for a digest with its quotation marks. No header holds such characters (FORMAT 5)."""
_NO_MARKS: Final = bytes(set(range(256)) - set(_HEX))
_QUOTED: Final = b'"%b"'

DICTIONARY: Final = (
    b'"outcome":"error","status":429,"retryable":true,"error_class":"TimeoutError"'
    b'"attempts_max":3,"delay_ms":1000,"error_class":"","retry":true,"same_key":false}"event_type":"retry.decided"'
    b'"cause":"resume","fencing_token":1,"previous_token":1}"event_type":"run.claimed"'
    b'"cause":"approval","waits_for":["}"event_type":"run.suspended""event_type":"run.resumed"'
    b'"steps":1,"terminal":"success"}"event_type":"run.finished""data":{"calls":1,"cost":"0.0","currency":"USD",'
    b'{"actor":{"id":"","identity_version":"","type":"agent"},"artifact_refs":[{"address":\x01,"class":"confidential",'
    b'"kind":"spill","sha256":\x01}],"data":{"admission_id":"adm_","agent":"agent","class":"confidential",'
    b'"configuration":\x01,"fencing_token":1,"input":\x01},"event_id":"evt_01","event_schema_version":1,'
    b'"event_type":"run.started","occurred_at":"2026-'
    b'{"actor":{"id":"dk_","type":"user"},"content":[{"commitment":\x01,"sha256":\x01}],'
    b'"ctx":"counterfoil/event/v1","data":{"admission_id":"adm_01"},"event_id":"evt_01","event_schema_version":1,'
    b'"event_type":"admission.accepted","occurred_at":"2026-'
    b'"data":{"kind":"code","memo":\x02,"name":"","outcome":"ok"},"data":{"kind":"model","memo":\x02,"name":"'
    b'"},"event_id":"evt_01","event_schema_version":1,"event_type":"step.started","occurred_at":"2026-'
    b'"data":{"duration_ms":1,"kind":"model","memo":\x02,"name":"","outcome":"ok"},"event_id":"evt_01",'
    b'"event_schema_version":1,"event_type":"step.finished","occurred_at":"2026-'
    b'"data":{"cached_tokens":0,"call_id":"cal_","chunks":1,"cost":"0.00","currency":"USD","finish":"stop",'
    b'"input_tokens":0,"output_tokens":0,"provider":"callable","reasoning_tokens":0},"event_id":"evt_01",'
    b'"event_schema_version":1,"event_type":"provider.responded","occurred_at":"2026-'
    b'"data":{"bodies":1},"event_id":"evt_01","event_schema_version":1,"event_type":"provider.message_recorded",'
    b'"occurred_at":"2026-"data":{"bodies":1,"call_id":"cal_","model":"","provider":"callable","purpose":"primary",'
    b'"request":\x01,"tip":\x01},"event_id":"evt_01","event_schema_version":1,"event_type":"provider.requested",'
    b'"occurred_at":"2026-'
    b'{"actor":{"id":"agent","type":"agent"},"attempt":1,"causation_event_id":"evt_01","content":[{"commitment":\x01,'
    b'"sha256":\x01}],"ctx":"counterfoil/event/v1","data":{"occurred_at":"2026-12-01T00:00:00.000Z",'
    b'"previous_event_hash":\x01,"recorded_at":"2026-12-01T00:00:00.000Z","run_id":"run_","step_id":"stp_,'
    b'"stream_id":"str_","stream_sequence":1'
)
"""Never changed: another dictionary is another first byte. What is likeliest stands last, as deflate wants it."""


def stored_form(event_type: str, header: bytes) -> bytes:
    """The header as it is stored: packed where its type is, and where that is shorter."""
    if not event_type.startswith(PACKED_TYPES):
        return header
    packed = packed_header(header)
    return packed if len(packed) < len(header) else header


def packed_header(header: bytes) -> bytes:
    """The packed form: one byte, the deflated text with a mark for each digest, and the digests behind it."""
    parts = _DIGESTS.split(header)
    digests = parts[1::2]
    parts[1::2] = [b"\x01" if len(digest) == 64 else b"\x02" for digest in digests]
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
    packed = squeeze.compress(b"".join(parts)) + squeeze.flush()
    return PACKED + packed + bytes.fromhex(b"".join(digests).decode())


def plain_header(stored: Any) -> Any:
    """The header behind what is stored. Whatever is no packed header, or a damaged one, comes back as it lies there.

    So a reader sees it as what it is, and verify names it.
    """
    if type(stored) is not bytes or stored[:1] != PACKED:
        return stored
    try:
        return _unpacked(stored)
    except (zlib.error, ValueError):
        return stored


def _unpacked(stored: bytes) -> bytes:
    stream = zlib.decompressobj(-15, DICTIONARY)
    text = stream.decompress(stored[1:], HEADER_BYTES_MAX)
    if not stream.eof:
        raise ValueError("the text of a packed header does not end")
    digests = stream.unused_data.hex().encode()
    try:
        quoted = _layout(text.translate(None, _NO_MARKS)).unpack(digests)
    except struct.error:
        raise ValueError("a packed header has not as many digests as it has marks") from None
    # One pass over the text for all of them; a sign that stands in the header itself is kept from it.
    form = text.replace(b"%", b"%%") if b"%" in text else text
    return form.replace(b"\x01", _QUOTED).replace(b"\x02", _QUOTED) % quoted


@lru_cache(maxsize=256)
def _layout(marks: bytes) -> struct.Struct:
    """How the digests for these marks lie side by side in hex; headers of one shape have the same marks."""
    return struct.Struct("".join(f"{_HEX[mark]}s" for mark in marks))
