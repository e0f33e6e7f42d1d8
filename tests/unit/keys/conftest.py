"""A keyring over a key store in memory and key-encryption keys in files."""

from __future__ import annotations

import pytest

from counterfoil.adapters.memory import MemoryKeyStore
from counterfoil.keys.file_provider import FileKeyProvider
from counterfoil.keys.keyring import Keyring
from counterfoil.testing import ManualClock, SequentialIds


class CountingProvider(FileKeyProvider):
    """Counts how often a key is unwrapped."""

    unwrapped = 0

    def unwrap(self, kek_id, wrapped):
        self.unwrapped += 1
        return super().unwrap(kek_id, wrapped)


@pytest.fixture
def ids():
    return SequentialIds()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store():
    return MemoryKeyStore()


@pytest.fixture
def provider(tmp_path, ids):
    return CountingProvider(tmp_path / "kek", ids)


@pytest.fixture
def keyring(store, provider, clock, ids):
    return Keyring(store, provider, clock, ids)


@pytest.fixture
def stream_id(ids):
    return ids.new("str")
