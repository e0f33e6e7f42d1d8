"""Events as plain rows from a cursor on the server, for verify: little is held in memory, nothing is copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import psycopg

from counterfoil.adapters.postgres.cells import stored_text
from counterfoil.adapters.postgres.connect import BoundedConnection
from counterfoil.adapters.postgres.faults import translate
from counterfoil.adapters.postgres.feed import position
from counterfoil.adapters.postgres.read import PART_MAX, Query, Reads
from counterfoil.adapters.postgres.tables import RowTables

PAGE_ROWS: Final = 256
PAGE_ROWS_WITH_RECORDS: Final = 16
"""Records are of 4 MiB at most, and a page of them is held at once."""

CURSOR: Final = "counterfoil_events"

_COLUMNS: Final = "e.xact, e.seq, e.event_id, e.event_type, e.run_id, e.recorded_at, e.header, e.hash"


class SnapshotReads(Reads):
    """Reads of one snapshot that can also hand out a stream as plain rows, straight from its connection."""

    def __init__(
        self,
        query: Query,
        tables: RowTables,
        now_ms: Callable[[], int],
        connection: BoundedConnection,
    ) -> None:
        super().__init__(query, tables, now_ms)
        self._connection = connection
        self._cursors = 0

    def raw_events(self, stream_id: str, *, records: bool) -> Iterator[list[tuple[Any, ...]]]:
        """Pages of a stream by sequence, then part, as ``evidence.raw.RawReader`` says."""
        self._cursors += 1
        try:
            # Its name is one of this transaction: a pooler never sees it outlive that.
            with self._connection.cursor(f"{CURSOR}_{self._cursors}") as cursor:
                cursor.itersize = PAGE_ROWS_WITH_RECORDS if records else PAGE_ROWS
                cursor.execute(self._raw(records=records).encode(), (stored_text(stream_id),), binary=True)
                while True:
                    page = cursor.fetchmany(cursor.itersize)
                    if not page:
                        return
                    yield [(position(row[0], stream_id, row[1]), *row[1:]) for row in page]
        except psycopg.Error as error:
            raise translate(error, "the ledger", "read") from error

    def _raw(self, *, records: bool) -> str:
        if not records:
            return (
                f"SELECT {_COLUMNS}, NULL::smallint, NULL::bytea FROM {self._s}.event e"
                " WHERE e.stream_id = %s ORDER BY e.seq"
            )
        return (
            f"SELECT {_COLUMNS}, c.part, c.record FROM {self._s}.event e LEFT JOIN {self._s}.event_content c"
            f" ON c.stream_id = e.stream_id AND c.seq = e.seq AND c.part BETWEEN 0 AND {PART_MAX}"
            " WHERE e.stream_id = %s ORDER BY e.seq, c.part"
        )
