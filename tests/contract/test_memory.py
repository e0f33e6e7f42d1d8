"""The store contract on the memory adapter, which is its oracle."""

from __future__ import annotations

from counterfoil.adapters.memory import MemoryStore
from counterfoil.testing import StoreContract
from counterfoil.testing.events import SAMPLE_LEDGER


class TestMemoryStore(StoreContract):
    def open_store(self, directory, tables, clock):
        return MemoryStore(SAMPLE_LEDGER, tables, clock)
