"""Derived rows refolded from events and compared with those stored: rebuilt, or mismatched (DESIGN 2.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from counterfoil.core.examine import shown
from counterfoil.core.genesis import Genesis
from counterfoil.errors import InvalidUnit, SchemaUnknown
from counterfoil.evidence.collector import Collector
from counterfoil.evidence.folding import RowFold
from counterfoil.evidence.refolded import Values
from counterfoil.evidence.report import Derived
from counterfoil.keys.keyring import Keyring
from counterfoil.store.contract import Reader
from counterfoil.store.rows import Feature, Key, Row, TableSpec

PAGE_ROWS: Final = 500
EXAMPLES_MAX: Final = 5

UNFOLDED: Final = "derived rows"


class RowCheck(RowFold):
    """Refolds the rows of intact streams and compares them, table by table. ``close`` it at the end.

    A cell that is made from content which cannot be opened is left out of the comparison, and said.
    """

    def __init__(
        self, reader: Reader, features: Sequence[Feature], keyring: Keyring | None, collector: Collector
    ) -> None:
        super().__init__(reader, features, lambda _: keyring)
        self._collector = collector

    # ---- refolding -----------------------------------------------------------------------------------------------

    def skip(self, stream_id: str, why: str) -> None:
        """Leave the rows of a stream out of the comparison."""
        super().skip(stream_id, why)
        self._collector.leave_out(UNFOLDED + " of a stream", why, 1)

    def fold(self, genesis: Genesis, tenant: str) -> None:
        """Refold the rows of one intact stream."""
        super().fold(genesis, tenant)
        if genesis.stream_id in self.incomplete:
            why = "the content or the index key that they are made from is not at hand"
            self._collector.leave_out(UNFOLDED + " in part, of a stream", why, 1)

    # ---- comparing -----------------------------------------------------------------------------------------------

    def compare(self, chosen: frozenset[str] | None = None) -> tuple[Derived, ...]:
        """One result for each declared table; ``chosen`` limits it to rows of these streams."""
        return tuple(self._compare(spec, chosen) for spec in self.tables)

    def _compare(self, spec: TableSpec, chosen: frozenset[str] | None) -> Derived:
        found = Derived(table=spec.name, state="rebuilt")
        examples: list[str] = []
        try:
            for row in self._stored(spec):
                if chosen is None or row.get(spec.owner_column) in chosen:
                    self._judge(spec, row, found, examples)
        except (InvalidUnit, SchemaUnknown):
            found.why = "the store does not hold this table"
        for key, _ in self.refolded.left(spec.name):
            found.lacking += 1
            found.refolded += 1
            _add(examples, f"lacking {_shown_key(key)}")
        if found.differing or found.lacking or found.unexplained:
            found.state = "mismatched"
        elif found.why is not None:
            found.state = "not_refolded"
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
        wanted = self.refolded.take(spec.name, key)
        stream_id = row.get(spec.owner_column)
        if wanted is None:
            if not self.is_without_events(spec, stream_id):
                found.unexplained += 1
                _add(examples, f"unexplained {_shown_key(key)}")
            return
        found.refolded += 1
        columns = _differing(spec, row, wanted, lenient=wanted.get(spec.owner_column) in self.incomplete)
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
