"""Derived rows refolded from events and compared with those stored: rebuilt, or mismatched (DESIGN 2.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

from counterfoil.core.event import Header, read_header
from counterfoil.core.examine import shown
from counterfoil.core.genesis import Genesis
from counterfoil.errors import CounterfoilError, InternalError, InvalidUnit
from counterfoil.evidence.collector import Collector
from counterfoil.evidence.opening import Opener
from counterfoil.evidence.raw import RawEvent, raw_events
from counterfoil.evidence.refolded import Refolded, Values
from counterfoil.evidence.report import Derived
from counterfoil.keys.keyring import Keyring, index_key_id
from counterfoil.store.contract import Reader
from counterfoil.store.facts import recorded_fact
from counterfoil.store.rows import Feature, Key, Row, RowsOf, TableSpec

PAGE_ROWS: Final = 500
EXAMPLES_MAX: Final = 5

UNFOLDED: Final = "derived rows"


class RowCheck:
    """Refolds the rows of intact streams and compares them, table by table. ``close`` it at the end.

    A cell that is made from content which cannot be opened is left out of the comparison, and said.
    """

    def __init__(
        self, reader: Reader, features: Sequence[Feature], keyring: Keyring | None, collector: Collector
    ) -> None:
        self._reader = reader
        self._keyring = keyring
        self._collector = collector
        self._tables = [table for feature in features for table in feature.tables]
        self._rows_of: dict[str, list[RowsOf]] = {}
        for feature in features:
            for event_type in feature.event_types:
                self._rows_of.setdefault(event_type, []).append(feature.rows)
        self._refolded = Refolded(self._tables)
        self._skipped: set[str] = set()
        self._incomplete: set[str] = set()
        self._indexes: dict[str, bool] = {}

    def close(self) -> None:
        """Let temporary data go."""
        self._refolded.close()

    # ---- refolding -----------------------------------------------------------------------------------------------

    def skip(self, stream_id: str, why: str) -> None:
        """Leave the rows of a stream out of the comparison."""
        self._skipped.add(stream_id)
        self._collector.leave_out(UNFOLDED + " of a stream", why, 1)

    def fold(self, genesis: Genesis) -> None:
        """Refold the rows of one intact stream."""
        opener = Opener(genesis, self._keyring)
        for columns, records in self._events(genesis.stream_id):
            header = read_header(columns[6])
            content = opener.open(header, records)
            if content is None and header.content:
                self._incomplete.add(genesis.stream_id)
            self._apply(genesis.tenant, header, content)
        if genesis.stream_id in self._incomplete:
            why = "the content or the index key that they are made from is not at hand"
            self._collector.leave_out(UNFOLDED + " in part, of a stream", why, 1)

    def _events(self, stream_id: str) -> Iterator[tuple[RawEvent, dict[int, bytes]]]:
        """The events that rows follow from, each with its records by part."""
        held: RawEvent | None = None
        records: dict[int, bytes] = {}
        for row in chain.from_iterable(raw_events(self._reader, stream_id, records=True)):
            if row[3] not in self._rows_of:
                continue
            if held is None or held[0] != row[0]:
                if held is not None:
                    yield held, records
                held, records = row, {}
            if row[8] is not None:
                records[row[8]] = row[9]
        if held is not None:
            yield held, records

    def _apply(self, tenant: str, header: Header, content: dict[str, Any] | None) -> None:
        fact = recorded_fact(tenant, header, content)

        def index(purpose: str, text: str) -> str:
            if self._keyring is None or not self._has_index(tenant):
                raise InternalError("the tenant's index key is not at hand")
            return self._keyring.index(purpose, text)

        for rows_of in self._rows_of[header.event_type]:
            try:
                self._refolded.apply(rows_of(fact, index))
            except (CounterfoilError, LookupError, TypeError, ValueError):
                self._incomplete.add(header.stream_id)

    def _has_index(self, tenant: str) -> bool:
        """Whether index values of this tenant can be made, without ever making a new index key."""
        found = self._indexes.get(tenant)
        if found is None:
            found = self._indexes[tenant] = self._open_index(tenant)
        return found

    def _open_index(self, tenant: str) -> bool:
        keyring, after = self._keyring, ""
        if keyring is None or keyring.tenant != tenant:
            return False
        while page := self._reader.streams(tenant, after, PAGE_ROWS):
            after = page[-1].stream_id
            for stream in page:
                if (
                    stream.kind == "system/config"
                    and keyring.store.get(index_key_id(stream.stream_id)) is not None
                ):
                    keyring.index_key(stream.stream_id)
                    return True
        return False

    # ---- comparing -----------------------------------------------------------------------------------------------

    def compare(self, chosen: frozenset[str] | None = None) -> tuple[Derived, ...]:
        """One result for each declared table; ``chosen`` limits it to rows of these streams."""
        return tuple(self._compare(spec, chosen) for spec in self._tables)

    def _compare(self, spec: TableSpec, chosen: frozenset[str] | None) -> Derived:
        found = Derived(table=spec.name, state="rebuilt")
        examples: list[str] = []
        try:
            for row in self._stored(spec):
                if chosen is None or row.get(spec.stream_column or "") in chosen:
                    self._judge(spec, row, found, examples)
        except InvalidUnit:
            return Derived(table=spec.name, state="not_refolded", why="the store does not hold this table")
        for key, _ in self._refolded.left(spec.name):
            found.lacking += 1
            found.refolded += 1
            _add(examples, f"lacking {_shown_key(key)}")
        if found.differing or found.lacking or found.unexplained:
            found.state = "mismatched"
        elif found.stored and not found.refolded:
            found.state, found.why = "not_refolded", "what these rows are made from is not at hand"
        found.examples = tuple(examples)
        return found

    def _stored(self, spec: TableSpec) -> Iterator[Row]:
        after: Key | None = None
        while page := self._reader.select(spec.name, after=after, limit=PAGE_ROWS):
            yield from page
            after = tuple(page[-1][name] for name in spec.key)

    def _judge(self, spec: TableSpec, row: Row, found: Derived, examples: list[str]) -> None:
        found.stored += 1
        key = tuple(row[name] for name in spec.key)
        wanted = self._refolded.take(spec.name, key)
        stream_id = row.get(spec.stream_column or "")
        if wanted is None:
            if stream_id not in self._skipped and stream_id not in self._incomplete:
                found.unexplained += 1
                _add(examples, f"unexplained {_shown_key(key)}")
            return
        found.refolded += 1
        columns = _differing(
            spec, row, wanted, lenient=wanted.get(spec.stream_column or "") in self._incomplete
        )
        if columns:
            found.differing += 1
            _add(examples, f"{', '.join(columns)} of {_shown_key(key)}")


def _differing(spec: TableSpec, row: Row, wanted: Values, *, lenient: bool) -> list[str]:
    return [
        column.name
        for column in spec.columns
        if row.get(column.name) != wanted.get(column.name)
        and not (lenient and wanted.get(column.name) is None)
    ]


def _add(examples: list[str], text: str) -> None:
    if len(examples) < EXAMPLES_MAX:
        examples.append(text)


def _shown_key(key: Key) -> str:
    return " ".join(shown(cell) for cell in key)
