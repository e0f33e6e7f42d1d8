"""The stop lever: what it refuses, what it leaves alone, and what a run that resumes is told (DESIGN 7)."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from counterfoil.effects import Absent, by_key, by_lookup, by_review, effect
from counterfoil.effects.lever import LEVER_GATES, LEVERS
from counterfoil.errors import EffectHeld, InvalidForm, NotDone, PolicyDenied, RunWaiting, StoreBusy
from tests import running
from tests.approving import Shop, policy
from tests.repairing import Bank


def declare(fn, name="pay", **more):
    return effect(name, **({"version": "1", "touches": {"money"}, "doubt": by_review()} | more))(fn)


def run(ledger, dedupe="m1", conversation="case"):
    return ledger.run("agent", conversation=conversation, message="please", dedupe=dedupe)


@pytest.fixture
def paid():
    return []


@pytest.fixture
def pay(paid):
    def pay(order):
        paid.append(order)
        return order

    return declare(pay)


def hold(ledger, tool="pay", **more):
    return ledger.hold(tool, by="Ines", reason="wrong amounts", **more)


def release(ledger, tool="pay", **more):
    return ledger.release(tool, by="Tom", reason="mended", **more)


def refused(ledger, tool, *arguments, **more):
    with pytest.raises(EffectHeld) as caught, run(ledger, **more):
        tool(*arguments)
    return caught.value


def test_a_held_tool_is_not_called_and_the_refusal_is_on_record(ledger, pay, paid):
    hold(ledger)
    error = refused(ledger, pay, "o-1")
    assert paid == []
    assert ledger.effects() == []
    (held,) = ledger.holds()
    assert (error.scope, error.tool, error.lever) == ("tool", "pay", held.event_id)
    (ruled,) = ledger.events("case", types={"policy.evaluated"})
    assert {name: ruled.data[name] for name in ("policy", "revision", "outcome", "rules")} == {
        "policy": "counterfoil.lever",
        "revision": held.event_id,
        "outcome": "deny",
        "rules": ["tool"],
    }
    assert ledger.runs("case")[0]["terminal"] == "policy_stop"


def test_the_refusal_is_a_policy_denial_for_code_that_knows_only_those(ledger, pay):
    hold(ledger)
    with run(ledger) as block:
        with pytest.raises(PolicyDenied):
            pay("o-1")
        block.finish("left")
    assert block.terminal == "success"


def test_other_tools_go_on(ledger, pay, paid):
    hold(ledger, "mail.send")
    with run(ledger):
        pay("o-1")
    assert paid == ["o-1"]


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_held_tenant_or_ledger_holds_every_tool(ledger, pay, paid, everywhere):
    hold(ledger, None, everywhere=everywhere)
    assert refused(ledger, pay, "o-1").scope == ("all" if everywhere else "tenant")
    release(ledger, None, everywhere=everywhere)
    with run(ledger, "m2"):
        pay("o-2")
    assert paid == ["o-2"]


def test_a_tool_that_is_held_twice_stays_held_until_both_are_released(ledger, pay, paid):
    hold(ledger)
    hold(ledger, None)
    release(ledger)
    assert refused(ledger, pay, "o-1").scope == "tenant"
    release(ledger, None)
    with run(ledger, "m2"):
        pay("o-1")
    assert paid == ["o-1"]


def test_a_lever_reaches_a_run_that_is_under_way_in_another_handle(world, ledger, pay, paid):
    with run(ledger) as block:
        pay("o-1")
        hold(world.open())
        with pytest.raises(EffectHeld):
            pay("o-2")
        release(world.open())
        pay("o-3")
        block.finish("done")
    assert paid == ["o-1", "o-3"]


def test_the_same_call_goes_on_in_the_same_run_once_it_is_released(ledger, pay, paid):
    with run(ledger) as block:
        hold(ledger)
        for _ in range(2):
            with pytest.raises(EffectHeld):
                pay("o-1")
        release(ledger)
        assert pay("o-1") == "o-1"
        block.finish("done")
    assert paid == ["o-1"]
    assert len(ledger.effects()) == 1


def test_a_run_that_ended_so_is_refused_again_after_the_release(ledger, pay, paid):
    hold(ledger)
    refused(ledger, pay, "o-1")
    release(ledger)
    refused(ledger, pay, "o-1")
    assert paid == []


def test_an_open_run_is_handed_its_refusal_again_and_goes_on_live_behind_it(world, pay, paid):
    first = world.open()
    hold(first)
    with pytest.raises(ConnectionResetError), pytest.MonkeyPatch.context() as patch, run(first):
        with pytest.raises(EffectHeld):
            pay("o-1")
        patch.setattr(first.ports, "append", lambda *_: (_ for _ in ()).throw(ConnectionResetError()))
    world.time_passes()
    ledger = world.open()
    release(ledger)
    before = len(list(ledger.events("case", types={"policy.evaluated"})))
    with run(ledger) as block:
        with pytest.raises(EffectHeld):
            pay("o-1")
        assert pay("o-1") == "o-1"
        block.finish("done")
    assert len(list(ledger.events("case", types={"policy.evaluated"}))) == before
    assert paid == ["o-1"]


def test_an_effect_with_an_outcome_is_handed_out_although_its_tool_is_held(ledger, paid):
    pay = declare(lambda order: paid.append(order) or order, key=lambda order: order)
    with run(ledger):
        pay("o-1")
    hold(ledger)
    with run(ledger, "m2", "other"):
        assert pay("o-1") == "o-1"
    assert paid == ["o-1"]


def test_a_call_under_way_goes_on_and_is_recorded(world, ledger, told):
    pulled = threading.Event()

    def pay(order):
        hold(world.open())
        pulled.set()
        return order

    pay = declare(pay)
    with run(ledger):
        assert pay("o-1") == "o-1"
    assert pulled.is_set()
    assert told() == ["effect.intended", "effect.observed"]


def test_a_retry_that_would_end_doubt_is_not_sent_and_the_run_waits(world, ledger, provider):
    calls = []

    def pay(order, *, idempotency_key=""):
        calls.append(order)
        if len(calls) == 1:
            hold(ledger)
            raise ConnectionResetError("the answer was lost")
        return order

    pay = declare(pay, doubt=by_key())
    with pytest.raises(RunWaiting), run(ledger):
        pay("o-1")
    assert calls == ["o-1"]
    (row,) = ledger.effects()
    assert row["state"] == "unknown"
    release(ledger)
    with run(ledger) as block:
        assert pay("o-1") == "o-1"
        block.finish("done")
    assert calls == ["o-1", "o-1"]


def test_recovery_asks_the_provider_and_sends_nothing_while_the_tool_is_held(world, provider):
    asked, sent = [], []

    def find(**_):
        asked.append(1)
        return Absent()

    def pay(order, *, idempotency_key=""):
        sent.append(order)
        raise SystemExit

    pay = declare(pay, doubt=by_lookup(find, then=by_key()))
    ledger = world.open()
    with pytest.raises(SystemExit), run(ledger):
        pay("o-1")
    hold(ledger)
    world.time_passes()
    report = world.open().recover()
    assert (len(sent), [effect.done for effect in report.effects]) == (1, ["left"])
    assert asked
    assert "is held" in report.effects[0].why


def test_an_attempt_after_one_that_was_not_done_is_refused_and_made_after_the_release(ledger, paid):
    def pay(order):
        paid.append(order)
        if len(paid) == 1:
            raise NotDone("later")
        return order

    pay = declare(pay)
    with run(ledger) as block:
        with pytest.raises(NotDone):
            pay("o-1")
        hold(ledger)
        with pytest.raises(EffectHeld):
            pay("o-1")
        release(ledger)
        pay("o-1")
        block.finish("done")
    (row,) = ledger.effects()
    assert (row["state"], row["attempt"]) == ("succeeded", 2)


def test_a_grant_is_not_used_up_by_a_call_that_is_held(ledger):
    shop = Shop(ledger)
    approval = shop.waits()
    ledger.approve(approval, by="Ines")
    hold(ledger, "shop.refund")
    with ledger.run("agent", conversation="case", message="o-1", dedupe="o-1") as block:
        with pytest.raises(EffectHeld):
            shop.refund("o-1", 80)
        assert shop.states() == ["granted"]
        release(ledger, "shop.refund")
        shop.refund("o-1", 80)
        block.finish("done")
    assert shop.states() == ["consumed"]
    assert shop.provider.booked() == 1


def test_what_the_policy_said_is_on_record_beside_the_refusal(ledger):
    shop = Shop(ledger, policy())
    hold(ledger, "shop.refund")
    with pytest.raises(EffectHeld):
        shop.serve(10)
    rulings = [
        (e.data["policy"], e.data["outcome"]) for e in ledger.events("case", types={"policy.evaluated"})
    ]
    assert rulings == [("limits", "allow"), ("counterfoil.lever", "deny")]


def test_tasks_of_an_async_run_are_held_too(ledger, paid):
    async def pay(order):
        paid.append(order)

    pay = declare(pay)
    hold(ledger)

    async def agent():
        async with run(ledger):
            return await asyncio.gather(*(pay(f"o-{n}") for n in range(3)), return_exceptions=True)

    assert [type(result) for result in asyncio.run(agent())] == [EffectHeld] * 3
    assert paid == []


# ---- moving levers ---------------------------------------------------------------------------------------------------


def test_who_holds_and_why_is_content_and_the_person_a_key(ledger):
    hold(ledger)
    (held,) = ledger.holds()
    assert (held.tool, held.by, held.reason) == ("pay", "Ines", "wrong amounts")
    (event,) = ledger.events(ledger.streams.id_of("config"), types={"lever.held"})
    assert event.data == {"scope": "tool", "tool": "pay"}
    assert event.header.actor["type"] == "human"
    assert event.header.actor["id"].startswith("dk_")
    assert "Ines" not in str(event.header.raw)


def test_moving_a_lever_to_where_it_stands_records_nothing(ledger):
    stream = ledger.streams.id_of("config")
    assert [lever.repeated for lever in (*release(ledger), *hold(ledger), *hold(ledger))] == [
        True,
        False,
        True,
    ]
    assert len(list(ledger.events(stream))) == 1


def test_a_tenant_is_held_apart_from_its_neighbours_unless_everything_is(pay, paid):
    shared = running.World()
    north, south = shared.worker("north"), shared.worker("south")
    hold(north, None)
    with run(south):
        pay("o-1")
    assert {lever.tenant for lever in hold(south, None, everywhere=True)} >= {"north", "south"}
    for ledger in (north, south):
        refused(ledger, pay, "o-2", dedupe="m2")
    assert paid == ["o-1"]


@pytest.mark.parametrize(
    "wrong",
    [{"tool": "Jane's tool"}, {"by": " "}, {"reason": ""}, {"tool": "pay", "everywhere": True}],
    ids=["no label", "nobody", "no reason", "both"],
)
def test_a_lever_that_says_too_little_or_too_much_is_refused(ledger, wrong):
    with pytest.raises(InvalidForm):
        ledger.hold(**({"by": "Ines", "reason": "r"} | wrong))
    assert ledger.holds() == []


def test_of_many_who_pull_one_lever_one_is_recorded(ledger):
    with ThreadPoolExecutor(8) as pool:
        moved = list(pool.map(lambda _: hold(ledger)[0].repeated, range(8)))
    assert sorted(moved) == [False, *[True] * 7]


def test_levers_are_folded_the_same_when_rows_are_made_again(ledger):
    hold(ledger)
    hold(ledger, None)
    release(ledger)
    tables = (LEVERS.name, LEVER_GATES.name)
    before = [ledger.store.select(table) for table in tables]
    ledger.rebuild()
    assert [unversioned(ledger.store.select(table)) for table in tables] == [
        unversioned(rows) for rows in before
    ]


def unversioned(rows):
    return [{name: cell for name, cell in row.items() if name != "row_version"} for row in rows]


# ---- what it costs ---------------------------------------------------------------------------------------------------


def test_without_a_lever_an_intention_reads_nothing_more_and_is_one_append(ledger, pay, monkeypatch):
    reads, units = [], []
    read, append = ledger.ports.read, ledger.ports.append
    monkeypatch.setattr(ledger.ports, "read", lambda query: reads.append(query) or read(query))
    monkeypatch.setattr(
        ledger.ports, "append", lambda unit, claim=None: units.append(unit) or append(unit, claim)
    )
    with run(ledger):
        reads.clear(), units.clear()
        pay("o-1")
        assert (reads, len(units)) == ([], 2)
        assert [guard.table for guard in units[0].guards] == ["effect_keys", "lever_gates"]


def test_after_a_lever_was_moved_a_run_looks_once(ledger, pay, monkeypatch):
    hold(ledger, "other")
    release(ledger, "other")
    reads = []
    read = ledger.ports.read
    with run(ledger):
        monkeypatch.setattr(ledger.ports, "read", lambda query: reads.append(query) or read(query))
        pay("o-1")
        assert len(reads) == 2
        pay("o-2")
        assert len(reads) == 2


def test_a_repair_waits_for_the_release_of_the_tool_that_undoes(ledger):
    bank = Bank(ledger)
    refunded = bank.serve()
    hold(ledger, bank.charge.name)
    report = ledger.repair(refunded, by="Ines", reason="it was too much")
    assert report.open
    assert "EffectHeld" in report.why
    release(ledger, bank.charge.name)
    assert ledger.resume_repair(report.repair_id).state == "repaired"


def test_nobody_is_asked_about_a_call_that_is_held(ledger):
    shop = Shop(ledger)
    hold(ledger, "shop.refund")
    with ledger.run("agent", conversation="case", message="o-1", dedupe="o-1") as block:
        assert block.propose(shop.refund, "o-1", 80) is None
        with pytest.raises(EffectHeld):
            shop.refund("o-1", 80)
        block.finish("done")
    assert ledger.approvals(None) == []
    rulings = [
        (e.data["policy"], e.data["outcome"]) for e in ledger.events("case", types={"policy.evaluated"})
    ]
    assert rulings == [("limits", "ask"), ("counterfoil.lever", "deny")]
    release(ledger, "shop.refund")
    assert shop.waits(order="o-2")


def test_a_run_that_was_refused_before_people_were_asked_is_refused_there_again(world, ledger):
    shop = Shop(ledger)
    hold(ledger, "shop.refund")
    with pytest.raises(StoreBusy), ledger.run("agent", conversation="case", message="m", dedupe="m"):
        with pytest.raises(EffectHeld):
            shop.refund("o-1", 80)
        raise StoreBusy("left open")
    release(ledger, "shop.refund")
    with (
        pytest.raises(RunWaiting),
        ledger.run("agent", conversation="case", message="m", dedupe="m"),
    ):
        with pytest.raises(EffectHeld):
            shop.refund("o-1", 80)
        shop.refund("o-1", 80)
    assert len(ledger.approvals()) == 1
