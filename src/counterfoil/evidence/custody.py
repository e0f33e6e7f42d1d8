"""Whose stream it is: home ledger, adoption, and the import records that let a foreign stream stand here (FORMAT 14)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from counterfoil.core.chain import Home
from counterfoil.core.event import Header, read_header
from counterfoil.core.genesis import Genesis
from counterfoil.errors import CounterfoilError
from counterfoil.evidence.collector import Collector
from counterfoil.store.contract import Reader

IMPORTED: Final = "archive.imported"
ARCHIVE_KIND: Final = b'"kind":"system/archive"'
PAGE: Final = 200


class Imported(Struct, frozen=True):
    """What one ``archive.imported`` says of a stream; hashes in hex. ``tenant``: whom it stands under, if another."""

    genesis: str
    up_to_sequence: int
    head: str
    tenant: str | None = None
    keys: str = "none"


def imports(reader: Reader) -> dict[str, list[Imported]]:
    """Every import record of this ledger, by the stream it names."""
    found: dict[str, list[Imported]] = {}
    for header in _import_headers(reader):
        data = header.data
        record = Imported(
            str(data.get("genesis")),
            data.get("up_to_sequence", 0),
            str(data.get("head")),
            data.get("tenant"),
            str(data.get("keys")),
        )
        found.setdefault(str(data.get("stream_id")), []).append(record)
    return found


def _import_headers(reader: Reader) -> Iterator[Header]:
    after = ""
    while streams := reader.streams(after=after, limit=PAGE):
        after = streams[-1].stream_id
        for stream in streams:
            if type(stream.genesis) is bytes and ARCHIVE_KIND in stream.genesis:
                yield from _headers_of(reader, stream.stream_id)


def _headers_of(reader: Reader, stream_id: str) -> Iterator[Header]:
    last = 0
    while events := reader.read(stream_id, last, PAGE, frozenset({IMPORTED}), content=False):
        last = events[-1].sequence
        for event in events:
            try:
                yield read_header(event.header)
            except CounterfoilError:
                continue  # the walk over that stream names it


class Custody:
    """Follows one stream from its genesis ledger through its adoptions to this ledger."""

    def __init__(self, ledger_id: str, genesis: Genesis, collector: Collector) -> None:
        self._ledger_id = ledger_id
        self._genesis = genesis
        self._collector = collector
        self._home = Home(genesis)

    @property
    def home(self) -> str:
        """The ledger that the stream belongs to now."""
        return self._home.ledger

    def adopt(self, header: Header, tips: tuple[str, ...]) -> None:
        """Take a ``stream.adopted``: it must continue from the home so far, at the event before it."""
        what = self._home.adopt(header, tips)
        if what is not None:
            self._fault(what, header.stream_sequence)

    def finish(self, last: int, tips: tuple[str, ...], known: Mapping[str, list[Imported]] | None) -> None:
        """Accept a stream at home here, or one that an import record names. ``known`` is None when not needed."""
        if self.home == self._ledger_id or known is None:
            return
        records = known.get(self._genesis.stream_id, [])
        mine = [record for record in records if record.genesis == self._genesis.hash.hex()]
        if not mine:
            what = f"its home is {self.home}, and no import record of this ledger names it"
            self._collector.fault("transplanted", what, self._genesis.stream_id, 0)
            return
        newest = max(mine, key=lambda record: record.up_to_sequence)
        if newest.up_to_sequence < last:
            self._fault("events after the import that no adoption explains", newest.up_to_sequence + 1, last)
        elif newest.up_to_sequence > last:
            what = "the import record names them, and they are not there"
            self._collector.fault("removed", what, self._genesis.stream_id, last + 1, newest.up_to_sequence)
        elif tips and newest.head not in tips:
            self._fault("the import record names another head than the last event has", last)

    def _fault(self, what: str, sequence: int, through: int | None = None) -> None:
        self._collector.fault("custody", what, self._genesis.stream_id, sequence, through)
