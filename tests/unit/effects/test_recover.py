"""Recovery of an effect whose worker is gone: after its deadline, by its recorded rule, by any number of workers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from counterfoil.effects import Found, by_key, by_lookup, by_repeating, by_review, effect, events
from counterfoil.effects.outcome import Verdict
from counterfoil.effects.recover import recover_effect
from counterfoil.effects.registry import own_tools
from counterfoil.errors import RunWaiting
from counterfoil.flow.context import RunScope
from counterfoil.flow.drive import drive
from counterfoil.flow.event import Event
from counterfoil.flow.requests import Entry, UnitDraft
from counterfoil.testing.crash import LifeUntil, live
from counterfoil.testing.truth import check_truth


def declare(provider, doubt, **more):
    settings = {"version": "1", "touches": {"money"}, "doubt": doubt} | more

    @effect("pay", **settings)
    def pay(order: str, *, idempotency_key: str = ""):
        return provider.send(idempotency_key=idempotency_key, order=order)

    return pay


@pytest.fixture
def left_in_doubt(world):
    """Leave an effect intended and not observed; ``sent`` says whether its call reached the provider."""

    def leave(pay, *, sent):
        def work(ledger):
            with ledger.run("agent", conversation="case", message="m", dedupe="m1"):
                pay("o-1")

        live(world, LifeUntil("call pay", "after" if sent else "before"), work)

    return leave


def resume(world, pay):
    with world.open().run("agent", conversation="case", message="m", dedupe="m1"):
        return pay("o-1")


@pytest.mark.parametrize("sent", [True, False])
def test_by_key_sends_the_same_key_again(world, ledger, provider, left_in_doubt, sent):
    pay = declare(provider, by_key())
    left_in_doubt(pay, sent=sent)
    world.time_passes()
    report = ledger.recover()
    assert [(entry.done, entry.state) for entry in report.effects] == [("decided", "succeeded")]
    assert provider.booked() == 1
    assert resume(world, pay)["id"] == "re_1"
    assert len(set(provider.requests)) == 1


def test_by_lookup_asks_and_believes_what_it_finds(world, ledger, provider, left_in_doubt, told):
    pay = declare(provider, by_lookup(provider.find))
    left_in_doubt(pay, sent=True)
    world.time_passes()
    ledger.recover()
    assert told("source")[-1] == ("effect.observed", "lookup")
    assert resume(world, pay)["id"] == "re_1"
    assert len(provider.requests) == 1


def test_by_lookup_alone_asks_a_human_when_nothing_is_found(world, ledger, provider, left_in_doubt):
    pay = declare(provider, by_lookup(provider.find))
    left_in_doubt(pay, sent=False)
    world.time_passes()
    report = ledger.recover()
    assert [(entry.done, entry.state) for entry in report.effects] == [("review", "in_review")]
    assert provider.requests == []
    with pytest.raises(RunWaiting):
        resume(world, pay)
    assert provider.requests == []


def test_by_lookup_then_key_sends_what_never_arrived(world, ledger, provider, left_in_doubt):
    pay = declare(provider, by_lookup(provider.find, then=by_key()))
    left_in_doubt(pay, sent=False)
    world.time_passes()
    ledger.recover()
    assert provider.booked() == 1
    assert resume(world, pay)["id"] == "re_1"


def test_by_review_asks_a_human_even_without_the_tools_code(world, ledger, provider, left_in_doubt):
    left_in_doubt(declare(provider, by_review()), sent=True)
    world.time_passes()
    with own_tools():
        report = ledger.recover()
    assert [entry.done for entry in report.effects] == ["review"]


def test_by_repeating_looks_again(world, ledger, provider, left_in_doubt):
    pay = declare(provider, by_repeating(), touches=set())
    left_in_doubt(pay, sent=True)
    world.time_passes()
    ledger.recover()
    assert ledger.effects()[0]["state"] == "succeeded"
    assert len(provider.requests) == 2


def test_nothing_is_asked_before_the_deadline(world, ledger, provider, left_in_doubt):
    pay = declare(provider, by_lookup(provider.find), timeout_s=600)
    left_in_doubt(pay, sent=True)
    row = ledger.effects()[0]
    world.clock.advance(599_000)
    scope = _scope(ledger, row)
    done = drive(recover_effect(row, pay, scope), ledger.ports)
    assert (done.done, done.state) == ("left", "intended")
    assert provider.lookups == 0
    world.clock.advance(1_000)
    assert drive(recover_effect(row, pay, scope), ledger.ports).done == "decided"


def test_without_the_tools_code_the_effect_is_listed_and_left(world, ledger, provider, left_in_doubt):
    left_in_doubt(declare(provider, by_lookup(provider.find)), sent=True)
    world.time_passes()
    with own_tools():
        report = ledger.recover()
    assert report.tools_missing == ["pay"]
    assert [entry.done for entry in report.effects] == ["left"]
    assert ledger.effects()[0]["state"] == "intended"


def test_arguments_that_no_longer_fit_the_tool_are_not_sent(world, ledger, provider, left_in_doubt):
    left_in_doubt(declare(provider, by_key()), sent=True)
    world.time_passes()

    @effect("pay", version="2", touches={"money"}, doubt=by_key())
    def pay(order_number: str, *, idempotency_key: str = ""):
        return provider.send(idempotency_key=idempotency_key, order=order_number)

    with own_tools():
        row = ledger.effects()[0]
        done = drive(recover_effect(row, pay, _scope(ledger, row)), ledger.ports)
    assert done.done == "review"
    assert [review["cause"] for review in ledger.reviews()] == ["schema_changed"]
    assert len(provider.requests) == 1


def test_arguments_that_cannot_be_opened_go_to_a_human(world, ledger, provider, left_in_doubt, monkeypatch):
    left_in_doubt(declare(provider, by_key()), sent=True)
    world.time_passes()
    monkeypatch.setattr(Event, "content_or_none", lambda event: None)
    report = ledger.recover()
    assert [entry.done for entry in report.effects] == ["review"]
    assert [review["cause"] for review in ledger.reviews()] == ["key_missing"]
    assert len(provider.requests) == 1


def test_an_effect_that_is_decided_is_left_in_peace(world, ledger, provider):
    pay = declare(provider, by_key())
    with ledger.run("agent", conversation="case", message="m", dedupe="m1"):
        pay("o-1")
    row = ledger.effects()[0]
    world.time_passes()
    done = drive(recover_effect(row, pay, _scope(ledger, row)), ledger.ports)
    assert (done.done, done.state) == ("nothing", "succeeded")
    assert len(provider.requests) == 1


def test_the_doubt_of_a_run_that_has_ended_is_ended_all_the_same(world, ledger, provider):
    """Ctrl-C ends the run, not the doubt; entering it again hands out what recovery found."""

    @effect("pay", version="1", touches={"money"}, doubt=by_lookup(provider.find))
    def pay(order: str, *, idempotency_key: str = ""):
        provider.send(idempotency_key=idempotency_key, order=order)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), ledger.run("agent", conversation="case", message="m", dedupe="m1"):
        pay("o-1")
    assert ledger.runs()[0]["terminal"] == "interrupted"
    assert ledger.effects()[0]["state"] == "unknown"
    world.time_passes()
    assert [entry.done for entry in world.open().recover().effects] == ["decided"]
    assert resume(world, pay)["id"] == "re_1"
    assert len(provider.requests) == 1


def test_a_second_recovery_finds_nothing_to_do(world, ledger, provider, left_in_doubt):
    left_in_doubt(declare(provider, by_lookup(provider.find)), sent=True)
    world.time_passes()
    ledger.recover()
    assert world.open().recover().effects == []


def test_a_recoverer_that_was_overtaken_by_another_writes_nothing(world, ledger, provider, left_in_doubt):
    """Two recoveries look at the same effect; the second claims while the first asks the provider."""
    other = world.open()

    def find(**what):
        if provider.lookups == 0:
            provider.lookups += 1
            world.time_passes()
            assert [entry.done for entry in other.recover().effects] == ["decided"]
        return provider.find(**what)

    left_in_doubt(declare(provider, by_lookup(find)), sent=True)
    world.time_passes()
    report = ledger.recover()
    assert [entry.done for entry in report.effects] == ["live"]
    observed = list(ledger.events("case", types={"effect.observed"}))
    assert len(observed) == 1
    check_truth(ledger)


def test_many_recoveries_at_once_send_once_and_agree(world, provider, left_in_doubt):
    left_in_doubt(declare(provider, by_lookup(provider.find, then=by_key())), sent=False)
    world.time_passes()
    workers = [world.open() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(lambda worker: worker.recover(), workers))
    done = [entry.done for report in reports for entry in report.effects]
    assert done.count("decided") == 1
    assert set(done) <= {"decided", "live", "nothing", "left"}
    assert len(provider.requests) == 1
    check_truth(workers[0])


@pytest.mark.parametrize("came,state", [("succeeded", "succeeded"), ("rejected", "contradicted")])
def test_a_late_answer_during_recovery_is_not_overwritten(
    world, ledger, provider, left_in_doubt, came, state
):
    """The provider is being asked when an answer arrives by another way: what is recorded first is the outcome."""

    def find(**_):
        row = ledger.effects()[0]
        attempt = events.Attempt(row["effect_id"], 1, row["intended_event_id"])
        verdict = Verdict(came, {"result": "late"})
        draft = events.late_observed(_scope(ledger, row), attempt, verdict, 1)
        ledger.ports.append(UnitDraft((Entry(row["stream_id"], (draft,)),)))
        return Found("succeeded", "looked up")

    pay = declare(provider, by_lookup(find))
    left_in_doubt(pay, sent=True)
    world.time_passes()
    ledger.recover()
    (row,) = ledger.effects()
    assert row["state"] == state
    check_truth(ledger)
    if state == "succeeded":
        assert resume(world, pay) == "late"
    else:
        assert [review["cause"] for review in ledger.reviews()] == ["contradicted"]


def test_an_async_tool_is_recovered_from_sync_code(world, ledger, provider, left_in_doubt):
    @effect("pay", version="1", touches={"money"}, doubt=by_lookup(provider.afind))
    async def pay(order: str, *, idempotency_key: str = ""):
        return await provider.asend(idempotency_key=idempotency_key, order=order)

    async def work(dying):
        async with dying.run("agent", conversation="case", message="m", dedupe="m1"):
            await pay("o-1")

    live(world, LifeUntil("call pay"), work)
    world.time_passes()
    assert [entry.done for entry in ledger.recover().effects] == ["decided"]
    assert len(provider.requests) == 1


def test_a_deadline_that_passes_while_a_resend_is_intended_is_an_outcome_and_stops_nothing(
    world, ledger, provider, left_in_doubt
):
    pay = declare(provider, by_key())
    left_in_doubt(pay, sent=True)
    world.time_passes()
    append = ledger.ports.append

    def slow(unit, claim=None):
        receipt = append(unit, claim)
        if any(draft.event_type == "effect.intended" for entry in unit.entries for draft in entry.drafts):
            world.clock.advance(3_600_000)
        return receipt

    ledger.ports.append = slow
    assert [(entry.done, entry.state) for entry in ledger.recover().effects] == [("decided", "failed")]
    assert len(provider.requests) == 1
    # Nothing is lost: whoever wants it done runs the code again, which sends the same key.
    assert resume(world, pay)["id"] == "re_1"
    assert provider.booked() == 1
    check_truth(ledger)


def _scope(ledger, row):
    head = ledger.store.head(row["stream_id"])
    lease = head.lease
    if lease is None or lease.expires_at_ms <= ledger.ports.now_ms():
        lease = ledger.store.claim(head.stream_id, "recovery", 30_000, head.token).lease
    return RunScope(
        ledger.ports, stream_id=row["stream_id"], run_id=row["run_id"], agent="agent", lease=lease
    )
