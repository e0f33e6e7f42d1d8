"""Events as plain rows from one cursor, for verify: nothing is copied into objects, little is held in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from counterfoil.adapters.sqlite.connect import Params, lenient_text
from counterfoil.adapters.sqlite.faults import is_undecodable, translate
from counterfoil.adapters.sqlite.packing import PACKED, plain_header
from counterfoil.adapters.sqlite.read import Query, Reads
from counterfoil.adapters.sqlite.schema import PARTS_PER_EVENT
from counterfoil.adapters.sqlite.tables import RowTables

PAGE_ROWS: Final = 256
PAGE_BYTES: Final = 1024 * 1024
"""Bytes of records that end a page, so that at most one more record of 4 MiB is held."""

_COLUMNS: Final = "e.position, e.seq, e.event_id, e.event_type, e.run_id, e.recorded_at, e.header, e.hash"
_OF_STREAM: Final = "e.stream = (SELECT number FROM stream WHERE stream_id = ?)"

# Two events of one sequence can stand there only after somebody dropped the index; then position tells them apart.
EVENTS: Final = f"SELECT {_COLUMNS}, NULL, NULL FROM event e WHERE {_OF_STREAM} ORDER BY e.seq, e.position"
EVENTS_WITH_RECORDS: Final = (
    f"SELECT {_COLUMNS}, c.slot - e.position * {PARTS_PER_EVENT}, c.record FROM event e"
    f" LEFT JOIN event_content c ON c.slot BETWEEN e.position * {PARTS_PER_EVENT}"
    f" AND e.position * {PARTS_PER_EVENT} + {PARTS_PER_EVENT - 1}"
    f" WHERE {_OF_STREAM} ORDER BY e.seq, e.position, c.slot"
)

STARTS: Final = (
    "SELECT from_seq, run_id FROM run_span WHERE stream = (SELECT number FROM stream WHERE stream_id = ?)"
)


class SnapshotReads(Reads):
    """Reads of one snapshot that can also hand out a stream as plain rows, straight from its connection."""

    def __init__(self, query: Query, tables: RowTables, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__(query, tables)
        self._connection = connection
        self._path = path

    def raw_events(self, stream_id: str, *, records: bool) -> Iterator[list[tuple[Any, ...]]]:
        """Pages of a stream by sequence, then position, then part, as ``evidence.raw.RawReader`` says."""
        sql = EVENTS_WITH_RECORDS if records else EVENTS
        given = 0
        try:
            for page in self._pages(sql, (stream_id,), records=records):
                yield page
                given += len(page)
        except sqlite3.OperationalError as error:
            if not is_undecodable(error):
                raise translate(error, self._path, "read") from error
            yield from self._rest(sql, stream_id, given, records=records)
        except sqlite3.Error as error:
            raise translate(error, self._path, "read") from error

    def row_counts(self, *, records: bool) -> dict[str, int]:
        """How many rows the tables of truth and the heads hold; records are counted only when asked for."""
        tables = ("stream", "head", "event", *(("event_content",) if records else ()))
        return {table: self._query(f"SELECT count(*) FROM {table}", ())[0][0] for table in tables}

    def run_starts(self, stream_id: str) -> list[tuple[int, str]]:
        """The stretches of a stream that ``runs.py`` reads one run by."""
        return self._query(STARTS, (stream_id,))

    def _rest(
        self, sql: str, stream_id: str, given: int, *, records: bool
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The rows after the first ``given``, with text that is no text as bytes."""
        self._connection.text_factory = lenient_text
        try:
            yield from self._pages(f"{sql} LIMIT -1 OFFSET ?", (stream_id, given), records=records)
        except sqlite3.Error as error:
            raise translate(error, self._path, "read") from error
        finally:
            self._connection.text_factory = str

    def _pages(self, sql: str, params: Params, *, records: bool) -> Iterator[list[tuple[Any, ...]]]:
        cursor = self._connection.execute(sql, params)
        if not records:
            while page := cursor.fetchmany(PAGE_ROWS):
                yield _plain(page)
            return
        page, size = [], 0
        for row in cursor:
            page.append(row)
            size += len(row[9] or b"")
            if len(page) >= PAGE_ROWS or size >= PAGE_BYTES:
                yield _plain(page)
                page, size = [], 0
        if page:
            yield _plain(page)


def _plain(page: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows with packed headers unpacked; a page without any is handed on as it is."""
    for place, row in enumerate(page):
        header = row[6]
        if type(header) is bytes and header[:1] == PACKED:
            page[place] = (*row[:6], plain_header(header), *row[7:])
    return page
