"""Verify: every stored byte of a ledger checked from one snapshot, and a report of what that proves (FORMAT 18)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain as joined
from typing import Final

from counterfoil.abc.artifacts import ArtifactStore
from counterfoil.core.catalogue import Registry
from counterfoil.core.chain import Chain
from counterfoil.core.examine import shown
from counterfoil.core.genesis import Genesis, genesis_hash, parse_genesis
from counterfoil.core.ids import is_id
from counterfoil.core.several import several
from counterfoil.errors import CounterfoilError, InvalidForm, StoreError, StreamNotFound, UnknownFormat
from counterfoil.evidence.artifacts import ArtifactCheck
from counterfoil.evidence.collector import Collector
from counterfoil.evidence.companions import CompanionCheck
from counterfoil.evidence.content import Certificates, Records, StreamKeys
from counterfoil.evidence.custody import Custody, Imported, imports
from counterfoil.evidence.folding import RowFold
from counterfoil.evidence.keystore import KeyScope, check_keys
from counterfoil.evidence.raw import RawEvent, RawReader, raw_events
from counterfoil.evidence.report import (
    GRADES,
    GUARDS,
    LEVELS,
    Counts,
    Derived,
    Grade,
    Keys,
    Level,
    Report,
    Tail,
)
from counterfoil.evidence.rows import RowCheck
from counterfoil.evidence.shapes import Shapes
from counterfoil.evidence.starts import RunStarts
from counterfoil.evidence.walk import Scope, StreamWalk
from counterfoil.keys.keyring import Keyring
from counterfoil.store.contract import Reader, Store
from counterfoil.store.rows import Feature
from counterfoil.store.unit import StoredStream

PAGE_STREAMS: Final = 200
STRAYS_MAX: Final = 1000

CONFIG: Final = "system/config"
KEYS: Final = "system/keys"

_CHOICES: Final = f"a level is one of {', '.join(LEVELS)}, a grade one of {', '.join(GRADES)}"

NEVER_COVERED: Final = (
    ("the order between streams, and feed positions", "each stream is a chain of its own"),
    ("search and statistics", "they are derived from events and can be made again"),
)


def verify(
    store: Store,
    keyring: Keyring | None = None,
    features: Sequence[Feature] = (),
    *,
    streams: Collection[str] | None = None,
    level: Level = "content",
    require: Grade = "A0",
    rows: bool = True,
    registry: Registry | None = None,
    key_store_id: str | None = None,
    keys_fault: str | None = None,
    artifacts: ArtifactStore | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Check a ledger, or some of its streams, from one snapshot; faults are named and the scan goes on.

    ``level`` says how deep: ``chain`` (hashes, shape, columns), ``digests`` (each stored record too) or ``content``
    (each record opened and its commitment recomputed, as far as keys are at hand). ``rows`` refolds derived rows.
    ``key_store_id`` is the key store that the caller knows the ledger by; what ``system/keys`` names is compared
    anyway. ``keys_fault`` says what is wrong with a key store that could not even be opened. ``artifacts`` is where the objects of artifacts lie: from ``digests``
    on each is read. ``progress`` is told the number of events looked at so far. Memory stays below 80 MB at any size.

    Raises StreamNotFound for a stream asked for that is not there, InvalidForm for an unknown level or grade, and
    StoreError when the store cannot be read; damage below the level of records is ``StoreCorrupt``.
    """
    if level not in LEVELS or require not in GRADES:
        raise InvalidForm(_CHOICES, hint="choose one of them", level=str(level), require=str(require))
    with store.snapshot() as reader:
        work = _Verification(reader, store.ledger_id, keyring, level, registry or Registry(), progress)
        work.look_at_artifacts(artifacts)
        chosen = None if streams is None else frozenset(several(streams, "streams"))
        check = RowCheck(reader, features, keyring, work.scope.collector) if rows else None
        try:
            for stored in work.streams(chosen):
                work.check_stream(stored, check)
            derived = () if check is None else (*check.compare(chosen), *work.run_starts())
        finally:
            if check is not None:
                check.close()
        if keys_fault is not None:
            work.scope.collector.fault("key_damaged", keys_fault)
        return work.report(require, derived, key_store_id, whole=chosen is None)


def walk(
    reader: Reader,
    ledger_id: str,
    registry: Registry,
    fold: RowFold,
    progress: Callable[[int], None] | None = None,
) -> tuple[int, int]:
    """Give every stream to ``fold``, which is told to skip those whose chain is broken; how many streams and events."""
    work = _Verification(reader, ledger_id, None, "chain", registry, progress)
    for stored in work.streams(None):
        work.check_stream(stored, fold)
    return work.scope.counts.streams, work.scope.counts.events


class _Verification:
    """One verification under way."""

    def __init__(
        self,
        reader: Reader,
        ledger_id: str,
        keyring: Keyring | None,
        level: Level,
        registry: Registry,
        progress: Callable[[int], None] | None,
    ) -> None:
        self._reader = reader
        self._ledger_id = ledger_id
        self._keyring = keyring
        self._level: Level = level
        self.scope = Scope(registry, Collector(), Counts(), Shapes(registry), progress=progress)
        self._artifacts: ArtifactCheck | None = None
        self._imports: dict[str, list[Imported]] | None = None
        self._named_keys: set[str] = set()
        self._tenants: set[str] = set()
        self._untrusted: set[str] = set()
        self._configs: set[str] = set()
        self._starts = RunStarts(reader)
        self._key_records: list[Genesis] = []

    def look_at_artifacts(self, store: ArtifactStore | None) -> None:
        """Check artifacts too, in this store; None if nobody knows where they lie, which the report then says."""
        self._artifacts = ArtifactCheck(
            store, self._keyring, self._level, self.scope.collector, self.scope.counts
        )

    # ---- streams -------------------------------------------------------------------------------------------------

    def streams(self, chosen: frozenset[str] | None) -> Iterator[StoredStream]:
        """The streams to check, by id."""
        if chosen is not None:
            yield from map(self._asked_for, sorted(chosen))
            return
        after = ""
        while page := self._reader.streams(after=after, limit=PAGE_STREAMS):
            yield from page
            readable = [stream.stream_id for stream in page if _is_text(stream.stream_id)]
            if not readable:
                self.scope.collector.leave_out(
                    "streams after one whose id is no text", "they could not be listed"
                )
                return
            after = readable[-1]

    def _asked_for(self, stream_id: str) -> StoredStream:
        stored = self._reader.stream(stream_id)
        if stored is None:
            raise StreamNotFound(f"there is no stream {shown(stream_id)} in this ledger")
        return stored

    def check_stream(self, stored: StoredStream, check: RowFold | None) -> None:
        """Check genesis, events, records, custody and head row of one stream; refold its rows if it is intact."""
        collector = self.scope.collector
        collector.enter()
        self.scope.counts.streams += 1
        genesis, unread = _read_genesis(stored.genesis)
        pages = raw_events(self._reader, stored.stream_id, records=self._level != "chain")
        first = next(pages, None)
        vouched = _is_vouched(stored, None if first is None else first[0])
        trusted = genesis if vouched else None
        name = _safe_id(stored.stream_id) if trusted is None else trusted.stream_id
        if trusted is None:
            self._untrusted.add(name)
        else:
            self._check_columns(stored, trusted)
            self._tenants.add(stored.tenant if self._came_as(stored, trusted) else trusted.tenant)
            if trusted.kind == CONFIG:
                self._configs.add(name)
            elif trusted.kind == KEYS:
                self._key_records.append(trusted)
        whole = () if first is None else joined((first,), pages)
        self._walk(stored, name, trusted, self._starts.watch(whole))
        if unread is not None and (vouched or not collector.found_here):
            self._fault(
                "unknown_format" if isinstance(unread, UnknownFormat) else "genesis", unread.message, name, 0
            )
        if check is not None:
            if trusted is None or collector.found_here:
                check.skip(name, "the stream is broken or could not be read")
            else:
                check.fold(trusted, stored.tenant)
                self._starts.compare(name)

    def run_starts(self) -> tuple[Derived, ...]:
        """What came of comparing the index by which runs are read."""
        return self._starts.derived()

    def _check_columns(self, stored: StoredStream, genesis: Genesis) -> None:
        columns = (
            ("stream_id", stored.stream_id, genesis.stream_id),
            ("tenant", stored.tenant, genesis.tenant),
            ("kind", stored.kind, genesis.kind),
        )
        for name, column, own in columns:
            if name == "tenant" and column != own and self._came_as(stored, genesis):
                continue
            if column != own:
                what = f"the column {name} says {shown(column)}, the genesis says {shown(own)}"
                self._fault("column_differs", what, genesis.stream_id, 0)

    def _came_as(self, stored: StoredStream, genesis: Genesis) -> bool:
        """Whether an import record says that this stream stands under another tenant here (FORMAT 14)."""
        if stored.tenant == genesis.tenant:
            return False
        mine = self._known_imports().get(genesis.stream_id, [])
        return any(record.genesis == genesis.hash.hex() and record.tenant == stored.tenant for record in mine)

    def _came_without_keys(self, genesis: Genesis) -> bool:
        mine = self._known_imports().get(genesis.stream_id, [])
        return any(record.keys == "none" for record in mine)

    def _walk(
        self, stored: StoredStream, name: str, genesis: Genesis | None, pages: Iterable[list[RawEvent]]
    ) -> None:
        head = self._head(stored, name)
        chain = Chain(
            name,
            genesis_hash(stored.genesis).hex() if _is_bytes(stored.genesis) else None,
            None if genesis is None else genesis.key,
            self.scope.registry,
            self.scope.collector,
            head,
        )
        custody = None if genesis is None else Custody(self._ledger_id, genesis, self.scope.collector)
        certificates = Certificates(self._reader, stored.stream_id)
        records = self._records(name, genesis, certificates)
        check = self._artifacts
        storing = None if check is None else partial(check.take, genesis=genesis, certificates=certificates)
        stream_key = None if genesis is None else genesis.key
        StreamWalk(self.scope, name, stream_key, chain, records, custody, storing).run(pages)
        chain.finish()
        if custody is not None:
            known = None if custody.home == self._ledger_id else self._known_imports()
            custody.finish(chain.order.last, chain.order.tips, known)

    def _records(self, name: str, genesis: Genesis | None, certificates: Certificates) -> Records | None:
        if self._level == "chain":
            return None
        collector = self.scope.collector
        keys = companions = None
        if self._level == "content" and genesis is not None:
            keyless = genesis.ledger != self._ledger_id and self._came_without_keys(genesis)
            keys = StreamKeys(
                genesis, self._keyring, certificates, collector, self._named_keys, keyless=keyless
            )
            material = partial(keys.material, genesis.key, 0)
            companions = CompanionCheck(self._reader, genesis, material, collector, self.scope.counts)
        elif self._level == "content":
            why = "the genesis that says how they are made was changed or cannot be read"
            collector.leave_out("the content of records of a stream", why, 1)
        stream_key = None if genesis is None else genesis.key
        return Records(name, stream_key, certificates, collector, self.scope.counts, keys, companions)

    def _head(self, stored: StoredStream, name: str) -> tuple[int, str] | None:
        head = stored.head
        if type(head.sequence) is not int or type(head.hash) is not bytes or head.sequence < 0:
            self._fault("removed", "the head row of the stream is not there or cannot be read", name, 0)
            return None
        self.scope.heads_seen += 1
        return head.sequence, head.hash.hex()

    def _known_imports(self) -> dict[str, list[Imported]]:
        if self._imports is None:
            self._imports = imports(self._reader)
        return self._imports

    def _fault(self, kind: str, what: str, stream_id: str, first: int, last: int | None = None) -> None:
        self.scope.collector.fault(kind, what, stream_id, first, last)

    # ---- the rest ------------------------------------------------------------------------------------------------

    def report(
        self, require: Grade, derived: tuple[Derived, ...], key_store_id: str | None, *, whole: bool
    ) -> Report:
        """Check what belongs to no single stream, and put the report together."""
        collector, counts = self.scope.collector, self.scope.counts
        if whole:
            self._check_strays()
        else:
            collector.leave_out(
                "other streams, and rows that belong to none", "only some streams were asked for"
            )
        keys = KeyScope(
            named=frozenset(self._named_keys),
            destroyed=frozenset(self.scope.destroyed),
            tenants=frozenset(self._tenants),
            untrusted=frozenset(self._untrusted),
            configs=frozenset(self._configs),
            records=tuple(self._key_records),
            expected=key_store_id,
        )
        found = self._check_keys(keys)
        counts.rows_refolded = sum(table.refolded for table in derived)
        for what, why in NEVER_COVERED:
            collector.leave_out(what, why)
        _notice_rows(collector, derived)
        if self._level != "content":
            collector.leave_out("the content of records", f"the level was {self._level}")
        if self._level == "chain":
            collector.leave_out("stored records", "the level was chain")
        return Report(
            ledger=self._ledger_id,
            level=self._level,
            require=require,
            grade=None if collector.unread_streams else "A0",
            counts=counts,
            keys=found,
            tail=Tail(events=counts.events, streams=counts.streams),
            findings=collector.findings,
            findings_left_out=collector.left_out,
            kinds=dict(sorted(collector.kinds.items())),
            broken_streams=collector.broken_streams,
            unread_streams=collector.unread_streams,
            not_covered=collector.not_covered,
            notices=collector.notices,
            notices_left_out=collector.notices_left_out,
            derived=derived,
        )

    def _check_keys(self, keys: KeyScope) -> Keys:
        collector = self.scope.collector
        try:
            return check_keys(self._reader, self._keyring, keys, collector, self.scope.counts)
        except StoreError as error:
            if error.retryable:
                raise
            collector.fault("key_damaged", f"the key store cannot be read: {error.message}")
            return Keys(state="present")

    def _all_seen(self) -> bool:
        """Whether the store counts no more rows than the walks have seen; only a raw reader can tell quickly."""
        if not isinstance(self._reader, RawReader):
            return False
        records = self._level != "chain"
        scope = self.scope
        seen = {"stream": scope.counts.streams, "head": scope.heads_seen, "event": scope.counts.events}
        if records:
            seen["event_content"] = scope.records_seen
        return self._reader.row_counts(records=records) == seen

    def _check_strays(self) -> None:
        """Rows that belong to nothing; where events were found missing, these are what is left of them."""
        if self._all_seen():
            return
        explained = {"removed", "content_missing", "edited", "inserted"} & self.scope.collector.kinds.keys()
        for stray in self._reader.strays(STRAYS_MAX):
            if stray.table == "stream" or (stray.table == "event" and stray.stream_id is not None):
                continue  # the walk over that stream has named it
            if explained:
                self.scope.collector.notice(
                    "stray", f"{stray.table}: {stray.what}", stray.stream_id, stray.sequence
                )
            else:
                kind = "inserted" if stray.table == "event_content" else "removed"
                self.scope.collector.fault(
                    kind, f"{stray.table}: {stray.what}", stray.stream_id, stray.sequence
                )


def _notice_rows(collector: Collector, derived: Iterable[Derived]) -> None:
    """Rows are no truth, so what is wrong with them is a notice; it says what they are needed for."""
    differ = [table for table in derived if table.state == "mismatched"]
    if differ:
        names = ", ".join(table.table for table in differ)
        collector.notice(
            "rows_differ", f"derived rows differ from the events ({names}): run `counterfoil rebuild`"
        )
    for table in differ:
        if table.table in GUARDS and table.lacking + table.differing:
            said = f"{table.lacking} missing and {table.differing} changed among the rows of {table.table}"
            collector.notice("unguarded", f"{said}: until they are rebuilt, an effect could be sent twice")


def _read_genesis(text: object) -> tuple[Genesis | None, CounterfoilError | None]:
    if not isinstance(text, bytes):
        return None, InvalidForm("the genesis column holds no bytes")
    try:
        return parse_genesis(text), None
    except CounterfoilError as error:
        return None, error


def _is_vouched(stored: StoredStream, first: RawEvent | None) -> bool:
    """Whether the genesis text is the one that the first event, or the head of an empty stream, names."""
    if not _is_bytes(stored.genesis):
        return False
    digest = genesis_hash(stored.genesis)
    if first is None:
        return stored.head.sequence != 0 or stored.head.hash == digest
    if first[1] != 1 or not _is_bytes(first[6]):
        return True
    return f'"previous_event_hash":"{digest.hex()}"'.encode() in first[6]


def _is_bytes(value: object) -> bool:
    return isinstance(value, bytes)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _safe_id(stream_id: object) -> str:
    return stream_id if isinstance(stream_id, str) and is_id(stream_id, "str") else "a stream of odd id"
