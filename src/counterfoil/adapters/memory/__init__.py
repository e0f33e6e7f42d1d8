"""The memory adapter: the oracle of the store contract, for tests and for ledgers that need not last."""

from __future__ import annotations

from counterfoil.adapters.memory.artifacts import MemoryArtifacts
from counterfoil.adapters.memory.keystore import MemoryKeyStore
from counterfoil.adapters.memory.store import MemoryStore

__all__ = ["MemoryArtifacts", "MemoryKeyStore", "MemoryStore"]
