"""The scan of recovery: what it claims, whom it leaves alone, what it says (DESIGN 7)."""

from __future__ import annotations

import asyncio

import pytest

import counterfoil
from counterfoil.effects.registry import own_tools
from counterfoil.errors import NotFoundError, PolicyFailed, RowsDiffer, RunCancelled, RunWaiting, StoreIO
from tests.running import facts, gone, types_of, vanish


class Gone(BaseException):
    """A death that nothing records."""


class Provider:
    """A provider that took the order; its answer never came."""

    def __init__(self):
        self.book = {}

    def tool(self, doubt=None, name="payment.pay"):
        @counterfoil.effect(
            name,
            version="1",
            touches={"money"},
            key=lambda order: f"pay:{order}",
            doubt=doubt or counterfoil.by_lookup(self.find),
        )
        def pay(order, *, idempotency_key):
            self.book[idempotency_key] = {"id": "p_1"}
            raise Gone

        return pay

    def find(self, idempotency_key):
        found = self.book.get(idempotency_key)
        return counterfoil.Absent() if found is None else counterfoil.Found("succeeded", found)


@pytest.fixture(autouse=True)
def _own_tools():
    with own_tools():
        yield


@pytest.fixture
def provider():
    return Provider()


def killed_in_the_call(world, ledger, pay, dedupe="1"):
    """A worker dies after the provider took the order and before the answer; time passes until nobody holds anything."""

    def dies(run):
        with pytest.raises(Gone):
            pay("O-1")

    run_id = vanish(ledger.run("a", conversation="c", dedupe=dedupe), dies)
    world.clock.advance(3_600_000)
    return run_id


def test_doubt_is_ended_by_asking_the_provider(world, ledger, provider):
    pay = provider.tool()
    killed_in_the_call(world, ledger, pay)
    (effect,) = world.worker().recover().effects
    assert (effect.done, effect.state) == ("decided", "succeeded")
    assert types_of(ledger, "c")[-3:] == ["run.claimed", "effect.looked_up", "effect.observed"]
    assert facts(ledger, "c", "run.claimed")[-1]["cause"] == "recovery"


def test_the_run_goes_on_after_recovery_without_paying_again(world, ledger, provider):
    pay = provider.tool()
    run_id = killed_in_the_call(world, ledger, pay)
    report = world.worker().recover()
    assert [row["run_id"] for row in report.open_runs] == [run_id]
    provider.book.clear()
    with world.worker().run("a", conversation="c", dedupe="1") as run:
        assert run.id == run_id
        assert pay("O-1") == {"id": "p_1"}
    assert provider.book == {}


def test_a_second_recovery_finds_nothing_to_do(world, ledger, provider):
    killed_in_the_call(world, ledger, provider.tool())
    world.worker().recover()
    before = types_of(ledger, "c")
    assert world.worker().recover().effects == []
    assert types_of(ledger, "c") == before


def test_a_live_run_is_left_to_its_worker(world, ledger, provider):
    pay = provider.tool()

    def dies_holding_on(run):
        with pytest.raises(Gone):
            pay("O-1")
        world.clock.advance(3_600_000)
        run._scope.hold_lease(world.clock.now_ms() + 30_000)

    vanish(ledger.run("a", conversation="c"), dies_holding_on)
    (effect,) = world.worker().recover().effects
    assert effect.done == "live"
    assert "effect.looked_up" not in types_of(ledger, "c")


def test_nobody_is_asked_before_the_deadline_of_the_call(world, ledger, provider):
    pay = provider.tool()

    def dies(run):
        with pytest.raises(Gone):
            pay("O-1")

    vanish(ledger.run("a", conversation="c"), dies)
    (effect,) = world.worker().recover().effects
    assert effect.done == "left"
    assert "deadline" in effect.why
    assert "run.claimed" not in types_of(ledger, "c")


def test_without_the_tools_code_recovery_names_the_tool_and_leaves(world, ledger, provider):
    killed_in_the_call(world, ledger, provider.tool())
    with own_tools():
        report = world.worker().recover()
    assert report.tools_missing == ["payment.pay"]
    assert [effect.done for effect in report.effects] == ["left"]
    assert "run.claimed" not in types_of(ledger, "c")


def test_what_cannot_be_asked_goes_to_a_person_and_the_run_is_shown_as_waiting(world, ledger, provider):
    run_id = killed_in_the_call(world, ledger, provider.tool(counterfoil.by_review()))
    (effect,) = world.worker().recover().effects
    assert effect.done == "review"
    row = ledger.run_row(run_id)
    (review,) = ledger.reviews()
    assert (row["state"], row["cause"], row["waits_for"]) == ("suspended", "review", review["review_id"])
    with pytest.raises(RunWaiting):
        world.worker().run("a", conversation="c", dedupe="1").__enter__()


def test_an_ended_run_can_leave_doubt_that_recovery_ends(world, ledger, provider):
    run_id = killed_in_the_call(world, ledger, provider.tool(), dedupe=None)
    with world.worker().run("b", conversation="c"):
        pass
    assert ledger.run_row(run_id)["terminal"] == "interrupted"
    (effect,) = world.worker().recover().effects
    assert effect.state == "succeeded"
    assert ledger.run_row(run_id)["terminal"] == "interrupted"


def test_a_run_that_stepped_aside_waits_for_its_effect_and_goes_on_after_recovery(world, ledger, provider):
    pay = provider.tool()
    run_id = killed_in_the_call(world, ledger, pay)
    with world.worker().run("b", conversation="c"):
        pass
    (effect,) = ledger.effects()
    assert facts(ledger, "c", "run.suspended") == [{"cause": "effect", "waits_for": [effect["effect_id"]]}]
    world.worker().recover()
    with world.worker().run("a", conversation="c", dedupe="1") as again:
        assert (again.id, pay("O-1")) == (run_id, {"id": "p_1"})


def test_only_what_was_named_is_looked_at(world, ledger, provider):
    pay = provider.tool()
    killed_in_the_call(world, ledger, pay)
    vanish(world.worker().run("a", conversation="another"))
    assert world.worker().recover(only=[ledger.stream_of("another")]).effects == []
    assert len(world.worker().recover(only=["payment.pay"]).effects) == 1


def test_a_name_that_names_nothing_is_not_found_before_anything_is_done(world, ledger, provider):
    killed_in_the_call(world, ledger, provider.tool())
    with pytest.raises(NotFoundError, match=r"payment\.lay"):
        world.worker().recover(only=["payment.pay", "payment.lay"])
    assert facts(ledger, "c", "effect.looked_up") == []


def test_what_a_person_was_asked_about_is_undecided_in_every_later_pass(world, ledger, provider):
    killed_in_the_call(world, ledger, provider.tool(counterfoil.by_review()))
    first, second = world.worker().recover(), world.worker().recover()
    assert ([effect.done for effect in first.effects], first.waiting) == (["review"], [])
    assert (second.effects, [effect.state for effect in second.waiting]) == ([], ["in_review"])
    assert len(first.undecided) == len(second.undecided) == 1


def test_async_tools_are_recovered_from_sync_code_and_inside_a_running_loop(world, ledger):
    async def find(idempotency_key):
        await asyncio.sleep(0)
        return counterfoil.Found("succeeded", "found")

    @counterfoil.effect("mail.send", version="1", touches={"messages"}, doubt=counterfoil.by_lookup(find))
    async def send(to, *, idempotency_key):
        raise Gone

    async def dies(name):
        run = ledger.run("a", conversation=name)
        await run.__aenter__()
        with pytest.raises(Gone):
            await send(name)
        gone(run)

    asyncio.run(dies("c"))
    world.clock.advance(3_600_000)
    assert [effect.state for effect in world.worker().recover().effects] == ["succeeded"]

    asyncio.run(dies("d"))
    world.clock.advance(3_600_000)

    async def recover():
        return [effect.state for effect in world.worker().recover().effects]

    assert asyncio.run(recover()) == ["succeeded"]


def test_recovery_is_restartable_after_a_crash_of_its_own(world, ledger, provider):
    calls = []

    def find(idempotency_key):
        calls.append(idempotency_key)
        if len(calls) == 1:
            raise Gone
        return counterfoil.Found("succeeded", "p_1")

    killed_in_the_call(world, ledger, provider.tool(counterfoil.by_lookup(find)))
    with pytest.raises(Gone):
        world.worker().recover()
    world.clock.advance(3_600_000)
    assert [effect.state for effect in world.worker().recover().effects] == ["succeeded"]


def lookups(ledger):
    """The outcomes that were learnt by asking."""
    observed = facts(ledger, "c", "effect.observed")
    return [event["outcome"] for event in observed if event["source"] == "lookup"]


def test_two_recoveries_at_once_ask_the_provider_once(world, ledger, provider):
    asked, other = [], world.worker()

    def find(idempotency_key):
        asked.append(idempotency_key)
        if len(asked) == 1:
            (effect,) = other.recover().effects
            assert effect.done == "live"
        return counterfoil.Found("succeeded", "p_1")

    killed_in_the_call(world, ledger, provider.tool(counterfoil.by_lookup(find)))
    (effect,) = world.worker().recover().effects
    assert (effect.done, len(asked)) == ("decided", 1)
    assert lookups(ledger) == ["succeeded"]


def test_a_recovery_that_was_overtaken_records_nothing_more(world, ledger, provider):
    asked, other = [], world.worker()

    def slow(idempotency_key):
        asked.append(idempotency_key)
        if len(asked) == 1:
            world.clock.advance(3_600_000)
            assert [effect.done for effect in other.recover().effects] == ["decided"]
        return counterfoil.Found("succeeded", "p_1")

    killed_in_the_call(world, ledger, provider.tool(counterfoil.by_lookup(slow)))
    (effect,) = world.worker().recover().effects
    assert effect.done in {"live", "nothing"}
    assert lookups(ledger) == ["succeeded"]


def test_a_conversation_that_cannot_be_opened_keeps_no_other_from_being_recovered(world, ledger, provider):
    pay = provider.tool()

    def dies(run):
        with pytest.raises(Gone):
            pay(run.message)

    for name in ("c1", "c2", "c3"):
        vanish(ledger.run("a", conversation=name, message=name, dedupe="1"), dies)
    world.expire_leases()
    world.clock.advance(60_000)
    lost = ledger.ports.genesis(ledger.stream_of("c2"))
    ledger.keyring.store.delete([lost.key])
    ledger.keyring.forget()
    report = ledger.recover()
    assert [(effect.done, effect.stream_id == lost.stream_id) for effect in report.effects] == [
        ("decided", False),
        ("left", True),
        ("decided", False),
    ]
    assert lost.key in report.effects[1].why


# ---- one effect that goes wrong --------------------------------------------------------------------------------------


def two_in_doubt(world, pay):
    """Two conversations, each with a call whose worker died; both payments were made."""

    def dies(run):
        with pytest.raises(Gone):
            pay(f"O-{run.message}")

    runs = [
        vanish(world.worker().run("a", conversation=f"c{number}", message=str(number), dedupe="1"), dies)
        for number in (1, 2)
    ]
    world.clock.advance(3_600_000)
    return runs


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("PRIVATE words"),
        asyncio.CancelledError(),
        RunCancelled("stopped"),
        RowsDiffer("a row differs"),
        PolicyFailed("a policy raised"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_leaves_the_flow_of_one_effect_is_reported_and_the_next_has_its_turn(
    world, provider, monkeypatch, error, asynchronous
):
    pay = provider.tool()
    first, second = two_in_doubt(world, pay)
    monkeypatch.setattr(pay, "asynchronous", asynchronous)
    monkeypatch.setattr("counterfoil.runtime.recover.recover_effect", failing_for(first, error))
    report = world.worker().recover()
    found = {effect.run_id: effect for effect in report.effects}
    assert (found[first].done, found[first].state) == ("left", "unknown")
    assert (found[second].done, found[second].state) == ("decided", "succeeded")
    assert "PRIVATE" not in found[first].why
    assert getattr(error, "message", type(error).__name__) in found[first].why


def failing_for(run_id, error):
    from counterfoil.effects.recover import recover_effect

    def flow(row, tool, scope):
        if row["run_id"] == run_id:
            raise error
        return (yield from recover_effect(row, tool, scope))

    return flow


def test_a_key_that_is_missing_keeps_no_other_effect_from_being_recovered(world, provider):
    first, second = two_in_doubt(world, provider.tool())
    ledger = world.worker()
    ledger.keyring.store.delete([ledger.ports.genesis(ledger.run_row(first)["stream_id"]).key])
    found = {effect.run_id: effect.done for effect in ledger.recover().effects}
    assert found == {first: "left", second: "decided"}


def test_a_store_that_fails_ends_the_pass_because_it_is_nobodys_own(world, provider, monkeypatch):
    first, _ = two_in_doubt(world, provider.tool())
    monkeypatch.setattr(
        "counterfoil.runtime.recover.recover_effect", failing_for(first, StoreIO("the disk is gone"))
    )
    with pytest.raises(StoreIO):
        world.worker().recover()


def test_an_interrupt_ends_the_pass(world, provider, monkeypatch):
    first, _ = two_in_doubt(world, provider.tool())
    monkeypatch.setattr("counterfoil.runtime.recover.recover_effect", failing_for(first, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        world.worker().recover()
