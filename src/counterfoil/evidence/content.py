"""Sealed records of one stream: digests, openings, and what became of those that are not there (FORMAT 6)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from counterfoil.core.chain import Erasures
from counterfoil.core.event import Header, read_header
from counterfoil.core.genesis import Genesis
from counterfoil.core.keyed import KeyMaterial
from counterfoil.core.records import open_record
from counterfoil.errors import (
    ContentDamaged,
    CounterfoilError,
    KeyDamaged,
    KeyMissing,
    KeyStoreMissing,
    KeyWithheld,
)
from counterfoil.evidence.collector import Collector
from counterfoil.evidence.raw import Parts, RawEvent
from counterfoil.evidence.report import Counts
from counterfoil.keys.keyring import Keyring
from counterfoil.store.contract import Reader

DELETED: Final = "deletion.completed"
PAGE: Final = 200


def parts_of(header: Header) -> Parts:
    """The parts of a header that was read strictly."""
    return tuple(text for part in header.content for text in (part.commitment, part.key or "", part.sha256))


def erasures(reader: Reader, stream_id: str) -> Erasures:
    """Read the certificates of a stream; only done when something is missing from it."""
    found = Erasures()
    for header in _certificates(reader, stream_id):
        found.add(header.data)
    return found


def _certificates(reader: Reader, stream_id: str) -> Iterator[Header]:
    last = 0
    while events := reader.read(stream_id, last, PAGE, frozenset({DELETED}), content=False):
        last = events[-1].sequence
        for event in events:
            try:
                header = read_header(event.header)
            except CounterfoilError:
                continue  # the walk names it
            if header.event_type == DELETED and "certificate" in header.data:
                yield header


class Records:
    """Checks the records of one stream, each by its digest and, if told to, by opening it.

    ``begin`` takes an event with its first record, ``take`` its further ones, ``close`` ends the last event.
    """

    def __init__(self, keys: StreamKeys, collector: Collector, counts: Counts, *, opening: bool) -> None:
        self._keys = keys
        self._stream_id = keys.genesis.stream_id
        self._stream_key = keys.genesis.key
        self._mode = keys.genesis.content
        self._collector = collector
        self._counts = counts
        self._opening = opening
        self._row: RawEvent = ()
        self._parts: Parts | None = None
        self._missing: set[int] = set()

    def begin(self, parts: Parts | None, row: RawEvent) -> None:
        """Start with the next event; ``parts`` is None where its header cannot be trusted, and nothing is checked."""
        if self._missing:
            self._name_missing()
        self._parts = parts
        self._row = row
        if parts is None:
            return
        record = row[9]
        if len(parts) == 3 and row[8] == 0 and type(record) is bytes:
            self._check(parts, 0, record, row)
            return
        self._missing = set(range(len(parts) // 3))
        if row[8] is not None:
            self.take(row)

    def take(self, row: RawEvent) -> None:
        """Check one more record of the event that was begun."""
        parts, part, record = self._parts, row[8], row[9]
        if parts is None:
            return
        if part not in self._missing:
            what = "a record stands beside this event that its header does not name"
            self._fault("inserted", what, row)
            return
        self._missing.discard(part)
        self._check(parts, part, record, row)

    def close(self) -> None:
        """End the last event of the stream."""
        if self._missing:
            self._name_missing()

    def _check(self, parts: Parts, part: int, record: object, row: RawEvent) -> None:
        at = 3 * part
        if type(record) is not bytes or hashlib.sha256(record).hexdigest() != parts[at + 2]:
            self._fault(
                "content_damaged", f"the record of part {part} has not the digest that its header names", row
            )
            return
        self._counts.records_by_digest += 1
        if not self._opening:
            return
        key_id = parts[at + 1] or self._stream_key
        material = self._keys.material(key_id, row[1])
        if material is None and self._mode == "sealed":
            self._counts.records_erased += self._keys.unopened(key_id)
            return
        try:
            open_record(material, "content", (row[2], part), record, parts[at], mode=self._mode)
        except ContentDamaged as error:
            self._fault("content_damaged", f"part {part}: {error.message}", row)
        else:
            self._counts.records_opened += 1

    def _name_missing(self) -> None:
        """Say what became of records that the header names and that did not come."""
        parts, row = self._parts or (), self._row
        for part in sorted(self._missing):
            key_id = parts[3 * part + 1] or self._stream_key
            if self._keys.erased(key_id, row[1], row[3]):
                self._counts.records_erased += 1
                continue
            what = f"the record of part {part} is not in the store, and no certificate says why"
            self._fault("content_missing", what, row)
        self._missing = set()

    def _fault(self, kind: str, what: str, row: RawEvent) -> None:
        self._collector.fault(kind, what, self._stream_id, row[1])


class StreamKeys:
    """The keys that one stream names, each looked up once; one that is gone or damaged is named once.

    ``named`` collects the ids of keys that were named, for the check of the key store itself.
    """

    def __init__(
        self, reader: Reader, genesis: Genesis, collector: Collector, keyring: Keyring | None, named: set[str]
    ) -> None:
        self._reader = reader
        self.genesis = genesis
        self._collector = collector
        self._keyring = keyring
        self._named = named
        self._materials: dict[str, KeyMaterial | None] = {}
        self._reasons: dict[str, str] = {}
        self._erasures: Erasures | None = None

    def material(self, key_id: str, sequence: int) -> KeyMaterial | None:
        """The key's material, or None where there is none at hand."""
        if key_id not in self._materials:
            self._materials[key_id] = self._look_up(key_id, sequence)
        return self._materials[key_id]

    def unopened(self, key_id: str) -> int:
        """Count a record that was not opened for want of its key: 1 if that key was erased, else 0."""
        reason = self._reasons.get(key_id)
        if reason is None:
            return 1
        self._collector.leave_out("the content of records", reason, 1)
        return 0

    def erased(self, key_id: str, sequence: int = 0, event_type: str = "") -> bool:
        """Whether a certificate of this stream says that this content, or all under this key, is gone."""
        if self._erasures is None:
            self._erasures = erasures(self._reader, self.genesis.stream_id)
        return self._erasures.certificate(sequence, event_type, key_id) is not None

    def _look_up(self, key_id: str, sequence: int) -> KeyMaterial | None:
        if self._keyring is None:
            self._reasons[key_id] = "no keys were given"
            return None
        try:
            material = self._keyring.material(key_id)
        except (KeyWithheld, KeyStoreMissing) as error:
            self._reasons[key_id] = error.message
            return None
        except KeyMissing:
            if not self.erased(key_id):
                self._reasons[key_id] = "their data key is missing"
                what = f"the data key {key_id} is absent and no certificate says why: what it encrypts cannot be read"
                self._name(key_id, "content_missing", what, sequence)
            return None
        except KeyDamaged as error:
            self._reasons[key_id] = "their data key is damaged"
            self._name(key_id, "key_damaged", error.message, sequence)
            return None
        if material.stream_id != self.genesis.stream_id:
            self._reasons[key_id] = "their data key is one of another stream"
            what = f"the data key {key_id} is one of another stream"
            self._name(key_id, "key_damaged", what, sequence)
            return None
        return material

    def _name(self, key_id: str, kind: str, what: str, sequence: int) -> None:
        self._named.add(key_id)
        self._collector.fault(kind, what, self.genesis.stream_id, sequence)
