"""A run waits for people: for days, through other inputs, a closed handle and another process (DESIGN 6 and 7, X9)."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil import RunWaiting
from counterfoil.effects.registry import own_tools
from counterfoil.testing.crash import Life, LifeUntil, World, live
from counterfoil.testing.truth import check_truth
from tests.approving import Shop, policy
from tests.servers.fixtures import schema_for

DAY_MS = 86_400_000


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def world(request, tmp_path, monkeypatch):
    if request.param == "postgres":
        monkeypatch.setenv("HOME", str(tmp_path))
        place = request.getfixturevalue("cluster").url(schema=schema_for(str(tmp_path)))
    else:
        place = None if request.param == "memory" else tmp_path / "ledger"
    with own_tools():
        world = World(place)
        yield world
        world.close()


def test_a_run_waits_three_days_while_two_more_inputs_are_served_and_then_sends_once(world):
    shop = Shop(world.open(), policy(due_s=86_400, expires_s=7 * 86_400))
    approval = shop.waits(80, "o-1")
    for day, order in enumerate(["o-2", "o-3"], 1):
        world.clock.advance(DAY_MS)
        assert shop.serve(day, order)["order"] == order
    world.clock.advance(DAY_MS)
    assert [row["approval_id"] for row in shop.ledger.approvals(overdue=True)] == [approval]
    shop.ledger.approve(approval, by="Ines")
    assert shop.serve(80, "o-1")["amount"] == 80
    assert shop.serve(80, "o-1")["amount"] == 80
    assert [dict(entry.what)["order"] for entry in shop.provider.book] == ["o-2", "o-3", "o-1"]
    assert {row["terminal"] for row in shop.ledger.runs("case")} == {"success"}
    check_truth(shop.ledger)


def test_pending_questions_are_a_query_after_a_restart_and_answered_by_another_process(world):
    shop = Shop(world.open())
    live(
        world,
        LifeUntil("append decision.proposed"),
        lambda ledger: (shop.use(ledger, policy()), shop.serve()),
    )
    world.time_passes()
    desk = world.open()
    (row,) = desk.approvals()
    desk.approve(str(row["approval_id"]), by="Ines")
    shop.use(world.open(), policy())
    assert shop.serve()["amount"] == 80
    assert shop.provider.booked() == 1
    check_truth(shop.ledger)


def test_a_run_whose_worker_vanished_while_it_asked_steps_aside_for_the_next_input(world):
    shop = Shop(world.open())
    live(
        world,
        LifeUntil("append decision.proposed"),
        lambda ledger: (shop.use(ledger, policy()), shop.serve()),
    )
    world.time_passes()
    shop.use(world.open(), policy())
    assert shop.serve(10, "o-2")["order"] == "o-2"
    (waits,) = shop.ledger.runs("case", state="suspended")
    (row,) = shop.ledger.approvals()
    assert (waits["cause"], waits["waits_for"]) == ("approval", row["approval_id"])


def test_without_a_policy_nothing_is_recorded_that_was_not_before(world):
    shop = Shop(world.open())
    shop.ledger.policy = None
    shop.serve()
    assert shop.types() == ["effect.intended", "effect.observed"]
    (intended,) = shop.ledger.events("case", types=["effect.intended"])
    assert set(intended.content) == {"arguments", "idempotency_key", "target"}


def test_an_async_agent_waits_and_goes_on_like_any_other(world):
    import asyncio

    ledger = world.open()
    ledger.policy = policy()
    sent = []

    @counterfoil.effect("pay", version="1", touches={"money"}, doubt=counterfoil.by_key())
    async def pay(amount: int, *, idempotency_key: str = "") -> int:
        sent.append(amount)
        return amount

    async def agent():
        async with ledger.run("agent", conversation="case", message="m", dedupe="m"):
            return await pay(80)

    with pytest.raises(RunWaiting):
        asyncio.run(agent())
    ledger.approve(str(ledger.approvals()[0]["approval_id"]), by="Ines")
    assert asyncio.run(agent()) == 80
    assert asyncio.run(agent()) == 80
    assert sent == [80]


def test_without_a_policy_a_call_makes_the_requests_that_it_made_before(world):
    shop = Shop(world.open())
    life = Life()

    def work(ledger):
        shop.use(ledger, None)
        with ledger.run("agent", conversation="case", message="m", dedupe="m"):
            begun = len(life.requests)
            shop.refund("o-1", 80)
            shop.asked = life.requests[begun:]

    live(world, life, work)
    assert shop.asked == [
        "newid",
        "now",
        "renew",
        "append effect.intended",
        "call shop.refund",
        "append effect.observed",
    ]


@pytest.mark.parametrize("dedupe,policy_for_running", [("a", "supersede"), (None, "queue")])
def test_nobody_is_asked_any_more_for_a_run_that_another_input_ended(dedupe, policy_for_running):
    """Superseded, or interrupted because nobody could ask for it again."""
    with own_tools():
        world = World()
        shop = Shop(world.open())

        def asked_and_gone(ledger):
            shop.use(ledger, policy())
            shop.serve(dedupe=dedupe)

        live(world, LifeUntil("append decision.proposed"), asked_and_gone)
        if dedupe is None:
            world.time_passes()
        shop.use(world.open(), policy())
        shop.serve(10, "o-2", while_running=policy_for_running)
        assert shop.states() == ["expired"]
        assert {row["terminal"] for row in shop.ledger.runs()} & {"superseded", "interrupted"}
        check_truth(shop.ledger)
        world.close()
