"""Sealed records of one stream: digests, openings, and what became of those that are not there (FORMAT 6)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from counterfoil.core.chain import UNLISTED, Erasures
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
from counterfoil.evidence.companions import CompanionCheck
from counterfoil.evidence.raw import Parts, RawEvent
from counterfoil.evidence.report import Counts
from counterfoil.keys.keyring import Keyring
from counterfoil.store.contract import Reader

DELETED: Final = "deletion.completed"
PAGE: Final = 200


def parts_of(header: Header) -> Parts:
    """The parts of a header that was read strictly."""
    return tuple(text for part in header.content for text in (part.commitment, part.key, part.sha256))


class Certificates:
    """What the certificates of one stream say is gone; read only when something is missing from it."""

    def __init__(self, reader: Reader, stream_id: str) -> None:
        self._reader = reader
        self._stream_id = stream_id
        self._erasures: Erasures | None = None

    def cover(self, key_id: str, sequence: int = 0, event_type: str = "") -> str | None:
        """The id of one that says that this content, or all under this key, is gone; None if there is none."""
        return self._read().certificate(sequence, event_type, key_id)

    def cover_object(self, sha256: str) -> str | None:
        """The id of one that says that this object of an artifact is gone; None if there is none."""
        return self._read().object_certificate(sha256)

    def _read(self) -> Erasures:
        if self._erasures is None:
            self._erasures = Erasures()
            for header in self._headers():
                self._erasures.add(header.data)
        return self._erasures

    def _headers(self) -> Iterator[Header]:
        last, types = 0, frozenset({DELETED})
        while events := self._reader.read(self._stream_id, last, PAGE, types, content=False):
            last = events[-1].sequence
            for event in events:
                try:
                    header = read_header(event.header)
                except CounterfoilError:
                    continue  # the walk names it
                if header.event_type == DELETED and "certificate" in header.data:
                    yield header


class Records:
    """Checks the records of one stream, each by its digest and, where ``keys`` are given, by opening it.

    ``stream_key`` is None where the genesis that names it cannot be trusted. ``begin`` takes an event with its first
    record, ``take`` its further ones, ``close`` ends the last event.
    """

    def __init__(
        self,
        stream_id: str,
        stream_key: str | None,
        certificates: Certificates,
        collector: Collector,
        counts: Counts,
        keys: StreamKeys | None,
        companions: CompanionCheck | None = None,
    ) -> None:
        self._companions = companions
        self._stream_id = stream_id
        self._stream_key = stream_key or ""
        self._certificates = certificates
        self._collector = collector
        self._counts = counts
        self._keys = keys
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
        part, record = row[8], row[9]
        if len(parts) == 3 and part == 0:
            self._check(parts, 0, record)
            return
        self._missing = set(range(len(parts) // 3))
        if part is not None:
            self.take(row)

    def take(self, row: RawEvent) -> None:
        """Check one more record of the event that was begun."""
        parts, part = self._parts, row[8]
        if parts is None:
            return
        if part in self._missing:
            self._missing.discard(part)
            self._check(parts, part, row[9])
        else:
            self._fault("inserted", UNLISTED)

    def close(self) -> None:
        """End the last event of the stream."""
        if self._missing:
            self._name_missing()
        if self._keys is not None:
            self._keys.material(self._keys.genesis.key, 0)
        if self._companions is not None:
            self._companions.finish()

    def _check(self, parts: Parts, part: int, record: object) -> None:
        at = 3 * part
        if type(record) is not bytes or hashlib.sha256(record).hexdigest() != parts[at + 2]:
            self._fault(
                "content_damaged", f"the record of part {part} has not the digest that its header names"
            )
            return
        self._counts.records_by_digest += 1
        if self._keys is None:
            return
        what = self._keys.open(self._row[2], part, record, parts[at], parts[at + 1], self._row[1])
        if what is None:
            self._counts.records_opened += 1
            if part and self._companions is not None:
                self._companions.take((*self._row[:8], part, record), parts)
        elif what:
            self._fault("content_damaged", f"part {part}: {what}")

    def _name_missing(self) -> None:
        """Say what became of records that the header names and that did not come."""
        for part in sorted(self._missing):
            key_id = (self._parts or ())[3 * part + 1] or self._stream_key
            if self._certificates.cover(key_id, self._row[1], self._row[3]):
                self._counts.records_erased += 1
                continue
            what = f"the record of part {part} is not in the store, and no certificate says why"
            self._fault("content_missing", what)
        self._missing = set()

    def _fault(self, kind: str, what: str) -> None:
        self._collector.fault(kind, what, self._stream_id, self._row[1])


class StreamKeys:
    """The keys that one stream names; one that is gone or damaged is looked up and named once.

    Those at hand are kept by the keyring alone, which forgets them in time however long the walk is (FORMAT 11).
    ``named`` collects the ids of keys that were named, for the check of the key store itself. ``keyless`` is a stream
    that was imported without its keys: they are not missing here (FORMAT 14).
    """

    def __init__(
        self,
        genesis: Genesis,
        keyring: Keyring | None,
        certificates: Certificates,
        collector: Collector,
        named: set[str],
        *,
        keyless: bool = False,
    ) -> None:
        self.genesis = genesis
        self._keyless = keyless
        self._keyring = keyring
        self._certificates = certificates
        self._collector = collector
        self._named = named
        self._absent: set[str] = set()
        self._reasons: dict[str, str] = {}

    def open(
        self,
        event_id: str,
        part: int,
        record: bytes,
        commitment: str | None,
        key_id: str | None,
        sequence: int,
    ) -> str | None:
        """Open one record: None if its content is the one committed to, "" without its key, else what is wrong."""
        mode = self.genesis.content
        key_id = key_id or self.genesis.key
        material = self.material(key_id, sequence)
        if material is None and mode == "sealed":
            reason = self._reasons.get(key_id)
            if reason is not None:
                self._collector.leave_out("the content of records", reason, 1)
            return ""
        try:
            open_record(material, "content", (event_id, part), record, commitment or "", mode=mode)
        except ContentDamaged as error:
            return error.message
        return None

    def material(self, key_id: str, sequence: int) -> KeyMaterial | None:
        """The key's material, or None where there is none at hand; ``sequence`` is the event that asks for it."""
        if key_id in self._absent:
            return None
        material = self._look_up(key_id, sequence)
        if material is None:
            self._absent.add(key_id)
        return material

    def _look_up(self, key_id: str, sequence: int) -> KeyMaterial | None:
        if self._keyring is None:
            self._reasons[key_id] = "no keys were given"
            return None
        try:
            material = self._keyring.material(key_id)
        except (KeyWithheld, KeyStoreMissing) as error:
            self._reasons[key_id] = error.message
        except KeyMissing:
            if self._keyless:
                self._reasons[key_id] = "it was imported without its keys"
            elif not self._certificates.cover(key_id):
                what = f"the data key {key_id} is absent and no certificate says why: what it encrypts cannot be read"
                self._name(key_id, "content_missing", what, sequence, "their data key is missing")
        except KeyDamaged as error:
            self._name(key_id, "key_damaged", error.message, sequence, "their data key is damaged")
        else:
            if material.stream_id == self.genesis.stream_id:
                return material
            what = f"the data key {key_id} is one of another stream"
            self._name(key_id, "key_damaged", what, sequence, "their data key is one of another stream")
        return None

    def _name(self, key_id: str, kind: str, what: str, sequence: int, reason: str) -> None:
        self._reasons[key_id] = reason
        self._named.add(key_id)
        self._collector.fault(kind, what, self.genesis.stream_id, sequence)
