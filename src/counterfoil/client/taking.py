"""Taking an archive in: streams, rows, objects, keys and the record of it, in one transaction or not at all."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from counterfoil.archive.events import Keys, archive_fields
from counterfoil.archive.package import PACKAGE_BYTES_MAX, SUFFIX, PackedKey, read_package
from counterfoil.archive.place import Source, opened
from counterfoil.archive.reading import (
    ArchiveReader,
    Begun,
    Companion,
    Ended,
    Listed,
    Place,
    Told,
)
from counterfoil.companions.rows import COMPANIONS
from counterfoil.core.catalogue import Registry
from counterfoil.core.chain import Fault
from counterfoil.core.event import Header, read_header
from counterfoil.core.records import open_record
from counterfoil.effects.rows import EFFECT_KEYS
from counterfoil.errors import (
    ArchiveRefused,
    ConfigInvalid,
    ContentDamaged,
    CounterfoilError,
    FileMissing,
    InputError,
    KeyMissing,
    KeyWithheld,
    StoreIO,
)
from counterfoil.flow.requests import UnitDraft
from counterfoil.keys.rows import DESTROYED
from counterfoil.runtime import rows as runtime_rows
from counterfoil.store.loading import LoadItem, LoadStream, LoadToken
from counterfoil.store.rows import Cell, Put, RowChange
from counterfoil.store.unit import Unit

if TYPE_CHECKING:
    from counterfoil.client.place import Parts
    from counterfoil.client.ports import LedgerPorts
    from counterfoil.client.streams import SystemStreams
    from counterfoil.evidence.opening import Opener

IMPORTED: Final = "archive.imported"
PURGED: Final = frozenset({"stream.purged"})
PAGE: Final = 500

UNIQUE: Final = {
    runtime_rows.NAMES: ("tenant", "name_index", "a conversation here has its name"),
    runtime_rows.ADMISSION_KEYS: (
        "tenant",
        "key_index",
        "an input with one of its dedupe keys was accepted here",
    ),
    EFFECT_KEYS.name: ("tenant", "key_index", "an effect with one of its keys was intended here"),
}
"""Rows of which a tenant has one: what is taken in must not take another conversation's place."""


class Taken(Struct):
    """What came in. ``damage`` is what was accepted, each fault with its line; ``keys`` how many keys came along."""

    archive: str = ""
    streams: list[dict[str, Any]] = field(default_factory=list)
    events: int = 0
    records: int = 0
    erased: int = 0
    rows: int = 0
    objects: int = 0
    keys: int = 0
    keys_by: Keys = "none"
    damaged: int = 0
    damage: list[tuple[Fault, Place | None]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return {
            "archive": self.archive,
            "streams": self.streams,
            "events": self.events,
            "records": self.records,
            "erased": self.erased,
            "rows": self.rows,
            "objects": self.objects,
            "keys": self.keys,
            "keys_by": self.keys_by,
            "damaged": self.damaged,
            "damage": [
                {**fault._asdict(), "line": None if place is None else place.line}
                for fault, place in self.damage
            ],
        }


class Taking:
    """One import under way."""

    def __init__(
        self,
        parts: Parts,
        ports: LedgerPorts,
        streams: SystemStreams,
        registry: Registry,
        *,
        as_tenant: bool,
        accept: bool,
    ) -> None:
        self._parts = parts
        self._ports = ports
        self._streams = streams
        self._registry = registry
        self._as_tenant = as_tenant
        self._accept = accept
        self._packed: dict[str, list[PackedKey]] = {}
        self._keys_put: list[str] = []
        self._objects_put: list[str] = []
        self._destroyed: dict[str, str | None] = {}
        self._tried: set[str] = set()
        self._purged: dict[str, int] = {}
        self._ended: list[Ended] = []
        self._done = Taken()

    # ---- the package -----------------------------------------------------------------------------------------------

    def open_package(
        self, archive: Path, passphrase: Callable[[], str] | None, private_key: bytes | None
    ) -> None:
        """Open the package that lies beside the archive, if one does. Raises KeyWithheld or ArchiveInvalid."""
        beside = archive.with_name(archive.name + SUFFIX)
        try:
            if beside.exists() and not beside.is_file():
                # A pipe would be waited for without an end.
                raise OSError(errno.EINVAL, "it is no file")
            with beside.open("rb") as file:
                data = file.read(PACKAGE_BYTES_MAX + 1)
        except FileNotFoundError:
            if private_key is not None:
                raise FileMissing(
                    f"there is no key package at {beside}",
                    hint="it lies beside its archive",
                    path=str(beside),
                ) from None
            return
        except OSError as error:
            raise StoreIO(f"{beside} cannot be read: {error.strerror or error}", path=str(beside)) from error
        package = read_package(data)
        keys = package.open_with(
            passphrase=passphrase, private_key=private_key, provider=self._ports.keyring.provider
        )
        for key in keys:
            self._packed.setdefault(key.stream_id, []).append(key)
        self._done.keys_by = package.protection

    # ---- the archive -----------------------------------------------------------------------------------------------

    def take(
        self, path: Path, other_party: str | None, progress: Callable[[int, int | None], None] | None
    ) -> Taken:
        """Take everything in. Whatever it raises, nothing remains: no event, row, object or key."""
        self._purged = self._purges()
        try:
            with opened(path) as source:
                reader = ArchiveReader(source, self._registry, accept_damaged=self._accept, progress=progress)
                self._ports.store.load(self._items(reader, source), lambda: self._unit(reader, other_party))
        except BaseException:
            self._undo()
            raise
        done = self._done
        done.archive, done.events = reader.sha256, reader.events
        done.records, done.erased = reader.records, reader.erased
        done.damaged, done.damage = reader.damage.count, reader.damage.faults
        return done

    def _undo(self) -> None:
        """Take back what is not in the ledger's own transaction; a crash leaves what nothing refers to."""
        with suppress(CounterfoilError):
            self._ports.keyring.store.delete(self._keys_put)
            self._ports.keyring.forget()
        for name in self._objects_put:
            with suppress(CounterfoilError):
                self._ports.vault.store.delete(name)

    def _items(self, reader: ArchiveReader, source: Source) -> Iterator[LoadItem]:
        opener: Opener | None = None
        for item in reader.items():
            match item:
                case Begun():
                    opener = self._begin(reader, item)
                    yield LoadStream(item.genesis, self._ports.tenant)
                case Told(event, header, _):
                    yield event
                    if header is not None and opener is not None:
                        yield from self._rows(reader, header, event.content, opener)
                case Companion():
                    yield self._companion(reader, item, opener)
                case Ended(token=token):
                    self._ended.append(item)
                    yield LoadToken(token)
                case Listed():
                    self._put_object(reader, source, item)

    # ---- streams ---------------------------------------------------------------------------------------------------

    def _begin(self, reader: ArchiveReader, item: Begun) -> Opener:
        from counterfoil.evidence.opening import Opener

        genesis, tenant = item.genesis, self._ports.tenant
        if genesis.kind != "conversation":
            reader.refuse(f"{genesis.stream_id} is no conversation; system streams belong to their ledger")
        if genesis.tenant != tenant and not self._as_tenant:
            raise ArchiveRefused(
                f"{genesis.stream_id} belongs to tenant {genesis.tenant}, and this is {tenant}",
                hint=f"take it in under this tenant on purpose: --as-tenant {tenant}",
                stream_id=genesis.stream_id,
                tenant=genesis.tenant,
            )
        if genesis.stream_id in self._purged:
            raise ArchiveRefused(
                f"{genesis.stream_id} was purged here, as event {self._purged[genesis.stream_id]} of the "
                "retention stream records; it does not come back",
                hint="what was purged is gone on purpose; read the archive in another ledger",
                stream_id=genesis.stream_id,
            )
        for key in self._packed.get(genesis.stream_id, ()):
            self._put_key(key)
        return Opener(genesis, self._ports.keyring)

    def _put_key(self, key: PackedKey) -> None:
        if self._certificate(key.key_id) is not None:
            # Its content is refused where it comes along; the key alone stays destroyed.
            return
        if self._ports.keyring.take_in(key.stream_id, key.key_id, key.data_key, key.subjects):
            self._keys_put.append(key.key_id)
        self._done.keys += 1

    def _certificate(self, key_id: str) -> str | None:
        """The certificate under which this ledger destroyed a key, or None."""
        if key_id not in self._destroyed:
            row = self._ports.store.get(DESTROYED.name, (key_id,))
            self._destroyed[key_id] = None if row is None else str(row["certificate"])
        return self._destroyed[key_id]

    def _purges(self) -> dict[str, int]:
        found: dict[str, int] = {}
        retention, after = self._streams.id_of("retention"), 0
        while page := self._ports.store.read(retention, after, PAGE, PURGED, content=False):
            after = page[-1].sequence
            for event in page:
                found[str(read_header(event.header).data["stream_id"])] = event.sequence
        return found

    # ---- events ----------------------------------------------------------------------------------------------------

    def _rows(
        self,
        reader: ArchiveReader,
        header: Header,
        content: tuple[bytes | None, ...],
        opener: Opener,
    ) -> Iterator[RowChange]:
        genesis = opener.genesis
        for number, part in enumerate(header.content):
            key_id, record = part.key or genesis.key, content[number]
            if record is None:
                continue
            certificate = self._certificate(key_id)
            if certificate is not None:
                raise ArchiveRefused(
                    f"event {header.stream_sequence} of {header.stream_id} holds content under {key_id}, "
                    f"which certificate {certificate} says was destroyed here",
                    hint="export it again where it was erased too, or read the archive in another ledger",
                    certificate=certificate,
                    key_id=key_id,
                )
            if key_id not in self._tried:
                self._tried.add(key_id)
                self._try_key(reader, header, number, key_id, record, opener)
        if self._ports.has_rows(header.event_type):
            opened_content = opener.open(header, dict(enumerate(content)))
            for change in self._ports.rows(self._ports.tenant, header, opened_content):
                self._check_unique(change, header)
                yield change

    def _try_key(
        self,
        reader: ArchiveReader,
        header: Header,
        number: int,
        key_id: str,
        record: bytes,
        opener: Opener,
    ) -> None:
        """The first record under each key that came along must open under it."""
        if key_id not in self._keys_put:
            return
        material = self._ports.keyring.material(key_id)
        part, mode = header.content[number], opener.genesis.content
        try:
            open_record(material, "content", [header.event_id, number], record, part.commitment, mode=mode)
        except ContentDamaged as error:
            what = f"part {number} does not open under {key_id} of the key package: {error.message}"
            reader.found([Fault("content_damaged", header.stream_id, header.stream_sequence, what)], None)

    def _check_unique(self, change: RowChange, header: Header) -> None:
        if not isinstance(change, Put) or change.table not in UNIQUE:
            return
        first, second, what = UNIQUE[change.table]
        there = self._ports.store.get(change.table, (_cell(change, first), _cell(change, second)))
        if there is not None and there["stream_id"] != header.stream_id:
            raise ArchiveRefused(
                f"event {header.stream_sequence} of {header.stream_id} cannot come in: {what}",
                hint="import it without keys to read and verify it (--no-keys), or into another ledger",
                stream_id=header.stream_id,
                there=there["stream_id"],
            )

    def _companion(self, reader: ArchiveReader, item: Companion, opener: Opener | None) -> RowChange:
        """A companion row as it is stored; with its stream's key it must open."""
        from counterfoil.companions.seal import opened as opened_row

        assert opener is not None, "rows stand behind the events of a stream"
        genesis = opener.genesis
        values: dict[str, Cell] = {
            "stream_id": item.stream_id,
            "name": item.table,
            "key": item.key,
            "commitment": item.commitment,
            "record": item.record,
        }
        material = None
        if genesis.content == "sealed":
            with suppress(KeyMissing, KeyWithheld):
                material = self._ports.keyring.stream_material(genesis)
        if material is not None or genesis.content == "clear":
            try:
                opened_row(genesis, material, values)
            except (ContentDamaged, InputError) as error:
                what = f"a row of {item.table} does not open: {error.message}"
                reader.found([Fault("content_damaged", item.stream_id, None, what)], item.place)
        self._done.rows += 1
        return Put(COMPANIONS.name, values)

    # ---- objects ---------------------------------------------------------------------------------------------------

    def _put_object(self, reader: ArchiveReader, source: Source, item: Listed) -> None:
        vault = self._ports.vault
        if not vault.usable:
            raise ConfigInvalid(
                "the archive holds artifacts, and this ledger has no place for them",
                hint="name a directory: counterfoil.open(…, artifacts=DIRECTORY), or `artifacts` in counterfoil.toml",
            )
        pieces = source.object(item.sha256)
        if pieces is None:
            reader.refuse(f"the object {item.sha256[:12]}… is listed and not there")
        there = vault.store.size(item.sha256) is not None
        digest, size = hashlib.sha256(), 0
        with vault.store.upload() as upload:
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                upload.write(piece)
            if size != item.size:
                reader.refuse(f"the object {item.sha256[:12]}… has {size} bytes, and {item.size} are listed")
            if digest.hexdigest() != item.sha256:
                what = f"artifact {item.sha256[:12]}… has not the digest that names it"
                reader.found([Fault("content_damaged", "", None, what)], item.place)
                return
            if not there:
                self._objects_put.append(upload.commit())
        self._done.objects += 1

    # ---- the record of it ------------------------------------------------------------------------------------------

    def _unit(self, reader: ArchiveReader, other_party: str | None) -> Unit:
        """``archive.imported`` for each stream, recorded with the rest."""
        content: dict[str, Any] = {} if other_party is None else {"other_party": other_party}
        if reader.damage.count:
            content["damaged"] = reader.damage.count
        said = []
        for ended in self._ended:
            genesis, tenant = ended.genesis, self._ports.tenant
            fields = archive_fields(
                reader.sha256,
                genesis.stream_id,
                genesis.hash.hex(),
                ended.up_to_sequence,
                ended.head.hex(),
                self._done.keys_by if self._has_key(genesis.key) else "none",
                None if genesis.tenant == tenant else tenant,
            )
            said.append((IMPORTED, fields, content))
            self._done.streams.append(
                {
                    "stream_id": genesis.stream_id,
                    "tenant": genesis.tenant,
                    "home": ended.home,
                    "events": ended.up_to_sequence,
                    "head": ended.head.hex(),
                    "keys": self._has_key(genesis.key),
                }
            )
        return self._ports.ready(UnitDraft((self._streams.entry("archive", *said),)))

    def _has_key(self, key_id: str) -> bool:
        try:
            return self._ports.keyring.material(key_id) is not None
        except (KeyMissing, KeyWithheld):
            return False


def _cell(change: Put, name: str) -> str:
    return str(change.values[name])
