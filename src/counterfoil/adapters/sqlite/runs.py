"""The events of one run: found by the stretches of its stream in which it runs, not by an index entry each.

At most one run of a conversation runs at a time, so its events stand together but for pauses. A row tells where the
run of a stream changes; an entry for every event would cost a page more in every commit.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from counterfoil.adapters.sqlite.bulk import Bulk

ADD_SPANS: Final = Bulk("INSERT INTO run_span (stream, from_seq, run_id)", 3)
REMOVE_SPANS: Final = "DELETE FROM run_span WHERE stream = ?"

LAST_RUN: Final = "(SELECT run_id FROM run_span WHERE stream = s.number ORDER BY from_seq DESC LIMIT 1)"
"""The run that the stream's last event of any run belongs to; inside a statement that knows the stream as ``s``."""

# CROSS JOIN: the stretches in order, and inside each its events in order, so nothing is sorted.
IN_RUN: Final = """
    run_span r INDEXED BY run_span_by_run CROSS JOIN event e ON e.stream = r.stream AND e.run_id = r.run_id AND e.seq > max(r.from_seq - 1, ?) AND e.seq <
        coalesce((SELECT n.from_seq FROM run_span n WHERE n.stream = r.stream AND n.from_seq > r.from_seq
                  ORDER BY n.from_seq LIMIT 1), 9223372036854775807)"""
"""Events of a run above a sequence, its one parameter, as ``e``; with the stretches they stand in as ``r``."""

_CHANGES: Final = """
    SELECT stream, seq, run_id FROM (
        SELECT stream, seq, run_id, lag(run_id) OVER (PARTITION BY stream ORDER BY seq) AS before
        FROM event WHERE run_id IS NOT NULL {only})
    WHERE run_id IS NOT before"""


def rebuild_spans(connection: sqlite3.Connection, stream: int | None) -> None:
    """Make the stretches of one stream, by its number, or of all again from the events; in the caller's transaction."""
    only, params = ("", ()) if stream is None else ("AND stream = ?", (stream,))
    connection.execute("DELETE FROM run_span" if stream is None else REMOVE_SPANS, params)
    connection.execute(
        f"INSERT INTO run_span (stream, from_seq, run_id) {_CHANGES.format(only=only)}", params
    )
