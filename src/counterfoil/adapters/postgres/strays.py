"""Rows of the truth tables (and heads) that belong to no stream or event, for verify to name."""

from __future__ import annotations

from typing import Final

from counterfoil.adapters.shared.strays import StrayKind

STRAYS: Final = (
    StrayKind(
        "event",
        "event {} belongs to no stream",
        "SELECT event_id, stream_id, seq FROM {s}.event e WHERE NOT EXISTS"
        " (SELECT 1 FROM {s}.stream s WHERE s.stream_id = e.stream_id) ORDER BY stream_id, seq LIMIT %s",
    ),
    # Reading begins at sequence 1, so these would never be seen.
    StrayKind(
        "event",
        "event {} has a sequence below 1",
        "SELECT event_id, stream_id, seq FROM {s}.event WHERE seq < 1 ORDER BY stream_id, seq LIMIT %s",
    ),
    StrayKind(
        "event_content",
        "record {} belongs to no event",
        "SELECT stream_id || ' ' || seq || ' ' || part, stream_id, seq FROM {s}.event_content c WHERE NOT EXISTS"
        " (SELECT 1 FROM {s}.event e WHERE e.stream_id = c.stream_id AND e.seq = c.seq)"
        " ORDER BY stream_id, seq, part LIMIT %s",
    ),
    # A part that no header could name; reading would have to make room for all before it.
    StrayKind(
        "event_content",
        "record {} has a part that no event can have",
        "SELECT stream_id || ' ' || seq || ' ' || part, stream_id, seq FROM {s}.event_content"
        " WHERE part NOT BETWEEN 0 AND 15 ORDER BY stream_id, seq, part LIMIT %s",
    ),
    StrayKind(
        "head",
        "head of {} belongs to no stream",
        "SELECT stream_id, stream_id, seq FROM {s}.head h WHERE NOT EXISTS"
        " (SELECT 1 FROM {s}.stream s WHERE s.stream_id = h.stream_id) ORDER BY stream_id LIMIT %s",
    ),
    StrayKind(
        "stream",
        "stream {} has no head",
        "SELECT stream_id, stream_id, NULL::bigint FROM {s}.stream s WHERE NOT EXISTS"
        " (SELECT 1 FROM {s}.head h WHERE h.stream_id = s.stream_id) ORDER BY stream_id LIMIT %s",
    ),
)
