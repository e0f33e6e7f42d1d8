"""The fault-injecting wrapper: without faults it changes nothing, with faults callers keep what they may rely on."""

from __future__ import annotations

from counterfoil.adapters.memory import MemoryStore
from counterfoil.adapters.sqlite.open import open_sqlite
from counterfoil.testing import FaultContract, StoreContract
from counterfoil.testing.events import SAMPLE_LEDGER
from counterfoil.testing.faulty import FaultyStore


def open_memory(directory, tables, clock):
    return MemoryStore(SAMPLE_LEDGER, tables, clock)


def open_durable(directory, tables, clock):
    return open_sqlite(directory, tables=tables, clock=clock, create=True, ledger_id=SAMPLE_LEDGER)


class TestWrappedMemoryStore(StoreContract):
    def open_store(self, directory, tables, clock):
        return FaultyStore(open_memory(directory, tables, clock))


class TestWrappedSqliteStore(StoreContract):
    def open_store(self, directory, tables, clock):
        return FaultyStore(open_durable(directory, tables, clock))


class TestMemoryStoreWithFaults(FaultContract):
    def open_store(self, directory, tables, clock):
        return open_memory(directory, tables, clock)


class TestSqliteStoreWithFaults(FaultContract):
    def open_store(self, directory, tables, clock):
        return open_durable(directory, tables, clock)
