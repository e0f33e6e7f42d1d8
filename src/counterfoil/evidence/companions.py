"""Companions under verification: each row opened, and held against what the events beside it committed to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from counterfoil.companions.rows import COMPANIONS
from counterfoil.companions.seal import MEMBER, opened
from counterfoil.core.canonical import decode
from counterfoil.core.event_types import EVENT_TYPES
from counterfoil.core.examine import shown
from counterfoil.core.genesis import Genesis
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.records import open_record
from counterfoil.errors import CounterfoilError, InvalidUnit, SchemaUnknown
from counterfoil.evidence.collector import Collector
from counterfoil.evidence.raw import Parts, RawEvent
from counterfoil.evidence.report import Counts
from counterfoil.store.contract import Reader
from counterfoil.store.rows import Key, Row

PAGE_ROWS: Final = 100
TOLD_MAX: Final = 50_000
"""Rows of one stream that are held against the events; memory stays bounded, and more is said to be not covered."""

SHOWN_HEX: Final = 12
WHAT: Final = "companions of a stream"

Told = tuple[str | None, int]
"""The commitment that the newest event gave a row (None: removed), and the sequence of that event."""


class CompanionCheck:
    """Collects what the events of one stream say of companions, then looks at the rows.

    ``material`` looks the stream key up each time: only the keyring keeps keys, which forgets them in time (FORMAT 11).
    """

    def __init__(
        self,
        reader: Reader,
        genesis: Genesis,
        material: Callable[[], KeyMaterial | None],
        collector: Collector,
        counts: Counts,
    ) -> None:
        self._reader = reader
        self._genesis = genesis
        self._material = material
        self._collector = collector
        self._counts = counts
        self._told: dict[tuple[str, str], Told] = {}
        self._whole = True

    def take(self, row: RawEvent, parts: Parts) -> None:
        """Take in an event of the application, its record being of a part behind the first that was opened."""
        if row[3] in EVENT_TYPES or parts[3 * row[8] + 1] not in (None, self._genesis.key):
            return
        for table, key, commitment in self._changes(row, parts):
            if len(self._told) >= TOLD_MAX and (table, key) not in self._told:
                self._whole = False
                continue
            self._told[table, key] = (commitment, int(row[1]))

    def _changes(self, row: RawEvent, parts: Parts) -> list[tuple[str, str, str | None]]:
        part = row[8]
        try:
            content = open_record(
                self._material(),
                "content",
                (row[2], part),
                row[9],
                parts[3 * part] or "",
                mode=self._genesis.content,
            )
            told: Any = decode(content)
            changes = told.get(MEMBER, ()) if isinstance(told, dict) else ()
            return [(str(table), str(key), commitment) for table, key, commitment in changes]
        except (CounterfoilError, TypeError, ValueError):
            return []

    def finish(self) -> None:
        """Look at the rows of the stream. Without its key nothing can be said of them."""
        if self._material() is None and self._genesis.content == "sealed":
            rows = sum(1 for _ in self._rows())
            if rows:
                self._collector.leave_out("companions", "their stream key is not at hand", rows)
            return
        for row in self._rows():
            self._look(row)
        if not self._whole:
            self._collector.leave_out(WHAT, f"there are more than {TOLD_MAX}", 1)
            return
        for (table, key), (commitment, sequence) in self._told.items():
            if commitment is not None:
                what = f"{_named(table, key)} is not there, and event {sequence} says that it was written"
                self._fault("content_missing", what, sequence)

    def _look(self, row: Row) -> None:
        table, key = row["name"], row["key"]
        if not isinstance(table, str) or not isinstance(key, str):
            self._fault("inserted", "a companion whose table or key is no text", 0)
            return
        told = self._told.pop((table, key), None)
        try:
            opened(self._genesis, self._material(), row)
        except CounterfoilError as error:
            self._fault("content_damaged", f"{_named(table, key)}: {error.message}", told[1] if told else 0)
            return
        self._counts.companions += 1
        if not self._whole or (told is not None and told[0] == row["commitment"]):
            return
        if told is None:
            self._fault(
                "inserted", f"{_named(table, key)} is there, and no event says that it was written", 0
            )
        elif told[0] is None:
            what = f"{_named(table, key)} is there, and event {told[1]} says that it was removed"
            self._fault("inserted", what, told[1])
        else:
            what = f"{_named(table, key)} is not the one that event {told[1]} was recorded with"
            self._fault("content_damaged", what, told[1])

    def _rows(self) -> Iterator[Row]:
        prefix = (self._genesis.stream_id,)
        after: Key | None = None
        try:
            while page := self._reader.select(COMPANIONS.name, None, prefix, after, PAGE_ROWS):
                yield from page
                after = tuple(page[-1][name] for name in COMPANIONS.key)
        except (InvalidUnit, SchemaUnknown):
            # A ledger made before there were companions, or a store whose opener knows none of them.
            return

    def _fault(self, kind: str, what: str, sequence: int) -> None:
        self._collector.fault(kind, what, self._genesis.stream_id, sequence)


def _named(table: str, key: str) -> str:
    return f"companion {shown(key)[:SHOWN_HEX]}… of {shown(table)}"
