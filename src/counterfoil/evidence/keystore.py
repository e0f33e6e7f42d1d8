"""The key store itself: every row and link, and whether rows, links and epochs agree with one another (FORMAT 12)."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from counterfoil.abc.keys import KeyRow
from counterfoil.core.event import read_header
from counterfoil.core.genesis import Genesis, parse_genesis
from counterfoil.core.ids import is_id
from counterfoil.errors import CounterfoilError, KeyStoreMissing
from counterfoil.evidence.collector import Collector
from counterfoil.evidence.opening import Opener
from counterfoil.evidence.report import Counts, Keys
from counterfoil.keys.inspection import KeyCount, inspect
from counterfoil.keys.keyring import Keyring, index_key_id
from counterfoil.store.contract import Reader

PAGE_ROWS: Final = 500
PAGE_EVENTS: Final = 50
ROTATED: Final = "keys.rotated"


class KeyScope(Struct, frozen=True):
    """What the walk over the streams leaves for the check of the key store.

    ``named`` are keys whose fault was named at an event; ``destroyed`` those that certificates say are gone;
    ``tenants`` are the tenants of streams, ``configs`` their streams of settings, ``untrusted`` streams whose genesis
    was changed, ``records`` the streams in which tenants keep what they know of their keys. ``expected`` is
    the id of the key store that the caller knows the ledger by.
    """

    named: frozenset[str] = frozenset()
    destroyed: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()
    configs: frozenset[str] = frozenset()
    untrusted: frozenset[str] = frozenset()
    records: tuple[Genesis, ...] = ()
    expected: str | None = None


def check_keys(
    reader: Reader, keyring: Keyring | None, scope: KeyScope, collector: Collector, counts: Counts
) -> Keys:
    """Check every row of the key store, and say how it was found."""
    if keyring is None:
        collector.leave_out("the key store", "no keys were given")
        return Keys(state="not_given")
    try:
        store_id = keyring.store.store_id
    except KeyStoreMissing as error:
        collector.leave_out("the key store", error.message)
        return Keys(state="absent")
    recorded = {_recorded_store(reader, keyring, genesis) for genesis in scope.records}
    if not {scope.expected, *recorded} <= {None, store_id}:
        collector.fault(
            "key_damaged", "the key store at hand is another one than the ledger was written with"
        )
    _KeyCheck(reader, keyring, scope, collector).run(counts)
    return Keys(state="present", copies=keyring.provider.arrangement(), store_id=store_id)


def _recorded_store(reader: Reader, keyring: Keyring, genesis: Genesis) -> str | None:
    """The id of the key store that a tenant's ``system/keys`` stream names last; None if it names none."""
    opener, last, named = Opener(genesis, keyring), 0, None
    while events := reader.read(genesis.stream_id, last, PAGE_EVENTS, frozenset({ROTATED})):
        last = events[-1].sequence
        for event in events:
            try:
                content = opener.open(read_header(event.header), dict(enumerate(event.content)))
            except CounterfoilError:
                continue  # the walk names it
            named = (content or {}).get("key_store", named)
    return named if isinstance(named, str) else None


class _KeyCheck:
    def __init__(self, reader: Reader, keyring: Keyring, scope: KeyScope, collector: Collector) -> None:
        self._reader = reader
        self._keyring = keyring
        self._scope = scope
        self._collector = collector
        self._bad: set[str] = set(scope.named)
        self._named_keys: dict[str, frozenset[str]] = {}

    def run(self, counts: Counts) -> None:
        count = KeyCount()
        for fault in inspect(self._keyring, count):
            if fault.withheld:
                self._collector.leave_out("rows of the key store", fault.what, 1)
            else:
                self._name(fault.key_id, fault.stream_id, fault.what)
        counts.keys += count.keys
        sealed = self._check_rows()
        self._check_epochs(sealed=sealed)
        for config in sorted(self._scope.configs):
            # The index key is made before the stream of settings, and the first row that needs it comes after.
            if self._keyring.store.get(index_key_id(config)) is None:
                what = "the tenant's index key is absent: names and keys from outside cannot be looked up"
                self._collector.fault("content_missing", what, config)

    def _check_rows(self) -> bool:
        """What a row says of itself is right; does it also belong to something? True if any key is wrapped."""
        after, sealed = "", False
        while page := self._keyring.store.scan(after, PAGE_ROWS):
            after = page[-1].key_id
            for row in page:
                sealed = sealed or bool(row.kek_id)
                if row.key_id not in self._bad:
                    self._check_use(row)
        return sealed

    def _check_use(self, row: KeyRow) -> None:
        if row.key_id in self._scope.destroyed:
            self._name(
                row.key_id, row.stream_id, "a certificate says that this key was destroyed, and it is here"
            )
            return
        if row.stream_id in self._scope.untrusted:
            return
        genesis = self._genesis(row.stream_id)
        if genesis is None:
            what = "a key was made for a stream that holds nothing: its making was interrupted, or it is not here"
            self._collector.notice("unused_key", what, _known(row.stream_id))
        elif row.key_id not in (genesis.key, index_key_id(row.stream_id)) and not self._is_linked(row.key_id):
            if row.key_id in self._named_in(row.stream_id):
                self._name(row.key_id, row.stream_id, f"no link says whose key {row.key_id} is")
            else:
                # A stream's key is durable before its first event; killed in between, the stream is begun with another.
                what = (
                    "a second key was made for a stream whose making was interrupted, and nothing is under it"
                )
                self._collector.notice("unused_key", what, _known(row.stream_id))

    def _is_linked(self, key_id: str) -> bool:
        return bool(self._keyring.store.subjects_of(key_id))

    def _named_in(self, stream_id: str) -> frozenset[str]:
        """The keys that the events of a stream name beside the stream's own; read only where a key is in question."""
        if stream_id not in self._named_keys:
            found: set[str] = set()
            last = 0
            while events := self._reader.read(stream_id, last, PAGE_EVENTS, content=False):
                last = events[-1].sequence
                for event in events:
                    try:
                        header = read_header(event.header)
                    except CounterfoilError:
                        continue  # the walk names it
                    found.update(part.key for part in header.content if part.key)
                    found.update(refs["key"] for refs in header.artifact_refs if "key" in refs)
            self._named_keys[stream_id] = frozenset(found)
        return self._named_keys[stream_id]

    def _genesis(self, stream_id: str) -> Genesis | None:
        stored = self._reader.stream(stream_id)
        try:
            return None if stored is None else parse_genesis(stored.genesis)
        except CounterfoilError:
            return None  # the walk names it

    def _check_epochs(self, *, sealed: bool) -> None:
        epochs = self._keyring.store.epochs()
        for tenant in sorted(self._scope.tenants - epochs.keys()) if sealed else ():
            self._collector.fault("key_damaged", f"the key store holds no epoch of tenant {tenant}")

    def _name(self, key_id: str, stream_id: str, what: str) -> None:
        if key_id not in self._bad:
            self._bad.add(key_id)
            self._collector.fault("key_damaged", what, _known(stream_id))


def _known(stream_id: object) -> str | None:
    """A stream id as a report may show it."""
    return stream_id if isinstance(stream_id, str) and is_id(stream_id, "str") else None
