"""Workers: what is due is done, what can go on is entered again, what came to nothing is left alone for a while."""

from __future__ import annotations

import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

import counterfoil
from counterfoil.effects import Retry, by_key, by_lookup, by_review, effect
from counterfoil.effects.registry import own_tools
from counterfoil.errors import ApprovalDenied, InvalidForm, RunWaiting, StoreIO
from counterfoil.policy import RuleList, ask
from counterfoil.runtime.agents import agents, own_agents
from counterfoil.runtime.worker import PAUSE_MS, PAUSE_MS_MAX, REMEMBERED_MAX, Pauses
from counterfoil.testing.crash import LifeUntil, World, live
from counterfoil.testing.provider import FakeProvider
from counterfoil.testing.truth import check_truth

LATER = Retry(first_delay_s=600, delay_max_s=600, jitter=0)


@pytest.fixture(autouse=True)
def _own():
    with own_tools(), own_agents():
        yield


@pytest.fixture
def world():
    world = World()
    yield world
    world.close()


@pytest.fixture
def ledger(world):
    return world.open()


@pytest.fixture
def provider():
    return FakeProvider()


@pytest.fixture
def shop(provider):
    """Declares the tool ``pay`` and the agent ``payer``, which pays for the order it is told."""

    def declare(doubt=None, *, policy=None, asynchronous=False, **more):
        settings = {"version": "1", "touches": {"money"}, "doubt": doubt or by_review()} | more

        @effect("pay", **settings)
        def pay(order: str, *, idempotency_key: str = ""):
            return provider.send(idempotency_key=idempotency_key, order=order)

        def payer(run):
            run.finish(pay(run.message)["id"])

        async def apayer(run):
            run.finish((await pay.acall(run.message))["id"])

        return counterfoil.agent("payer", policy=policy)(apayer if asynchronous else payer)

    return declare


def start(ledger, agent, order="o-1"):
    with ledger.run("payer", conversation=f"case {order}", message=order, dedupe=order) as run:
        agent(run)


def told(ledger, **more):
    """What one look of a worker came to, in words."""
    heard = []
    ledger.worker(tell=heard.append, **more).look()
    return [happened.done for happened in heard]


def ready(ledger):
    return [(found.agent, found.why) for found in ledger.ready()]


# ---- what can go on --------------------------------------------------------------------------------------------------


def test_nothing_can_go_on_in_a_new_ledger(ledger):
    assert ready(ledger) == []
    assert told(ledger) == []


def test_a_run_whose_review_is_settled_can_go_on(ledger, provider, shop):
    provider.plan("answer_lost")
    agent = shop()
    with pytest.raises(RunWaiting):
        start(ledger, agent)
    assert ready(ledger) == []
    ledger.settle(
        ledger.reviews()[0]["review_id"], "succeeded", by="Ines", reason="seen", result={"id": "re_1"}
    )
    assert ready(ledger) == [("payer", "review")]
    assert told(ledger) == ["ended"]
    assert (ledger.runs()[0]["terminal"], ready(ledger)) == ("success", [])
    assert len(provider.requests) == 1


@pytest.mark.parametrize("answer, terminal", [("approve", "success"), ("deny", "policy_stop")])
def test_a_run_whose_approval_is_answered_can_go_on(ledger, provider, shop, answer, terminal):
    ledger.policy = RuleList("limits", revision="1", otherwise="deny", rules=[ask("always")])
    agent = shop()
    with pytest.raises(RunWaiting):
        start(ledger, agent)
    assert ready(ledger) == []
    getattr(ledger, answer)(ledger.approvals()[0]["approval_id"], by="Ines")
    assert ready(ledger) == [("payer", "approval")]
    assert told(ledger) == ["ended"]
    assert ledger.runs()[0]["terminal"] == terminal


def test_a_run_whose_approval_has_expired_can_go_on(world, ledger, provider, shop):
    policy = RuleList("limits", revision="1", otherwise="deny", rules=[ask("always", expires_s=60)])
    agent = shop(policy=policy)
    ledger.policy = policy
    with pytest.raises(RunWaiting):
        start(ledger, agent)
    assert ready(ledger) == []
    world.clock.advance(60_001)
    assert ready(ledger) == [("payer", "approval")]
    assert told(world.open()) == ["expired", "ended"]
    assert ledger.approvals(state=None)[0]["state"] == "expired"
    assert ledger.runs()[0]["terminal"] == "policy_stop"
    assert provider.requests == []


def test_an_approval_expires_on_record_also_where_nobody_can_go_on(world, ledger, provider, shop):
    policy = RuleList("limits", revision="1", otherwise="deny", rules=[ask("always", expires_s=60)])
    agent = shop(policy=policy)
    ledger.policy = policy
    with pytest.raises(RunWaiting):
        start(ledger, agent)
    assert told(ledger) == []
    world.clock.advance(60_001)
    assert told(world.open(), agents=False) == ["expired"]
    assert told(world.open(), agents=False) == []
    assert ledger.approvals(state=None)[0]["state"] == "expired"
    with pytest.raises(ApprovalDenied) as denied:
        start(ledger, agent)
    assert denied.value.outcome == "expired"
    assert len(list(ledger.events("case o-1", types={"approval.expired"}))) == 1
    check_truth(ledger)


def test_an_approval_whose_key_is_missing_stops_neither_the_worker_nor_the_others(
    world, ledger, provider, shop
):
    policy = RuleList("limits", revision="1", otherwise="deny", rules=[ask("always", expires_s=60)])
    agent = shop(policy=policy)
    ledger.policy = policy
    for order in ("o-1", "o-2"):
        with pytest.raises(RunWaiting):
            start(ledger, agent, order)
    key_id = ledger.ports.genesis(ledger.stream_of("case o-1")).key
    ledger.keyring.store.delete([key_id])
    world.clock.advance(60_001)
    worker, heard = world.open(), []
    looking = worker.worker(tell=heard.append, agents=False)
    looking.look()
    assert sorted(happened.done for happened in heard) == ["expired", "left"]
    (left,) = [happened for happened in heard if happened.done == "left"]
    assert key_id in left.why
    heard.clear()
    looking.look()
    assert heard == []


def test_a_grant_that_was_used_does_not_expire(world, ledger, provider, shop):
    policy = RuleList("limits", revision="1", otherwise="deny", rules=[ask("always", expires_s=60)])
    ledger.policy = policy
    agent = shop(policy=policy)
    with pytest.raises(RunWaiting):
        start(ledger, agent)
    ledger.approve(ledger.approvals()[0]["approval_id"], by="Ines")
    assert told(ledger) == ["ended"]
    world.clock.advance(60_001)
    assert told(ledger) == []


def test_a_run_whose_retry_is_due_can_go_on_and_not_before(world, ledger, provider, shop):
    provider.plan("not_done")
    agent = shop(retry=LATER)
    with pytest.raises(RunWaiting):
        start(ledger, agent)
    assert ready(ledger) == []
    assert told(ledger) == []
    world.clock.advance(600_000)
    assert ready(ledger) == [("payer", "effect")]
    assert told(ledger) == ["decided", "ended"]
    assert provider.booked() == 1
    check_truth(ledger)


def test_a_run_whose_worker_is_gone_can_go_on(world, provider, shop):
    agent = shop(by_key())
    live(world, LifeUntil("call pay", "after"), lambda ledger: start(ledger, agent))
    ledger = world.open()
    assert ready(ledger) == []
    world.time_passes()
    assert ready(ledger) == [("payer", "left")]
    assert told(ledger) == ["decided", "ended"]
    assert provider.booked() == 1
    check_truth(ledger)


def test_a_run_that_a_live_worker_holds_is_left_to_it(world, ledger, shop):
    shop()
    with ledger.run("payer", conversation="case", message="o-1", dedupe="m1"):
        assert ready(world.open()) == []


def test_a_run_without_a_registered_agent_is_listed_and_left(ledger, provider, shop):
    provider.plan("answer_lost")
    agent = shop()
    with pytest.raises(RunWaiting):
        start(ledger, agent)
    ledger.settle(ledger.reviews()[0]["review_id"], "failed", by="Ines", reason="nothing there")
    with own_agents():
        assert told(ledger) == []
        assert len(ready(ledger)) == 1


# ---- entering --------------------------------------------------------------------------------------------------------


def test_an_async_agent_is_entered_too(world, provider, shop):
    agent = shop(by_key(), asynchronous=True)

    async def begin(ledger):
        async with ledger.run("payer", conversation="case", message="o-1", dedupe="m1") as run:
            await agent(run)

    live(world, LifeUntil("call pay", "before"), begin)
    world.time_passes()
    assert told(world.open()) == ["decided", "ended"]
    assert world.open().runs()[0]["terminal"] == "success"


def test_a_run_that_began_under_a_policy_is_not_entered_without_one(world, ledger, provider, shop):
    ledger.policy = RuleList("limits", revision="1", otherwise="deny", rules=[ask("always")])
    agent = shop()
    with pytest.raises(RunWaiting):
        start(ledger, agent)
    ledger.approve(ledger.approvals()[0]["approval_id"], by="Ines")
    assert told(world.open()) == ["left"]
    assert provider.requests == []
    assert told(ledger) == ["ended"]


def test_an_agent_that_fails_ends_its_run_and_not_the_worker(world, ledger, provider):
    @counterfoil.agent("payer")
    def payer(run):
        raise KeyError(run.message)

    for order in ("o-1", "o-2"):
        with pytest.raises(StoreIO):
            start(ledger, breaks_off, order)
    heard = []
    ledger.worker(tell=heard.append).look()
    assert [(entry.done, entry.terminal, entry.error_class) for entry in heard] == [
        ("ended", "runtime_failure", "KeyError")
    ] * 2
    assert all("o-1" not in str(entry) for entry in heard)


def breaks_off(_):
    raise StoreIO("the disk is gone")


def test_what_cannot_go_on_is_tried_again_later_and_not_at_once(world, ledger):
    entered = []

    @counterfoil.agent("payer")
    def payer(run):
        entered.append(run.id)
        raise StoreIO("the disk is gone")

    with pytest.raises(StoreIO):
        start(ledger, payer)
    world.time_passes()
    worker = ledger.worker()
    assert [worker.look() for _ in range(3)] == [False] * 3
    assert len(entered) == 2
    world.clock.advance(PAUSE_MS)
    worker.look()
    assert len(entered) == 3


def test_recovery_that_comes_to_nothing_does_not_fill_the_ledger(world, ledger, provider, shop):
    agent = shop(by_lookup(provider.find))
    live(world, LifeUntil("call pay", "before"), lambda ledger: start(ledger, agent))
    world.time_passes()
    provider.plan_lookups(*["unreached"] * 30)
    worker = ledger.worker(agents=False)
    before = provider.lookups
    for _ in range(50):
        worker.look()
    assert provider.lookups - before == 3


# ---- the loop --------------------------------------------------------------------------------------------------------


def test_it_sleeps_on_the_clock_between_looks_and_stops_when_told(world, ledger, provider, shop):
    provider.plan("not_done")
    agent = shop(retry=LATER)
    with pytest.raises(RunWaiting):
        start(ledger, agent)
    began = world.clock.now_ms()
    heard = []

    def hear(happened):
        heard.append(happened.done)
        if happened.done == "ended":
            worker.stop()

    worker = ledger.worker(every_s=10, tell=hear)
    worker.work()
    assert heard == ["decided", "ended"]
    assert 600_000 <= world.clock.now_ms() - began <= 620_000


def test_it_rests_longer_where_looking_takes_long(world, ledger, monkeypatch):
    slept = []
    worker = ledger.worker(every_s=1)

    def look():
        world.clock.advance(3_000)
        return False

    def sleep(seconds):
        slept.append(seconds)
        if sum(slept) >= 12:
            worker.stop()

    monkeypatch.setattr(worker, "look", look)
    monkeypatch.setattr(ledger.ports, "sleep", sleep)
    worker.work()
    assert sum(slept) == 12
    assert max(slept) <= 0.5


def test_a_worker_that_was_told_to_stop_begins_nothing_new(ledger, provider, shop):
    provider.plan(*["answer_lost"] * 3)
    agent = shop()
    for order in ("o-1", "o-2", "o-3"):
        with pytest.raises(RunWaiting):
            start(ledger, agent, order)
    for row in ledger.reviews():
        ledger.settle(row["review_id"], "failed", by="Ines", reason="nothing there")
    worker = ledger.worker(tell=lambda _: worker.stop())
    worker.work()
    assert len(ready(ledger)) == 2
    assert worker.stopping


def test_many_workers_at_once_do_everything_once(world, provider, shop):
    agent = shop(by_key(), key=lambda order: f"pay:{order}")
    orders = [f"o-{number}" for number in range(12)]
    for order in orders:
        live(world, LifeUntil("call pay", "after"), lambda ledger, order=order: start(ledger, agent, order))
    world.time_passes()
    gate = threading.Barrier(4)

    def work(_):
        ledger = world.open()
        gate.wait(30)
        worker = ledger.worker()
        for _ in range(20):
            worker.look()
            world.clock.advance(PAUSE_MS)
            if all(run["state"] == "finished" for run in ledger.runs()):
                return
        raise AssertionError("not everything was done")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    ledger = world.open()
    assert {run["terminal"] for run in ledger.runs()} == {"success"}
    assert provider.booked() == len(orders)
    check_truth(ledger)


# ---- pauses and names ------------------------------------------------------------------------------------------------


def test_pauses_double_up_to_the_longest_and_begin_anew_after_success():
    pauses = Pauses()
    lengths = []
    for _ in range(9):
        pauses.begin("x", 0)
        lengths.append(next(ms for ms in range(0, PAUSE_MS_MAX + 1, 1_000) if not pauses.rests("x", ms)))
    assert lengths[:3] == [PAUSE_MS, 2 * PAUSE_MS, 4 * PAUSE_MS]
    assert lengths[-1] == PAUSE_MS_MAX
    pauses.end("x")
    assert not pauses.rests("x", 0)


def test_only_so_many_pauses_are_remembered():
    pauses = Pauses()
    for number in range(REMEMBERED_MAX + 1):
        pauses.begin(str(number), 0)
    assert not pauses.rests("0", 1)
    assert pauses.rests("1", 1)


def test_an_agent_is_registered_once_and_stays_a_function():
    @counterfoil.agent("payer", version="2")
    def payer(run):
        return run

    assert payer(3) == 3
    assert [(each.name, each.version, each.asynchronous) for each in agents()] == [("payer", "2", False)]
    with pytest.raises(InvalidForm, match="twice"):
        counterfoil.agent("payer")(lambda run: run)


@pytest.mark.parametrize("name, fn", [("two words", len), ("payer", 3), ("payer", dict)])
def test_what_is_no_agent_is_refused(name, fn):
    with pytest.raises(InvalidForm):
        counterfoil.agent(name)(fn)


# ---- agents that leave with sys.exit ---------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_agent_that_exits_ends_its_own_run_and_the_worker_goes_on(ledger, asynchronous):
    def leaver(run):
        sys.exit(3)

    async def aleaver(run):
        sys.exit(3)

    counterfoil.agent("leaver")(aleaver if asynchronous else leaver)
    counterfoil.agent("stayer")(lambda run: run.finish("done"))
    for agent in ("leaver", "stayer"):
        ledger.schedule(agent, conversation=agent, at=datetime.now(UTC) - timedelta(days=3000))
    assert sorted(told(ledger)) == ["ended", "ended", "fired", "fired"]
    assert {row["agent"]: row["terminal"] for row in ledger.runs()} == {
        "leaver": "shutdown",
        "stayer": "success",
    }


def test_an_agent_that_exits_beside_an_open_run_is_not_taken_for_a_signal(ledger):
    counterfoil.agent("leaver")(lambda run: sys.exit(3))
    ledger.schedule("leaver", conversation="case", at=datetime.now(UTC) - timedelta(days=3000))
    with ledger.run("other", conversation="beside", message="m"):
        # The watch's own handler stands meanwhile.
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert sorted(told(ledger)) == ["ended", "fired"]


def test_a_run_that_ended_by_an_exit_is_replayed_and_rehearsed(ledger):
    leaves = []

    def leaver(run):
        run.step("look", lambda: 1)
        if leaves:
            sys.exit(3)

    agent = counterfoil.agent("leaver")(leaver)
    leaves.append("always")
    with (
        pytest.raises(SystemExit),
        ledger.run("leaver", conversation="case", message="m") as run,
    ):
        agent(run)
    assert ledger.replay(run.id).same
    assert ledger.rehearse(run.id).terminal == "shutdown"


def test_code_that_exits_where_the_record_goes_on_is_a_difference(ledger):
    def leaver(run):
        run.step("look", lambda: 1)
        if run.done:
            sys.exit(3)
        run.finish("done")

    agent = counterfoil.agent("leaver")(leaver)
    with ledger.run("leaver", conversation="case", message="m") as run:
        agent(run)
    done = ledger.replay(run.id)
    assert (done.recorded.name, done.replayed.name) == ("success", "shutdown")
