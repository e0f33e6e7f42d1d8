"""Closing a repair by hand, and what cannot be undone at all."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.errors import InvalidForm, RepairClosed, RepairNotFound, RepairUnsettled
from counterfoil.flow.drafting import Outsider
from counterfoil.flow.requests import Entry, UnitDraft
from counterfoil.repair import events
from counterfoil.repair.close import Word
from tests.repairing import CASE, Bank, meanwhile


def closing(bank):
    return list(bank.ledger.events(CASE, types=["repair.closed"]))[-1]


@pytest.fixture
def stuck(bank, refunded):
    """A repair whose second call was refused."""
    bank.provider.plan(None, "rejected")
    return bank.repair(residual_impact="the customer had been told")


def test_a_person_closes_it_as_partial_with_what_was_undone(bank, stuck):
    report = bank.ledger.close_repair(stuck.repair_id, "partial", by="Omar", reason="no address")
    event = closing(bank)
    assert (report.state, event.data["compensations"]) == ("partial", [stuck.steps[0].effect_id])
    assert (event.content["by"], event.content["reason"]) == ({"name": "Omar"}, "no address")


def test_what_remains_is_said_again_where_it_is_final_unless_the_person_says_otherwise(bank, stuck):
    bank.ledger.close_repair(stuck.repair_id, "partial", by="Omar", reason="no address")
    assert closing(bank).content["residual_impact"] == "the customer had been told"


def test_the_person_who_closes_may_say_what_remains(bank, stuck):
    bank.ledger.close_repair(
        stuck.repair_id, "partial", by="Omar", reason="no", residual_impact="no letter went out"
    )
    assert closing(bank).content["residual_impact"] == "no letter went out"


def test_closing_it_like_this_again_changes_nothing(bank, stuck):
    bank.ledger.close_repair(stuck.repair_id, "partial", by="Omar", reason="no address")
    again = bank.ledger.close_repair(stuck.repair_id, "partial", by="Omar", reason="no address")
    assert again.repeated
    assert bank.types("repair.closed") == ["repair.closed"]


def test_another_result_is_refused(bank, stuck):
    bank.ledger.close_repair(stuck.repair_id, "partial", by="Omar", reason="no address")
    with pytest.raises(RepairClosed, match="closed as partial"):
        bank.ledger.close_repair(stuck.repair_id, "repaired", by="Omar", reason="after all")


def test_it_is_not_closed_over_an_open_question(world):
    bank = Bank(world.open(), rule="review")
    bank.serve()
    bank.provider.plan("answer_lost")
    report = bank.repair()
    with pytest.raises(RepairUnsettled, match="no outcome yet"):
        bank.ledger.close_repair(report.repair_id, "partial", by="Omar", reason="enough")
    assert bank.states() == ["open"]


def test_it_is_not_closed_while_its_run_waits_for_people(bank, refunded):
    from counterfoil.policy import RuleList, ask

    bank.ledger.policy = RuleList(
        "limits", revision="1", otherwise="allow", rules=[ask("all", when=lambda call: True)]
    )
    report = bank.repair()
    with pytest.raises(RepairUnsettled, match=report.waits_for[0]):
        bank.ledger.close_repair(report.repair_id, "partial", by="Omar", reason="enough")
    bank.ledger.deny(report.waits_for[0], by="Omar")
    bank.ledger.resume_repair(report.repair_id)
    assert (
        bank.ledger.close_repair(report.repair_id, "partial", by="Omar", reason="enough").state == "partial"
    )


@pytest.mark.parametrize("said", [{"result": "done"}, {"by": ""}, {"reason": " "}])
def test_result_person_and_reason_are_checked(bank, stuck, said):
    with pytest.raises(InvalidForm):
        bank.ledger.close_repair(
            stuck.repair_id, **{"result": "partial", "by": "Omar", "reason": "no", **said}
        )


def test_a_repair_that_does_not_exist_is_not_found(bank):
    for call in (bank.ledger.resume_repair, bank.ledger.repair_row, bank.ledger.repair_report):
        with pytest.raises(RepairNotFound, match="repair ls"):
            call("rep_01ARZ3NDEKTSV4RRFFQ69G5FAV")


def closing_flow(bank, repair_id, result):
    return bank.ledger._closing(
        repair_id, result, Word(bank.ledger._person(stream(bank), "by", "Eve"), "enough")
    )


def stream(bank):
    return bank.ledger.stream_of(CASE)


@pytest.mark.parametrize("result,repeated", [("partial", True), ("irreversible", None)])
def test_of_two_people_who_close_it_at_the_same_time_one_is_told_of_the_other(bank, stuck, result, repeated):
    def first():
        bank.ledger.close_repair(stuck.repair_id, "partial", by="Omar", reason="no address")

    flow = closing_flow(bank, stuck.repair_id, result)
    if repeated:
        assert meanwhile(flow, bank.ledger.ports, first).repeated
    else:
        with pytest.raises(RepairClosed, match="closed as partial"):
            meanwhile(flow, bank.ledger.ports, first)
    assert bank.types("repair.closed") == ["repair.closed"]


def test_a_second_closing_that_nobody_guarded_changes_no_row(bank, stuck):
    bank.ledger.close_repair(stuck.repair_id, "partial", by="Omar", reason="no address")
    end = events.End(stuck.repair_id, opened_event_id(bank), "repaired", ["eff_01ARZ3NDEKTSV4RRFFQ69G5FAV"])
    outsider = Outsider(bank.ledger.ports.new_id("evt"), bank.ledger.ports.now_ms(), None)
    draft = events.closed(outsider, end)
    bank.ledger.ports.append(UnitDraft((Entry(stream(bank), (draft,)),)))
    assert bank.states() == ["partial"]


def opened_event_id(bank):
    return next(iter(bank.ledger.events(CASE, types=["repair.opened"]))).event_id


# ---- what nothing undoes -----------------------------------------------------------------------------------------


@pytest.fixture
def mail(bank):
    """An e-mail, which nothing unsends; a correction can follow it."""
    send = bank.provider.send

    @counterfoil.effect("mail.correct", version="1", touches={"messages"}, doubt=counterfoil.by_key())
    def correct(to: str, *, idempotency_key: str = ""):
        return send(idempotency_key=idempotency_key, corrected=to)

    @counterfoil.effect(
        "mail.send",
        version="1",
        touches={"messages"},
        doubt=counterfoil.by_key(),
        compensate=lambda to, **_: correct.later(to),
        irreversible="A sent e-mail cannot be unsent.",
    )
    def mail(to: str, text: str, *, idempotency_key: str = ""):
        return send(idempotency_key=idempotency_key, mailed=to, text=text)

    with bank.ledger.run("agent", conversation=CASE):
        mail("kim", "you are refunded")
    return str(bank.ledger.effects()[-1]["effect_id"])


def test_a_follow_up_is_sent_and_the_case_still_says_that_it_is_irreversible(bank, mail):
    report = bank.repair(mail)
    assert (report.state, report.residual_impact) == ("irreversible", "A sent e-mail cannot be unsent.")
    assert bank.sent("corrected") == 1
    assert closing(bank).content["residual_impact"] == "A sent e-mail cannot be unsent."


def test_a_tool_without_any_remedy_leaves_the_case_to_a_person(bank):
    send = bank.provider.send

    @counterfoil.effect(
        "mail.plain",
        version="1",
        touches={"messages"},
        doubt=counterfoil.by_key(),
        irreversible="It was read.",
    )
    def plain(to: str, *, idempotency_key: str = ""):
        return send(idempotency_key=idempotency_key, mailed=to)

    with bank.ledger.run("agent", conversation=CASE):
        plain("kim")
    report = bank.repair(str(bank.ledger.effects()[-1]["effect_id"]))
    assert (report.state, report.residual_impact, report.steps) == ("open", "It was read.", ())
    closed = bank.ledger.close_repair(report.repair_id, "irreversible", by="Omar", reason="I called them")
    assert closed.state == "irreversible"


def test_what_a_tool_declares_can_be_looked_at_before_anything_is_opened(bank, mail, refunded):
    declared = bank.ledger.repair_plan(refunded)
    assert [call.tool.name for call in declared.calls] == ["bank.charge", "bank.letter"]
    assert bank.ledger.repair_plan(mail).irreversible == "A sent e-mail cannot be unsent."
    assert bank.types("repair") == []
