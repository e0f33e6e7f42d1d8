"""Artifacts under verification: each object that an event stored, by its name and, with its key, by its content."""

from __future__ import annotations

import hashlib
from typing import Final

from counterfoil.abc.artifacts import ArtifactStore
from counterfoil.core.artifact import PUBLIC, Opener, Reference, reference_of
from counterfoil.core.event import read_header
from counterfoil.core.genesis import Genesis
from counterfoil.core.keyed import KeyMaterial
from counterfoil.errors import (
    ArtifactDamaged,
    ArtifactUnavailable,
    CounterfoilError,
    KeyDamaged,
    KeyMissing,
    KeyStoreMissing,
    KeyWithheld,
    StoreError,
)
from counterfoil.evidence.collector import Collector
from counterfoil.evidence.content import Certificates
from counterfoil.evidence.raw import RawEvent
from counterfoil.evidence.report import Counts, Level
from counterfoil.keys.keyring import Keyring

STORING: Final = frozenset({"artifact.stored", "artifact.spilled"})
"""Types whose events say that an object is there; what other events name was stored by one of these."""

SEEN_MAX: Final = 100_000
"""Objects remembered as looked at, so that one that is named often is read once; beyond it some are read again."""

SHOWN_HEX: Final = 12


class ArtifactCheck:
    """Reads every object that the events of a verification stored, each once, piece by piece."""

    def __init__(
        self,
        store: ArtifactStore | None,
        keyring: Keyring | None,
        level: Level,
        collector: Collector,
        counts: Counts,
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._level: Level = level
        self._collector = collector
        self._counts = counts
        self._seen: dict[bytes, tuple[str, str] | None] = {}
        if level == "chain":
            collector.leave_out("artifacts", "the level was chain")
        elif store is None:
            collector.leave_out("artifacts", "nobody said where they lie")

    def take(self, row: RawEvent, genesis: Genesis | None, certificates: Certificates) -> None:
        """Check what the event of this row stored. A header that cannot be read is named by the walk."""
        if self._store is None or self._level == "chain":
            return
        try:
            header = read_header(row[6])
        except CounterfoilError:
            return
        for member in header.artifact_refs:
            reference = reference_of(member, "" if genesis is None else genesis.key)
            self._take(self._store, reference, header.stream_id, row, certificates)

    def _take(
        self,
        store: ArtifactStore,
        reference: Reference,
        stream_id: str,
        row: RawEvent,
        certificates: Certificates,
    ) -> None:
        name = bytes.fromhex(reference.sha256)
        if name not in self._seen:
            if len(self._seen) >= SEEN_MAX:
                self._seen.clear()
            self._seen[name] = self._look(store, reference)
        fault = self._seen[name]
        if fault is None:
            return
        kind, what = fault
        gone = kind == "content_missing" and (
            certificates.cover_object(reference.sha256)
            or certificates.cover(reference.key or "", int(row[1]), str(row[3]))
        )
        if gone:
            self._counts.artifacts_erased += 1
            return
        shown = f"artifact {reference.sha256[:SHOWN_HEX]}… ({reference.kind}, {reference.klass}) {what}"
        self._collector.fault(kind, shown, stream_id, int(row[1]))

    def _look(self, store: ArtifactStore, reference: Reference) -> tuple[str, str] | None:
        """Read one object whole: the code of what is wrong with it and words for it, or None."""
        opener = self._opener(reference)
        digest, fault = hashlib.sha256(), ""
        try:
            for piece in store.read(reference.sha256):
                digest.update(piece)
                if opener is not None and not fault:
                    fault = _fault(opener, piece)
        except ArtifactUnavailable:
            return "content_missing", "is not in the store, and no certificate says why"
        except StoreError as error:
            return "content_damaged", f"cannot be read: {error.message}"
        self._counts.artifacts += 1
        if digest.hexdigest() != reference.sha256:
            return "content_damaged", "has not the digest that names it"
        if opener is None:
            return None
        fault = fault or _fault(opener, None)
        if fault:
            return "content_damaged", f"does not open: {fault}"
        self._counts.artifacts_opened += 1
        return None

    def _opener(self, reference: Reference) -> Opener | None:
        if self._level != "content" or reference.klass == PUBLIC:
            return None
        material = self._material(reference)
        return None if material is None else Opener(material, reference.address)

    def _material(self, reference: Reference) -> KeyMaterial | None:
        """The key, or None where it is not at hand; a key that is gone or damaged is named where records need it."""
        why = "no keys were given"
        if self._keyring is not None and reference.key:
            try:
                return self._keyring.material(reference.key)
            except (KeyMissing, KeyDamaged, KeyWithheld, KeyStoreMissing) as error:
                why = error.message
        self._collector.leave_out("the content of artifacts", why, 1)
        return None


def _fault(opener: Opener, piece: bytes | None) -> str:
    try:
        if piece is None:
            opener.finish()
        else:
            opener.update(piece)
    except ArtifactDamaged as error:
        return error.message
    return ""
