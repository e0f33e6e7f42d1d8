"""Answers: by whom, how often, in which order, and what becomes of one that comes too late."""

from __future__ import annotations

import pytest

from counterfoil.errors import (
    AnsweredAlready,
    ApprovalDenied,
    ApprovalMismatched,
    ApprovalNotFound,
    ApproverRefused,
)
from tests.approving import Shop, policy

UNKNOWN = "apr_01J9ZC3Y3V7W2R5T8QK4M6N0PK"


def test_the_same_answer_of_the_same_person_changes_nothing(shop):
    approval = shop.waits()
    assert not shop.ledger.approve(approval, by="Ines").repeated
    assert shop.ledger.approve(approval, by="Ines").repeated
    shop.serve()
    assert shop.ledger.approve(approval, by="Ines").repeated
    assert shop.types().count("approval.granted") == 1


@pytest.mark.parametrize("first,then", [("approve", "deny"), ("deny", "approve"), ("deny", "revoke")])
def test_another_answer_to_what_is_decided_is_refused(shop, first, then):
    approval = shop.waits()
    getattr(shop.ledger, first)(approval, by="Ines")
    with pytest.raises(AnsweredAlready):
        getattr(shop.ledger, then)(approval, by="Tom")


def test_a_second_person_does_not_approve_what_is_granted(shop):
    approval = shop.waits()
    shop.ledger.approve(approval, by="Ines")
    with pytest.raises(AnsweredAlready):
        shop.ledger.approve(approval, by="Tom")


@pytest.mark.parametrize("role", ["principal", "subject"])
def test_the_person_for_whom_the_run_acts_cannot_approve(shop, role):
    approval = shop.waits(**{role: "Ines"})
    with pytest.raises(ApproverRefused, match="somebody else"):
        shop.ledger.approve(approval, by="Ines")
    assert shop.states() == ["pending"]
    shop.ledger.approve(approval, by="Tom")


def test_only_the_people_named_may_answer(world):
    shop = Shop(world.open(), policy(assignees=["Ines", "Tom"]))
    approval = shop.waits()
    with pytest.raises(ApproverRefused, match="one of them"):
        shop.ledger.approve(approval, by="Eve")
    shop.ledger.approve(approval, by="Tom")
    assert shop.states() == ["granted"]


def test_two_people_have_to_agree_where_two_are_needed(world):
    shop = Shop(world.open(), policy(needed=2))
    approval = shop.waits()
    assert shop.ledger.approve(approval, by="Ines").state == "pending"
    assert shop.ledger.approve(approval, by="Ines").repeated
    assert shop.ledger.approvals()[0]["missing"] == 1
    assert shop.ledger.approve(approval, by="Tom").state == "granted"
    assert shop.serve()["amount"] == 80


def test_one_denial_is_enough(world):
    shop = Shop(world.open(), policy(needed=2))
    approval = shop.waits()
    shop.ledger.approve(approval, by="Ines")
    shop.ledger.deny(approval, by="Tom")
    assert shop.states() == ["denied"]


def test_an_answer_after_the_expiry_is_refused_and_the_expiry_recorded(world):
    shop = Shop(world.open(), policy(expires_s=60))
    approval = shop.waits()
    world.clock.advance(60_000)
    assert shop.ledger.approvals() == []
    with pytest.raises(AnsweredAlready, match="expired"):
        shop.ledger.approve(approval, by="Ines")
    assert shop.types()[-1] == "approval.expired"
    assert [row["approval_id"] for row in shop.ledger.approvals("expired")] == [approval]


def test_nobody_answers_for_a_run_that_has_ended(shop):
    approval = shop.waits()
    shop.ledger.deny(approval, by="Ines")
    with pytest.raises(ApprovalDenied):
        shop.serve()
    with pytest.raises(AnsweredAlready, match="has ended"):
        shop.ledger.approve(approval, by="Tom")


def test_an_approval_that_is_not_there_is_not_found(shop):
    for name in (UNKNOWN, "apr_x"):
        with pytest.raises(ApprovalNotFound):
            shop.ledger.approve(name, by="Ines")


def test_a_person_appears_in_headers_only_as_a_key_of_this_conversation(shop):
    shop.ledger.approve(shop.waits(), by="Ines Arvold", comment="called her")
    (event,) = shop.ledger.events("case", types=["approval.granted"])
    assert event.header.actor["id"].startswith("dk_")
    assert b"Ines" not in repr(event.header.raw).encode()
    assert (event.content["by"]["name"], event.content["comment"]) == ("Ines Arvold", "called her")


# ---- the queue ---------------------------------------------------------------------------------------------------


def test_the_queue_is_filtered_by_state_tool_run_assignee_and_time(world):
    shop = Shop(world.open(), policy(assignees=["Ines"], due_s=60))
    first = shop.waits(order="o-1")
    shop.use(shop.ledger, policy("2"))
    second = shop.waits(order="o-2")
    ledger = shop.ledger
    run_id = ledger.approvals()[1]["run_id"]

    def ids(state="pending", **filters):
        return [row["approval_id"] for row in ledger.approvals(state, **filters)]

    assert ids() == [first, second]
    assert ids(limit=1) == [first]
    assert ids(after=first) == [second]
    assert ids(assignee="Ines") == [first]
    assert ids(assignee="Tom") == []
    assert ids(run_id=run_id) == [second]
    assert ids(stream_id=ledger.stream_of("case")) == [first, second]
    assert ids(tool="shop.refund") == [first, second]
    assert ids(tool="shop.mail") == []
    world.clock.advance(61_000)
    assert ids(overdue=True) == [first]
    ledger.deny(first, by="Ines")
    assert (ids(), ids("denied"), ids(None)) == ([second], [first], [first, second])


def test_another_tenants_approvals_are_not_seen(world):
    shop = Shop(world.open())
    approval = shop.waits()
    from counterfoil.client.ledger import Ledger

    other = Ledger(world._shared, tenant="other", content=None, clock=world.clock, ids=world.ids)
    assert other.approvals(None) == []
    with pytest.raises(ApprovalNotFound):
        other.approve(approval, by="Ines")


def test_what_nobody_answered_lapses_when_its_run_ends(shop):
    asked = shop.waits()
    shop.hook = lambda amount: amount * 100
    shop.ledger.approve(asked, by="Ines")
    with pytest.raises(ApprovalMismatched):
        shop.serve()
    assert shop.ledger.runs()[0]["terminal"] == "policy_stop"
    assert shop.states() == ["expired"]
