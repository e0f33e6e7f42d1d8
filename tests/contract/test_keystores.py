"""The key store contract on the memory key store, its oracle, and on keys.db."""

from __future__ import annotations

from counterfoil.adapters.memory import MemoryKeyStore
from counterfoil.adapters.sqlite.keystore import SqliteKeyStore
from counterfoil.testing import KeyStoreContract


class TestMemoryKeyStore(KeyStoreContract):
    lasting = False

    def open_key_store(self, directory):
        return MemoryKeyStore()


class TestSqliteKeyStore(KeyStoreContract):
    def open_key_store(self, directory):
        return SqliteKeyStore(directory / "keys.db", create=True)
