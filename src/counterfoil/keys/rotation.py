"""Rotation: every key of a tenant under a new key-encryption key, so that the old one can be destroyed (FORMAT 12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.abc.keys import EpochKeyProvider, KeyRow, KeyStore, SubjectRow
from counterfoil.errors import EpochMoved, InternalError
from counterfoil.keys.keyring import Keyring

PAGE_ROWS: Final = 1000
TRIES_MAX: Final = 5
"""How often a rotation begins again because keys were made while it ran."""


class Rotation(Struct, frozen=True):
    """A rotation that is done: the epochs before and after (ids of key-encryption keys), and how many keys."""

    epoch_from: str
    epoch_to: str
    keys: int


def rotate(keyring: Keyring) -> Rotation:
    """Wrap every key and link of the tenant under a new key-encryption key, then unwrap each once from the store.

    The old key-encryption key stays until :func:`destroy_epoch`: back the key store up in between. A crash leaves
    either the old epoch, with an unused key-encryption key that the next rotation takes, or the new one. Raises
    KeyWithheld or KeyDamaged, having changed nothing, when a key cannot be unwrapped.
    """
    refused: set[str] = set()
    for _ in range(TRIES_MAX):
        # Looked up anew each time: another rotation may be what came between.
        before = keyring.epoch()
        if not before:
            raise InternalError("a clear ledger has no key-encryption key to rotate")
        after = keyring.next_epoch(refused)
        keys = [_rewrapped(keyring, row, after) for row in _keys_under(keyring.store, before)]
        links = [
            _relinked(keyring, link, after) for key in keys for link in keyring.store.subjects_of(key.key_id)
        ]
        try:
            keyring.store.replace(keyring.tenant, after, keys, links)
        except EpochMoved as error:
            if error.fields.get("kek_id") == after:
                refused.add(after)  # another tenant's
            continue
        return Rotation(before, after, _unwrapped_once(keyring, after))
    raise EpochMoved(f"keys were made {TRIES_MAX} times while the epoch was rotated")


def destroy_epoch(keyring: Keyring, kek_id: str) -> None:
    """Destroy the key-encryption key of a former epoch: older copies of the key store open nothing afterwards.

    Refused with InternalError while a key is still wrapped under it, or when the provider cannot destroy keys.
    """
    if kek_id in keyring.store.epochs().values() or any(_keys_under(keyring.store, kek_id)):
        raise InternalError(f"keys are still wrapped under {kek_id}: rotate first", kek_id=kek_id)
    if not isinstance(keyring.provider, EpochKeyProvider):
        raise InternalError("this key provider does not destroy keys: take the key away where it is kept")
    keyring.provider.destroy(kek_id)
    keyring.forget()


def _keys_under(store: KeyStore, kek_id: str) -> Iterator[KeyRow]:
    after = ""
    while page := store.scan(after, PAGE_ROWS):
        yield from (row for row in page if row.kek_id == kek_id)
        after = page[-1].key_id


def _rewrapped(keyring: Keyring, row: KeyRow, epoch: str) -> KeyRow:
    return replace(row, kek_id=epoch, wrapped=keyring.provider.wrap(epoch, keyring.unwrap(row)))


def _relinked(keyring: Keyring, link: SubjectRow, epoch: str) -> SubjectRow:
    tenant, subject = keyring.link_keys(link.kek_id).open(link)
    return keyring.link_keys(epoch).link(link.key_id, tenant, subject)


def _unwrapped_once(keyring: Keyring, epoch: str) -> int:
    """Unwrap and check every key of the new epoch as it now lies in the store."""
    count = 0
    for row in _keys_under(keyring.store, epoch):
        keyring.unwrap(row)
        count += 1
    return count
