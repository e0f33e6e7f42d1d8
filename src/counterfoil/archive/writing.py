"""Export: conversations from one snapshot into an archive, streaming, naming what is damaged and going on (FORMAT 15)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct, field

from counterfoil.abc.artifacts import ArtifactStore
from counterfoil.archive.lines import (
    end_line,
    event_line,
    first_line,
    object_line,
    row_line,
    stream_line,
)
from counterfoil.archive.place import LINES, OBJECTS, Sink
from counterfoil.companions.rows import COMPANIONS
from counterfoil.core.catalogue import Registry
from counterfoil.core.chain import ChainState, Erasures, Fault
from counterfoil.core.event import Header, read_header
from counterfoil.core.genesis import Genesis, parse_genesis
from counterfoil.errors import ArtifactUnavailable, ConfigInvalid, CounterfoilError, StreamNotFound
from counterfoil.store.contract import Reader
from counterfoil.store.rows import Key
from counterfoil.store.unit import Head, StoredEvent

PAGE_BYTES: Final = 8 * 1024 * 1024
PAGE_EVENTS_MAX: Final = 500
PAGE_EVENTS_FIRST: Final = 16
FAULTS_MAX: Final = 100
"""Faults told of one export; further ones are counted."""

STORING: Final = frozenset({"artifact.stored", "artifact.spilled"})
_ROW: Final = ("name", "key", "commitment", "record")
COMPLETED: Final = frozenset({"deletion.completed"})

Progress = Callable[[int, int | None], None]
"""Told how many events are done, of how many."""


class ExportedStream(Struct, frozen=True):
    """What of a stream went out: the text that began it, and where it ended."""

    stream_id: str
    genesis_hash: str
    up_to_sequence: int
    head: str


class Exported(Struct):
    """What an archive holds. ``sha256`` is of its lines, which name the artifacts; ``faults`` is what was damaged."""

    sha256: str = ""
    lines: int = 0
    bytes: int = 0
    events: int = 0
    records: int = 0
    erased: int = 0
    rows: int = 0
    objects: int = 0
    object_bytes: int = 0
    streams: list[ExportedStream] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    faults_dropped: int = 0

    def found(self, faults: Sequence[Fault]) -> None:
        """Take note of faults."""
        room = max(0, FAULTS_MAX - len(self.faults))
        self.faults += faults[:room]
        self.faults_dropped += len(faults[room:])

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return {
            "sha256": self.sha256,
            "streams": [
                {
                    "stream_id": stream.stream_id,
                    "genesis": stream.genesis_hash,
                    "up_to_sequence": stream.up_to_sequence,
                    "head": stream.head,
                }
                for stream in self.streams
            ],
            "lines": self.lines,
            "bytes": self.bytes,
            "events": self.events,
            "records": self.records,
            "erased": self.erased,
            "rows": self.rows,
            "objects": self.objects,
            "object_bytes": self.object_bytes,
            "faults": [fault._asdict() for fault in self.faults],
            "faults_dropped": self.faults_dropped,
        }


def export(
    reader: Reader,
    stream_ids: Sequence[str],
    sink: Sink,
    artifacts: ArtifactStore | None,
    registry: Registry | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write these streams, in the order of their ids, and the objects that they stored.

    ``reader`` is a snapshot. What is damaged goes out as it is stored and is named; such an archive comes in again
    only with ``accept_damaged``. Raises StreamNotFound, GenesisInvalid for a stream whose genesis cannot be read, and
    ConfigInvalid where artifacts are named and nobody said where they lie.
    """
    return _Export(reader, sink, artifacts, registry or Registry(), progress).run(sorted(set(stream_ids)))


def pages(reader: Reader, stream_id: str, after: int = 0) -> Iterator[list[StoredEvent]]:
    """A stream's events page by page; a page is made small where its records are large."""
    count = PAGE_EVENTS_FIRST
    while page := reader.read(stream_id, after, count):
        yield page
        after = page[-1].sequence
        size = sum(len(event.header) + sum(map(len, filter(None, event.content))) for event in page)
        if size > PAGE_BYTES:
            count = max(1, count // 2)
        elif size < PAGE_BYTES // 4:
            count = min(PAGE_EVENTS_MAX, count * 2)


def erasures_of(reader: Reader, stream_id: str) -> Erasures:
    """What the certificates of a stream account for."""
    found, after = Erasures(), 0
    while page := reader.read(stream_id, after, PAGE_EVENTS_MAX, COMPLETED, content=False):
        after = page[-1].sequence
        for event in page:
            header = _readable(event.header)
            if header is not None:
                found.add(header.data)
    return found


class _Export:
    def __init__(
        self,
        reader: Reader,
        sink: Sink,
        artifacts: ArtifactStore | None,
        registry: Registry,
        progress: Progress | None,
    ) -> None:
        self._reader = reader
        self._sink = sink
        self._artifacts = artifacts
        self._registry = registry
        self._progress = progress
        self._digest = hashlib.sha256()
        self._total = 0
        self._objects: set[bytes] = set()
        self._heads: dict[str, Head] = {}
        self._done = Exported()

    def run(self, stream_ids: Sequence[str]) -> Exported:
        done = self._done
        begun = [self._begin(stream_id) for stream_id in stream_ids]
        self._total = sum(events for _, events in begun)
        self._sink.begin(LINES)
        self._put(first_line(len(begun)))
        for genesis, events in begun:
            self._stream(genesis, events)
        sizes = self._object_lines()
        self._put(end_line(done.lines, self._digest.hexdigest()))
        self._sink.end()
        done.sha256 = self._digest.hexdigest()
        for name, size in sizes:
            self._object(name, size)
        return done

    def _begin(self, stream_id: str) -> tuple[Genesis, int]:
        stored = self._reader.stream(stream_id)
        if stored is None:
            raise StreamNotFound(f"there is no stream {stream_id}", stream_id=stream_id)
        # Counted, not believed: where events are missing the head row says more than there are.
        count = after = 0
        while page := self._reader.read(stream_id, after, PAGE_EVENTS_MAX, content=False):
            count, after = count + len(page), page[-1].sequence
        self._heads[stream_id] = stored.head
        return parse_genesis(stored.genesis), count

    def _stream(self, genesis: Genesis, events: int) -> None:
        done, last = self._done, genesis.hash
        erasures = erasures_of(self._reader, genesis.stream_id)
        chain = ChainState(genesis, self._registry, erasures=erasures)
        self._put(stream_line(genesis.text, events))
        for page in pages(self._reader, genesis.stream_id):
            for event in page:
                done.found(chain.step(event))
                self._event(event, genesis, erasures)
                last = event.hash
            if self._progress is not None:
                self._progress(done.events + chain.events, self._total)
        self._rows(genesis.stream_id)
        head = self._heads[genesis.stream_id]
        done.found(chain.finish(head.sequence, head.hash))
        done.events += chain.events
        done.records += chain.records
        done.erased += chain.erased
        done.streams.append(ExportedStream(genesis.stream_id, genesis.hash.hex(), chain.events, last.hex()))

    def _rows(self, stream_id: str) -> None:
        """The companions of a stream, which no event gives again; by table and key."""
        after: Key | None = None
        while page := self._reader.select(COMPANIONS.name, None, (stream_id,), after, PAGE_EVENTS_MAX):
            for row in page:
                name, key, commitment, record = (row[column] for column in _ROW)
                assert isinstance(record, bytes)
                self._put(row_line(str(name), str(key), str(commitment), record))
                self._done.rows += 1
            after = tuple(page[-1][name] for name in COMPANIONS.key)

    def _event(self, event: StoredEvent, genesis: Genesis, erasures: Erasures) -> None:
        header = _readable(event.header)
        content = event.content
        if header is not None:
            content = (*content, *[None] * (len(header.content) - len(content)))
            if header.event_type in STORING:
                self._note_objects(header, genesis, erasures)
        self._put(event_line(event.header, content))

    def _note_objects(self, header: Header, genesis: Genesis, erasures: Erasures) -> None:
        """Artifacts that an event stored come along, if they are there."""
        for member in header.artifact_refs:
            name = member["sha256"]
            if self._artifacts is None:
                raise ConfigInvalid(
                    "the conversation has artifacts, and nobody said where they lie",
                    hint="name their directory: counterfoil.open(…, artifacts=DIRECTORY), or `artifacts` in counterfoil.toml",
                )
            if self._artifacts.size(name) is not None:
                self._objects.add(bytes.fromhex(name))
                continue
            key = member.get("key", genesis.key)
            gone = erasures.object_certificate(name) or erasures.certificate(
                header.stream_sequence, header.event_type, key
            )
            if gone is None:
                what = f"artifact {name[:12]}… is missing and no certificate says why"
                self._done.found([Fault("content_missing", genesis.stream_id, header.stream_sequence, what)])

    def _object_lines(self) -> list[tuple[str, int]]:
        sizes = []
        for name in sorted(item.hex() for item in self._objects):
            size = self._artifacts.size(name) if self._artifacts is not None else None
            if size is not None:
                sizes.append((name, size))
                self._put(object_line(name, size))
        return sizes

    def _object(self, name: str, size: int) -> None:
        assert self._artifacts is not None
        digest, written = hashlib.sha256(), 0
        self._sink.begin(f"{OBJECTS}/{name}")
        for piece in self._artifacts.read(name):
            digest.update(piece)
            written += len(piece)
            self._sink.write(piece)
        self._sink.end()
        self._done.objects += 1
        self._done.object_bytes += written
        if written != size:
            raise ArtifactUnavailable(
                f"artifact {name[:12]}… was changed or erased while it was exported",
                hint="export again",
                state="missing",
                sha256=name,
            )
        if digest.hexdigest() != name:
            what = f"artifact {name[:12]}… has not the digest that names it"
            self._done.found([Fault("content_damaged", "", None, what)])

    def _put(self, line: bytes) -> None:
        self._digest.update(line)
        self._done.lines += 1
        self._done.bytes += len(line)
        self._sink.write(line)


def _readable(header: bytes) -> Header | None:
    try:
        return read_header(header)
    except CounterfoilError:
        return None
