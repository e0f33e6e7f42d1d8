"""Rows folded again from the events of intact streams, in bounded memory (DESIGN 2.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

from counterfoil.core.event import Header, read_header
from counterfoil.core.genesis import Genesis
from counterfoil.errors import CounterfoilError, InternalError
from counterfoil.evidence.opening import Opener
from counterfoil.evidence.raw import RawEvent, raw_events
from counterfoil.evidence.refolded import Refolded
from counterfoil.keys.keyring import Keyring, index_key_id
from counterfoil.store.contract import Reader
from counterfoil.store.facts import recorded_fact
from counterfoil.store.rows import Cell, Feature, RowsOf, TableSpec

PAGE_STREAMS: Final = 500

KeyringOf = Callable[[str], Keyring | None]
"""The keyring of a tenant, or None where its keys are not at hand."""


class RowFold:
    """Folds the rows of one stream after the other; ``close`` it at the end.

    Rows of ``skipped`` streams are not folded at all. Those of ``incomplete`` streams are folded as far as the content
    that they are made from can be opened.
    """

    def __init__(self, reader: Reader, features: Sequence[Feature], keyring_of: KeyringOf) -> None:
        self._reader = reader
        self._keyring_of = keyring_of
        self.tables: tuple[TableSpec, ...] = tuple(table for feature in features for table in feature.tables)
        self._rows_of: dict[str, list[RowsOf]] = {}
        for feature in features:
            for event_type in feature.event_types:
                self._rows_of.setdefault(event_type, []).append(feature.rows)
        self.refolded: Refolded = Refolded(self.tables)
        self.skipped: set[str] = set()
        self.incomplete: set[str] = set()
        self._indexes: dict[str, bool] = {}

    def close(self) -> None:
        """Let temporary data go."""
        self.refolded.close()

    def skip(self, stream_id: str, why: str) -> None:  # noqa: ARG002 - for those who tell it
        """Leave the rows of a stream out."""
        self.skipped.add(stream_id)

    def fold(self, genesis: Genesis, tenant: str) -> None:
        """Fold the rows of one intact stream; ``tenant`` is whom it stands under."""
        keyring = self._keyring_of(tenant)
        opener = Opener(genesis, keyring)
        for columns, records in self._events(genesis.stream_id):
            header = read_header(columns[6])
            content = opener.open(header, records)
            if content is None and header.content:
                self.incomplete.add(genesis.stream_id)
                self.unopened(genesis, header)
            self._apply(tenant, header, content, keyring)

    def is_without_events(self, spec: TableSpec, stream_id: Cell) -> bool:
        """Whether nothing can be said of the rows of a stream: it was not folded, or they outlived its purge."""
        if stream_id in self.skipped or stream_id in self.incomplete:
            return True
        return spec.outlives is not None and self._reader.stream(str(stream_id)) is None

    def unopened(self, genesis: Genesis, header: Header) -> None:
        """Told of each event whose content could not be opened."""

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

    def _apply(
        self, tenant: str, header: Header, content: dict[str, Any] | None, keyring: Keyring | None
    ) -> None:
        fact = recorded_fact(tenant, header, content)

        def index(purpose: str, text: str) -> str:
            if keyring is None or not self._has_index(tenant, keyring):
                raise InternalError("the tenant's index key is not at hand")
            return keyring.index(purpose, text)

        for rows_of in self._rows_of[header.event_type]:
            try:
                self.refolded.apply(rows_of(fact, index))
            except (CounterfoilError, LookupError, TypeError, ValueError):
                self.incomplete.add(header.stream_id)

    def _has_index(self, tenant: str, keyring: Keyring) -> bool:
        """Whether index values of this tenant can be made, without ever making a new index key."""
        found = self._indexes.get(tenant)
        if found is None:
            found = self._indexes[tenant] = self._open_index(tenant, keyring)
        return found

    def _open_index(self, tenant: str, keyring: Keyring) -> bool:
        after = ""
        if keyring.tenant != tenant:
            return False
        while page := self._reader.streams(tenant, after, PAGE_STREAMS):
            after = page[-1].stream_id
            for stream in page:
                if (
                    stream.kind == "system/config"
                    and keyring.store.get(index_key_id(stream.stream_id)) is not None
                ):
                    keyring.index_key(stream.stream_id)
                    return True
        return False
