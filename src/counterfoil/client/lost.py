"""Telling a ledger that was lost from one that was never made: its keys are still there (FORMAT 12).

A ledger is made in this order: an empty key store, the database with its schema, and only then keys. So whoever
finds a key finds the database that it was made for, and a creation that was cut short anywhere leaves either no key
or a database; it is simply gone through again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from counterfoil.abc import Ids, KeyStore
from counterfoil.core.ids import is_id
from counterfoil.errors import KeyStoreMissing, LedgerLost, SchemaUnknown
from counterfoil.store.contract import Store

KEYS_PER_PAGE: Final = 1000

_SYSTEM: Final = "str_0000000000"
"""Ids of system streams have the time zero; those of conversations were minted."""


def is_blank(database: Path) -> bool:
    """Whether the file is missing or empty. SQLite must not open an empty one: it would drop the log beside it."""
    try:
        return database.stat().st_size == 0
    except (FileNotFoundError, NotADirectoryError):
        return True


def refuse_lost(database: Path, key_store: Path, kek: Path, ids: Ids) -> None:
    """Raise ``LedgerLost`` where keys lie beside a database that is missing or empty; nothing is changed."""
    if not is_blank(database) or not _keys_lie_there(key_store, kek, ids):
        return
    # Looked at once more: another process may have made the ledger, and then its keys, since the first look.
    if is_blank(database):
        what = "empty" if database.exists() else "not there"
        raise LedgerLost(f"{database} is {what}, but the keys of a ledger lie beside it", path=str(database))


def holds_keys(key_store: KeyStore | None) -> bool:
    """Whether any key was ever made there and not destroyed."""
    return key_store is not None and bool(key_store.scan(limit=1))


def refuse_emptied(store: Store, key_store: KeyStore | None, place: str, *, reading: bool) -> None:
    """Raise ``LedgerLost`` for a store without streams whose key store holds the keys of conversations.

    So looks a database whose log was taken away before it was ever worked into the file. One that still holds events
    was not lost but damaged, and is read to say so.
    """
    if key_store is None or store.streams(limit=1):
        return
    if reading and store.strays(limit=1):
        return
    stream_id = _conversation_with_key(key_store)
    # Looked at once more: another process may have begun the ledger, and then made that key, since the first look.
    if stream_id is not None and not store.streams(limit=1):
        raise LedgerLost(
            f"the ledger in {place} holds nothing, but there are keys of its conversations",
            place=place,
            stream_id=stream_id,
        )


def _conversation_with_key(key_store: KeyStore) -> str | None:
    """The first conversation of which a key is there. It is made after the system streams are recorded."""
    after = ""
    while page := key_store.scan(after, KEYS_PER_PAGE):
        for row in page:
            if is_id(row.stream_id, "str") and not row.stream_id.startswith(_SYSTEM):
                return row.stream_id
        after = page[-1].key_id
    return None


def _keys_lie_there(key_store: Path, kek: Path, ids: Ids) -> bool:
    from counterfoil.adapters.sqlite.keystore import SqliteKeyStore
    from counterfoil.keys.file_provider import FileKeyProvider

    if FileKeyProvider(kek, ids).epochs():
        return True
    if is_blank(key_store):
        return False
    try:
        opened = SqliteKeyStore(key_store)
    except (KeyStoreMissing, SchemaUnknown):
        # The beginning of a key store whose creation was cut short is rolled back to nothing.
        if is_blank(key_store):
            return False
        raise
    try:
        return holds_keys(opened)
    finally:
        opened.close()
