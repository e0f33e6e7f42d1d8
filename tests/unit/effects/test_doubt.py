"""Doubt that arises in a call is followed up on the spot, as the tool's rule says, and then parks the run."""

from __future__ import annotations

import copy
from contextlib import suppress

import pytest

from counterfoil.core.registered import register
from counterfoil.effects import Absent, CannotTell, Found, by_key, by_lookup, by_review, effect
from counterfoil.effects.settle import Person, settle_effect
from counterfoil.errors import (
    EffectFailed,
    EffectInFlight,
    NotDecodable,
    NotDone,
    Rejected,
    RunSuspended,
    RunWaiting,
    ToolInvalid,
)
from counterfoil.flow.drive import drive


def declare(provider, doubt, **more):
    @effect("pay", **({"version": "1", "touches": {"money"}, "doubt": doubt} | more))
    def pay(order: str, *, idempotency_key: str = ""):
        return provider.send(idempotency_key=idempotency_key, order=order)

    return pay


def run(ledger, dedupe="m1"):
    return ledger.run("agent", conversation="case", message="please", dedupe=dedupe)


# ---- by key -----------------------------------------------------------------------------------------------------------


def test_a_lost_answer_is_got_by_sending_the_same_key_again(ledger, provider, told):
    provider.plan("answer_lost")
    pay = declare(provider, by_key())
    with run(ledger):
        assert pay("o-1")["id"] == "re_1"
    assert provider.booked() == 1
    assert len(set(provider.requests)) == 1
    assert told() == [
        "effect.intended",
        "effect.observed",
        "retry.decided",
        "effect.intended",
        "effect.observed",
    ]


def test_each_retry_is_decided_on_record_before_it_is_made(ledger, provider):
    provider.plan("unreached")
    pay = declare(provider, by_key())
    with run(ledger):
        pay("o-1")
    (decided,) = ledger.events("case", types={"retry.decided"})
    (row,) = ledger.effects()
    assert decided.data["effect_id"] == row["effect_id"]
    assert decided.data["error_class"] == "ConnectionError"
    assert (decided.data["retry"], decided.data["same_key"]) == (True, True)
    assert [event.header.attempt for event in ledger.events("case", types={"effect.intended"})] == [1, 2]


def test_a_provider_that_stays_away_parks_the_run_after_a_bounded_number_of_attempts(ledger, provider):
    provider.plan(*["unreached"] * 99)
    pay = declare(provider, by_key())
    with pytest.raises(RunWaiting) as waiting, run(ledger):
        pay("o-1")
    (row,) = ledger.effects()
    assert (row["state"], row["attempt"]) == ("unknown", 3)
    assert (waiting.value.cause, waiting.value.waits_for) == ("effect", (row["effect_id"],))
    assert ledger.reviews() == []


@pytest.mark.parametrize(
    "fault,state,error", [("rejected", "rejected", Rejected), ("not_done", "failed", NotDone)]
)
def test_a_retry_may_end_otherwise_than_well(ledger, provider, fault, state, error):
    provider.plan("unreached", fault)
    pay = declare(provider, by_key())
    with run(ledger), pytest.raises(error):
        pay("o-1")
    assert ledger.effects()[0]["state"] == state


# ---- by lookup ----------------------------------------------------------------------------------------------------------


def test_a_lost_answer_is_found_by_asking(ledger, provider, told):
    provider.plan("answer_lost")
    pay = declare(provider, by_lookup(provider.find))
    with run(ledger):
        assert pay("o-1")["id"] == "re_1"
    assert len(provider.requests) == 1
    assert told("source") == [
        ("effect.intended", None),
        ("effect.observed", "call"),
        ("effect.looked_up", None),
        ("effect.observed", "lookup"),
    ]


def test_what_was_found_by_asking_is_what_a_resumed_run_gets(ledger, provider, world):
    provider.plan("answer_lost")
    pay = declare(provider, by_lookup(provider.find), provider_id=lambda result: result["id"])
    with run(ledger):
        found = pay("o-1")
    with run(world.open()):
        assert pay("o-1") == found
    observed = list(ledger.events("case", types={"effect.observed"}))[-1]
    assert observed.content["provider_effect_id"] == "re_1"


def test_the_lookup_gets_the_key_and_the_arguments_it_names(ledger, provider):
    asked = []

    def find(idempotency_key, order):
        asked.append((idempotency_key, order))
        return Found("succeeded", {"id": "re_7"})

    provider.plan("answer_lost")
    pay = declare(provider, by_lookup(find), key=lambda order: f"pay:{order}")
    with run(ledger):
        assert pay("o-1") == {"id": "re_7"}
    assert asked == [("pay:o-1", "o-1")]


@pytest.mark.parametrize("outcome,error", [("rejected", Rejected), ("failed", NotDone)])
def test_the_provider_may_answer_that_it_refused_or_did_nothing(ledger, provider, world, outcome, error):
    provider.plan("answer_lost")
    pay = declare(provider, by_lookup(lambda **_: Found(outcome, {"why": "limit"})))
    with run(ledger), pytest.raises(error):
        pay("o-1")
    with run(world.open()), pytest.raises(error):
        pay("o-1")
    observed = list(ledger.events("case", types={"effect.observed"}))[-1]
    assert (observed.data["outcome"], observed.data["source"]) == (outcome, "lookup")
    assert observed.content["result"] == {"why": "limit"}


def test_absent_sends_again_where_the_key_makes_it_safe(ledger, provider):
    provider.plan("unreached")
    pay = declare(provider, by_lookup(provider.find, then=by_key()))
    with run(ledger):
        assert pay("o-1")["id"] == "re_1"
    (decided,) = ledger.events("case", types={"retry.decided"})
    assert decided.data["error_class"] == "Absent"


def test_absent_alone_goes_to_a_human_and_nothing_is_sent(ledger, provider, told):
    provider.plan("unreached")
    pay = declare(provider, by_lookup(provider.find))
    with pytest.raises(RunWaiting), run(ledger):
        pay("o-1")
    assert provider.requests == []
    (review,) = ledger.reviews()
    assert review["cause"] == "absent"
    assert told("answer").count(("effect.looked_up", "absent")) == 2


def test_a_provider_that_cannot_tell_is_asked_a_few_times_and_then_a_human_is(ledger, provider):
    provider.plan("answer_lost")
    provider.plan_lookups(*["mute"] * 9)
    pay = declare(provider, by_lookup(provider.find))
    with pytest.raises(RunWaiting), run(ledger):
        pay("o-1")
    assert [review["cause"] for review in ledger.reviews()] == ["cannot_tell"]
    assert provider.lookups == 3


def test_a_lookup_that_gets_through_at_last_ends_the_doubt(ledger, provider):
    provider.plan("answer_lost")
    provider.plan_lookups("unreached", "mute")
    pay = declare(provider, by_lookup(provider.find))
    with run(ledger):
        assert pay("o-1")["id"] == "re_1"
    answers = [event.data["answer"] for event in ledger.events("case", types={"effect.looked_up"})]
    assert answers == ["cannot_tell", "cannot_tell", "found"]
    (row,) = ledger.effects()
    assert row["lookups"] == 3


def test_a_provider_that_cannot_be_asked_leaves_the_doubt_to_a_later_recovery(ledger, provider):
    provider.plan("answer_lost")
    provider.plan_lookups(*["unreached"] * 9)
    pay = declare(provider, by_lookup(provider.find))
    with pytest.raises(RunWaiting) as waiting, run(ledger):
        pay("o-1")
    assert waiting.value.cause == "effect"
    assert ledger.effects()[0]["state"] == "unknown"
    first = next(ledger.events("case", types={"effect.looked_up"}))
    assert first.content["error"]["message"] == "the lookup broke before it arrived"


@pytest.mark.parametrize(
    "answer", [Absent, Absent(), CannotTell, CannotTell("busy"), None, {"status": "done"}]
)
def test_what_is_no_clear_answer_never_counts_as_found(ledger, provider, answer):
    provider.plan("answer_lost")
    pay = declare(provider, by_lookup(lambda **_: answer))
    with pytest.raises(RunWaiting), run(ledger):
        pay("o-1")
    assert ledger.effects()[0]["state"] == "in_review"


class Untold:
    """Something whose text cannot be had."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize(
    "answer,state",
    [
        (Found("failed", "x" * 9_000_000), "failed"),
        (Found("rejected", Untold()), "rejected"),
        (Found("succeeded", "x" * 9_000_000), "succeeded"),
        (Found("succeeded", Untold()), "succeeded"),
        (CannotTell("y" * 9_000_000), "in_review"),
        (CannotTell(Untold()), "in_review"),  # type: ignore[arg-type]
    ],
    ids=lambda it: it if isinstance(it, str) else type(it).__name__,
)
def test_whatever_an_answer_is_made_of_it_counts(ledger, provider, answer, state):
    provider.plan("answer_lost")
    pay = declare(provider, by_lookup(lambda **_: answer))
    with suppress(Rejected, NotDone, RunWaiting), run(ledger):
        pay("o-1")
    assert ledger.effects()[0]["state"] == state


@pytest.mark.parametrize("outcome", ["pending", None, Untold()])
def test_found_takes_only_certain_outcomes(outcome):
    with pytest.raises(ToolInvalid):
        Found(outcome)


# ---- by review, and what a parked run does ------------------------------------------------------------------------------


def test_a_parked_run_starts_nothing_new_whatever_its_code_does(ledger, provider):
    provider.plan("answer_lost")
    pay = declare(provider, by_review())

    def stubborn():
        with run(ledger):
            for order in ("o-1", "o-2", "o-3"):
                with suppress(RunSuspended):
                    pay(order)

    with pytest.raises(RunWaiting):
        stubborn()
    assert provider.booked() == 1
    assert len(ledger.effects()) == 1


def test_a_run_entered_while_a_human_is_asked_waits_for_the_same_review(ledger, provider, world):
    provider.plan("answer_lost")
    pay = declare(provider, by_review())
    with pytest.raises(RunWaiting), run(ledger):
        pay("o-1")
    with pytest.raises(RunWaiting) as waiting, run(world.open()):
        pay("o-1")
    assert waiting.value.waits_for == (ledger.reviews()[0]["review_id"],)
    assert len(provider.requests) == 1


def test_an_effect_in_doubt_is_not_sent_by_another_run_either(ledger, provider, world):
    provider.plan("answer_lost")
    pay = declare(provider, by_review(), key=lambda order: f"pay:{order}")
    with pytest.raises(RunWaiting), run(ledger):
        pay("o-1")
    other = world.open().run("agent", conversation="other", message="please", dedupe="m2")
    with other, pytest.raises(EffectInFlight, match="in review"):
        pay("o-1")
    assert len(provider.requests) == 1


def test_the_rule_recorded_with_the_intention_holds_when_the_tool_has_another_by_now(ledger, provider, world):
    provider.plan("unreached", "unreached", "unreached")
    with pytest.raises(RunWaiting), run(ledger):
        declare(provider, by_key())("o-1")
    world.time_passes()
    later = declare(provider, by_review(), version="2")
    with run(world.open()):
        assert later("o-1")["id"] == "re_1"


def test_a_tool_that_lost_its_lookup_leaves_old_doubt_to_a_human(ledger, provider, world):
    provider.plan("answer_lost")
    provider.plan_lookups(*["unreached"] * 3)
    with pytest.raises(RunWaiting), run(ledger):
        declare(provider, by_lookup(provider.find))("o-1")
    later = declare(provider, by_key(), version="2")
    with pytest.raises(RunWaiting), run(world.open()):
        later("o-1")
    assert [review["cause"] for review in ledger.reviews()] == ["schema_changed"]
    assert len(provider.requests) == 1


def test_an_effect_settled_without_success_raises_what_was_settled(ledger, provider, world):
    provider.plan("answer_lost")
    pay = declare(provider, by_review())
    with pytest.raises(RunWaiting), run(ledger):
        pay("o-1")
    review = ledger.reviews()[0]
    person = Person(ledger.ports.subject_key(review["stream_id"], "clerk"), "A. Clerk")
    drive(settle_effect(review["review_id"], "abandoned", person=person, reason="nobody knows"), ledger.ports)
    with run(world.open()), pytest.raises(EffectFailed) as failed:
        pay("o-1")
    assert failed.value.outcome == "abandoned"


# ---- what is sent is what is recorded -----------------------------------------------------------------------------------


class Greedy:
    """A tool and a lookup that use up whatever they are given, as code that works on its arguments does."""

    def __init__(self, provider):
        self.provider = provider
        self.sent, self.asked = [], []

    def pay(self, order, *, idempotency_key):
        self.sent.append(copy.deepcopy(order))
        order["amount"] += order.pop("fee")
        order["lines"].clear()
        return self.provider.send(idempotency_key=idempotency_key, order=order["id"])

    def find(self, order, *, idempotency_key):
        self.asked.append(copy.deepcopy(order))
        order.clear()
        return self.provider.find(idempotency_key=idempotency_key)


def an_order():
    return {"id": "o-1", "amount": 100, "fee": 5, "lines": [1, 2]}


def greedy(provider, name="pay"):
    tool = Greedy(provider)
    return tool, effect(
        name,
        version="1",
        touches={"money"},
        doubt=by_lookup(tool.find, then=by_key()),
        key=lambda order: order["id"],
    )(tool.pay)


def test_a_tool_that_changes_its_arguments_is_sent_the_recorded_ones_each_time(ledger, provider):
    provider.plan("unreached", "unreached")
    tool, pay = greedy(provider)
    order = an_order()
    with run(ledger):
        pay(order)
    assert tool.sent == [an_order()] * 3
    assert tool.asked == [an_order()] * provider.lookups
    assert order == an_order()
    intended = ledger.events("case", types={"effect.intended"})
    assert [event.content["arguments"] for event in intended] == [{"order": an_order()}] * 3


def test_a_caller_that_changes_an_argument_meanwhile_changes_nothing_of_what_is_asked(ledger):
    order, asked = an_order(), []

    def pay(order_sent):
        order.clear()
        raise ConnectionError

    find = by_lookup(lambda order_sent: asked.append(order_sent) or Found("succeeded"))
    pay = effect("pay", version="1", touches={"money"}, doubt=find)(pay)
    with run(ledger):
        pay(order)
    assert asked == [an_order()]


def test_arguments_that_cannot_be_read_back_are_refused_before_anything_is_written(ledger, told):
    class Sealed:
        """Can be written down and not made again."""

    def broken(_):
        raise ValueError("not today")

    register(Sealed, name="test.sealed", encode=lambda _: {}, decode=broken)
    pay = effect("pay", version="1", touches={"money"}, doubt=by_review())(lambda order: "paid")
    with run(ledger), pytest.raises(NotDecodable, match=r"arguments\.order"):
        pay(Sealed())
    assert told() == []
