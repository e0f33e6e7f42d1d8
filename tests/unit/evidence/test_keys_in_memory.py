"""However long a walk or an import takes, no data key is kept for longer than a minute (FORMAT 11)."""

from __future__ import annotations

import pytest

from counterfoil.client.imports import LedgerImports
from counterfoil.core.event import read_header
from counterfoil.errors import KeyMissing
from counterfoil.evidence.collector import Collector
from counterfoil.evidence.content import Certificates, StreamKeys
from counterfoil.evidence.opening import Opener
from tests.running import World

A_MINUTE_MS = 60_000


@pytest.fixture
def world():
    return World()


@pytest.fixture
def ledger(world):
    made = world.worker()
    with made.run("a", conversation="c"):
        pass
    return made


@pytest.fixture
def genesis(ledger):
    return ledger.ports.genesis(ledger.stream_of("c"))


def destroy(world, ledger, genesis):
    """The key is destroyed, and a minute later nobody has it any more."""
    ledger.keyring.store.delete([genesis.key])
    world.clock.advance(A_MINUTE_MS)


def test_a_fold_that_goes_on_after_a_key_was_destroyed_opens_nothing_with_it(world, ledger, genesis):
    (opened,) = ledger.store.read(genesis.stream_id, 0, 1)
    opener, records = Opener(genesis, ledger.keyring), dict(enumerate(opened.content))
    assert opener.open(read_header(opened.header), records)["name"] == "c"
    destroy(world, ledger, genesis)
    assert opener.open(read_header(opened.header), records) is None


def test_a_check_that_goes_on_after_a_key_was_destroyed_opens_nothing_with_it(world, ledger, genesis):
    collector = Collector()
    certificates = Certificates(ledger.store, genesis.stream_id)
    keys = StreamKeys(genesis, ledger.keyring, certificates, collector, set())
    assert keys.material(genesis.key, 1) is not None
    destroy(world, ledger, genesis)
    assert keys.material(genesis.key, 2) is None
    assert keys.material(genesis.key, 3) is None
    assert collector.kinds == {"content_missing": 1}


def test_an_import_that_goes_on_after_a_key_was_destroyed_makes_nothing_with_it(world, ledger, genesis):
    conversation = LedgerImports(ledger).conversation("c", "a")
    assert conversation.material.key_id == genesis.key
    destroy(world, ledger, genesis)
    with pytest.raises(KeyMissing):
        _ = conversation.material
