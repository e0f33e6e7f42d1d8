"""Opening a repair: what may be repaired, what is recorded first, and who may not be undone twice."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.client.ledger import Ledger
from counterfoil.effects import events
from counterfoil.effects.outcome import Verdict
from counterfoil.effects.registry import own_tools
from counterfoil.effects.standing import Standing
from counterfoil.errors import (
    ContentUnavailable,
    InputError,
    InvalidForm,
    NotFoundError,
    NotRepairable,
    RepairedAlready,
    ToolInvalid,
    ToolNotFound,
)
from counterfoil.flow.context import RunScope
from counterfoil.flow.requests import Entry, UnitDraft
from counterfoil.store.unit import Lease
from tests.repairing import CASE, meanwhile


def opening(bank):
    return list(bank.ledger.events(CASE, types=["repair.opened"]))[-1]


def test_the_case_is_on_record_with_its_plan_before_anything_is_undone(bank, refunded):
    opened = bank.ledger.open_repair(
        refunded,
        by="Dana",
        reason="the parcel had arrived",
        owner="Omar",
        evidence={"parcel": "P-7"},
        residual_impact="the customer was told of a refund",
    )
    event = opening(bank)
    assert event.content["plan"] == [
        {"tool": "bank.charge", "tool_version": "1", "arguments": {"order": "o-1", "amount": 40}},
        {"tool": "bank.letter", "tool_version": "1", "arguments": {"order": "o-1"}},
    ]
    said = {name: event.content[name] for name in ("by", "owner", "reason", "evidence", "residual_impact")}
    assert said == {
        "by": {"name": "Dana"},
        "owner": {"name": "Omar"},
        "reason": "the parcel had arrived",
        "evidence": {"parcel": "P-7"},
        "residual_impact": "the customer was told of a refund",
    }
    assert (bank.sent("charged"), bank.sent("told")) == (0, 0)
    assert opened.repair_id == event.data["repair_id"]


def test_it_points_at_the_observation_that_it_supersedes(bank, refunded):
    bank.ledger.open_repair(refunded, by="Dana", reason="too much")
    (observed,) = bank.ledger.events(CASE, types=["effect.observed"])
    event = opening(bank)
    assert (event.data["supersedes"], event.header.causation_event_id) == (
        observed.event_id,
        observed.event_id,
    )


def test_names_stand_in_parts_of_their_own_under_their_own_keys(bank, refunded):
    bank.ledger.open_repair(refunded, by="Dana", reason="too much", owner="Omar")
    event = opening(bank)
    keys = [part.key for part in event.header.content]
    assert len(set(keys)) == 3
    assert event.header.actor == {"type": "human", "id": keys[1]}


def test_opening_it_again_by_the_same_person_for_the_same_reason_is_the_same_repair(bank, refunded):
    first = bank.ledger.open_repair(refunded, by="Dana", reason="too much")
    again = bank.ledger.open_repair(refunded, by="Dana", reason="too much")
    assert (again.repair_id, again.repeated) == (first.repair_id, True)
    assert bank.types("repair") == ["repair.opened"]


@pytest.mark.parametrize(
    "said", [{"by": "Eve", "reason": "too much"}, {"by": "Dana", "reason": "something else"}]
)
def test_another_repair_of_what_is_being_repaired_is_refused_and_names_the_first(bank, refunded, said):
    first = bank.ledger.open_repair(refunded, by="Dana", reason="too much")
    with pytest.raises(RepairedAlready, match="being repaired") as refused:
        bank.ledger.open_repair(refunded, **said)
    assert (refused.value.repair_id, refused.value.state) == (first.repair_id, "open")
    assert f"repair resume {first.repair_id}" in refused.value.hint


def test_what_was_repaired_is_not_repaired_again(bank, refunded):
    bank.repair()
    with pytest.raises(RepairedAlready, match="was repaired"):
        bank.repair(reason="once more")
    assert bank.sent("charged") == 1


def test_what_was_repaired_in_part_may_be_repaired_again_with_another_remedy(bank, refunded):
    bank.provider.plan("rejected")
    first = bank.repair()
    bank.ledger.close_repair(first.repair_id, "partial", by="Dana", reason="the card is closed")
    second = bank.repair(reason="a letter will do", calls=[bank.letter.later("o-1")])
    assert (bank.states(), second.state) == (["partial", "repaired"], "repaired")
    assert (bank.sent("charged"), bank.sent("told")) == (0, 1)


def test_a_compensation_is_an_effect_that_can_be_repaired_itself(bank, refunded):
    bank.repair(calls=[bank.charge.later("o-1", 4000)])
    (charged,) = [row for row in bank.ledger.effects() if row["tool"] == "bank.charge"]
    wrong = str(charged["effect_id"])
    report = bank.repair(wrong, reason="a slip", calls=[bank.refund.later("o-1-slip", 3960)])
    assert (report.state, report.subject) == ("repaired", wrong)


def test_what_is_in_doubt_is_not_undone_before_it_is_known(bank):
    bank.provider.plan("answer_lost", "unreached", "unreached")
    with pytest.raises(counterfoil.RunWaiting):
        bank.serve()
    with pytest.raises(NotRepairable, match="in doubt") as refused:
        bank.repair()
    assert "counterfoil recover" in refused.value.hint
    assert bank.types("repair") == []


def test_what_is_in_review_is_settled_first(bank, world):
    @counterfoil.effect("bank.wire", version="1", touches={"money"}, doubt=counterfoil.by_review())
    def wire(order: str):
        raise ConnectionResetError

    with pytest.raises(counterfoil.RunWaiting), bank.ledger.run("agent", conversation=CASE):
        wire("o-1")
    (row,) = bank.ledger.effects()
    with pytest.raises(NotRepairable, match="in review") as refused:
        bank.ledger.repair(str(row["effect_id"]), by="Dana", reason="too much", calls=[])
    assert refused.value.review_id == row["review_id"]


@pytest.mark.parametrize(
    "fault,error", [("rejected", counterfoil.Rejected), ("not_done", counterfoil.NotDone)]
)
def test_what_was_not_done_has_nothing_to_undo_and_can_be_corrected_instead(bank, fault, error):
    bank.provider.plan(fault)
    with pytest.raises(error):
        bank.serve()
    with pytest.raises(NotRepairable, match="not carried out") as refused:
        bank.repair()
    assert "repair correct" in refused.value.hint


def test_an_effect_that_was_given_up_as_unknown_may_be_repaired_by_a_persons_decision(bank):
    @counterfoil.effect("bank.wire", version="1", touches={"money"}, doubt=counterfoil.by_review())
    def wire(order: str):
        raise ConnectionResetError

    with pytest.raises(counterfoil.RunWaiting), bank.ledger.run("agent", conversation=CASE):
        wire("o-1")
    (row,) = bank.ledger.effects()
    bank.ledger.settle(str(row["review_id"]), "abandoned", by="Omar", reason="nobody knows")
    report = bank.ledger.repair(
        str(row["effect_id"]),
        by="Dana",
        reason="both sides agree on a credit",
        calls=[bank.letter.later("o-1")],
    )
    assert report.state == "repaired"


def test_without_the_tools_code_nothing_is_opened(bank, refunded):
    with own_tools(), pytest.raises(ToolNotFound, match=r"bank\.refund"):
        bank.repair()
    assert bank.types("repair") == []


def test_with_calls_given_the_tools_own_code_is_not_needed(bank, refunded):
    assert bank.repair(calls=[bank.letter.later("o-1")]).state == "repaired"


def test_a_repair_without_calls_is_left_to_a_person(bank, refunded):
    report = bank.repair(calls=[])
    assert report.open
    assert "a person sees to it" in report.why
    assert bank.types("run.started") == ["run.started"]


def test_a_plan_with_the_same_call_twice_is_refused(bank, refunded):
    with pytest.raises(InputError, match="twice"):
        bank.repair(calls=[bank.letter.later("o-1"), bank.letter.later("o-1")])


def test_a_tool_that_touches_nothing_undoes_nothing(bank, refunded):
    @counterfoil.effect("bank.look", version="1", touches=set(), doubt=counterfoil.by_repeating())
    def look(order: str):
        return order

    with pytest.raises(ToolInvalid, match="undoes nothing"):
        bank.repair(calls=[look.later("o-1")])


@pytest.mark.parametrize(
    "said", [{"by": ""}, {"by": " "}, {"reason": ""}, {"owner": ""}, {"by": "x" * 20_000}]
)
def test_who_and_why_must_say_something(bank, refunded, said):
    with pytest.raises(InvalidForm):
        bank.repair(**said)
    assert bank.types("repair") == []


@pytest.mark.parametrize("target", ["eff_01ARZ3NDEKTSV4RRFFQ69G5FAV", "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV"])
def test_what_does_not_exist_is_not_found(bank, target):
    with pytest.raises(NotFoundError):
        bank.ledger.repair(target, by="Dana", reason="too much")


def test_anything_else_is_no_target(bank):
    with pytest.raises(InvalidForm, match="eff_"):
        bank.ledger.repair("refund", by="Dana", reason="too much")


def test_an_effect_of_another_tenant_is_not_found(bank, refunded, world):
    other = Ledger(world._shared, tenant="other", content=None, clock=world.clock, ids=world.ids)
    with pytest.raises(NotFoundError):
        other.repair(refunded, by="Dana", reason="too much")


def test_an_event_of_an_effect_stands_for_the_effect(bank, refunded):
    (observed,) = bank.ledger.events(CASE, types=["effect.observed"])
    report = bank.ledger.repair(observed.event_id, by="Dana", reason="too much")
    assert (report.subject, report.effect_id, report.state) == (refunded, refunded, "repaired")


def test_any_other_event_can_be_repaired_by_hand_or_by_calls(bank, refunded):
    (started,) = bank.ledger.events(CASE, types=["run.started"])
    report = bank.ledger.repair(
        started.event_id, by="Dana", reason="the agent should not have run", calls=[bank.letter.later("o-1")]
    )
    assert (report.subject, report.effect_id, report.state) == (started.event_id, None, "repaired")


def test_an_agent_does_not_begin_a_repair_inside_its_run(bank, refunded):
    with bank.ledger.run("agent", conversation="other"), pytest.raises(InputError, match="outside of a run"):
        bank.repair()


def test_a_call_that_cannot_be_read_any_more_has_no_plan_of_its_own(bank, refunded, monkeypatch):
    from counterfoil.flow.event import Event

    def gone(event):
        raise ContentUnavailable("erased", state="erased")

    monkeypatch.setattr(Event, "content", property(gone))
    with pytest.raises(ContentUnavailable):
        bank.repair()
    monkeypatch.undo()
    assert bank.types("repair") == []


def test_of_two_people_who_open_a_repair_at_the_same_time_one_is_told_of_the_other(bank, refunded):
    flow = bank.ledger._opening(refunded, by="Eve", reason="me too")

    def first():
        bank.ledger.open_repair(refunded, by="Dana", reason="too much")

    with pytest.raises(RepairedAlready, match="being repaired"):
        meanwhile(flow, bank.ledger.ports, first)
    assert bank.types("repair") == ["repair.opened"]


def test_an_effect_that_is_contradicted_at_the_last_moment_is_not_undone(bank, refunded):
    flow = bank.ledger._opening(refunded, by="Eve", reason="too much")
    row = Standing.of(bank.ledger.store.get("effects", (refunded,)))
    other = Verdict("rejected", {}, "Rejected")

    def late():
        run = bank.ledger.run_row(row.run_id)
        lease = Lease(row.stream_id, int(run["token"]), "gone", 0)
        scope = RunScope(
            bank.ledger.ports, stream_id=row.stream_id, run_id=row.run_id, agent="agent", lease=lease
        )
        attempt = events.Attempt(refunded, 1, row.intended_event_id)
        drafts = (
            events.late_observed(scope, attempt, other, None),
            events.contradicted(scope, attempt, "succeeded", "succeeded", other),
            events.review_requested(scope, attempt, "contradicted", {}),
        )
        bank.ledger.ports.append(UnitDraft((Entry(row.stream_id, drafts),)))

    with pytest.raises(NotRepairable, match="contradict each other"):
        meanwhile(flow, bank.ledger.ports, late)
    assert bank.types("repair") == []
