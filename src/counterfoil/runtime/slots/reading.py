"""Reading slots as they were at a sequence: by rows, in as many reads as it takes to halve the versions of one slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from counterfoil.flow.event import Event
from counterfoil.flow.requests import Events, Flow, Read, RowOf, Rows
from counterfoil.runtime.slots.rows import SLOTS, VERSIONS, mark_of_row
from counterfoil.runtime.slots.state import Mark
from counterfoil.store.rows import Key, Row

_PAGE_ROWS: Final = 100


def slot_at(stream_id: str, slot: str, sequence: int) -> Flow[Mark | None]:
    """Where a slot stood when the conversation had this many events; None if it had never been set."""
    row: Row | None = yield Read(RowOf(SLOTS, (stream_id, slot)))
    return None if row is None else (yield from _back_to(stream_id, mark_of_row(row), sequence))


def slots_at(stream_id: str, sequence: int) -> Flow[list[Mark]]:
    """Every slot that had been set by then, also those cleared since, by name."""
    found: list[Mark] = []
    after: Key | None = None
    while True:
        page: list[Row] = yield Read(Rows(SLOTS, None, (stream_id,), _PAGE_ROWS, after))
        for row in page:
            mark = yield from _back_to(stream_id, mark_of_row(row), sequence)
            found += [] if mark is None else [mark]
        if len(page) < _PAGE_ROWS:
            return found
        after = (page[-1]["stream_id"], page[-1]["slot"])


def _back_to(stream_id: str, newest: Mark, sequence: int) -> Flow[Mark | None]:
    """The last version that was recorded by then; later versions have later sequences."""
    if newest.sequence <= sequence:
        return newest
    best: Mark | None = None
    low, high = 1, newest.version - 1
    while low <= high:
        middle = (low + high) // 2
        row: Row | None = yield Read(RowOf(VERSIONS, (stream_id, newest.slot, middle)))
        if row is not None and int(row["sequence"] or 0) <= sequence:
            best, low = mark_of_row(row), middle + 1
        else:
            high = middle - 1
    return best


def versions_of(stream_id: str, slot: str, limit: int | None) -> Flow[list[Mark]]:
    """The versions of one slot, the newest first, ``limit`` at most: they count from 1 without a gap."""
    row: Row | None = yield Read(RowOf(SLOTS, (stream_id, slot)))
    newest = 0 if row is None else int(row["version"] or 0)
    oldest = 0 if limit is None else max(0, newest - limit)
    found: list[Mark] = []
    for version in range(newest, oldest, -1):
        one: Row | None = yield Read(RowOf(VERSIONS, (stream_id, slot, version)))
        found += [] if one is None else [mark_of_row(one)]
    return found


def event_of(stream_id: str, mark: Mark) -> Flow[Event]:
    """The event that a mark stands for."""
    found: list[Event] = yield Read(Events(stream_id, after=mark.sequence - 1, limit=1))
    return found[0]


def name_in(content: Mapping[str, Any], slot: str) -> str:
    """The slot's name as the code wrote it: a label stands in the open, anything else in content."""
    return str(content.get("name", slot))
