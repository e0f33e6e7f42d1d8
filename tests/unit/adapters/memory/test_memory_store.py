"""What is the memory store's own; the rest is the store contract."""

from __future__ import annotations

import os

import pytest

from counterfoil.adapters.memory import MemoryStore
from counterfoil.errors import HandleForked
from counterfoil.testing import ManualClock
from counterfoil.testing.events import SAMPLE_LEDGER, SampleStream


@pytest.fixture
def store():
    return MemoryStore(SAMPLE_LEDGER, [], ManualClock())


def test_a_future_is_resolved_when_append_returns(store):
    stream = SampleStream()
    assert store.append([stream.unit(stream.event(), create=True)]).done()


def test_it_says_that_nothing_lasts_and_nothing_is_shared(store):
    assert not store.capabilities.durable
    assert not store.capabilities.shared
    assert store.capabilities.engine == "memory"


def test_a_forked_child_cannot_write_where_the_parent_would_not_see_it(store, monkeypatch):
    stream = SampleStream()
    store.append([stream.unit(create=True)])
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for call in (
        lambda: store.append([stream.unit(stream.event())]).result(),
        lambda: store.claim(stream.stream_id, "owner", 1000, 0),
    ):
        with pytest.raises(HandleForked):
            call()
