"""The store contract on SQLite."""

from __future__ import annotations

from counterfoil.adapters.sqlite.open import open_sqlite
from counterfoil.testing import StoreContract
from counterfoil.testing.events import SAMPLE_LEDGER


class TestSqliteStore(StoreContract):
    def open_store(self, directory, tables, clock):
        return open_sqlite(directory, tables=tables, clock=clock, create=True, ledger_id=SAMPLE_LEDGER)
