"""Playing a repair: calls in order up to the first that does not succeed, each made once; then it goes on from there."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

import counterfoil
from counterfoil.effects import Retry
from counterfoil.effects.registry import own_tools
from counterfoil.errors import ApproverRefused, InputError, ToolInvalid, ToolNotFound
from counterfoil.policy import RuleList, ask, constrain, deny
from tests.repairing import CASE, Bank, check_repairs


def test_every_planned_call_is_made_and_the_repair_closes_by_itself(bank, refunded):
    report = bank.repair()
    assert (report.state, report.why, report.waits_for) == ("repaired", "", ())
    assert (bank.sent("charged"), bank.sent("told")) == (1, 1)
    (closed,) = bank.ledger.events(CASE, types=["repair.closed"])
    assert closed.data["compensations"] == [step.effect_id for step in report.steps]
    assert closed.header.actor == {"type": "system", "id": "counterfoil"}


def test_a_compensation_is_an_effect_as_any_and_names_what_it_undoes(bank, refunded):
    bank.repair()
    intended = list(bank.ledger.events(CASE, types=["effect.intended"]))
    assert [event.data.get("compensates") for event in intended] == [None, refunded, refunded]
    assert bank.types("effect.")[2:] == ["effect.intended", "effect.observed"] * 2


def test_the_effect_that_is_undone_stays_as_it_was_recorded(bank, refunded):
    before = dict(bank.ledger.store.get("effects", (refunded,)))
    bank.repair()
    assert bank.ledger.store.get("effects", (refunded,)) == before


def test_the_run_acts_for_the_person_who_opened_it_and_ends_with_success(bank, refunded):
    bank.repair()
    run = bank.ledger.runs(CASE)[-1]
    (started,) = [
        e for e in bank.ledger.events(CASE, types=["run.started"]) if e.header.run_id == run["run_id"]
    ]
    opened = next(iter(bank.ledger.events(CASE, types=["repair.opened"])))
    assert (run["agent"], run["terminal"]) == ("repair", "success")
    assert started.data["principal"] == opened.header.actor["id"]


def test_after_a_call_that_was_confirmed_not_done_the_next_run_makes_only_what_is_left(bank, refunded):
    bank.provider.plan(None, "not_done")
    report = bank.repair()
    assert (report.state, [step.state for step in report.steps]) == ("open", ["done", "to_do"])
    assert report.why == "call 2 of 2, bank.letter, ended with NotDone"
    again = bank.ledger.resume_repair(report.repair_id)
    assert again.state == "repaired"
    assert (bank.sent("charged"), bank.sent("told")) == (1, 1)


def test_calls_after_one_that_did_not_succeed_are_not_made(bank, refunded):
    bank.provider.plan("not_done")
    report = bank.repair()
    assert [step.state for step in report.steps] == ["to_do", "to_do"]
    assert bank.sent("told") == 0


def test_a_refused_call_is_never_sent_again_however_often_the_repair_is_resumed(bank, refunded):
    bank.provider.plan("rejected")
    report = bank.repair()
    requests = list(bank.provider.requests)
    for _ in range(3):
        again = bank.ledger.resume_repair(report.repair_id)
    assert again.why == "call 1 of 2, bank.charge, was refused for good and is not sent again"
    assert bank.provider.requests == requests
    assert len(bank.ledger.runs(CASE)) == 2


def test_resuming_what_is_closed_changes_nothing(bank, refunded):
    report = bank.repair()
    head = bank.ledger.store.head(report.stream_id)
    assert bank.ledger.resume_repair(report.repair_id).state == "repaired"
    assert bank.ledger.store.head(report.stream_id) == head


def test_calling_repair_again_goes_on_with_the_open_one(bank, refunded):
    bank.provider.plan("not_done")
    bank.repair()
    again = bank.repair()
    assert (again.state, again.repeated) == ("repaired", True)
    assert bank.states() == ["repaired"]


@pytest.mark.parametrize("policy", ["queue", "absorb", "supersede", "reject"])
def test_a_repair_in_a_conversation_that_is_busy_waits_whatever_the_conversation_does_with_inputs(
    bank, policy
):
    with bank.ledger.run("agent", conversation=CASE, message="o-1", dedupe="o-1", while_running=policy):
        bank.refund("o-1", 40)
    with bank.ledger.run("agent", conversation=CASE, message="next", dedupe="next") as live:
        report = contextvars.Context().run(bank.repair)
        assert report.open
        assert bank.sent("charged") == 0
    assert live.terminal == "success"
    assert bank.types("admission")[-2:] == ["admission.deferred", "admission.released"]
    assert bank.ledger.resume_repair(report.repair_id).state == "repaired"


def test_a_compensation_under_a_business_key_that_was_used_before_is_not_sent_again(bank, refunded):
    send = bank.provider.send

    @counterfoil.effect(
        "bank.credit",
        version="1",
        touches={"money"},
        key=lambda order: f"credit:{order}",
        doubt=counterfoil.by_key(),
    )
    def credit(order: str, *, idempotency_key: str = ""):
        return send(idempotency_key=idempotency_key, credited=order)

    with bank.ledger.run("agent", conversation="another"):
        credit("o-1")
    report = bank.repair(calls=[credit.later("o-1")])
    assert (report.state, bank.sent("credited")) == ("repaired", 1)
    (closed,) = bank.ledger.events(CASE, types=["repair.closed"])
    assert closed.data["compensations"] == [report.steps[0].effect_id]


def test_two_repairs_make_their_own_calls_of_a_tool_without_a_key(bank, refunded):
    bank.provider.plan(None, "rejected")
    first = bank.repair()
    bank.ledger.close_repair(first.repair_id, "partial", by="Dana", reason="no letter")
    bank.repair(reason="the rest", calls=[bank.charge.later("o-1", 40)])
    assert bank.sent("charged") == 2


def test_a_repeatable_tool_is_called_once_in_a_repair(bank, refunded):
    send = bank.provider.send

    @counterfoil.effect(
        "bank.note", version="1", touches={"data"}, doubt=counterfoil.by_key(), repeatable=True
    )
    def note(order: str, *, idempotency_key: str = ""):
        return send(idempotency_key=idempotency_key, noted=order)

    bank.provider.plan(None, "not_done")
    report = bank.repair(calls=[note.later("o-1"), bank.letter.later("o-1")])
    bank.ledger.resume_repair(report.repair_id)
    assert bank.sent("noted") == 1


# ---- tools that changed or are not there -------------------------------------------------------------------------


def test_a_repair_whose_tool_is_not_loaded_says_so_and_nothing_is_begun(bank, refunded):
    opened = bank.ledger.open_repair(refunded, by="Dana", reason="too much")
    with own_tools(), pytest.raises(ToolNotFound, match=r"bank\.charge"):
        bank.ledger.resume_repair(opened.repair_id)
    assert len(bank.ledger.runs(CASE)) == 1


def test_without_the_tools_code_the_steps_are_known_by_their_arguments(bank, refunded):
    bank.provider.plan(None, "rejected")
    report = bank.repair()
    with own_tools():
        seen = bank.ledger.repair_report(report.repair_id)
    assert seen.steps == report.steps


def test_a_tool_that_takes_other_arguments_today_is_not_called(bank, refunded):
    opened = bank.ledger.open_repair(refunded, by="Dana", reason="too much")
    with own_tools():

        @counterfoil.effect("bank.charge", version="2", touches={"money"}, doubt=counterfoil.by_key())
        def charge(account: str, *, idempotency_key: str = ""):
            raise AssertionError("not called")

        with pytest.raises(ToolInvalid, match="does not take"):
            bank.ledger.resume_repair(opened.repair_id)


# ---- policy and people -------------------------------------------------------------------------------------------


def policy(*rules):
    return RuleList("limits", revision="1", otherwise="allow", rules=list(rules))


def of(tool):
    return lambda call: call.tool == tool


def test_a_compensation_waits_for_people_and_whoever_opened_the_repair_cannot_approve(bank, refunded):
    bank.ledger.policy = policy(ask("charges", when=of("bank.charge")))
    report = bank.repair()
    (approval,) = [str(row["approval_id"]) for row in bank.ledger.approvals()]
    assert (report.state, report.waits_for) == ("open", (approval,))
    with pytest.raises(ApproverRefused):
        bank.ledger.approve(approval, by="Dana")
    bank.ledger.approve(approval, by="Omar")
    assert bank.ledger.resume_repair(report.repair_id).state == "repaired"
    assert bank.sent("charged") == 1


def test_a_denied_compensation_leaves_the_repair_open_and_is_asked_about_again(bank, refunded):
    bank.ledger.policy = policy(ask("charges", when=of("bank.charge")))
    report = bank.repair()
    bank.ledger.deny(report.waits_for[0], by="Omar")
    denied = bank.ledger.resume_repair(report.repair_id)
    assert denied.why == "call 1 of 2, bank.charge, ended with ApprovalDenied"
    asked = bank.ledger.resume_repair(report.repair_id)
    assert asked.waits_for != report.waits_for
    assert bank.sent("charged") == 0


def test_a_compensation_that_the_policy_denies_is_not_made(bank, refunded):
    bank.ledger.policy = policy(deny("no-letters", when=of("bank.letter"), reason="no"))
    report = bank.repair()
    assert report.why == "call 2 of 2, bank.letter, ended with PolicyDenied"
    bank.ledger.policy = None
    assert bank.ledger.resume_repair(report.repair_id).state == "repaired"
    assert bank.sent("charged") == 1


def test_a_compensation_without_a_key_of_its_own_can_be_constrained(bank, refunded):
    less = constrain("half", when=of("bank.charge"), to=lambda call: {**call.arguments, "amount": 20})
    bank.ledger.policy = policy(less)
    assert bank.repair().state == "repaired"
    assert [dict(entry.what).get("amount") for entry in bank.provider.book] == [40, 20, None]


# ---- doubt -------------------------------------------------------------------------------------------------------


def test_a_lost_answer_is_found_by_the_rule_of_the_compensation(bank, refunded):
    bank.provider.plan("answer_lost")
    assert bank.repair().state == "repaired"
    assert bank.sent("charged") == 1


def test_a_compensation_in_review_is_settled_and_the_repair_goes_on(world):
    bank = Bank(world.open(), rule="review")
    effect_id = bank.serve()
    bank.provider.plan("answer_lost")
    report = bank.repair(effect_id)
    (review,) = bank.ledger.reviews()
    assert (report.state, report.waits_for) == ("open", (review["review_id"],))
    bank.ledger.settle(str(review["review_id"]), "succeeded", by="Omar", reason="the bank's book says so")
    assert bank.ledger.resume_repair(report.repair_id).state == "repaired"
    assert (bank.sent("charged"), bank.sent("told")) == (1, 1)


def test_a_compensation_settled_without_success_is_not_sent_again(world):
    bank = Bank(world.open(), rule="review")
    bank.serve()
    bank.provider.plan("unreached")
    report = bank.repair()
    (review,) = bank.ledger.reviews()
    bank.ledger.settle(str(review["review_id"]), "failed", by="Omar", reason="the bank's book says so")
    again = bank.ledger.resume_repair(report.repair_id)
    assert [step.state for step in again.steps] == ["refused", "to_do"]
    assert bank.ledger.runs(CASE)[-1]["terminal"] == "runtime_failure"


def test_recovery_ends_the_doubt_of_a_compensation_and_keeps_what_it_undoes(world):
    bank = Bank(world.open(), rule="lookup_then_key")
    refunded = bank.serve()
    bank.provider.plan("unreached")
    bank.provider.plan_lookups("unreached", "unreached", "unreached")
    report = bank.repair()
    assert report.open
    world.time_passes()
    bank.ledger.recover()
    assert bank.ledger.resume_repair(report.repair_id).state == "repaired"
    intended = [
        e for e in bank.ledger.events(CASE, types=["effect.intended"]) if e.data["tool"] == "bank.charge"
    ]
    assert [(e.header.attempt, e.data["compensates"]) for e in intended] == [(1, refunded), (2, refunded)]


# ---- sync and async ----------------------------------------------------------------------------------------------


@pytest.fixture
def tasks(world):
    return Bank(world.open(), asynchronous=True)


def test_async_tools_are_awaited(tasks):
    async def work():
        effect_id = await tasks.aserve()
        tasks.provider.plan("not_done")
        report = await tasks.ledger.arepair(effect_id, by="Dana", reason="too much")
        return report, await tasks.ledger.aresume_repair(report.repair_id)

    first, second = asyncio.run(work())
    assert (first.state, second.state) == ("open", "repaired")
    check_repairs(tasks.ledger)


def test_sync_code_may_repair_with_async_tools(tasks):
    effect_id = asyncio.run(tasks.aserve())
    assert tasks.repair(effect_id).state == "repaired"


def test_sync_code_in_an_event_loop_is_told_to_await(tasks):
    async def work():
        return tasks.repair(await tasks.aserve())

    with pytest.raises(InputError, match="event loop"):
        asyncio.run(work())
    assert tasks.states() == ["open"]


# ---- retries -----------------------------------------------------------------------------------------------------


def test_a_compensation_that_is_to_be_tried_again_later_keeps_the_repair_open_until_then(
    bank, refunded, world
):
    send = bank.provider.send

    @counterfoil.effect(
        "bank.slow",
        version="1",
        touches={"money"},
        doubt=counterfoil.by_key(),
        retry=Retry(attempts=3, first_delay_s=1800, delay_max_s=3600, jitter=0),
    )
    def slow(order: str, *, idempotency_key: str = ""):
        return send(idempotency_key=idempotency_key, slowly=order)

    bank.provider.plan("not_done")
    report = bank.repair(calls=[slow.later("o-1")])
    assert (report.state, bank.sent("slowly")) == ("open", 0)
    assert report.waits_for
    world.time_passes()
    world.time_passes()
    assert bank.ledger.resume_repair(report.repair_id).state == "repaired"
    assert bank.sent("slowly") == 1
