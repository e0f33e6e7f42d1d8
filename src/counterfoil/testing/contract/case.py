"""What every contract test starts from: an open store, a manual clock, invented streams and tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from counterfoil.errors import CounterfoilError
from counterfoil.store.contract import Reader, Store
from counterfoil.store.rows import CellSource, Column, Put, TableSpec
from counterfoil.store.unit import Outcome, Receipt, Refusal, StoredEvent, Unit
from counterfoil.testing.events import SampleStream
from counterfoil.testing.manual import ManualClock, SequentialIds

DEADLINE_S = 60.0
"""Real seconds after which an answer of the store counts as never coming."""

PARCEL = TableSpec(
    name="sample_parcel",
    columns=(
        Column("parcel_id"),
        Column("stream_id"),
        Column("state"),
        Column("weight", "integer"),
        Column("place", required=False),
        Column("due_ms", "integer", required=False),
        Column("mark", "blob", required=False),
        Column("opened_sequence", "integer", required=False),
        Column("opened_ms", "integer", required=False),
    ),
    key=("parcel_id",),
    indexes={
        "by_state": ("state",),
        "by_stream": ("stream_id", "state", "weight"),
        "by_due": ("due_ms",),
        "by_place": ("place", "due_ms"),
        "by_mark": ("mark",),
    },
)
"""A table with every column type, columns that may be empty, and indexes of one to three columns."""

SHELF = TableSpec(
    name="sample_shelf",
    columns=(Column("hall"), Column("number", "integer"), Column("note", required=False)),
    key=("hall", "number"),
    stream_column=None,
)
"""A table with a key of two columns that belongs to no stream and has no state."""

GATE = TableSpec(
    name="sample_gate",
    columns=(Column("gate_id"), Column("state")),
    key=("gate_id",),
    stream_column=None,
    watched=True,
)
"""A table that many units guard and few change."""

NOTE = TableSpec(
    name="sample_note",
    columns=(Column("stream_id"), Column("name"), Column("box", "blob")),
    key=("stream_id", "name"),
    truth=True,
)
"""A table of truth, written only beside events."""

SAMPLE_TABLES = (PARCEL, SHELF, GATE, NOTE)

ErrorType = TypeVar("ErrorType", bound=CounterfoilError)


def parcel(parcel_id: str, stream_id: CellSource = "str_none", **values: CellSource) -> Put:
    """Puts a parcel; ``state`` is ``packed`` and ``weight`` 1 unless given."""
    cells: dict[str, CellSource] = {
        "parcel_id": parcel_id,
        "stream_id": stream_id,
        "state": "packed",
        "weight": 1,
    }
    return Put(PARCEL.name, cells | values)


class ContractCase(ABC):
    """Opens a fresh store before each test and closes it after."""

    store: Store
    clock: ManualClock
    ids: SequentialIds
    directory: Path

    @abstractmethod
    def open_store(self, directory: Path, tables: Sequence[TableSpec], clock: ManualClock) -> Store:
        """Open the store in ``directory``, making it the first time."""

    @pytest.fixture(autouse=True)
    def _opened_store(self, tmp_path: Path) -> Iterator[None]:
        self.clock = ManualClock()
        self.ids = SequentialIds()
        self.directory = tmp_path / "ledger"
        self.store = self.open_another()
        yield
        self.store.close()

    def open_another(self) -> Store:
        """One more handle on the same ledger, or the same ledger again after ``close``."""
        return self.open_store(self.directory, self.tables(), self.clock)

    def reopen(self) -> None:
        """Close the store and open the same ledger again."""
        self.store.close()
        self.store = self.open_another()

    def tables(self) -> Sequence[TableSpec]:
        """The tables that the suite's rows live in."""
        return SAMPLE_TABLES

    def need(self, capability: str) -> None:
        """Skip the test unless the adapter has this capability."""
        if not getattr(self.store.capabilities, capability):
            pytest.skip(f"{self.store.capabilities.engine} has not the capability {capability!r}")

    def new_stream(self, events: int = 0, tenant: str = "default") -> SampleStream:
        """A stream that exists in the store, with this many events."""
        stream = SampleStream(self.ids, tenant=tenant)
        self.append(stream.unit(*stream.events(events), create=True))
        return stream

    def outcomes(self, *units: Unit) -> list[Outcome]:
        """What the store answers to one append of these units."""
        return self.store.append(units).result(DEADLINE_S)

    def append(self, unit: Unit) -> Receipt:
        """The receipt of one unit; its refusal is raised."""
        (outcome,) = self.outcomes(unit)
        if isinstance(outcome, Refusal):
            raise outcome.error
        return outcome

    def refused(self, unit: Unit, kind: type[ErrorType]) -> ErrorType:
        """The error that refuses this unit, which must be of this kind and leave the ledger as it was."""
        before = everything(self.store)
        (outcome,) = self.outcomes(unit)
        assert isinstance(outcome, Refusal), f"expected {kind.__name__}, got {outcome}"
        assert type(outcome.error) is kind, f"expected {kind.__name__}, got {outcome.error!r}"
        assert everything(self.store) == before, "a refused unit changed the ledger"
        return outcome.error


def everything(reader: Reader) -> tuple[object, ...]:
    """All that can be read of a small ledger: streams, heads, events and rows."""
    return (
        reader.streams(limit=10_000),
        [reader.read(stored.stream_id, limit=10_000) for stored in reader.streams(limit=10_000)],
        reader.select(PARCEL.name, limit=10_000),
        reader.select(SHELF.name, limit=10_000),
        reader.select(NOTE.name, limit=10_000),
    )


def all_events(reader: Reader, page: int = 1000) -> list[StoredEvent]:
    """Every event of the feed, page by page."""
    found: list[StoredEvent] = []
    cursor = b""
    while True:
        answer = reader.feed(cursor, page)
        found.extend(answer.events)
        cursor = answer.cursor
        if answer.caught_up:
            return found
