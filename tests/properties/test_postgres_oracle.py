"""PostgreSQL against the oracle: the same random calls get the same answers from memory and leave the same ledger."""

from __future__ import annotations

import pytest

from counterfoil.adapters.memory import MemoryStore
from counterfoil.testing import ManualClock
from counterfoil.testing.contract.case import SAMPLE_TABLES
from counterfoil.testing.events import SAMPLE_LEDGER
from tests.properties.test_store_oracle import STEPS, Chance, answer_of, state_of

pytestmark = pytest.mark.postgres

SEEDS = range(6)


def comparable(store, streams):
    """Everything a reader can see. The feed of each is in an order of its own: only what it holds is compared."""
    state = state_of(store, streams)
    return state | {"feed": sorted(state["feed"])}


@pytest.mark.parametrize("seed", SEEDS)
def test_memory_and_postgresql_give_the_same_answers_and_keep_the_same_ledger(seed, place):
    from counterfoil.adapters.postgres import open_postgres

    clock, chance = ManualClock(), Chance(seed)
    memory = MemoryStore(SAMPLE_LEDGER, SAMPLE_TABLES, clock)
    server = open_postgres(place, tables=SAMPLE_TABLES, clock=clock, create=True, ledger_id=SAMPLE_LEDGER)
    recorded = 0
    for step in range(STEPS):
        heads = {stream.stream_id: memory.head(stream.stream_id) for stream in chance.streams}
        call = chance.call(heads)
        wanted, found = answer_of(memory, call), answer_of(server, call)
        assert found == wanted, f"seed {seed}, step {step}"
        recorded += "Receipt" in repr(wanted)
        if step % 20 == 0 or step == STEPS - 1:
            assert comparable(server, chance.streams) == comparable(memory, chance.streams), f"step {step}"
        clock.advance(chance.pick(0, 1, 400))
    server.close()
    assert recorded > STEPS / 10, "too few calls recorded anything for this to mean much"
