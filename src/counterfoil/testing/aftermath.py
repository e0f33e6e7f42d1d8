"""What must hold of a ledger after its writers were killed or its disk failed, whatever they were doing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from counterfoil.adapters.sqlite import open_sqlite
from counterfoil.core.event import event_hash, read_header
from counterfoil.core.genesis import genesis_hash
from counterfoil.errors import CounterfoilError
from counterfoil.store.contract import Reader
from counterfoil.store.rows import CellSource, Column, Put, SequenceOf, TableSpec
from counterfoil.store.unit import StoredEvent, StreamAppend, Unit
from counterfoil.testing.events import SampleStream
from counterfoil.testing.manual import SequentialIds

SAMPLE_TABLE = TableSpec(
    name="sample_record",
    columns=(Column("event_id"), Column("stream_id"), Column("opened", "integer")),
    key=("event_id",),
    indexes={"by_stream": ("stream_id", "opened")},
)
"""One row for each event, written in the event's own unit: a row without its event, or the reverse, is a torn unit."""

PAGE = 500


def sample_stream(number: int) -> SampleStream:
    """The invented stream of this number, the same in every process."""
    return SampleStream(SequentialIds(f"soak stream {number}"))


def sample_unit(streams: Sequence[SampleStream], event_ids: Sequence[str], *, create: bool = False) -> Unit:
    """One event for each stream with the ids given; made again, it is the same unit byte for byte."""
    parts, rows = [], []
    for stream, event_id in zip(streams, event_ids, strict=True):
        event = stream.event(event_id, event_id=event_id)
        parts.append(StreamAppend(stream.stream_id, (event,), create=stream.genesis if create else None))
        values: dict[str, CellSource] = {
            "event_id": event_id,
            "stream_id": stream.stream_id,
            "opened": SequenceOf(event_id),
        }
        rows.append(Put(SAMPLE_TABLE.name, values))
    return Unit(tuple(parts), rows=tuple(rows))


class Aftermath:
    """Reads a ledger again and again, going on where it stopped, and gathers what is wrong with it."""

    def __init__(self, directory: Path) -> None:
        self.problems: list[str] = []
        self.present: dict[str, int] = {}
        self._directory = directory
        self._ends: dict[str, tuple[int, bytes]] = {}

    def look(self) -> None:
        """Check everything recorded since the last look: chain, ids, rows, head, strays."""
        store = open_sqlite(self._directory, tables=(SAMPLE_TABLE,), read_only=True)
        try:
            with store.snapshot() as reader:
                for stream in reader.streams(limit=1000):
                    if stream.stream_id not in self._ends:
                        self._ends[stream.stream_id] = (0, genesis_hash(stream.genesis))
                    self._read_on(reader, stream.stream_id)
                    if self._ends[stream.stream_id] != (stream.head.sequence, stream.head.hash):
                        self._say(f"the head row of {stream.stream_id} is not its last event")
                for stray in reader.strays():
                    self._say(f"{stray.table}: {stray.what}")
        finally:
            store.close()

    def _read_on(self, reader: Reader, stream_id: str) -> None:
        while page := reader.read(stream_id, after=self._ends[stream_id][0], limit=PAGE):
            for stored in page:
                self._check_event(reader, stored)

    def _check_event(self, reader: Reader, stored: StoredEvent) -> None:
        where = f"{stored.stream_id} {stored.sequence}"
        sequence, previous = self._ends[stored.stream_id]
        if stored.sequence != sequence + 1:
            self._say(f"{where} follows {sequence}")
        if event_hash(stored.header) != stored.hash:
            self._say(f"{where} has another hash than its header")
        try:
            if read_header(stored.header).previous_event_hash != previous.hex():
                self._say(f"{where} does not link to {sequence}")
        except CounterfoilError as error:
            self._say(f"{where} has no valid header: {error}")
        if stored.event_id in self.present:
            self._say(f"{stored.event_id} is recorded twice")
        row = reader.get(SAMPLE_TABLE.name, (stored.event_id,))
        if row is None or row["opened"] != stored.sequence or row["row_version"] != 1:
            self._say(f"{where} has the row {row}")
        if len(stored.content) != 1:
            self._say(f"{where} has {len(stored.content)} records")
        self.present[stored.event_id] = stored.sequence
        self._ends[stored.stream_id] = (stored.sequence, stored.hash)

    def expect(self, *, acknowledged: Iterable[str], refused: Iterable[str] = ()) -> None:
        """Acknowledged events are there; those refused for good are not."""
        for event_id in acknowledged:
            if event_id not in self.present:
                self._say(f"{event_id} was acknowledged and is lost")
        for event_id in refused:
            if event_id in self.present:
                self._say(f"{event_id} was refused and is recorded")

    def _say(self, problem: str) -> None:
        self.problems.append(problem)
