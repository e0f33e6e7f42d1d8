"""The feed over all streams: a cursor of (transaction, stream, sequence) that stays behind the snapshot's horizon.

Transactions become visible in another order than they began, so "everything after the last one I saw" loses events.
A transaction below the horizon (the oldest one that still runs, of any database of the server) has ended for good:
nothing can appear there any more (DESIGN 4).
"""

from __future__ import annotations

import hashlib
from typing import Final

from msgspec import Struct

from counterfoil.core.ids import ulid_decode
from counterfoil.core.limits import SEQUENCE_MAX
from counterfoil.errors import InvalidForm, InvalidId

LAG_MS: Final = 10_000
"""A committed event that has to wait longer than this for older transactions is reported."""

OFFSET_NAME: Final = "xact_offset"
"""In ``meta``: what is added to the server's transaction numbers, since a restored ledger meets lower ones."""


def horizon(s: str) -> str:
    """The horizon in SQL, for the ledger in the quoted schema ``s``; the snapshot is that of the statement."""
    offset = f"(SELECT value::bigint FROM {s}.meta WHERE name = '{OFFSET_NAME}')"
    return f"(pg_snapshot_xmin(pg_current_snapshot())::text::bigint + {offset})"


_MAGIC: Final = b"px1"
_XACT_BYTES: Final = 8
_SEQ_BYTES: Final = 4
_SEQ_BITS: Final = SEQUENCE_MAX.bit_length()
_STREAM_BITS: Final = 128


class Cursor(Struct, frozen=True):
    """The last event seen."""

    xact: int = -1
    stream_id: str = ""
    seq: int = 0

    def encode(self) -> bytes:
        """As the caller keeps it."""
        xact, seq = (self.xact + 1).to_bytes(_XACT_BYTES, "big"), self.seq.to_bytes(_SEQ_BYTES, "big")
        return _MAGIC + xact + seq + self.stream_id.encode()


def decode(cursor: bytes) -> Cursor:
    """The cursor behind these bytes. Raises InvalidForm for others than we gave out."""
    if not cursor:
        return Cursor()
    start = len(_MAGIC) + _XACT_BYTES
    place, name = cursor[start : start + _SEQ_BYTES], cursor[start + _SEQ_BYTES :]
    if not cursor.startswith(_MAGIC) or len(place) != _SEQ_BYTES or not name.isascii() or b"\x00" in name:
        raise InvalidForm(
            "this feed cursor was not made by this store", hint="begin again with an empty cursor"
        )
    xact = int.from_bytes(cursor[len(_MAGIC) : start], "big") - 1
    return Cursor(min(xact, (1 << 63) - 1), name.decode(), int.from_bytes(place, "big"))


def position(xact: int, stream_id: str, seq: int) -> int:
    """The event's place in the feed as one number, which sorts as the cursor does."""
    try:
        number = ulid_decode(stream_id.partition("_")[2])
    except InvalidId:
        # Somebody changed the column; verify names it, and until then it has to stand somewhere.
        number = int.from_bytes(hashlib.sha256(stream_id.encode()).digest()[:16], "big")
    return (xact << _STREAM_BITS | number) << _SEQ_BITS | seq
