"""Heads of turns, replays and rehearsals on every engine: each head once, whoever looks for it; nothing real is touched."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.runtime.agents import own_agents
from counterfoil.testing.crash import World
from counterfoil.testing.truth import check_truth
from tests.running import LEASE_MS, types_of, vanish

RUNS = 4


@pytest.fixture
def world(anywhere):
    with own_tools(), own_agents(), closing(World(anywhere)) as made:
        yield made


def keeper(world):
    ledger = world.open()
    ledger.keeps_turns = True
    return ledger


def test_workers_side_by_side_keep_each_head_once(world):
    first = keeper(world)
    gone = [
        vanish(first.run("support", conversation=f"case-{number}", message="m")) for number in range(RUNS)
    ]
    world.clock.advance(LEASE_MS + 1)
    for number in range(RUNS):
        with first.run(
            "support", conversation=f"case-{number}", message="n", while_running="supersede"
        ) as run:
            run.finish("done")
    workers = [keeper(world).worker(agents=False) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda worker: [worker.look() for _ in range(3)], workers))
    for number, run_id in enumerate(gone):
        heads = list(first.events(f"case-{number}", types=["turn.committed"], run_id=run_id))
        turn = first.turn(run_id)
        assert (len(heads), turn.checked, turn.broken_at_seq) == (1, True, None)
    assert [info.events for info in first.turns()] == [2] * 2 * RUNS
    check_truth(first)


def test_a_run_is_replayed_and_rehearsed(world):
    calls = []

    @counterfoil.effect("shop.refund", version="1", touches={"money"}, doubt=counterfoil.by_review())
    def refund(order: str):
        calls.append(order)
        return {"refunded": order}

    @counterfoil.agent("clerk")
    def clerk(run):
        order = run.ask(lambda request: "O-1", run.message, name="small-1").text
        run.finish(refund(order))

    ledger = world.open()
    with ledger.run("clerk", conversation="case", message="m", subject="ines") as run:
        clerk(run)
    before = types_of(ledger, "case")
    assert ledger.replay(run.id).same
    done = ledger.rehearse(run.id)
    assert (done.terminal, done.difference.same, calls) == ("success", True, ["O-1"])
    assert (types_of(ledger, "case"), ledger.rehearsals(run.id)) == (before, [done.run_id])
    check_truth(ledger)
