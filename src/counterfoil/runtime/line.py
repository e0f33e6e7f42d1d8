"""The inputs of a conversation that wait in line for its slot, in the order in which they were accepted."""

from __future__ import annotations

from typing import Final

from counterfoil.flow.requests import Flow, Read, Rows
from counterfoil.runtime import rows
from counterfoil.runtime.state import DEFERRED, in_line
from counterfoil.store.rows import Key, Row

_PAGE_ROWS: Final = 100


def next_in_line(stream_id: str) -> Flow[Row | None]:
    """The input whose turn is next; those that wait for a time or for a person are passed over."""
    after: Key | None = None
    while True:
        page: list[Row] = yield Read(
            Rows(rows.ADMISSIONS, "by_state", (stream_id, DEFERRED), _PAGE_ROWS, after)
        )
        for row in page:
            if in_line(rows.admission_of_row(row)):
                return row
        if len(page) < _PAGE_ROWS:
            return None
        after = rows.ADMISSIONS_TABLE.place_in("by_state", page[-1])
