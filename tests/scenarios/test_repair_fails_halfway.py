"""Failure mode: a repair fails half way. It stays open, says so, and goes on without undoing anything twice."""

from __future__ import annotations

import pytest

from counterfoil.testing.crash import LifeUntil, live
from tests.repairing import check_repairs
from tests.stage import CASE

HALFWAY = [
    ("repair.opened", None, None),
    ("effect.intended", "payment.charge", None),
    ("effect.observed", None, "succeeded"),
    ("effect.intended", "mail.send", None),
    ("effect.observed", None, "failed"),
]


class Desk:
    """A refund that was too much, the two calls that undo it, and whoever repairs it by any handle."""

    def __init__(self, stage, rule="lookup"):
        self.stage = stage
        provider = stage.provider

        def charge(order, *, idempotency_key=""):
            return provider.send(idempotency_key=idempotency_key, charged=order)

        async def acharge(order, *, idempotency_key=""):
            return await provider.asend(idempotency_key=idempotency_key, charged=order)

        def mail(order, *, idempotency_key=""):
            return provider.send(idempotency_key=idempotency_key, mailed=order)

        async def amail(order, *, idempotency_key=""):
            return await provider.asend(idempotency_key=idempotency_key, mailed=order)

        own = {"key": None, "doubt": stage.doubt(rule)}
        self.charge = stage.declare(charge, acharge, name="payment.charge", **own)
        self.mail = stage.declare(mail, amail, name="mail.send", **{**own, "touches": {"messages"}})
        refund = stage.refund(compensate=lambda order: [self.charge.later(order), self.mail.later(order)])
        stage.serve(refund)
        (row,) = stage.open().effects()
        self.refunded = str(row["effect_id"])
        self.before = stage.open().store.head(str(row["stream_id"])).sequence

    def repair(self, ledger=None):
        """Dana repairs it; again, it goes on."""
        ledger = ledger or self.stage.open()
        said = {"by": "Dana", "reason": "the parcel had arrived"}
        if self.stage.asynchronous:
            return self.stage.play(ledger.arepair(self.refunded, **said))
        return ledger.repair(self.refunded, **said)

    def die(self, where, when="after"):
        """A worker that repairs it dies there, and all that it held runs out."""
        said = {"by": "Dana", "reason": "the parcel had arrived"}

        def work(ledger):
            one = ledger.arepair if self.stage.asynchronous else ledger.repair
            return one(self.refunded, **said)

        life = LifeUntil(where, when)
        live(self.stage.world, life, work)
        assert not life.alive
        self.stage.world.time_passes()

    def stream(self):
        """What the events tell of the repair."""
        found = self.stage.open().events(CASE, after=self.before)
        told = [event for event in found if event.type.startswith(("repair.", "effect."))]
        return [
            (event.type, event.data.get("tool"), event.data.get("outcome") or event.data.get("result"))
            for event in told
        ]

    def rows(self):
        """What the rows say: each repair, and each effect by its tool."""
        ledger = self.stage.open()
        check_repairs(ledger)
        repairs = [(row["state"], row["compensations"]) for row in ledger.repairs(None)]
        return repairs, {str(row["tool"]): str(row["state"]) for row in ledger.effects()}

    def sent(self, what):
        """How often this was carried out."""
        return sum(what in dict(entry.what) for entry in self.stage.provider.book)


@pytest.fixture
def desk(stage):
    return Desk(stage)


def test_the_stream_tells_how_far_it_came_and_claims_no_end(stage, desk):
    stage.provider.plan(None, "not_done")
    report = desk.repair()
    assert desk.stream() == HALFWAY
    assert report.why == "call 2 of 2, mail.send, ended with NotDone"


def test_the_rows_say_open_and_the_refund_stays_what_it_was(stage, desk):
    stage.provider.plan(None, "not_done")
    desk.repair()
    states = {"payment.refund": "succeeded", "payment.charge": "succeeded", "mail.send": "failed"}
    assert desk.rows() == ([("open", 0)], states)


def test_the_next_worker_makes_only_the_call_that_is_missing(stage, desk):
    stage.provider.plan(None, "not_done")
    desk.repair()
    assert desk.repair().state == "repaired"
    assert (desk.sent("charged"), desk.sent("mailed")) == (1, 1)
    assert desk.stream() == [
        *HALFWAY,
        ("effect.repeated", None, None),
        ("effect.intended", "mail.send", None),
        ("effect.observed", None, "succeeded"),
        ("repair.closed", None, "repaired"),
    ]
    repairs, _ = desk.rows()
    assert repairs == [("repaired", 2)]


def test_a_worker_that_died_after_the_charge_was_sent_leaves_a_doubt_and_no_second_charge(stage, desk):
    desk.die("call payment.charge")
    assert desk.stream() == HALFWAY[:2]
    assert desk.rows()[0] == [("open", 0)]
    assert desk.repair().state == "repaired"
    assert (desk.sent("charged"), desk.sent("mailed")) == (1, 1)
    assert ("effect.looked_up", None, None) in desk.stream()


def test_a_worker_that_died_before_it_closed_the_case_leaves_it_open_and_the_next_closes_it(stage, desk):
    desk.die("append repair.closed", "before")
    assert desk.rows()[0] == [("open", 0)]
    requests = list(stage.provider.requests)
    assert desk.repair().state == "repaired"
    assert stage.provider.requests == requests
    assert desk.rows()[0] == [("repaired", 2)]


def test_a_call_that_is_refused_for_good_is_left_to_a_person_who_says_what_remains(stage, desk):
    stage.provider.plan(None, "rejected")
    for _ in range(2):
        report = desk.repair()
    assert report.why == "call 2 of 2, mail.send, was refused for good and is not sent again"
    stage.open().close_repair(
        report.repair_id,
        "partial",
        by="Omar",
        reason="no address",
        residual_impact="the customer was not told",
    )
    assert desk.stream()[-1] == ("repair.closed", None, "partial")
    assert desk.rows()[0] == [("partial", 1)]
    assert (desk.sent("charged"), len(stage.provider.requests)) == (1, 3)


def test_a_call_that_nobody_can_answer_for_goes_to_a_person_and_the_repair_goes_on_then(stage):
    desk = Desk(stage, "review")
    stage.provider.plan("answer_lost")
    report = desk.repair()
    (review,) = stage.open().reviews()
    assert (report.state, report.waits_for) == ("open", (review["review_id"],))
    assert desk.rows()[1]["payment.charge"] == "in_review"
    stage.open().settle(str(review["review_id"]), "succeeded", by="Omar", reason="it is in the bank's book")
    assert desk.repair().state == "repaired"
    assert (desk.sent("charged"), desk.sent("mailed")) == (1, 1)
    assert desk.rows()[0] == [("repaired", 2)]
