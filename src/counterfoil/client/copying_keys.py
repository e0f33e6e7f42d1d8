"""Copying the keys of a ledger: as they are wrapped, with the key-encryption keys where both lie in files (FORMAT 12)."""

from __future__ import annotations

from typing import Final

from counterfoil.abc import KeyProvider, KeyStore
from counterfoil.client.place import Parts
from counterfoil.keys.file_provider import FileKeyProvider

PAGE: Final = 1000


def copy_keys(source: Parts, target: Parts) -> int:
    """Copy key rows and links as they are wrapped, and the key-encryption keys where both lie in files; how many rows.

    Raises KeyWithheld where the target's provider has not the key-encryption keys that the source's keys lie under.
    """
    _copy_keks(source.provider, target.provider)
    store, rows = target.key_store, 0
    epochs = source.key_store.epochs()
    if any(epochs.get(tenant) != epoch for tenant, epoch in store.epochs().items()):
        # Rotated while it was copied: what is there lies under a key that is about to be destroyed.
        _empty(store)
    for tenant, epoch in epochs.items():
        if store.epochs().get(tenant) != epoch:
            store.replace(tenant, epoch, [], [])
    after = ""
    while page := source.key_store.scan(after, PAGE):
        after = page[-1].key_id
        for row in page:
            if store.get(row.key_id) is None:
                if row.kek_id:
                    # Unwrapped once with what the target has, so that a copy is never made that opens nothing.
                    target.provider.unwrap(row.kek_id, row.wrapped)
                store.put([row], source.key_store.subjects_of(row.key_id))
                rows += 1
    _forget_gone(source.key_store, store)
    return rows


def _empty(store: KeyStore) -> None:
    while page := store.scan("", PAGE):
        store.delete([row.key_id for row in page])


def _forget_gone(source: KeyStore, target: KeyStore) -> None:
    """A key that was destroyed in the source while it was copied is destroyed in the copy too."""
    after, gone = "", []
    while page := target.scan(after, PAGE):
        after = page[-1].key_id
        gone += [row.key_id for row in page if source.get(row.key_id) is None]
    target.delete(gone)


def _copy_keks(source: KeyProvider, target: KeyProvider) -> None:
    """Copy the files of key-encryption keys; from other providers they cannot be had, and need not be."""
    if not isinstance(source, FileKeyProvider) or not isinstance(target, FileKeyProvider):
        return
    for kek_id in source.epochs():
        target.take_in(kek_id, source.hand_out(kek_id))
