"""Opening a ledger to verify it: whatever was done to it, it opens if its files can be read at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from counterfoil.cli.face import Face
from counterfoil.errors import (
    AccessError,
    CounterfoilError,
    InputError,
    IntegrityError,
    KeyStoreMissing,
    SchemaUnknown,
    StoreCorrupt,
)
from counterfoil.keys.keyring import Keyring
from counterfoil.store.contract import Store

if TYPE_CHECKING:
    from counterfoil.abc import ArtifactStore, Ids
    from counterfoil.client.ledger import Ledger
    from counterfoil.client.place import Parts


class Exhibit(Struct, frozen=True):
    """A ledger to verify: its parts, and the ledger itself if it could be put together.

    ``keys_fault`` says why its key store could not be opened. ``guarded`` where content is shown on record only.
    """

    place: str
    store: Store
    keyring: Keyring
    ledger: Ledger | None = None
    keys_fault: str | None = None
    artifacts: ArtifactStore | None = None
    guarded: bool = False

    def names(self, streams: Iterable[str]) -> dict[str, str]:
        """The names of conversations by stream id, as far as they can be read and may be shown."""
        found: dict[str, str] = {}
        if self.ledger is None or self.guarded:
            return found
        for stream_id in streams:
            with suppress(CounterfoilError):
                for event in self.ledger.events(
                    stream_id, limit=1, types=["conversation.opened", "runtime.baseline"]
                ):
                    name = (event.content_or_none() or {}).get("name")
                    if isinstance(name, str):
                        found[stream_id] = name
        return found

    def recorded_key_store(self) -> str | None:
        """The id of the key store that the ledger began or was last rotated with, if it can be read."""
        if self.ledger is None:
            return None
        with suppress(CounterfoilError):
            held = None
            for event in self.ledger.events(self.ledger.streams.id_of("keys"), types=["keys.rotated"]):
                held = (event.content_or_none() or {}).get("key_store", held)
            return held if isinstance(held, str) else None
        return None


@contextmanager
def exhibit(face: Face) -> Iterator[Exhibit]:
    """The ledger, for reading. One whose own settings or key store were damaged is opened as its parts."""
    try:
        ledger = face.open(judges=True)
    except (InputError, IntegrityError, AccessError, SchemaUnknown, StoreCorrupt):
        with _parts(face) as found:
            yield found
        return
    with ledger:
        vault = ledger.ports.vault
        objects = vault.store if vault.usable else None
        yield Exhibit(
            ledger.place, ledger.store, ledger.keyring, ledger, artifacts=objects, guarded=face.guarded
        )


@contextmanager
def _parts(face: Face) -> Iterator[Exhibit]:
    from counterfoil.client.ids import UlidIds

    ids = UlidIds()
    parts, keys_fault = _opened(face, ids)
    try:
        keyring = Keyring(parts.key_store, parts.provider, face.clock, ids, face.tenant or face.config.tenant)
        yield Exhibit(parts.place, parts.store, keyring, keys_fault=keys_fault, artifacts=parts.artifacts)
    finally:
        parts.store.close()
        parts.key_store.close()


def _opened(face: Face, ids: Ids) -> tuple[Parts, str | None]:
    """The parts, and what is wrong with the key store if the rest can only be opened without it."""
    from counterfoil.client.features import TABLES
    from counterfoil.client.place import open_parts, open_without_keys

    try:
        parts = open_parts(face.place, tables=TABLES, create=False, read_only=True, clock=face.clock, ids=ids)
    except (SchemaUnknown, StoreCorrupt) as error:
        return open_without_keys(face.place, tables=TABLES, clock=face.clock, ids=ids), error.message
    try:
        parts.key_store.scan(limit=1)
        parts.key_store.epochs()
    except KeyStoreMissing:
        pass
    except (SchemaUnknown, StoreCorrupt) as error:
        parts.store.close()
        parts.key_store.close()
        return open_without_keys(face.place, tables=TABLES, clock=face.clock, ids=ids), error.message
    return parts, None
