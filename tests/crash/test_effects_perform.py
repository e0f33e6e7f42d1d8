"""Perform, stopped before and after every request, then recovered and run again: what the world and the ledger say."""

from __future__ import annotations

from contextlib import suppress

import pytest

from counterfoil.effects import by_key, by_lookup, by_repeating, by_review, effect
from counterfoil.errors import NotDone, Rejected
from counterfoil.testing import crash
from counterfoil.testing.provider import FakeProvider

RULES = ("key", "lookup", "lookup_then_key", "review")
FAULTS = ((), ("answer_lost",), ("unreached",), ("rejected",), ("not_done",), ("answer_lost", "answer_lost"))


def rule_of(name, provider, *, asynchronous=False):
    find = provider.afind if asynchronous else provider.find
    return {
        "key": by_key(),
        "lookup": by_lookup(find),
        "lookup_then_key": by_lookup(find, then=by_key()),
        "review": by_review(),
    }[name]


class Payment(crash.Scenario):
    """One payment under a business key, through a provider that deduplicates only where the rule relies on it."""

    rule = "key"
    faults = ()

    def prepare(self, world):
        self.provider = FakeProvider(deduplicates=self.rule in ("key", "lookup_then_key"))
        self.provider.plan(*self.faults)
        self.declare()

    def declare(self):
        @effect("pay", version="1", touches={"money"}, key=lambda order: f"pay:{order}", doubt=self.doubt())
        def pay(order: str, *, idempotency_key: str = ""):
            return self.provider.send(idempotency_key=idempotency_key, order=order)

        self.pay = pay

    def doubt(self):
        return rule_of(self.rule, self.provider)

    def work(self, ledger):
        with (
            ledger.run("agent", conversation="case", message="please", dedupe="m1"),
            suppress(Rejected, NotDone),
        ):
            assert self.pay("o-1")["key"] == "pay:o-1"

    def check(self, world, ledger):
        self.check_world(ledger)
        self.check_ledger(ledger)

    def check_world(self, ledger):
        """At most one payment happened; without a key that makes it safe, at most one was even asked for."""
        assert self.provider.booked() <= 1
        if self.rule in ("lookup", "review"):
            assert len(self.provider.requests) <= 1

    def check_ledger(self, ledger):
        """The ledger tells what happened, or says that it does not know and asks a human."""
        (row,) = ledger.effects()
        (run,) = ledger.runs()
        assert len(list(ledger.events("case", types={"effect.intended"}))) == row["attempt"]
        assert len(self.provider.requests) <= row["attempt"]
        match row["state"]:
            case "succeeded":
                assert self.provider.booked() == 1
                assert run["terminal"] == "success"
            case "rejected" | "failed":
                assert self.provider.booked() == 0
            case state:
                assert state == "in_review"
                assert [review["effect_id"] for review in ledger.reviews()] == [row["effect_id"]]
                assert run["state"] == "suspended"
        self.check_rule(ledger, row)

    def check_rule(self, ledger, row):
        """No rule but lookup and review ends with a human here; under lookup alone nothing follows "absent"."""
        if row["state"] == "in_review":
            assert self.rule in ("lookup", "review")
        if self.rule == "lookup":
            types = [
                (event.type, event.data.get("answer"))
                for event in ledger.events("case", types={"effect.intended", "effect.looked_up"})
            ]
            absent = (
                types.index(("effect.looked_up", "absent"))
                if ("effect.looked_up", "absent") in types
                else len(types)
            )
            assert ("effect.intended", None) not in types[absent:]


class AsyncPayment(Payment):
    """The same from a task."""

    def declare(self):
        @effect("pay", version="1", touches={"money"}, key=lambda order: f"pay:{order}", doubt=self.doubt())
        async def pay(order: str, *, idempotency_key: str = ""):
            return await self.provider.asend(idempotency_key=idempotency_key, order=order)

        self.pay = pay

    def doubt(self):
        return rule_of(self.rule, self.provider, asynchronous=True)

    async def work(self, ledger):
        async with ledger.run("agent", conversation="case", message="please", dedupe="m1"):
            with suppress(Rejected, NotDone):
                assert (await self.pay("o-1"))["key"] == "pay:o-1"


def scenario(kind, rule, faults):
    return type(kind.__name__, (kind,), {"rule": rule, "faults": faults})


@pytest.mark.parametrize("faults", FAULTS, ids="+".join)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", [Payment, AsyncPayment])
def test_wherever_perform_stops_the_payment_happens_once_and_the_ledger_knows(kind, rule, faults):
    matrix = crash.run_matrix(scenario(kind, rule, faults))
    tried = {(point.what, point.when) for point in matrix.points}
    for what in ("append effect.intended", "call pay"):
        assert {(what, "before"), (what, "after")} <= tried


def around_the_call(points):
    """The dangerous ones: when the intention is written, when the call is made, and before it is observed."""
    places = ("append effect.intended", "call pay")
    return [
        point
        for point in points
        if point.what in places and (point.when == "after" or point.what == places[1])
    ]


@pytest.mark.parametrize(
    "kind,rule", [(Payment, "lookup_then_key"), (AsyncPayment, "lookup"), (Payment, "review")]
)
def test_it_is_the_same_on_disk(kind, rule, tmp_path):
    assert len(crash.run_matrix(scenario(kind, rule, ()), directory=tmp_path, choose=around_the_call)) == 3


class Look(crash.Scenario):
    """A tool that touches nothing, called twice: each call is an effect of its own and may run again."""

    def prepare(self, world):
        self.looks = 0

        @effect("look", version="1", touches=set(), doubt=by_repeating())
        def look(order: str):
            self.looks += 1
            return {"order": order, "look": self.looks}

        self.look = look

    def work(self, ledger):
        with ledger.run("agent", conversation="case", message="please", dedupe="m1"):
            self.seen = [self.look("o-1"), self.look("o-1")]

    def check(self, world, ledger):
        assert [row["state"] for row in ledger.effects()] == ["succeeded", "succeeded"]
        assert self.seen[0] != self.seen[1]
        assert 2 <= self.looks <= 4


def test_wherever_a_look_stops_both_calls_end_with_their_own_answer():
    crash.run_matrix(Look)


class TwoTools(crash.Scenario):
    """A refund and the mail about it: the mail goes out once, and never before the refund is known."""

    def prepare(self, world):
        self.bank, self.post = FakeProvider(), FakeProvider(deduplicates=False)
        self.bank.plan("answer_lost")

        @effect("refund", version="1", touches={"money"}, doubt=by_lookup(self.bank.find, then=by_key()))
        def refund(order: str, *, idempotency_key: str = ""):
            return self.bank.send(idempotency_key=idempotency_key, order=order)

        @effect("mail", version="1", touches={"messages"}, doubt=by_lookup(self.post.find))
        def mail(refund_id: str, *, idempotency_key: str = ""):
            assert self.bank.booked() == 1
            return self.post.send(idempotency_key=idempotency_key, refund_id=refund_id)

        self.refund, self.mail = refund, mail

    def work(self, ledger):
        with ledger.run("agent", conversation="case", message="please", dedupe="m1"):
            self.mail(self.refund("o-1")["id"])

    def check(self, world, ledger):
        assert self.bank.booked() == 1
        assert len(self.post.requests) <= 1
        states = {row["tool"]: row["state"] for row in ledger.effects()}
        assert states["refund"] == "succeeded"
        assert states["mail"] == ("succeeded" if self.post.booked() else "in_review")


def test_wherever_a_run_of_two_effects_stops_neither_happens_twice():
    crash.run_matrix(TwoTools)


class Repeats(crash.Scenario):
    """The same call three times over: one effect, and a repeat recorded for each further call."""

    def prepare(self, world):
        self.provider = FakeProvider(deduplicates=False)

        @effect("pay", version="1", touches={"money"}, doubt=by_lookup(self.provider.find))
        def pay(order: str, *, idempotency_key: str = ""):
            return self.provider.send(idempotency_key=idempotency_key, order=order)

        self.pay = pay

    def work(self, ledger):
        with ledger.run("agent", conversation="case", message="please", dedupe="m1"):
            receipts = [self.pay("o-1") for _ in range(3)]
            assert receipts[0] == receipts[1] == receipts[2]

    def check(self, world, ledger):
        assert len(self.provider.requests) <= 1
        if ledger.effects()[0]["state"] == "succeeded":
            assert len(list(ledger.events("case", types={"effect.repeated"}))) == 2


def test_wherever_repeated_calls_stop_each_repeat_is_recorded_once():
    crash.run_matrix(Repeats)
