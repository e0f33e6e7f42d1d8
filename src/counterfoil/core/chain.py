"""The check of stored events one by one: bytes, shape, place, columns, custody, public fields, records (FORMAT 18)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from counterfoil.core import shape
from counterfoil.core.catalogue import Registry
from counterfoil.core.forms import time_text
from counterfoil.core.genesis import LEAF, Genesis
from counterfoil.core.header import parse_event_header
from counterfoil.core.links import Fault, Link, Links
from counterfoil.errors import HeaderInvalid, InvalidForm, UnknownFormat

__all__ = ["ChainState", "Erasures", "Fault", "Notice", "StoredColumns"]

NOTICES_MAX: Final = 1000
"""Notices kept of one stream; further ones are counted."""

_NO_FAULTS: Final[Sequence[Fault]] = ()
_sha256 = hashlib.sha256


class StoredColumns(Protocol):
    """An event as a store hands it out; ``content[i]`` is the record of part i, None where it is gone."""

    @property
    def stream_id(self) -> str:
        """Id of the stream the row belongs to."""
        ...

    @property
    def sequence(self) -> int:
        """The sequence column."""
        ...

    @property
    def event_id(self) -> str:
        """The event id column."""
        ...

    @property
    def event_type(self) -> str:
        """The event type column."""
        ...

    @property
    def run_id(self) -> str | None:
        """The run column, None where the event has no run."""
        ...

    @property
    def recorded_at_ms(self) -> int:
        """The column of recorded_at, milliseconds since the epoch."""
        ...

    @property
    def header(self) -> bytes:
        """The exact header bytes."""
        ...

    @property
    def hash(self) -> bytes:
        """The stored hash, 32 bytes."""
        ...

    @property
    def content(self) -> tuple[bytes | None, ...]:
        """The records, None where one is gone; may end at the last one present."""
        ...


class Notice(NamedTuple):
    """Something to look at that breaks nothing: a clock that went back, a type this build does not know."""

    kind: str
    stream_id: str
    sequence: int
    what: str


class Erasures:
    """What the certificates of one stream account for: fed with the ``data`` of its ``deletion.completed`` events."""

    __slots__ = ("_keys", "_ranges")

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}
        self._ranges: list[tuple[int, int, frozenset[str] | None, str]] = []

    def add(self, data: Mapping[str, Any]) -> None:
        """Take one completed deletion into account."""
        certificate = data["certificate"]
        if "key" in data:
            self._keys[data["key"]] = certificate
        elif "from_sequence" in data:
            types = frozenset(data["types"]) if "types" in data else None
            self._ranges.append((data["from_sequence"], data["to_sequence"], types, certificate))

    def certificate(self, sequence: int, event_type: str, key: str) -> str | None:
        """The certificate under which the content of this event under this key is gone, or None."""
        found = self._keys.get(key)
        if found is not None:
            return found
        for first, last, types, certificate in self._ranges:
            if first <= sequence <= last and (types is None or event_type in types):
                return certificate
        return None


class ChainState:
    """Checks one stream, row by row in the order of the sequence column, in bounded memory.

    One cause gives one fault, and the scan goes on. Counters tell what was covered: ``events`` read, ``records``
    whose digest was compared, ``erased`` records that a certificate accounts for.
    """

    __slots__ = (
        "_erasures",
        "_genesis",
        "_links",
        "_recorded_at",
        "_registry",
        "erased",
        "events",
        "home",
        "notices",
        "notices_dropped",
        "records",
        "stream_id",
    )

    def __init__(
        self, genesis: Genesis, registry: Registry | None = None, *, erasures: Erasures | None = None
    ) -> None:
        self._genesis = genesis
        self._registry = registry if registry is not None else Registry()
        self._erasures = erasures if erasures is not None else Erasures()
        self._links = Links(genesis.stream_id, genesis.hash.hex())
        self._recorded_at = ""
        self.stream_id = genesis.stream_id
        self.home = genesis.ledger
        self.events = 0
        self.records = 0
        self.erased = 0
        self.notices: list[Notice] = []
        self.notices_dropped = 0

    @property
    def sequence(self) -> int:
        """The last sequence read."""
        return self._links.sequence

    def step(self, event: StoredColumns, *, records: bool = True) -> Sequence[Fault]:
        """Check the next stored event; with ``records`` also the digest of each of its records."""
        self.events += 1
        header = event.header
        if type(header) is not bytes:
            return self._links.unreadable(event.sequence, "edited", "the header column holds no bytes", None)
        digest = _sha256(LEAF + header).digest()
        if digest != event.hash:
            return self._edited(event, digest)
        seen = shape.glance(header)
        if seen is None:
            return self._step_slowly(event, digest, records)
        (
            content,
            text,
            event_id,
            version,
            event_type,
            ignorable,
            _,
            previous,
            recorded_at,
            _,
            run_id,
            home,
            at,
        ) = seen
        links = self._links
        if (
            previous != links.tip
            or home != self.stream_id
            or event.sequence != links.sequence + 1
            or int(at) != event.sequence
            or not links.steady
            or (content is not None and '"key"' in content)
        ):
            return self._step_slowly(event, digest, records)
        data = shape.glance_data(text)
        if data is None:
            return self._step_slowly(event, digest, records)
        links.advance(event.sequence, previous, digest.hex())
        copies = (event_id, event_type, run_id, recorded_at)
        faults = self._check_members(event, copies, int(version), data, ignorable is not None, previous)
        if content is None:
            return self._check_unlisted(event, faults) if event.content else faults
        return self._check_records(event, shape.record_digests(content), None, faults) if records else faults

    def finish(self, head_sequence: int | None = None, head_hash: bytes | None = None) -> Sequence[Fault]:
        """After the last event: what is still undecided, and whether the head row agrees with the events."""
        return self._links.finish(head_sequence, None if head_hash is None else head_hash.hex())

    # ---- the slow way ------------------------------------------------------------------------------------------

    def _edited(self, event: StoredColumns, digest: bytes) -> Sequence[Fault]:
        """The stored bytes do not have the stored hash: one of them was changed, the next event's link tells which."""
        stored = event.hash.hex() if type(event.hash) is bytes else ""
        what = "the stored header does not have the stored hash"
        return self._links.unreadable(event.sequence, "edited", what, (stored, digest.hex()))

    def _step_slowly(self, event: StoredColumns, digest: bytes, records: bool) -> Sequence[Fault]:
        try:
            raw = parse_event_header(event.header)
        except UnknownFormat as unknown:
            return self._links.unreadable(event.sequence, "unknown_format", unknown.message, (digest.hex(),))
        except HeaderInvalid as refused:
            return self._links.unreadable(event.sequence, "header_invalid", refused.message, (digest.hex(),))
        if raw["stream_id"] != self.stream_id:
            return self._links.foreign(event.sequence, "the event belongs to another stream")
        link = Link(event.sequence, raw["stream_sequence"], raw["previous_event_hash"], digest.hex())
        faults: Sequence[Fault] = self._links.place(link)
        faults = [
            *faults,
            *self._check_members(
                event,
                (raw["event_id"], raw["event_type"], raw.get("run_id"), raw["recorded_at"]),
                raw["event_schema_version"],
                raw["data"],
                "ignorable" in raw,
                raw["previous_event_hash"],
            ),
        ]
        return self._check_parts(event, raw.get("content", []), faults, records)

    def _check_parts(
        self, event: StoredColumns, parts: list[dict[str, str]], faults: Sequence[Fault], records: bool
    ) -> Sequence[Fault]:
        if any(part.get("key") == self._genesis.key for part in parts):
            what = "a content part names the stream key, which is left out"
            faults = [*faults, self._fault("header_invalid", event.sequence, what)]
        if not parts:
            return self._check_unlisted(event, faults) if event.content else faults
        if not records:
            return faults
        keys = [part.get("key", self._genesis.key) for part in parts]
        return self._check_records(event, [part["sha256"] for part in parts], keys, faults)

    # ---- what stands in the header -----------------------------------------------------------------------------

    def _check_members(
        self,
        event: StoredColumns,
        copies: tuple[str, str, str | None, str],
        version: int,
        data: dict[str, Any],
        ignorable: bool,
        previous: str,
    ) -> Sequence[Fault]:
        """Columns, clock, public fields, custody; ``copies`` are the members that stand in columns as well."""
        faults = _NO_FAULTS
        event_id, event_type, run_id, recorded_at = copies
        if (
            event_id != event.event_id
            or event_type != event.event_type
            or run_id != event.run_id
            or event.stream_id != self.stream_id
            or not _is_moment(event.recorded_at_ms, recorded_at)
        ):
            faults = self._column_faults(event, copies)
        if recorded_at < self._recorded_at:
            self._notice(
                "clock", event.sequence, f"recorded_at went back from {self._recorded_at} to {recorded_at}"
            )
        self._recorded_at = recorded_at
        wrong = self._registry.fault(event_type, version, data, ignorable)
        if wrong is not None:
            faults = [*faults, self._fault("header_invalid", event.sequence, f"{event_type}: {wrong}")]
        elif not self._registry.known(event_type, version):
            self._notice(
                "unregistered", event.sequence, f"{event_type} version {version} is not registered here"
            )
        elif event_type == "stream.adopted":
            faults = [*faults, *self._adopted(event.sequence, data, previous)]
        return faults

    def _column_faults(self, event: StoredColumns, copies: tuple[str, str, str | None, str]) -> list[Fault]:
        event_id, event_type, run_id, recorded_at = copies
        columns = [
            ("stream_id", event.stream_id != self.stream_id),
            ("event_id", event_id != event.event_id),
            ("event_type", event_type != event.event_type),
            ("run_id", run_id != event.run_id),
            ("recorded_at", not _is_moment(event.recorded_at_ms, recorded_at)),
        ]
        names = ", ".join(name for name, differs in columns if differs)
        return [self._fault("column_differs", event.sequence, f"other than in the header: {names}")]

    def _adopted(self, sequence: int, data: dict[str, Any], previous: str) -> list[Fault]:
        """Another ledger goes on with the stream: from whom, and after which event (FORMAT 14)."""
        fits = (
            data["from_ledger"] == self.home
            and data["at_sequence"] == sequence - 1
            and data["head"] == previous
        )
        self.home = data["ledger"]
        if fits:
            return []
        return [
            self._fault(
                "custody", sequence, "the adoption names another ledger, sequence or head than the stream has"
            )
        ]

    # ---- records -----------------------------------------------------------------------------------------------

    def _check_records(
        self, event: StoredColumns, digests: list[str], keys: list[str] | None, faults: Sequence[Fault]
    ) -> Sequence[Fault]:
        content = event.content
        if len(content) > len(digests):
            faults = self._check_unlisted(event, faults)
        for part, wanted in enumerate(digests):
            record = content[part] if part < len(content) else None
            if record is None:
                key = self._genesis.key if keys is None else keys[part]
                if self._erasures.certificate(event.sequence, event.event_type, key) is not None:
                    self.erased += 1
                else:
                    what = f"the record of part {part} is missing and no certificate says why"
                    faults = [*faults, self._fault("content_missing", event.sequence, what)]
            elif type(record) is not bytes or _sha256(record).hexdigest() != wanted:
                what = f"the record of part {part} is not the one that the header names"
                faults = [*faults, self._fault("content_damaged", event.sequence, what)]
            else:
                self.records += 1
        return faults

    def _check_unlisted(self, event: StoredColumns, faults: Sequence[Fault]) -> Sequence[Fault]:
        what = "a record is stored for a part that the header does not list"
        return [*faults, self._fault("content_damaged", event.sequence, what)]

    def _fault(self, code: str, sequence: int, what: str) -> Fault:
        return Fault(code, self.stream_id, sequence, what)

    def _notice(self, kind: str, sequence: int, what: str) -> None:
        if len(self.notices) < NOTICES_MAX:
            self.notices.append(Notice(kind, self.stream_id, sequence, what))
        else:
            self.notices_dropped += 1


def _is_moment(time_ms: Any, text: str) -> bool:
    if type(time_ms) is not int:
        return False
    try:
        return time_text(time_ms) == text
    except (InvalidForm, OverflowError):
        return False
