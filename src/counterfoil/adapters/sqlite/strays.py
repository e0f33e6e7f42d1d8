"""Rows of the truth tables (and heads) that belong to no stream or event, for verify to name."""

from __future__ import annotations

from typing import Final

from counterfoil.adapters.shared.strays import StrayKind
from counterfoil.adapters.sqlite.schema import PARTS_PER_EVENT

STRAYS: Final = (
    StrayKind(
        "event",
        "event {} belongs to no stream",
        "SELECT event_id, NULL, seq FROM event WHERE stream NOT IN (SELECT number FROM stream)"
        " ORDER BY position LIMIT ?",
    ),
    # Reading begins at sequence 1, so these would never be seen.
    StrayKind(
        "event",
        "event {} has a sequence below 1",
        "SELECT event_id, (SELECT stream_id FROM stream WHERE number = event.stream), seq"
        " FROM event WHERE seq < 1 ORDER BY position LIMIT ?",
    ),
    StrayKind(
        "event_content",
        "record at slot {} belongs to no event",
        f"SELECT slot, NULL, NULL FROM event_content WHERE slot / {PARTS_PER_EVENT} NOT IN"
        " (SELECT position FROM event) OR slot < 0 ORDER BY slot LIMIT ?",
    ),
    StrayKind(
        "head",
        "head of stream number {} belongs to no stream",
        "SELECT stream, NULL, seq FROM head WHERE stream NOT IN (SELECT number FROM stream)"
        " ORDER BY stream LIMIT ?",
    ),
    StrayKind(
        "stream",
        "stream {} has no head",
        "SELECT stream_id, stream_id, NULL FROM stream WHERE number NOT IN (SELECT stream FROM head)"
        " ORDER BY number LIMIT ?",
    ),
)
