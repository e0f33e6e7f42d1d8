"""A named human ends a review: once, with their name under their own key, and the run goes on by it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from counterfoil.client.features import FEATURES
from counterfoil.effects import by_review, effect
from counterfoil.effects.settle import Person, settle_effect
from counterfoil.errors import (
    EffectFailed,
    GuardFailed,
    InputError,
    KeyMissing,
    NotEncodable,
    ReviewNotFound,
    RunWaiting,
    SettledAlready,
)
from counterfoil.evidence.verify import verify
from counterfoil.flow.drive import drive
from counterfoil.testing.truth import check_truth


@pytest.fixture
def pay(provider):
    provider.plan("answer_lost")

    @effect("pay", version="1", touches={"money"}, doubt=by_review())
    def pay(order: str, *, idempotency_key: str = ""):
        return provider.send(idempotency_key=idempotency_key, order=order)

    return pay


@pytest.fixture
def review(ledger, pay):
    with pytest.raises(RunWaiting), ledger.run("agent", conversation="case", message="m", dedupe="m1"):
        pay("o-1")
    return ledger.reviews()[0]


def person(ledger, review, name="A. Clerk"):
    return Person(ledger.ports.subject_key(review["stream_id"], name), name)


def settle(ledger, review, outcome="succeeded", **more):
    settings = {"person": person(ledger, review), "reason": "seen in the provider's book"} | more
    return drive(settle_effect(review["review_id"], outcome, **settings), ledger.ports)


def resume(world, pay):
    with world.open().run("agent", conversation="case", message="m", dedupe="m1"):
        return pay("o-1")


def test_the_run_goes_on_with_the_result_that_was_settled(world, ledger, pay, review, provider):
    done = settle(ledger, review, result={"id": "re_1", "amount": Decimal("40.00")})
    assert (done.effect_id, done.outcome, done.repeated) == (review["effect_id"], "succeeded", False)
    assert resume(world, pay) == {"id": "re_1", "amount": Decimal("40.00")}
    assert ledger.runs()[0]["terminal"] == "success"
    assert len(provider.requests) == 1
    check_truth(ledger)


def test_a_success_without_a_result_gives_none(world, ledger, pay, review):
    settle(ledger, review)
    assert resume(world, pay) is None


@pytest.mark.parametrize("outcome", ["rejected", "failed", "abandoned"])
def test_any_other_settlement_raises_and_is_never_sent_again(world, ledger, pay, review, provider, outcome):
    settle(ledger, review, outcome)
    for _ in range(2):
        with pytest.raises(EffectFailed) as failed:
            resume(world, pay)
        assert (failed.value.outcome, failed.value.effect_id) == (outcome, review["effect_id"])
    assert len(provider.requests) == 1


def test_the_persons_name_lies_under_their_own_key(ledger, review):
    settle(ledger, review)
    (settled,) = ledger.events("case", types={"effect.settled"})
    who = person(ledger, review).key.key_id
    assert settled.header.actor == {"type": "human", "id": who}
    assert [part.key for part in settled.header.content] == [None, who]
    assert settled.content["by"] == {"name": "A. Clerk"}
    assert settled.content["reason"] == "seen in the provider's book"


def test_settling_the_same_way_again_changes_nothing(ledger, review, told):
    settle(ledger, review, "failed")
    before = told()
    assert settle(ledger, review, "failed").repeated
    assert told() == before


def test_settling_another_way_is_refused(ledger, review):
    settle(ledger, review, "failed")
    with pytest.raises(SettledAlready) as refused:
        settle(ledger, review, "succeeded")
    assert refused.value.outcome == "failed"


def test_two_people_at_once_settle_once(ledger, review):
    """The second looks while the review is open and writes after the first."""
    slow = settle_effect(
        review["review_id"], "failed", person=person(ledger, review), reason="not in the book"
    )
    requests = [next(slow)]
    while type(requests[-1]).__name__ != "Append":
        answer = (
            ledger.ports.read(requests[-1].query)
            if hasattr(requests[-1], "query")
            else _local(ledger, requests[-1])
        )
        requests.append(slow.send(answer))
    settle(ledger, review, "succeeded")
    with pytest.raises(GuardFailed) as lost:
        ledger.ports.append(requests[-1].unit)
    again = slow.throw(lost.value)
    with pytest.raises(SettledAlready):
        slow.send(ledger.ports.read(again.query))


def _local(ledger, request):
    prefix = getattr(request, "prefix", None)
    return ledger.ports.now_ms() if prefix is None else ledger.ports.new_id(prefix)


def test_an_unknown_review_is_named(ledger, review):
    with pytest.raises(ReviewNotFound, match="rev_01J9ZC3Y3V7W2R5T8QK4M6N0PF"):
        settle(ledger, review | {"review_id": "rev_01J9ZC3Y3V7W2R5T8QK4M6N0PF"})


@pytest.mark.parametrize("outcome,more", [("unknown", {}), ("done", {}), ("failed", {"result": 1})])
def test_a_settlement_that_makes_no_sense_is_refused(ledger, review, told, outcome, more):
    before = told()
    with pytest.raises(InputError):
        settle(ledger, review, outcome, **more)
    assert told() == before


def test_a_result_without_a_form_is_refused_by_path(ledger, review):
    with pytest.raises(NotEncodable) as refused:
        settle(ledger, review, result={"f": object()})
    assert refused.value.path == "result.f"
    assert ledger.reviews() != []


# ---- without the conversation's key ----------------------------------------------------------------------------------


@pytest.fixture
def keyless(world, ledger):
    """A review whose conversation's key is gone; gives its id."""

    @effect("pay", version="1", touches={"money"}, doubt=by_review())
    def pay(order: str):
        raise ConnectionError("the answer was lost")

    with pytest.raises(RunWaiting), ledger.run("agent", conversation="case", message="m", dedupe="m1"):
        pay("o-1")
    (review,) = ledger.reviews()
    ledger.keyring.store.delete([ledger.ports.genesis(review["stream_id"]).key])
    ledger.keyring.forget()
    return review


@pytest.mark.parametrize("outcome", ["succeeded", "rejected", "failed", "abandoned"])
def test_an_effect_whose_key_is_missing_is_settled_without_content(world, keyless, outcome):
    ledger = world.open()
    settled = ledger.settle(keyless["review_id"], outcome, by="Ines", reason="the book says so")
    assert (settled.outcome, settled.without_content) == (outcome, True)
    (row,) = ledger.effects()
    assert (row["state"], row["outcome"]) == ("settled", outcome)
    event = list(ledger.events(keyless["stream_id"], types={"effect.settled"}))[-1]
    assert (event.content_state, event.data["outcome"]) == ("none", outcome)
    person = ledger.ports.subject_key(keyless["stream_id"], "Ines")
    assert event.header.actor == {"type": "human", "id": person.key_id}
    again = ledger.settle(keyless["review_id"], outcome, by="Ines", reason="the book says so")
    assert again.repeated
    report = verify(ledger.store, ledger.keyring, FEATURES, registry=ledger.registry)
    assert (report.rows_differ, {found.kind for found in report.findings}) == ((), {"content_missing"})


@pytest.mark.parametrize("more", [{"result": {"id": "p_1"}}, {"evidence": "a photograph"}])
def test_what_nobody_could_read_is_refused_and_the_way_out_is_named(world, keyless, more):
    ledger = world.open()
    with pytest.raises(KeyMissing, match="neither result nor evidence") as refused:
        ledger.settle(keyless["review_id"], "succeeded", by="Ines", reason="r", **more)
    assert "settle it without them" in refused.value.hint
    assert [row["state"] for row in ledger.effects()] == ["in_review"]
