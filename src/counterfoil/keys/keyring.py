"""Keyring: makes, finds, unwraps and caches the data keys of one tenant (FORMAT 3 and 12)."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Final, Generic, TypeVar

from counterfoil.abc.keys import EpochKeyProvider, KeyProvider, KeyRow, KeyStore
from counterfoil.abc.time import Clock, Ids
from counterfoil.core.genesis import ContentMode, Genesis
from counterfoil.core.ids import check_id, derived_id
from counterfoil.core.keyed import KEY_BYTES, KeyMaterial, index_value, key_check
from counterfoil.errors import EpochMoved, InternalError, InvalidForm, KeyDamaged, KeyMissing, KeyWithheld
from counterfoil.keys.links import LinkKeys
from counterfoil.keys.wrapping import has_bytes

CACHE_S: Final = 60.0
"""Longest time that an unwrapped key is kept: a destroyed key opens nothing after it (FORMAT 11)."""

CACHE_KEYS_MAX: Final = 4096
"""Unwrapped keys kept at once; beyond it the cache starts anew."""

EPOCH_TRIES_MAX: Final = 5
"""How often a key is wrapped again because a rotation came between."""

Kept = TypeVar("Kept")
Made = TypeVar("Made")


class _Cache(Generic[Kept]):
    """Things kept for :data:`CACHE_S` from when they were made, however often they are used."""

    __slots__ = ("_kept", "_monotonic")

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._kept: dict[object, tuple[float, Kept]] = {}

    def get(self, name: object) -> Kept | None:
        found = self._kept.get(name)
        if found is None:
            return None
        if self._monotonic() < found[0]:
            return found[1]
        self._kept.pop(name, None)
        return None

    def keep(self, name: object, value: Kept) -> Kept:
        if len(self._kept) >= CACHE_KEYS_MAX:
            self._kept.clear()
        self._kept[name] = (self._monotonic() + CACHE_S, value)
        return value

    def clear(self) -> None:
        self._kept.clear()


class Keyring:
    """The keys of one tenant. Thread-safe; every key it hands out is durable in the key store.

    ``content`` says what new keys are for: ``sealed`` wraps them under the tenant's current epoch, ``clear`` keeps
    them unwrapped, for ledgers that encrypt nothing.
    """

    def __init__(
        self,
        store: KeyStore,
        provider: KeyProvider,
        clock: Clock,
        ids: Ids,
        tenant: str = "default",
        content: ContentMode = "sealed",
    ) -> None:
        self._store = store
        self._provider = provider
        self._ids = ids
        self._tenant = tenant
        self._content = content
        self._materials: _Cache[KeyMaterial] = _Cache(clock)
        self._subjects: _Cache[str] = _Cache(clock)
        self._links: _Cache[LinkKeys] = _Cache(clock)
        self._index_keys: _Cache[bytes] = _Cache(clock)
        self._config_stream_id: str | None = None
        self._beginning = threading.Lock()

    @property
    def store(self) -> KeyStore:
        """The key store behind this keyring."""
        return self._store

    @property
    def provider(self) -> KeyProvider:
        """The provider behind this keyring."""
        return self._provider

    @property
    def tenant(self) -> str:
        """The tenant whose keys these are."""
        return self._tenant

    # ---- data keys ----

    def new_stream_key(self, stream_id: str) -> KeyMaterial:
        """A new data key for a stream, durable when this returns (FORMAT 3)."""
        key_id, data_key = self._ids.new("dk"), secrets.token_bytes(KEY_BYTES)
        self._put(stream_id, key_id, data_key)
        return self._materials.keep(key_id, KeyMaterial(key_id, stream_id, data_key))

    def material(self, key_id: str) -> KeyMaterial:
        """The material of a data key, unwrapped at most 60 seconds ago.

        Raises KeyMissing (no such row), KeyWithheld (its key-encryption key is not at hand), KeyDamaged (the row is
        not what was written) or KeyStoreMissing.
        """
        found = self._materials.get(key_id)
        if found is not None:
            return found
        row = self._row(key_id)
        try:
            data_key = self.unwrap(row)
        except KeyWithheld:
            # Its key-encryption key is gone also where the row was rotated, and that key destroyed, since it was read.
            former, row = row.kek_id, self._row(key_id)
            if row.kek_id == former:
                raise
            data_key = self.unwrap(row)
        return self._materials.keep(key_id, KeyMaterial(row.key_id, row.stream_id, data_key))

    def stream_material(self, genesis: Genesis) -> KeyMaterial:
        """The material of the stream key that a genesis names. Raises as :meth:`material` does."""
        material = self.material(genesis.key)
        if material.stream_id != genesis.stream_id:
            raise KeyDamaged(
                f"the stream key {genesis.key} belongs to {material.stream_id}, not to {genesis.stream_id}",
                key_id=genesis.key,
            )
        return material

    def unwrap(self, row: KeyRow) -> bytes:
        """The data key of a row, accepted only if it passes the row's check (FORMAT 12)."""
        data_key = self._provider.unwrap(row.kek_id, row.wrapped) if row.kek_id else row.wrapped
        if not has_bytes(data_key, KEY_BYTES) or key_check(data_key, row.key_id, row.stream_id) != row.check:
            raise _damaged(row)
        return data_key

    # ---- people ----

    def subject_key(self, stream_id: str, subject: str) -> KeyMaterial:
        """The data key of a person in a stream: found by the link, or made and linked, durable when this returns.

        ``subject`` is the person's id outside. Callers in any number of threads and processes get one key.
        """
        if not subject:
            raise InvalidForm("a subject is named by an id from outside, and that is empty")
        made: list[str] = []
        key_id = self._under_epoch(lambda epoch: self._find_or_make(stream_id, subject, epoch, made))
        spare = [one for one in made if one != key_id]
        if spare:
            self._store.delete(spare)
        return self.material(key_id)

    def subject_of(self, key_id: str) -> str | None:
        """The outside id of the person whom a key stands for; None where it stands for nobody. Raises ``ContentDamaged``."""
        for row in self._store.subjects_of(key_id):
            tenant, subject = self.link_keys(row.kek_id).open(row)
            if tenant == self._tenant:
                return subject
        return None

    def _find_or_make(self, stream_id: str, subject: str, epoch: str, made: list[str]) -> str:
        """Id of the key of whom ``subject`` names; ``made`` gets the id of a key that was put for it, first or not."""
        links = self.link_keys(epoch)
        lookup = links.lookup(self._tenant, subject)
        known = self._subjects.get((stream_id, lookup))
        if known is not None:
            return known
        found = self._store.find_subject(lookup, stream_id)
        if found is not None:
            return self._subjects.keep((stream_id, lookup), found.key_id)
        key_id, data_key = self._ids.new("dk"), secrets.token_bytes(KEY_BYTES)
        row = self._wrapped(stream_id, key_id, data_key, links.kek_id)
        self._store.put([row], [links.link(key_id, self._tenant, subject)])
        made.append(key_id)
        # Somebody may have been quicker; whose link was put first wins, and both see the same order.
        first = self._store.find_subject(lookup, stream_id)
        if first is None:
            # A rotation has changed all lookups since: only by the new ones is it seen who was first.
            raise EpochMoved(f"the epoch {epoch} ended while a key was being made under it", kek_id=epoch)
        return self._subjects.keep((stream_id, lookup), first.key_id)

    def subjects(self, key_id: str) -> tuple[str, ...]:
        """The ids outside of whom a key is linked to, in the order of the links."""
        found = []
        for row in self._store.subjects_of(key_id):
            tenant, subject = self.link_keys(row.kek_id).open(row)
            if tenant == self._tenant:
                found.append(subject)
        return tuple(found)

    def take_in(self, stream_id: str, key_id: str, data_key: bytes, subjects: Sequence[str]) -> bool:
        """Put a key that was made elsewhere under this tenant's epoch; durable when this returns.

        False, and nothing changes, where the key is here already. Raises KeyDamaged for another key under its id.
        """
        there = self._store.get(key_id)
        if there is not None:
            if there.stream_id == stream_id and self.unwrap(there) == data_key:
                return False
            raise _damaged(there)

        def put(epoch: str) -> None:
            links = self.link_keys(epoch) if subjects else None
            rows = [links.link(key_id, self._tenant, subject) for subject in subjects] if links else []
            self._store.put([self._wrapped(stream_id, key_id, data_key, epoch)], rows)

        self._under_epoch(put)
        return True

    # ---- the tenant's index key ----

    def index_key(self, config_stream_id: str) -> bytes:
        """The tenant index key, made the first time; a row under the tenant's ``system/config`` stream (FORMAT 3).

        Its id follows from the stream's id, so every process finds the same one. :meth:`index` uses it from now on.
        """
        check_id(config_stream_id, "str")
        self._config_stream_id = config_stream_id
        found = self._index_keys.get(config_stream_id)
        if found is not None:
            return found
        key_id = index_key_id(config_stream_id)
        if self._store.get(key_id) is None:
            try:
                self._put(config_stream_id, key_id, secrets.token_bytes(KEY_BYTES))
            except InternalError:
                # Another process made it between the look and the write; if it is still not there, it was no race.
                if self._store.get(key_id) is None:
                    raise
        return self._index_keys.keep(config_stream_id, self.unwrap(self._row(key_id)))

    def index(self, purpose: str, text: str) -> str:
        """``index(purpose, text)`` of FORMAT 3, 64 hex; for rows only. :meth:`index_key` must have been called."""
        if self._config_stream_id is None:
            raise InternalError("the tenant index key was not opened before the first index value")
        index_key = self._index_keys.get(self._config_stream_id) or self.index_key(self._config_stream_id)
        return index_value(index_key, purpose, self._tenant, text)

    # ---- epochs ----

    def epoch(self) -> str:
        """The key-encryption key that new keys are wrapped under, begun with the first key; empty in ``clear``."""
        if self._content == "clear":
            return ""
        found = self._store.epochs().get(self._tenant)
        return self._begin_epoch() if found is None else found

    def next_epoch(self, refused: Collection[str] = ()) -> str:
        """A key-encryption key that no tenant uses yet: the provider's newest, or a new one. It is readable.

        ``refused`` are such that the key store would not take, since a tenant whom this one does not see uses them.
        """
        taken = {*self._store.epochs().values(), *refused}
        try:
            newest = self._provider.current()
        except KeyWithheld:
            if taken or not isinstance(self._provider, EpochKeyProvider):
                # Keys exist, so their KEK is only not at hand: a new one beside them would hide that.
                raise
            newest = ""
        if newest and newest not in taken:
            # What cannot be read, or is no key at all, must not become the epoch that everything is wrapped under.
            self._provider.derive(newest, "probe")
            return newest
        if isinstance(self._provider, EpochKeyProvider):
            return self._provider.new_epoch()
        raise KeyWithheld(
            f"every key-encryption key at hand is in use, the newest is {newest}",
            hint="give the key provider a new key-encryption key, then try again",
        )

    def forget(self) -> None:
        """Drop every key kept in memory."""
        for cache in (self._materials, self._subjects, self._links, self._index_keys):
            cache.clear()

    def _begin_epoch(self) -> str:
        with self._beginning:
            found = self._store.epochs().get(self._tenant)
            if found is not None:
                return found
            refused: set[str] = set()
            for _ in range(EPOCH_TRIES_MAX):
                epoch = self.next_epoch(refused)
                try:
                    self._store.replace(self._tenant, epoch, [], [])
                except EpochMoved:
                    # Another process began this tenant's meanwhile, or another tenant's with the very same key.
                    found = self._store.epochs().get(self._tenant)
                    if found is not None:
                        return found
                    refused.add(epoch)
                else:
                    return epoch
            raise EpochMoved(f"{EPOCH_TRIES_MAX} key-encryption keys in a row were taken by other tenants")

    def link_keys(self, kek_id: str) -> LinkKeys:
        """The keys that subject links of an epoch are made under."""
        found = self._links.get(kek_id)
        return found if found is not None else self._links.keep(kek_id, LinkKeys(self._provider, kek_id))

    def _put(self, stream_id: str, key_id: str, data_key: bytes) -> None:
        self._under_epoch(lambda epoch: self._store.put([self._wrapped(stream_id, key_id, data_key, epoch)]))

    def _under_epoch(self, make: Callable[[str], Made]) -> Made:
        """What ``make`` makes under the current epoch, made again when a rotation ended that epoch meanwhile."""
        for _ in range(EPOCH_TRIES_MAX):
            epoch = self.epoch()
            try:
                return make(epoch)
            except (EpochMoved, KeyWithheld) as error:
                # A key-encryption key is not at hand also because a rotation has just destroyed it.
                if isinstance(error, KeyWithheld) and self.epoch() == epoch:
                    raise
        raise EpochMoved(f"the epoch moved {EPOCH_TRIES_MAX} times while a key was being made")

    def _wrapped(self, stream_id: str, key_id: str, data_key: bytes, kek_id: str) -> KeyRow:
        check_id(stream_id, "str")
        wrapped = self._provider.wrap(kek_id, data_key) if kek_id else data_key
        return KeyRow(key_id, stream_id, kek_id, wrapped, key_check(data_key, key_id, stream_id))

    def _row(self, key_id: str) -> KeyRow:
        row = self._store.get(key_id)
        if row is None:
            raise KeyMissing(
                f"the data key {key_id} is not in the key store",
                hint="if it was not erased, restore the key store's last backup",
                key_id=key_id,
            )
        return row


def index_key_id(config_stream_id: str) -> str:
    """Id of the row that holds the tenant index key: it says nothing but which stream it is for."""
    text = f"counterfoil/index-key/v1:{config_stream_id}"
    return derived_id("dk", hashlib.sha256(text.encode()).digest())


def _damaged(row: KeyRow) -> KeyDamaged:
    return KeyDamaged(
        f"the data key {row.key_id} does not pass its check",
        hint="its row was changed or swapped, or the key-encryption key is another one; restore the key store",
        key_id=row.key_id,
    )
