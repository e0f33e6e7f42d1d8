"""Derived rows made again from events: what follows from intact streams replaces what is stored (DESIGN 2.7)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct, field

from counterfoil.core.catalogue import Registry
from counterfoil.core.event import Header
from counterfoil.core.genesis import Genesis
from counterfoil.errors import ContentUnavailable
from counterfoil.evidence.content import Certificates
from counterfoil.evidence.folding import KeyringOf, RowFold
from counterfoil.evidence.verify import walk
from counterfoil.store.contract import Reader, Store
from counterfoil.store.rows import Feature, Key, Put, Row, RowChange, TableSpec

PAGE_ROWS: Final = 500


class Rebuilt(Struct):
    """What a rebuild came to.

    ``rows`` counts the rows of each table as they are now, ``kept`` those among them that no event could be folded
    into: their stream is broken, or the content that they are made from is not at hand. ``left_out`` are the broken
    streams by id, with the reason.
    """

    rows: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    streams: int = 0
    events: int = 0
    left_out: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return {
            "rows": self.rows,
            "kept": self.kept,
            "streams": self.streams,
            "events": self.events,
            "left_out": self.left_out,
        }


def rebuild(
    store: Store,
    features: Sequence[Feature],
    keyring_of: KeyringOf,
    *,
    registry: Registry | None = None,
    stale: Collection[str] = (),
    progress: Callable[[int], None] | None = None,
) -> Rebuilt:
    """Make all derived rows again, in one transaction of the store; writers wait, and memory stays bounded.

    Rows that cannot be made again stay as they are, so that nothing is forgotten that would let an effect go out
    twice. ``stale`` names tables that the store has made anew; where one of them is empty and an event that its rows
    follow from cannot be opened, that is ``ContentUnavailable`` and nothing changes. ``progress`` is told the events
    looked at so far.
    """
    found = Rebuilt()

    def changes() -> Iterator[RowChange]:
        # Evaluated inside the transaction: no event can be added between the look at it and the rows it gives.
        with store.snapshot() as reader:
            fold = _Rebuild(reader, features, keyring_of, found, stale)
            try:
                found.streams, found.events = walk(
                    reader, store.ledger_id, registry or Registry(), fold, progress
                )
                yield from fold.changes()
            finally:
                fold.close()

    store.rebuild_rows(None, changes())
    return found


class _Rebuild(RowFold):
    """Folds all streams, then puts beside it what is stored and could not be folded."""

    def __init__(
        self,
        reader: Reader,
        features: Sequence[Feature],
        keyring_of: KeyringOf,
        found: Rebuilt,
        stale: Collection[str],
    ) -> None:
        super().__init__(reader, features, keyring_of)
        self._found = found
        self._stale = frozenset(stale)
        self._tables_of = {
            event_type: {
                spec.name for other in features if event_type in other.event_types for spec in other.tables
            }
            for event_type in self._rows_of
        }
        self._unopened: dict[str, tuple[str, int]] = {}

    def skip(self, stream_id: str, why: str) -> None:
        """Keep the rows of a stream as they are."""
        super().skip(stream_id, why)
        self._found.left_out[stream_id] = why

    def unopened(self, genesis: Genesis, header: Header) -> None:
        """Note the first event for each table whose content is gone without a certificate."""
        certificates = Certificates(self._reader, genesis.stream_id)
        keys = {part.key or genesis.key for part in header.content}
        if any(certificates.cover(key, header.stream_sequence, header.event_type) for key in keys):
            return
        for table in self._tables_of[header.event_type]:
            self._unopened.setdefault(table, (genesis.stream_id, header.stream_sequence))

    def changes(self) -> Iterator[RowChange]:
        """Every row as it is to be. Raises ``ContentUnavailable`` where rows are lost and cannot be made."""
        for spec in self.tables:
            self._merge(spec)
        for spec in self.tables:
            count = 0
            for _, values in self.refolded.left(spec.name):
                count += 1
                yield Put(spec.name, values)
            self._found.rows[spec.name] = count

    def _merge(self, spec: TableSpec) -> None:
        stored = 0
        for row in self._stored(spec):
            stored += 1
            stream_id = row.get(spec.owner_column)
            if stream_id is None or self.is_without_events(spec, stream_id):
                self._keep(spec, row)
        if not stored and spec.name in self._stale and spec.name in self._unopened:
            stream_id, sequence = self._unopened[spec.name]
            raise ContentUnavailable(
                f"rows of {spec.name} are gone, and one follows from event {sequence} of {stream_id}, "
                "whose content cannot be opened",
                hint="put keys.db and kek/ back, or restore the last backup of ledger.db",
                state="withheld",
                table=spec.name,
                stream_id=stream_id,
                sequence=sequence,
            )

    def _keep(self, spec: TableSpec, row: Row) -> None:
        key = tuple(row[name] for name in spec.key)
        known = self.refolded.row(spec.name, key)
        if known is None:
            self._found.kept[spec.name] = self._found.kept.get(spec.name, 0) + 1
        # A cell that the fold leaves empty may be made from what cannot be opened now.
        values = {
            column.name: row[column.name]
            if known is None or known[column.name] is None
            else known[column.name]
            for column in spec.columns
        }
        self.refolded.put(spec.name, key, values)

    def _stored(self, spec: TableSpec) -> Iterator[Row]:
        after: Key | None = None
        while page := self._reader.select(spec.name, after=after, limit=PAGE_ROWS):
            yield from page
            after = tuple(page[-1][name] for name in spec.key)
